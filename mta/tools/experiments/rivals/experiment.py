"""Ours beside what a user would take instead, by the size of the window: time, memory, and what is held."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any

from mta.tools.bench.engine import rivals
from mta.tools.experiments import plots
from mta.tools.experiments.experiment import (
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
from mta.tools.experiments.rivals.contenders import Contender, frame, last_of, ours, river


def _spark(segment_tree: bool, rows: int, window: int) -> Row:
    from mta.tools.experiments.rivals.spark import spark

    return spark(segment_tree, rows, window)


LARGE = 10**8
CONTENDERS = {
    "amta": Contender("Amortized MTA, in memory", ours(""), LARGE, 2 * LARGE),
    "amta-rocksdb": Contender("Amortized MTA, RocksDB", ours("rocksdb"), LARGE, 2 * LARGE),
    "amta-redis": Contender("Amortized MTA, Redis", ours("redis"), 10**7, 2 * LARGE),
    "polars": Contender("polars", frame(rivals.polars), LARGE, 2 * LARGE, "polars"),
    "pandas": Contender("pandas", frame(rivals.pandas), LARGE, 2 * LARGE, "pandas"),
    "duckdb": Contender("DuckDB", frame(rivals.duckdb), 10**7, 2 * LARGE, "duckdb"),
    "spark-tree": Contender(
        "Spark, segment tree", functools.partial(_spark, True), 10**6, 2 * 10**6, "pyspark"
    ),
    "spark": Contender("Spark, default frame", functools.partial(_spark, False), 10**4, 10**5, "pyspark"),
    "river": Contender("river", river, 10**6, 2 * 10**6, "river"),
}
#: Contenders of which a run takes long before its first row.
SLOW = ("spark-tree", "spark")
SIZES, QUICK_SIZES = tuple(10**power for power in range(3, 9)), (10**2, 10**3)
#: Rows at least, and rows beyond a window that is large.
LEAST, QUICK_LEAST, BEYOND = 10**6, 10**4, 10**7


class Rivals(Experiment):
    name = "rivals"
    told = ("pyspark", "river")

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        sizes, least = (QUICK_SIZES, QUICK_LEAST) if scale.quick else (SIZES, LEAST)
        return [
            {"contender": name, "window": size, "rows": min(each.rows, max(least, size + min(size, BEYOND)))}
            for name, each in CONTENDERS.items()
            if each.is_there() and not (scale.quick and name in SLOW)
            for size in sizes
            if size <= each.window
        ]

    def title(self, case: Case) -> str:
        title = CONTENDERS[case["contender"]].title
        return f"{title}, window {case['window']:,}, {case['rows']:,} rows"

    def seconds(self, case: Case, options: argparse.Namespace) -> float:  # noqa: ARG002
        return 300.0

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        name, rows, window = case["contender"], case["rows"], case["window"]
        tell({"rows": rows})
        found = CONTENDERS[name].measure(rows, window)
        right = last_of(rows, window)
        if name not in SLOW and found["last"] != right:
            raise AssertionError(f"{name} ends with {found['last']}, not with {right}")
        return [{**found, "ns": found["seconds"] / rows * 1e9}]

    def check(self, records: Sequence[Record]) -> None:
        """Both of Spark's frames have the same sum over the same rows."""
        sums: dict[tuple[int, int], float] = {}
        for record in records:
            for row in self.rows(record):
                if row["contender"] in SLOW:
                    key = (row["window"], row["rows"])
                    if sums.setdefault(key, row["last"]) != row["last"]:
                        raise Disagreement(f"Spark's sums at {key} are {row['last']} and {sums[key]}")

    def rows(self, record: Record) -> list[Row]:
        return [{**row, "peak_bytes": record["peak_bytes"]} for row in super().rows(record)]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if not rows:
            return []
        cut = _cut(rows)
        time = _series(rows, lambda row: row["ns"])
        memory = _series(rows, lambda row: row["jvm_bytes" if "jvm_bytes" in row else "peak_bytes"] / 2**20)
        state = _series(rows, _state)
        return [
            Exhibit(
                "time", "Time a row, by the size of the window", _lines(time, "ns a row"),
                _seen(time, "ns"), _ratios(rows, "polars"), cut,
            ),
            Exhibit(
                "memory", "Resident memory at most, by the size of the window",
                _lines(memory, "MiB resident at most"), _seen(memory, "MiB"), (),
                f"Of Spark, that of the JVM, with a heap of 2 GiB. A Redis is another process. {cut}",
            ),
            Exhibit(
                "state", "What is held of the rows, by the size of the window", _lines(state, "MB"),
                f"In the process and in the store. {_seen(state, 'MB')}", (),
                "What the process grew by, and what is in the store; of Spark it is not known. " + cut,
            ),
        ]  # fmt: skip


EXPERIMENT = Rivals()

Series = dict[str, list[tuple[float, float]]]


def _state(row: Row) -> float | None:
    if "held_bytes" not in row:
        return None
    return float(max(row["held_bytes"] + row["stored_bytes"], 1 << 12)) / 1e6


def _series(rows: Sequence[Row], value: Callable[[Row], float | None]) -> Series:
    series: Series = {}
    for row in rows:
        found = value(row)
        if found is not None:
            series.setdefault(CONTENDERS[row["contender"]].title, []).append((row["window"], found))
    return series


def _lines(series: Series, y: str) -> Callable[[Any], object]:
    def draw(figure: Any) -> None:
        plots.lines(figure, series, x="rows in the window", y=y).set_xscale("log")

    return draw


def _seen(series: Series, unit: str) -> str:
    told = ", ".join(
        f"{title} {plots.many(value)} {unit} at {size:,}"
        for title, points in series.items()
        for size, value in (max(points),)
    )
    return f"At the largest window of each: {told}."


def _ratios(rows: Sequence[Row], base: str) -> list[Compared]:
    at = {(row["contender"], row["window"]): row["ns"] for row in rows}
    found = []
    for name, each in CONTENDERS.items():
        sizes = [window for who, window in at if who == name and (base, window) in at]
        if sizes and name != base:
            size = max(sizes)
            ratio = at[name, size] / at[base, size]
            found.append(Compared(f"{each.title} / {CONTENDERS[base].title} at {size:,}", ratio, None))
    return found


def _cut(rows: Sequence[Row]) -> str:
    least, most = min(row["rows"] for row in rows), max(row["rows"] for row in rows)
    missing = [each.title for each in CONTENDERS.values() if not each.is_there()]
    left = f" Not installed: {', '.join(missing)}." if missing else ""
    return (
        f"Max of each row's window, {least:,} to {most:,} rows in all; Spark's default frame to 10^4, its "
        "tree and river to 10^6, DuckDB and Redis to 10^7. Left out: Flink, and C++, of which no package was "
        f"found.{left}"
    )
