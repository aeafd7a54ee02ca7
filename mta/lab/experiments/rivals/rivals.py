"""The rivals, which give each row the maximum of its window: how and over which windows each is measured."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.lab import libraries
from mta.lab.contents import contents, discarded
from mta.lab.experiments.contender import store_of
from mta.lab.experiments.experiment import Row
from mta.lab.experiments.rivals.flink import flink, installed
from mta.lab.experiments.rivals.flink import lacks as lacks_java
from mta.lab.experiments.rivals.swag import COMPILERS, compiler, swag
from mta.lab.experiments.rivals.values import values_of
from mta.lab.machine import resident

#: What a rival measures.
Measure = Callable[..., Row]


class Rival(NamedTuple):
    title: str
    #: of a number of rows and of a window, and of the directory where there has to be one
    measure: Measure
    #: the windows that it gets, and the most rows
    sizes: tuple[int, ...]
    rows: int
    #: what has to be installed
    package: str = ""
    #: the option that names a directory which it needs
    directory: str = ""
    #: what else is not there and has to be
    lacks: Callable[[], str | None] = lambda: None

    def missing(self, directories: Mapping[str, Path | None]) -> str | None:
        """Why it cannot run here."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        if self.directory and directories.get(self.directory) is None:
            return f"no --{self.directory} DIRECTORY"
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


def frame(make: Callable[..., libraries.Rolling]) -> Measure:
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


# -- the table --------------------------------------------------------------------------------------------


def _spark(segment_tree: bool, rows: int, window: int) -> Row:
    from mta.lab.experiments.rivals.spark import spark

    return spark(segment_tree, rows, window)


def _lacks_compiler() -> str | None:
    return None if compiler() else f"none of {', '.join(COMPILERS)} is on the PATH"


def _spark_frame(title: str, segment_tree: bool, sizes: tuple[int, ...], rows: int) -> Rival:
    return Rival(title, functools.partial(_spark, segment_tree), sizes, rows, "pyspark")


def _flink(title: str, time: str, sizes: tuple[int, ...], rows: int) -> Rival:
    return Rival(title, functools.partial(flink, time), sizes, rows, directory="flink", lacks=lacks_java)


def _cpp(title: str, name: str, sizes: tuple[int, ...]) -> Rival:
    measure = functools.partial(swag, name)
    return Rival(f"{title}, C++", measure, sizes, MOST, directory="swag", lacks=_lacks_compiler)


#: Rows at most.
MOST = 2 * 10**8
SIZES = tuple(10**power for power in range(3, 9))
#: Of structures that are a program each, and of those of them that take much memory.
FEW = (10**3, 10**5, 10**7, 10**8)
FEWER = (10**3, 10**5, 10**7)

RIVALS = {
    "amta": Rival("Amortized MTA, in memory", ours(""), SIZES, MOST),
    "amta-push": Rival("Amortized MTA, by push", pushed, (10**3, 10**5, 10**6), 2 * 10**6),
    "amta-rocksdb": Rival("Amortized MTA, RocksDB", ours("rocksdb"), SIZES, MOST),
    "amta-redis": Rival("Amortized MTA, Redis", ours("redis"), SIZES[:-1], MOST),
    "polars": Rival("polars", frame(libraries.polars), SIZES, MOST, "polars"),
    "pandas": Rival("pandas", frame(libraries.pandas), SIZES, MOST, "pandas"),
    "duckdb": Rival("DuckDB", frame(libraries.duckdb), SIZES[:-2], MOST, "duckdb"),
    "spark-tree": _spark_frame("Spark, segment tree", True, (10**3, 10**4, 10**5), 2 * 10**5),
    "spark": _spark_frame("Spark, default frame", False, (10**3, 10**4), 10**5),
    "flink": _flink("Flink, by arrival", "arrival", (10**3, 10**4, 10**5), 2 * 10**5),
    "flink-event": _flink("Flink, by event time", "event", (10**3, 10**4), 10**5),
    "river": Rival("river", river, (10**3, 10**4, 10**5), 2 * 10**5, "river"),
    "dabalite": _cpp("DABA Lite", "dabalite", FEW),
    "daba": _cpp("DABA", "daba", FEW),
    "twostackslite": _cpp("Two-Stacks Lite", "twostackslite", FEW),
    "cpp-amta": _cpp("AMTA", "amta", FEWER),
    "fiba": _cpp("FiBA(4)", "bfinger4", FEWER),
    "fiba-classic": _cpp("FiBA(4) without fingers", "bclassic4", FEWER),
}
#: Rivals whose result is the sum of all results.
SUMS = ("spark-tree", "spark")
#: Rivals of which a run takes long before its first row.
SLOW = (*SUMS, "flink", "flink-event")
#: Rivals that are compared one number at a time, and ours beside them, in figures of their own.
CPP = tuple(name for name, each in RIVALS.items() if each.directory == "swag")
OURS_BESIDE_CPP = ("amta", "amta-push")


def directories_of(swag: Path | None, flink: Path | None) -> dict[str, Path | None]:
    """The directories that rivals need, by option."""
    return {"swag": swag, "flink": flink or installed()}


def missing(directories: Mapping[str, Path | None]) -> dict[str, list[str]]:
    """The rivals that a run leaves out, by the reason."""
    found: dict[str, list[str]] = {}
    for each in RIVALS.values():
        why = each.missing(directories)
        if why:
            found.setdefault(why, []).append(each.title)
    return found
