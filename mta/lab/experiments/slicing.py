"""Scotty's figure 5, redrawn: how many tuples a second, by concurrent windows and by the share that is late.

The source is simulated: tuples at a steady rate, with five gaps a minute, a share of them late by up to two
seconds. All contenders get the same seconds of it in turn, each until its own time is over.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mta import monoids
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import (
    Case,
    Compared,
    Disagreement,
    Exhibit,
    Experiment,
    Record,
    Row,
    Scale,
    Tell,
)
from mta.slicing import Session, Slicer, Sliding, Tumbling
from mta.slicing.rivals import Buckets, HeldDABA, HeldIntervals, TupleTree
from stores import open_store

#: Tuples a second of event time, and times in milliseconds.
RATE, SECOND, QUICK_RATE = 60_000, 1000, 2_000

#: Five gaps a minute, of a second and a half each; the delay of what is late.
EVERY, GAP, DELAY = 12 * SECOND, 1500, 2 * SECOND

#: Seconds of processor time that each contender has in a run: other work on the machine takes none of it.
BUDGET, QUICK_BUDGET = 3.0, 0.1

#: With more windows than this, tuples held back are not measured: one watermark takes minutes.
MOST_HELD = 100

WINDOWS, SHARES = (1, 10, 100, 1000), (0, 20, 50, 100)
RATE_LABEL = "tuples a second of processor time"
ONE_BY_ONE = "Slicing, one by one"
#: of a monoid for which the order of the tuples matters
ORDERED = "Slicing, First"
SLICES = (1_000, 10_000, 100_000, 1_000_000)

Source = Iterator[tuple[list[int], list[int], int]]


class Slicing(Experiment):
    name = "slicing"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        rate, budget = (QUICK_RATE, QUICK_BUDGET) if scale.quick else (RATE, BUDGET)
        size = {"rate": rate, "budget": budget}
        windows, shares = (WINDOWS[:2], SHARES[:2]) if scale.quick else (WINDOWS, SHARES)
        slices = SLICES[:1] if scale.quick else SLICES
        return [
            *({"part": "windows", "windows": count, "late": 20, **size} for count in windows),
            *({"part": "late", "windows": 20, "late": share, **size} for share in shares),
            {"part": "flat", "windows": windows[-1], "late": 20, **size},
            {"part": "batches", "windows": 20, "late": 20, **size},
            *({"part": "pages", "slices": count} for count in slices),
        ]

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        if case["part"] == "pages":
            return [_paged(case["slices"], tell)]
        make = {"batches": _batched, "flat": _flat}.get(case["part"], _one_by_one)
        return _raced(make(case["windows"]), case, tell)

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        found = []
        for part, x, title in (
            ("windows", "windows", "Figure 5a: tuples a second, by concurrent windows, 20 % late"),
            ("late", "late", "Figure 5b: tuples a second, by the share that is late (%), 20 windows"),
        ):
            mine = [row for row in rows if row["part"] == part]
            if len({row[x] for row in mine}) > 1:
                found.append(_exhibit(mine, part, x, title))
        flat = {row["contender"]: row["rate_a_second"] for row in rows if row["part"] == "flat"}
        if len(flat) > 1:
            found.append(_flatness(flat))
        batches = {row["contender"]: row["rate_a_second"] for row in rows if row["part"] == "batches"}
        if batches:
            found.append(_batches(batches))
        pages = [row for row in rows if row["part"] == "pages"]
        if pages:
            found.append(_pages(pages))
        return found


EXPERIMENT = Slicing()


# -- measuring --------------------------------------------------------------------------------------------


def source(rate: int, late: int) -> Source:
    """Values and times of each second of event time, and the watermark after it."""
    rng = np.random.default_rng(2018)
    for second in itertools.count():
        steady = second * SECOND + np.arange(rate) * SECOND // rate
        times = steady + steady // EVERY * GAP
        delays = np.where(rng.random(rate) < late / 100, rng.integers(0, DELAY, rate), 0)
        yield rng.integers(0, 100, rate).tolist(), (times - delays).tolist(), int(times[-1]) - DELAY


def queries(windows: int) -> dict[str, Any]:
    """Windows of lengths spread from 1 to 20 seconds, and one of sessions."""
    lengths = np.linspace(SECOND, 20 * SECOND, windows).round().astype(int).tolist()
    tumbling = {f"window {number}": Tumbling(length) for number, length in enumerate(lengths)}
    return {**tumbling, "possession": Session(SECOND)}


def _slicers(windows: int) -> dict[str, Any]:
    kinds = queries(windows)
    return {
        "Slicing, lazy": Slicer(monoids.Sum(), kinds),
        "Slicing, eager": Slicer(monoids.Sum(), kinds, store="eager"),
        "Slicing, a store": Slicer(monoids.Sum(), kinds, store=open_store("memory:")),
    }


def _one_by_one(windows: int) -> dict[str, tuple[Any, Callable[..., None]]]:
    kinds = queries(windows)
    contenders = {
        **_slicers(windows),
        "Buckets": Buckets(monoids.Sum(), kinds),
        "FlatFAT without slicing": TupleTree(monoids.Sum(), kinds),
    }
    if windows <= MOST_HELD:
        contenders["Held, DABA a query"] = HeldDABA(monoids.Sum(), kinds)
        contenders["Held, one B-Int"] = HeldIntervals(monoids.Sum(), kinds)
    return {name: (each, _insert) for name, each in contenders.items()}


def _batched(windows: int) -> dict[str, tuple[Any, Callable[..., None]]]:
    kinds = queries(windows)
    return {
        **{name: (each, _extend) for name, each in _slicers(windows).items()},
        ONE_BY_ONE: (Slicer(monoids.Sum(), kinds), _insert),
        ORDERED: (Slicer(monoids.First(), kinds), _extend),
        f"{ORDERED}, one by one": (Slicer(monoids.First(), kinds), _insert),
    }


def _flat(most: int) -> dict[str, tuple[Any, Callable[..., None]]]:
    """Slicers with few and with many windows, side by side."""
    counts = [count for count in WINDOWS if count <= most]
    return {
        f"{count} window{'s' * (count > 1)}": (Slicer(monoids.Sum(), queries(count)), _insert)
        for count in counts
    }


def _insert(contender: Any, values: list[int], times: list[int]) -> None:
    for value, at in zip(values, times, strict=True):
        contender.insert(value, at)


def _extend(contender: Any, values: Any, times: Any) -> None:
    contender.extend(values, times)


def _raced(contenders: dict[str, tuple[Any, Callable[..., None]]], case: Case, tell: Tell) -> list[Row]:
    """Each second of the source to each contender in turn, in parts, until its time is over."""
    spent, taken = dict.fromkeys(contenders, 0.0), dict.fromkeys(contenders, 0)
    for number, (values, times, watermark) in enumerate(source(case["rate"], case["late"])):
        tell({"second": number})
        results: dict[str, Any] = {}
        for name, (contender, feed) in contenders.items():
            if spent[name] >= case["budget"]:
                continue
            fed = 0
            given = (np.array(values), np.array(times)) if feed is _extend else (values, times)
            step = len(values) if feed is _extend else 1000
            start = time.process_time()
            while fed < len(values) and spent[name] + time.process_time() - start < case["budget"]:
                feed(contender, given[0][fed : fed + step], given[1][fed : fed + step])
                fed += step
            if fed >= len(values):
                results[name] = contender.watermark(watermark)
            spent[name] += time.process_time() - start
            taken[name] += min(fed, len(values))
        if case["part"] != "flat":
            _check({name: each for name, each in results.items() if not name.startswith(ORDERED)})
        if all(each >= case["budget"] for each in spent.values()):
            break
    return [
        {"contender": name, "tuples": taken[name], "seconds": spent[name],
         "rate_a_second": taken[name] / spent[name]}
        for name in contenders
    ]  # fmt: skip


def _check(results: dict[str, Any]) -> None:
    """All that were given the same must have the same results."""
    told = {
        # what holds tuples back waits for a session's end by one more time
        name: sorted(r[:4] for r in each if not isinstance(r.query, str) or r.query != "possession")
        for name, each in results.items()
    }
    first = next(iter(told.values()), None)
    for name, each in told.items():
        if each != first:
            raise Disagreement(f"{name} gave {each[:3]} …, and {next(iter(told))} gave {(first or [])[:3]} …")


def _paged(slices: int, tell: Tell) -> Row:
    """A window of so many slices in a store, slid over twice its length."""
    length, lateness, step = slices * 10, 1_000, 20_000
    kinds = {"fine": Tumbling(10), "long": Sliding(length, max(10, length // 20))}
    start = time.process_time()
    with Slicer(monoids.Sum(), kinds, lateness=lateness, store=open_store("memory:")) as slicer:
        peak, given = 0, 0
        for first in range(0, 2 * length, step):
            times = np.arange(first, first + step, 5)
            slicer.extend(np.ones(len(times), dtype=np.int64), times)
            peak = max(peak, slicer.slices)
            for result in slicer.watermark(first + step - lateness):
                full = result.start >= 0 and result.query == "long"
                if full and result.value != length // 5:
                    raise Disagreement(f"{result} should be {length // 5}")
                given += full
            tell({"time": first})
        return {
            "local": peak, "leaves": slicer.leaves, "given": given, "seconds": time.process_time() - start
        }  # fmt: skip


# -- showing ----------------------------------------------------------------------------------------------


def _exhibit(rows: Sequence[Row], slug: str, x: str, title: str) -> Exhibit:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        series.setdefault(row["contender"], []).append((row[x], row["rate_a_second"]))
    rate = {name: dict(points) for name, points in series.items()}
    lazy = rate["Slicing, lazy"]
    ends = min(lazy), max(lazy)
    seen = "; ".join(f"{name}: {min(v.values()):,.0f} to {max(v.values()):,.0f}" for name, v in rate.items())
    at = 100 if 100 in lazy else ends[1]
    ratio = {name: rate[name][at] / lazy[at] for name in rate}
    compared = [
        Compared(f"lazy at {ends[1]} / at {ends[0]}", lazy[ends[1]] / lazy[ends[0]], 1.0),
        Compared(f"eager / lazy at {at}", ratio["Slicing, eager"], 0.92),
        Compared(f"a store / lazy at {at}", ratio["Slicing, a store"], None),
        Compared(f"lazy / Buckets at {at}", 1 / ratio["Buckets"], 10.0),
    ]
    return Exhibit(
        slug,
        title,
        lambda figure: plots.lines(figure, series, x=x, y=RATE_LABEL, log_x=x == "windows"),
        f"Tuples a second of processor time. {seen}.",
        compared,
        "A simulated source of 60,000 tuples a second of event time, not the football match. Each contender "
        "has some seconds: FlatFAT, and Buckets with many windows, do not come to the end of a window.",
    )


def _flatness(rates: dict[str, float]) -> Exhibit:
    least, *_, most = rates
    seen = ", ".join(f"{name}: {rate:,.0f}" for name, rate in rates.items())
    return Exhibit(
        "flat",
        "Lazy slicing with few and many windows, side by side, 20 % late",
        lambda figure: plots.bars(
            figure, {"lazy": {name: rate / 1000 for name, rate in rates.items()}},
            y=f"thousand {RATE_LABEL}", log_y=False,
        ),
        f"Tuples a second of processor time, in one run. {seen}.",
        [Compared(f"{most} / {least}", rates[most] / rates[least], 1.0)],
    )  # fmt: skip


def _batches(rates: dict[str, float]) -> Exhibit:
    one, lazy = rates[ONE_BY_ONE], rates["Slicing, lazy"]
    seen = ", ".join(f"{name}: {rate / 1e6:,.2f} million" for name, rate in rates.items())
    ordered = (
        f", and {lazy / rates[ORDERED]:,.0f} times as fast as one of First, for which the order matters"
        if ORDERED in rates
        else ""
    )
    return Exhibit(
        "batches",
        "Tuples a second in batches of 60,000, 20 windows, 20 % late",
        lambda figure: plots.bars(figure, {"20 windows": rates}, y=RATE_LABEL),
        f"{seen}. A batch is {lazy / one:,.0f} times as fast as its rows one by one{ordered}.",
    )


def _pages(rows: Sequence[Row]) -> Exhibit:
    local = [(row["slices"], row["local"]) for row in rows]
    series = {
        "in the process, at most": local,
        # a window of few slices has none there
        "in the store": [(row["slices"], row["leaves"]) for row in rows if row["leaves"]],
    }
    return Exhibit(
        "pages",
        "Slices in the process and in the store, by the slices in a window",
        lambda figure: plots.lines(figure, series, x="slices in a window", y="slices"),
        f"At most {max(count for _, count in local):,} slices are in the process, whatever the window.",
    )
