"""Who gives each row the maximum of its window, each in a process of its own."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.monoids.base import Array
from mta.tools.bench.contents import contents, discarded
from mta.tools.bench.engine import rivals
from mta.tools.bench.measure import resident
from mta.tools.experiments.experiment import Row
from mta.tools.experiments.paper.contenders import store_of

#: Rows that come at a time, where they come in batches.
BATCH = 1 << 16

#: What a contender measures, of a number of rows and of a window.
Measure = Callable[[int, int], Row]


class Contender(NamedTuple):
    title: str
    measure: Measure
    #: the largest window that it gets, and the most rows
    window: int
    rows: int
    #: what has to be installed
    package: str = ""

    def is_there(self) -> bool:
        return not self.package or importlib.util.find_spec(self.package) is not None


def values_of(rows: int) -> Iterator[Array]:
    """The numbers, a batch at a time: always the same, and none twice."""
    rng = np.random.default_rng(9)
    for start in range(0, rows, BATCH):
        yield rng.random(min(BATCH, rows - start))


def last_of(rows: int, window: int) -> float:
    """What the last row's result has to be."""
    batches, start, found = values_of(rows), 0, -np.inf
    for batch in batches:
        inside = batch[max(0, rows - window - start) :]
        found = max(found, float(inside.max(initial=-np.inf)))
        start += len(batch)
    return found


def ours(store: str) -> Measure:
    """By `slide`; the numbers of a batch are made outside of the time, and kept in the window alone."""

    def measure(rows: int, window: int) -> Row:
        AmortizedMTA(monoids.Max(), policies.TimeWindow(2)).slide([1.0, 2.0], [1, 2])  # all is imported
        with store_of(store) as opened:
            made = AmortizedMTA(monoids.Max(), policies.TimeWindow(window), store=opened)
            with discarded(made) as sliding:
                before, spent, at = resident(), 0.0, 0
                for values in values_of(rows):
                    times = np.arange(at, at + len(values))
                    at += len(values)
                    began = time.perf_counter()
                    results = sliding.slide(values, times)
                    spent += time.perf_counter() - began
                held = resident() - before
                stored = 0 if opened is None else contents(opened, sliding.name).bytes
                return {
                    "seconds": spent, "last": float(results[-1]), "held_bytes": held, "stored_bytes": stored
                }  # fmt: skip

    return measure


def frame(make: Callable[..., rivals.Rolling]) -> Measure:
    """All rows in a data frame, and one call."""

    def measure(rows: int, window: int) -> Row:
        make("Max", np.arange(4), np.ones(4), 2, True)()  # all is imported
        before = resident()
        rolling = make("Max", np.arange(rows), np.concatenate(list(values_of(rows))), window, True)
        began = time.perf_counter()
        results = rolling()
        spent = time.perf_counter() - began
        held = resident() - before - results.nbytes
        return {"seconds": spent, "last": float(results[-1]), "held_bytes": held, "stored_bytes": 0}

    return measure


def river(rows: int, window: int) -> Row:
    """One number at a time, as river learns."""
    from river import stats

    values = [value for batch in values_of(rows) for value in batch.tolist()]
    before = resident()
    rolling: Any = stats.RollingMax(window)
    began = time.perf_counter()
    result = 0.0
    for value in values:
        rolling.update(value)
        result = rolling.get()
    spent = time.perf_counter() - began
    return {"seconds": spent, "last": result, "held_bytes": resident() - before, "stored_bytes": 0}
