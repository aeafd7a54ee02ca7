"""Who gives each row the maximum of its window, each in a process of its own."""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.lab.bench.engine import rivals
from mta.lab.contents import contents, discarded
from mta.lab.experiments.experiment import Row
from mta.lab.experiments.paper.contenders import store_of
from mta.lab.experiments.rivals.values import values_of
from mta.lab.machine import resident

#: What a contender measures, of a number of rows and of a window.
Measure = Callable[..., Row]


class Contender(NamedTuple):
    title: str
    #: gets the place too where there has to be one
    measure: Measure
    #: the windows that it gets, and the most rows
    sizes: tuple[int, ...]
    rows: int
    #: what has to be installed
    package: str = ""
    #: what has to be in some directory: a key of the places
    place: str = ""
    #: what else is not there and has to be
    lacks: Callable[[], str | None] = lambda: None

    def missing(self, places: Mapping[str, Path | None]) -> str | None:
        """Why it cannot run here."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        if self.place and places.get(self.place) is None:
            return f"no --{self.place} DIRECTORY"
        return self.lacks()


def ours(store: str) -> Measure:
    """By `slide`; the numbers of a batch are made outside of the time, and kept in the window alone."""

    def measure(rows: int, window: int) -> Row:
        with store_of(store) as opened:
            # all is imported, and the store is open
            with discarded(AmortizedMTA(monoids.Max(), policies.TimeWindow(2), store=opened)) as first:
                first.slide([1.0, 2.0], [1, 2])
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


def pushed(rows: int, window: int) -> Row:
    """By `push`, in memory: one number at a time, as structures get theirs that know no batches."""
    with discarded(AmortizedMTA(monoids.Max(), policies.TimeWindow(window))) as sliding:
        before, spent, times, result = resident(), 0.0, itertools.count(), 0.0
        push = sliding.push
        for values in values_of(rows):
            numbers = values.tolist()
            began = time.perf_counter()
            for value, at in zip(numbers, times, strict=False):
                result = push(value, at)
            spent += time.perf_counter() - began
        held = resident() - before
    return {"seconds": spent, "last": result, "held_bytes": held, "stored_bytes": 0}


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
