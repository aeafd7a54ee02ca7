"""Figure 8 of the MTA paper: the window that each algorithm reaches, by the memory that it may have.

And the other way round, for numbers in columns: the memory that a process takes, by the size of its window.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mta import monoids, policies
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Compared, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.paper.contenders import CONTENDERS, monoid, policy, store_of, window_of
from mta.lab.machine import machine
from mta.lab.own_process import FINISHED, TOO_SLOW
from mta.window import MonoidTreeAggregator

CAPACITY, QUICK_CAPACITY = 1 << 25, 1 << 14
#: MiB that a process may have for its data.
LIMITS, QUICK_LIMITS = (128, 256, 512, 1024, 2048, 4096, 8192), (32, 256)
WHO = ("naive", "daba", "lmta", "amta", "lmta-redis", "amta-redis", "amta-rocksdb")
#: Elements that come in before an update is timed, and the seconds that it may take, as in the paper.
CHUNK, SLOWEST = 1 << 14, 5.0
#: And as a part of the window, since one update of Naive takes as long as the window is large.
MORE = 8
#: Windows of numbers whose memory is looked at, as powers of two, and how many there are in memory at most.
POWERS, QUICK_POWERS, MOST_IN_MEMORY = (20, 22, 23, 25, 27), (12, 14), 25
NUMBERS = ("daba", "amta-redis", "amta-rocksdb")
BATCH = 1 << 16
#: The paper: capacity 2^25 took 512 MB over a store and 32 GB in memory (DABA, and MTA in memory).
PAPER = 32 * 1024 / 512


class Memory(Experiment):
    name = "memory"
    has_paper = True

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        limits, capacity = (QUICK_LIMITS, QUICK_CAPACITY) if scale.quick else (LIMITS, CAPACITY)
        powers = QUICK_POWERS if scale.quick else POWERS
        return [
            *(
                {"contender": name, "numbers": 1 << power, "paper": scale.paper}
                for power in powers
                for name in NUMBERS
                if CONTENDERS[name].store or power <= MOST_IN_MEMORY
            ),
            *(
                {"contender": name, "limit": limit, "capacity": capacity, "paper": scale.paper}
                for name in WHO
                for limit in limits
                if limit << 20 <= (machine()["memory_bytes"] or 0)
            ),
        ]

    def seconds(self, case: Case, options: argparse.Namespace) -> float:
        return 15.0 if case.get("capacity") == QUICK_CAPACITY else super().seconds(case, options)

    def title(self, case: Case) -> str:
        title = CONTENDERS[case["contender"]].title
        return f"{title}, {case['limit']} MiB" if "limit" in case else f"{title}, {case['numbers']:,} numbers"

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        if "numbers" in case:
            return _numbers(case, tell)
        contender, capacity = CONTENDERS[case["contender"]], case["capacity"]
        with store_of(contender.store) as store:
            # a server started before is not limited; what this process has by now counts
            limit = case["limit"] << 20
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            with window_of(contender, monoid(), policy(), store=store, paper=case["paper"]) as window:
                due = 0
                while len(window) < capacity:
                    _add(window, [(1, capacity) for _ in range(CHUNK - 1)])
                    began = time.monotonic()
                    if len(window) < due:
                        window.insert((1, capacity))
                    else:
                        window.push((1, capacity))
                        due = len(window) + len(window) // MORE
                    if time.monotonic() - began > SLOWEST:
                        return [{"reached": len(window), "ended": "too slow"}]
                    tell({"reached": len(window)})
                window.push((1, capacity))
                if len(window) != capacity or window.query()[0] != capacity:
                    raise AssertionError(f"the window holds {window.query()}, not {capacity} elements")
        return [{"reached": capacity, "ended": "capacity"}]

    def needless(self, case: Case, records: Sequence[Record]) -> bool:
        """Whoever reached its capacity, or was too slow, is so with more memory, too."""
        return "limit" in case and any(
            row["contender"] == case["contender"]
            and row["ended"] in ("capacity", TOO_SLOW)
            and row["limit"] < case["limit"]
            for record in records
            if record["outcome"] == FINISHED
            for row in self.rows(record)
            if "limit" in row
        )

    def rows(self, record: Record) -> list[Row]:
        """A run that ended for want of memory reached what it told last."""
        found = super().rows(record)
        if not found and "limit" in record["case"]:
            reached = record["told"].get("reached", 0)
            found = [{**record["case"], "reached": reached, "ended": record["outcome"]}]
        return [{**row, "peak_bytes": record["peak_bytes"]} for row in found]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        every = [row for record in records for row in self.rows(record)]
        numbers = [row for row in every if "numbers" in row]
        return [*_reached([row for row in every if "limit" in row]), *_peaks(numbers)]


EXPERIMENT = Memory()


def _add(window: Any, elements: list[tuple[int, int]]) -> None:
    """Without an update: those of the windows in a store cost little, and that of Naive takes longest."""
    if isinstance(window, MonoidTreeAggregator):
        window.extend(elements)
        return
    for element in elements:
        window.insert(element)


def _numbers(case: Case, tell: Tell) -> list[Row]:
    """Fills a window with doubles, and lets it slide over another part: the peak is that of its process."""
    contender, size = CONTENDERS[case["contender"]], case["numbers"]
    values = np.random.default_rng(1).normal(size=BATCH)
    elements: Any = values if contender.is_mta else values.tolist()
    with (
        store_of(contender.store) as store,
        window_of(
            contender, monoids.Sum(), policies.CountWindow(size), store=store, paper=case["paper"]
        ) as window,
    ):
        for number in range(-(-size // BATCH) + 16):
            window.extend(elements)
            tell({"elements": (number + 1) * BATCH})
        whole, part = divmod(size, BATCH)
        expected = whole * values.sum() + values[BATCH - part :].sum()
        if len(window) != size or not np.isclose(window.query(), expected):
            raise AssertionError(f"{size} numbers sum to {window.query()}, not {expected}")
    return [{"ended": "capacity"}]


def _reached(rows: Sequence[Row]) -> list[Exhibit]:
    if not rows:
        return []
    capacity = rows[0]["capacity"]
    series = {CONTENDERS[name].title: _line(rows, name) for name in WHO}
    enough = {name: _enough(rows, name) for name in WHO}
    return [
        Exhibit(
            "reached",
            "The window reached, by the memory allowed (figure 8)",
            lambda figure: plots.lines(figure, series, x="MiB of data allowed", y="million elements"),
            _seen(rows, enough),
            _compared(enough),
            f"Capacity {plots.many(capacity)}; the paper has 2^25. Elements and states are tuples. "
            "The limit is on the data of the process (RLIMIT_DATA); a Redis is another process.",
        )
    ]


def _peaks(rows: Sequence[Row]) -> list[Exhibit]:
    if not rows:
        return []
    series = {
        CONTENDERS[name].title: [
            (row["numbers"], row["peak_bytes"] / 2**20) for row in rows if row["contender"] == name
        ]
        for name in NUMBERS
    }
    peaks = {(row["contender"], row["numbers"]): row["peak_bytes"] for row in rows}
    most = max((numbers for name, numbers in peaks if name == "daba"), default=None)
    told = "; ".join(
        f"{title} {min(points)[1]:,.0f} MiB with {plots.many(min(points)[0])} and "
        f"{max(points)[1]:,.0f} MiB with {plots.many(max(points)[0])}"
        for title, points in series.items()
        if points
    )
    return [
        Exhibit(
            "numbers",
            "The memory of a process, by the size of its window of numbers",
            lambda figure: plots.lines(
                figure, series, x="doubles in the window", y="MiB resident at the peak"
            ),
            f"At the peak, with Python and all libraries: {told}.",
            [
                Compared(
                    f"{plots.many(most)} doubles: cached DABA / {CONTENDERS[name].title}",
                    peaks["daba", most] / peaks[name, most],
                    PAPER,
                )
                for name in NUMBERS
                if most is not None and CONTENDERS[name].store and (name, most) in peaks
            ],
            f"Sums of doubles; DABA is filled with up to 2^{MOST_IN_MEMORY}. A Redis is another process.",
        )
    ]


def _enough(rows: Sequence[Row], name: str) -> int | None:
    """The least of the limits under which a contender reached the capacity."""
    limits = (row["limit"] for row in rows if row["contender"] == name and row["ended"] == "capacity")
    return min(limits, default=None)


def _line(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    """What a contender reached by its limit; above the least that is enough, it was not run again."""
    points = [(row["limit"], row["reached"] / 1e6) for row in rows if row["contender"] == name]
    enough = _enough(rows, name)
    if enough is not None:
        limits = {row["limit"] for row in rows}
        points += [(limit, rows[0]["capacity"] / 1e6) for limit in limits if limit > enough]
    return points


def _seen(rows: Sequence[Row], enough: dict[str, int | None]) -> str:
    told = "; ".join(
        f"{CONTENDERS[name].title} {_need([row for row in rows if row['contender'] == name], limit)}"
        for name, limit in enough.items()
        if any(row["contender"] == name for row in rows)
    )
    peaks = "; ".join(
        f"{CONTENDERS[name].title} {max(row['peak_bytes'] for row in some) / 2**20:,.0f} MiB"
        for name in enough
        if (some := [row for row in rows if row["contender"] == name and row["ended"] == "capacity"])
    )
    return (
        f"{plots.many(rows[0]['capacity'])} elements need at least: {told}. The largest resident memory of "
        f"a run that reached them: {peaks or 'none did'}."
    )


def _need(rows: Sequence[Row], limit: int | None) -> str:
    """What one contender needs."""
    slow = min((row["reached"] for row in rows if row["ended"] == TOO_SLOW), default=None)
    if limit is not None:
        return f"{limit:,} MiB"
    return "more than was tried" if slow is None else f"more time (too slow at {plots.many(slow)})"


def _compared(enough: dict[str, int | None]) -> list[Compared]:
    daba = enough["daba"]
    return [
        Compared(f"cached DABA / {CONTENDERS[name].title}", None if daba is None else daba / limit, PAPER)
        for name, limit in enough.items()
        if limit is not None and CONTENDERS[name].store
    ]
