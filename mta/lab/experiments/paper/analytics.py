"""Table 2 of the MTA paper: what an update takes with real aggregates, over a machine's use of memory."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from mta import monoids, policies
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.paper.contenders import CONTENDERS, PAPERS, store_of, window_of
from mta.lab.turns import ElementSource, Turn, push_in_turns, pushes_of
from mta.monoids.base import Array, Monoid

WINDOW, QUICK_WINDOW, TURNS = 1 << 20, 1 << 9, 16
#: Pushes where every push costs about the same. Elsewhere there are as many as the window may have readings,
#: and those of a page of numbers at least.
PUSHES, QUICK_PUSHES, PAGE = 1 << 15, 1 << 9, 1 << 14
#: Readings before those that are measured, where a policy lets most of them go anyway.
RECENT = 1 << 15
#: Combines that Naive may spend on an aggregate.
NAIVE = 1 << 24
#: Readings of the paper's stream: one a second for two years.
READINGS = 62_208_000


class Aggregate(NamedTuple):
    title: str
    monoid: Callable[[], Monoid]
    #: beside the limit on the size
    policy: policies.Policy | None
    #: nanoseconds in the paper, in the order of PAPERS
    paper: tuple[float, ...]


AGGREGATES = {
    "sum": Aggregate("Sum", monoids.Sum, None, (3.69e8, 4288, 10341, 4163, 14320, 6253)),
    "mean": Aggregate("Mean", monoids.Mean, None, (3.26e8, 4389, 10378, 4033, 14027, 6111)),
    "gmean": Aggregate("G. Mean", monoids.GeometricMean, None, (2.83e8, 4795, 11166, 4183, 15267, 6198)),
    "stddev": Aggregate("Std. Dev.", monoids.SampleStdDev, None, (3.5e8, 4880, 12934, 3864, 15439, 6131)),
    "max": Aggregate(
        "Max", monoids.Max, policies.OlderThanMaximum(), (2554, 3500, 6188, 1763, 8501, 2886)
    ),
    "runs": Aggregate(
        "LIS", monoids.LongestIncreasingRun, policies.OlderThanLongestRun(),
        (19294, 10027, 19794, 6476, 22306, 7350),
    ),
}  # fmt: skip


class Analytics(Experiment):
    name = "analytics"
    has_paper = True

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        window, pushes = (QUICK_WINDOW, QUICK_PUSHES) if scale.quick else (WINDOW, PUSHES)
        return [
            {"aggregate": name, "window": window, "steady": pushes, "paper": scale.paper}
            for name in AGGREGATES
        ]

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        aggregate, window, pushes = AGGREGATES[case["aggregate"]], case["window"], case["steady"]
        values = memory_use(window + max(window, PAGE))
        elements: Sequence[Any] = values.tolist()
        if case["aggregate"] == "runs":
            elements = list(enumerate(elements))
        limit: policies.Policy = policies.CountWindow(window)
        policy = limit if aggregate.policy is None else limit | aggregate.policy
        with ExitStack() as stack:
            turns = {}
            for name in PAPERS:
                tell({"filling": name})
                contender = CONTENDERS[name]
                store = stack.enter_context(store_of(contender.store))
                made = window_of(contender, aggregate.monoid(), policy, store=store, paper=case["paper"])
                filled = stack.enter_context(made)
                start = 0 if aggregate.policy is None else max(0, window - RECENT)
                _fill(filled, elements[start:window], range(start, window))
                most = min(pushes, NAIVE // max(len(filled), 1)) if name == "naive" else pushes
                count = pushes_of(filled, window, PAGE, max(TURNS, most) if contender.steady else None)
                turns[name] = Turn(filled, count // TURNS, ElementSource(elements, window))
            tell({"pushing": window})
            spent = push_in_turns(turns, TURNS)
            for count in {turn.pushes for name, turn in turns.items() if name != "naive"}:
                _check({name: turn.window for name, turn in turns.items() if turn.pushes == count})
            held = {name: len(turn.window) for name, turn in turns.items()}
        return [{"contender": name, "held": held[name], **spent[name].row()} for name in PAPERS]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if not rows:
            return []
        at = {(row["aggregate"], row["contender"]): row["ns"] for row in rows}
        there = [name for name in AGGREGATES if (name, "daba") in at]
        groups = {
            AGGREGATES[name].title: {CONTENDERS[each].title: at[name, each] / 1000 for each in PAPERS}
            for name in there
        }
        won = [AGGREGATES[name].title for name in there if at[name, "amta"] <= at[name, "daba"]]
        lost = [AGGREGATES[name].title for name in there if at[name, "amta"] > at[name, "daba"]]
        most, fewer = max(row["pushes"] for row in rows), rows[0]["steady"]
        return [
            Exhibit(
                "latency",
                "Latency of an update (table 2)",
                lambda figure: plots.bars(figure, groups, y="µs an update"),
                f"Amortized MTA in memory is faster than cached DABA for {', '.join(won) or 'none'}, "
                f"and slower for {', '.join(lost) or 'none'}.",
                _compared(at, there),
                f"A window of {plots.many(rows[0]['window'])} readings; {plots.many(most)} updates, of "
                f"Log MTA {plots.many(fewer)}, of Naive fewer; the paper has {READINGS:,}. The readings are "
                "simulated; windows with a programmed "
                f"policy begin with the last {RECENT:,} before those that are measured.",
            )
        ]  # fmt: skip


EXPERIMENT = Analytics()


def memory_use(count: int) -> Array:
    """Bytes that a simulated machine uses, a reading a second: its day, jobs that grow and end, and noise."""
    rng = np.random.default_rng(11)
    seconds = np.arange(count)
    day = 2e9 * (1 - np.cos(2 * math.pi * seconds / 86400)) / 2
    starts = np.sort(rng.integers(0, count, max(1, count // 5000)))
    job = np.searchsorted(starts, seconds, side="right")
    since = seconds - np.concatenate([[0], starts])[job]
    grows = np.concatenate([[0.0], rng.exponential(2e5, len(starts))])[job]
    readings: Array = np.rint(8e9 + day + grows * since + rng.normal(0, 1e7, count))
    return readings


def _fill(window: Any, elements: Sequence[Any], times: range) -> None:
    """Some at a time, as a policy that is programmed would let most of them go."""
    step = 1 << 14
    for start in range(0, len(elements), step):
        window.extend(elements[start : start + step], times[start : start + step])


def _check(windows: dict[str, Any]) -> None:
    """Contenders that were given the same hold the same."""
    first, *others = windows
    for name in others:
        mine, others_result = windows[first].query(), windows[name].query()
        if len(windows[first]) != len(windows[name]) or not np.allclose(
            np.array(mine, float), np.array(others_result, float), rtol=1e-9
        ):
            raise AssertionError(f"{name} has {others_result}, and {first} {mine}")


def _compared(at: dict[tuple[str, str], float], there: Sequence[str]) -> list[Compared]:
    found = []
    for contender in ("amta", "amta-redis", "lmta", "lmta-redis"):
        for name in there:
            paper = dict(zip(PAPERS, AGGREGATES[name].paper, strict=True))
            measured = at[name, contender] / at[name, "daba"]
            what = f"{AGGREGATES[name].title}: {CONTENDERS[contender].title} / cached DABA"
            found.append(Compared(what, measured, paper[contender] / paper["daba"]))
    return found
