"""Figures 9 and 12 of the Reactive Aggregator paper: capacities that change, and resident memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from itertools import cycle, islice, product

from mta.baselines import ReactiveAggregator
from mta.lab.experiments.experiment import Case, Row, Tell
from mta.lab.experiments.operators import OPERATORS, elements_of
from mta.lab.experiments.reactive_paper.plans import QUICK, powers, window_of
from mta.lab.machine import resident
from mta.lab.turns import Rounds

RESIZING, RESIDENT = "figure-9", "figure-12"
SIZES = {RESIZING: powers(4, 18, 2), RESIDENT: powers(4, 20, 4)}
RESIZED, OCCUPYING = ("max", "stddev"), "max"
#: Elements that come in at a size at least, and cycles of growing and shrinking.
LEAST, CYCLES = 1 << 14, 2


def cases(quick: bool) -> Iterator[Case]:
    least = QUICK if quick else LEAST
    sizes = {name: [s for s in found if s <= QUICK][:2] if quick else found for name, found in SIZES.items()}
    yield {"part": RESIZING, "operators": list(RESIZED), "sizes": list(sizes[RESIZING]), "least": least}
    for size in sizes[RESIDENT]:
        for who in ("iss", "ra"):
            yield {"part": RESIDENT, "who": who, "size": size}


def measure(case: Case, tell: Tell) -> list[Row]:
    return [_resident(case)] if case["part"] == RESIDENT else _resizing(case, tell)


def _resident(case: Case) -> Row:
    """Of a process that has one window and as many elements as are in it, each an object of its own."""
    gc.collect()
    before = resident()
    window = window_of(case["who"], OCCUPYING)
    window.extend(range(1 << 30, (1 << 30) + case["size"]))
    window.query()
    found = {"resident": resident(), "before": before}
    return {"operator": OCCUPYING, "contender": case["who"], "size": case["size"], **found}


def _resizing(case: Case, tell: Tell) -> list[Row]:
    rows = []
    for operator, size in product(case["operators"], case["sizes"]):
        tell({"operator": operator, "size": size})
        count = max(case["least"], CYCLES * size)
        fixed = Rounds(window_of("ra", operator), elements_of(operator), size)
        found = {"fixed": fixed.run(count) / count, "oscillating": _oscillating(operator, size, count)}
        rows += [
            {"operator": operator, "contender": who, "size": size, "ns": ns} for who, ns in found.items()
        ]
    return rows


def _oscillating(operator: str, size: int, least: int) -> float:
    """Capacities between n and 2n: one more than n elements come in, and then more than half of them go."""
    window = ReactiveAggregator(OPERATORS[operator].monoid())
    coming = cycle(elements_of(operator))
    window.extend(list(islice(coming, size + 1)))
    window.query()
    half, count, spent, seen = size // 2 + 2, 0, 0, {window.capacity}
    while count < least:
        batch = list(islice(coming, half))
        insert, query = window.insert, window.query
        start = time.process_time_ns()
        window.evict(half)
        seen.add(window.capacity)
        for element in batch:
            insert(element)
            query()
        spent += time.process_time_ns() - start
        count += half
    if {*seen, window.capacity} != {size, 2 * size}:
        raise AssertionError(f"capacities are {sorted(seen)}, not {size} and {2 * size}")
    return spent / count
