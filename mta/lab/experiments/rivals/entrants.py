"""Who is measured, over which windows, and what each needs to be there."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from mta.lab.bench.engine import rivals
from mta.lab.experiments.experiment import Row
from mta.lab.experiments.rivals.contenders import Contender, frame, ours, pushed, river
from mta.lab.experiments.rivals.flink import flink, installed
from mta.lab.experiments.rivals.flink import lacks as lacks_java
from mta.lab.experiments.rivals.swag import COMPILERS, compiler, swag


def _spark(segment_tree: bool, rows: int, window: int) -> Row:
    from mta.lab.experiments.rivals.spark import spark

    return spark(segment_tree, rows, window)


def _lacks_compiler() -> str | None:
    return None if compiler() else f"none of {', '.join(COMPILERS)} is on the PATH"


def _spark_frame(title: str, segment_tree: bool, sizes: tuple[int, ...], rows: int) -> Contender:
    return Contender(title, functools.partial(_spark, segment_tree), sizes, rows, "pyspark")


def _flink(title: str, time: str, sizes: tuple[int, ...], rows: int) -> Contender:
    return Contender(title, functools.partial(flink, time), sizes, rows, place="flink", lacks=lacks_java)


def _cpp(title: str, name: str, sizes: tuple[int, ...]) -> Contender:
    measure = functools.partial(swag, name)
    return Contender(f"{title}, C++", measure, sizes, MOST, place="swag", lacks=_lacks_compiler)


#: Rows at most.
MOST = 2 * 10**8
SIZES = tuple(10**power for power in range(3, 9))
#: Of structures that are a program each, and of those of them that take much memory.
FEW = (10**3, 10**5, 10**7, 10**8)
FEWER = (10**3, 10**5, 10**7)

CONTENDERS = {
    "amta": Contender("Amortized MTA, in memory", ours(""), SIZES, MOST),
    "amta-push": Contender("Amortized MTA, by push", pushed, (10**3, 10**5, 10**6), 2 * 10**6),
    "amta-rocksdb": Contender("Amortized MTA, RocksDB", ours("rocksdb"), SIZES, MOST),
    "amta-redis": Contender("Amortized MTA, Redis", ours("redis"), SIZES[:-1], MOST),
    "polars": Contender("polars", frame(rivals.polars), SIZES, MOST, "polars"),
    "pandas": Contender("pandas", frame(rivals.pandas), SIZES, MOST, "pandas"),
    "duckdb": Contender("DuckDB", frame(rivals.duckdb), SIZES[:-2], MOST, "duckdb"),
    "spark-tree": _spark_frame("Spark, segment tree", True, (10**3, 10**4, 10**5), 2 * 10**5),
    "spark": _spark_frame("Spark, default frame", False, (10**3, 10**4), 10**5),
    "flink": _flink("Flink, by arrival", "arrival", (10**3, 10**4, 10**5), 2 * 10**5),
    "flink-event": _flink("Flink, by event time", "event", (10**3, 10**4), 10**5),
    "river": Contender("river", river, (10**3, 10**4, 10**5), 2 * 10**5, "river"),
    "dabalite": _cpp("DABA Lite", "dabalite", FEW),
    "daba": _cpp("DABA", "daba", FEW),
    "twostackslite": _cpp("Two-Stacks Lite", "twostackslite", FEW),
    "cpp-amta": _cpp("AMTA", "amta", FEWER),
    "fiba": _cpp("FiBA(4)", "bfinger4", FEWER),
    "fiba-classic": _cpp("FiBA(4) without fingers", "bclassic4", FEWER),
}
#: Contenders whose result is the sum of all results.
SUMS = ("spark-tree", "spark")
#: Contenders of which a run takes long before its first row.
SLOW = (*SUMS, "flink", "flink-event")
#: Contenders that are compared one number at a time, and ours beside them, in figures of their own.
CPP = tuple(name for name, each in CONTENDERS.items() if each.place == "swag")
OURS_BESIDE_CPP = ("amta", "amta-push")


def places_of(swag: Path | None, flink: Path | None) -> dict[str, Path | None]:
    """Where there is what contenders need, by the name of the option that says so."""
    return {"swag": swag, "flink": flink or installed()}


def missing(places: Mapping[str, Path | None]) -> dict[str, list[str]]:
    """Whom a run leaves out, by why."""
    found: dict[str, list[str]] = {}
    for each in CONTENDERS.values():
        why = each.missing(places)
        if why:
            found.setdefault(why, []).append(each.title)
    return found
