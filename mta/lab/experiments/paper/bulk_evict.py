"""Figure 7 of the MTA paper: the latency of a bulk eviction, by how many elements go."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.paper.contenders import CONTENDERS, PAPERS, monoid, policy, store_of, window_of
from mta.lab.turns import timed

#: Elements in the window, as a power of two, and every how many powers there is an eviction.
POWER, STEP, QUICK_POWER = 22, 4, 10
#: Repetitions of those that take seconds, and of the others.
TIMES, QUICK_TIMES = (3, 9), (1, 2)
#: Seconds for the background writer to come to rest before the clock runs.
REST = 0.2


class BulkEvict(Experiment):
    name = "bulk-evict"
    has_paper = True

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        power, (few, many) = (QUICK_POWER, QUICK_TIMES) if scale.quick else (POWER, TIMES)
        return [
            {"contender": name, "power": power, "few": few, "many": many, "paper": scale.paper}
            for name in PAPERS
        ]

    def title(self, case: Case) -> str:
        return f"{CONTENDERS[case['contender']].title}, window 2^{case['power']}"

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        contender, size = CONTENDERS[case["contender"]], 1 << case["power"]
        rows = []
        with (
            store_of(contender.store) as store,
            window_of(contender, monoid(), policy(), store=store, paper=case["paper"]) as window,
        ):
            tell({"filling": size})
            window.extend([(1, size)] * size)
            for power in _powers(case["power"]):
                evicted = max(1, (1 << power) - 1)
                tell({"evicting": evicted})
                often = case["few" if _is_slow(case["contender"], evicted) else "many"]
                found = _evictions(window, size, evicted, often, REST if store else 0.0)
                rows.append({"evicted": evicted, **found})
        return rows

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if {row["contender"] for row in rows} != set(PAPERS):
            return []
        series = {
            CONTENDERS[name].title: [
                (row["evicted"], row["median_seconds"] * 1000) for row in rows if row["contender"] == name
            ]
            for name in PAPERS
        }
        worst = {title: max(value for _, value in points) for title, points in series.items()}
        size = 1 << rows[0]["power"]
        times = sorted({row["times"] for row in rows})
        often = " to ".join(str(each) for each in dict.fromkeys((times[0], times[-1])))
        cut = f"Out of {plots.many(size)} elements; the paper has 2^23. Medians of {often} times."
        seen = "; ".join(f"{title}: {plots.many(value)} ms" for title, value in worst.items())
        close = {title: points for title, points in series.items() if title != "Naive"}
        return [
            Exhibit(
                "all",
                "Latency of a bulk eviction: all (figure 7a)",
                lambda figure: _all(figure, series),
                f"The worst: {seen}.",
                _compared(series),
                cut,
            ),
            Exhibit(
                "close",
                "Latency of a bulk eviction: cropped (figure 7b)",
                lambda figure: _linear(figure, close, 1.3 * max(v for t, v in worst.items() if "MTA" in t)),
                _where_daba_is_slower(series),
                (),
                cut,
            ),
            Exhibit(
                "logarithmic",
                "Latency of a bulk eviction: logarithmic",
                lambda figure: plots.lines(figure, series, x="elements evicted", y="ms"),
                "The same on a logarithmic scale.",
                (),
                cut,
            ),
        ]


EXPERIMENT = BulkEvict()

Series = dict[str, list[tuple[float, float]]]


def _powers(largest: int) -> list[int]:
    """Evictions are of 2^k - 1 elements, with these k: closer where they are large."""
    return sorted({*range(0, largest, STEP), *range(largest - STEP, largest + 1, 2)})


def _is_slow(name: str, evicted: int) -> bool:
    """Whether an eviction takes a second or more."""
    return name == "naive" or (name == "daba" and evicted >= (1 << 18) - 1)


def _evictions(window: Any, size: int, evicted: int, times: int, rest: float) -> Row:
    """Seconds of `enforce`, and of the query after it; the window is filled again after each."""
    enforced, asked = [], []
    for _ in range(times):
        time.sleep(rest)
        window.insert((1, size + 1 - evicted))
        enforced.append(timed(window.enforce)[0])
        asked.append(timed(window.query)[0])
        if len(window) != size + 1 - evicted or window.query()[0] != len(window):
            raise AssertionError(f"{len(window)} elements are left, not {size + 1 - evicted}")
        window.extend([(1, size)] * (evicted - 1))
        if len(window) != size:
            raise AssertionError(f"{len(window)} elements after it was filled again, not {size}")
    return {
        "seconds": min(enforced),
        "median_seconds": statistics.median(enforced),
        "most_seconds": max(enforced),
        "query_seconds": statistics.median(asked),
        "times": times,
    }


def _all(figure: Any, series: Series) -> None:
    """On straight scales, with a name at each line: the MTA are too close to zero to be told apart."""
    axes = figure.subplots()
    close = {title: points for title, points in series.items() if "MTA" in title}
    for place, (title, points) in enumerate(series.items()):
        look = plots.look_of(title, place)
        xs, ys = zip(*((evicted / 1e6, ms / 1000) for evicted, ms in sorted(points)), strict=True)
        axes.plot(xs, ys, look.style, color=look.color, marker=look.marker, ms=4, lw=1.4)
        if title not in close:
            axes.annotate(
                f"{title}: {ys[-1]:.1f} s", (xs[-1], ys[-1]), xytext=(-8, 0), textcoords="offset points",
                ha="right", va="center", color=look.color,
            )  # fmt: skip
    worst = [max(ms for _, ms in points) for points in close.values()]
    largest = max(x for points in close.values() for x, _ in points) / 1e6
    axes.annotate(
        f"the four MTA: {min(worst):.0f} to {max(worst):.0f} ms at most", (largest, 0), xytext=(-8, 6),
        textcoords="offset points", ha="right", va="bottom", color=plots.LOOKS["Amortized MTA"].color,
    )  # fmt: skip
    axes.set_ylim(bottom=0)
    plots.finish(axes, "million elements evicted", "seconds")


def _linear(figure: Any, series: Series, top: float) -> None:
    axes = plots.lines(figure, series, x="elements evicted", y="ms")
    axes.set_yscale("linear")
    axes.set_ylim(0, top * 1.05)


def _compared(series: Series) -> list[Compared]:
    """The paper: 2 s for Naive, 455 and 258 µs in memory, at most 5 ms over a store; DABA is read off 7a."""
    papers = {
        ("Naive", "Amortized MTA, Redis"): 400.0,
        ("Naive", "Log MTA, Redis"): 400.0,
        ("DABA, cached", "Amortized MTA, Redis"): None,
        ("Naive", "Amortized MTA, in memory"): 2 / 455e-6,
        ("Naive", "Log MTA, in memory"): 2 / 258e-6,
    }
    found = []
    for (slow, fast), paper in papers.items():
        over, under = dict(series[slow]), dict(series[fast])
        all_of_it = max(over)
        # the dearest eviction of the fast one may be a smaller one, of which there is less to save
        worst = max(over.values()) / max(under.values())
        found += [
            Compared(f"{slow} / {fast}, {all_of_it:,.0f} evicted", over[all_of_it] / under[all_of_it], paper),
            Compared(f"{slow} / {fast}, the worst of each", worst, paper),
        ]
    return found


def _where_daba_is_slower(series: Series) -> str:
    daba = dict(series["DABA, cached"])
    told = []
    for title, points in series.items():
        if "MTA" in title:
            faster = [evicted for evicted, value in points if value < daba[evicted]]
            where = f"from {faster[0]:,.0f} evicted on" if faster else "nowhere"
            told.append(f"{title} {where}")
    return f"Faster than DABA: {'; '.join(told)}."
