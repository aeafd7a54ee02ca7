"""The figures of rivals: libraries and engines beside ours, and the structures in C++ beside ours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Compared, Exhibit, Row
from mta.lab.experiments.rivals.entrants import CONTENDERS, CPP, OURS_BESIDE_CPP

Series = dict[str, list[tuple[float, float]]]
#: In these figures ours is there by `slide`, as libraries get whole columns too.
LIBRARIES = tuple(name for name in CONTENDERS if name not in (*CPP, "amta-push"))

WARM = " Spark and Flink are warm; Flink reads its rows from a CSV file meanwhile."


def exhibits(rows: Sequence[Row]) -> list[Exhibit]:
    found = []
    if any(row["contender"] in LIBRARIES for row in rows):
        found += _libraries([row for row in rows if row["contender"] in LIBRARIES])
    if _has(rows, "swag"):
        found += _structures([row for row in rows if row["contender"] in (*CPP, *OURS_BESIDE_CPP)])
    return found


def _libraries(rows: Sequence[Row]) -> list[Exhibit]:
    cut = _cut(rows, LIBRARIES)
    time, memory, state = _series(rows, _ns), _series(rows, _mib), _series(rows, _state)
    return [
        Exhibit(
            "time", "Time a row, by the size of the window", _lines(time, "ns a row"),
            _seen(time, "ns"), _ratios(rows, "polars"),
            cut + (WARM if _has(rows, "flink") else ""),
        ),
        Exhibit(
            "memory", "Resident memory at most, by the size of the window",
            _lines(memory, "MiB resident at most"), _seen(memory, "MiB"), (),
            f"Of Spark and Flink, that of the JVM, with a heap of 2 GiB. A Redis is another process. {cut}",
        ),
        Exhibit(
            "state", "What is held of the rows, by the size of the window", _lines(state, "MB"),
            f"In the process and in the store. {_seen(state, 'MB')}", (),
            "What the process grew by, and what is in the store; of Spark and Flink it is not known. " + cut,
        ),
    ]  # fmt: skip


def _structures(rows: Sequence[Row]) -> list[Exhibit]:
    cut = (
        "C++ of IBM/sliding-window-aggregators, an insertion, an eviction and a query a row; ours in memory, "
        f"by `slide` and by `push`. {_cut(rows, (*OURS_BESIDE_CPP, *CPP))}"
    )
    time, state = _series(rows, _ns), _series(rows, _state)
    return [
        Exhibit(
            "cpp-time", "Time a row beside structures in C++", _lines(time, "ns a row"), _seen(time, "ns"),
            _ratios(rows, "dabalite"), cut,
        ),
        Exhibit(
            "cpp-state", "What is held of the rows, beside structures in C++", _lines(state, "MB"),
            f"What the process grew by. {_seen(state, 'MB')}", (), cut,
        ),
    ]  # fmt: skip


def _has(rows: Sequence[Row], place: str) -> bool:
    return any(CONTENDERS[row["contender"]].place == place for row in rows)


def _ns(row: Row) -> float:
    return float(row["ns"])


def _mib(row: Row) -> float:
    """Of the process that had the rows."""
    return float(row.get("jvm_bytes") or row.get("program_bytes") or row["peak_bytes"]) / 2**20


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
        f"{title}: {plots.many(value)} {unit} at {size:,}"
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


def _cut(rows: Sequence[Row], wanted: Collection[str]) -> str:
    least, most = min(row["rows"] for row in rows), max(row["rows"] for row in rows)
    largest = max(row["window"] for row in rows)
    reached: dict[int, list[str]] = {}
    for name in wanted:
        sizes = [row["window"] for row in rows if row["contender"] == name]
        if sizes and max(sizes) < largest:
            reached.setdefault(max(sizes), []).append(CONTENDERS[name].title)
    smaller = "".join(f" To {size:,} only: {'; '.join(names)}." for size, names in sorted(reached.items()))
    there = {row["contender"] for row in rows}
    left = "; ".join(CONTENDERS[name].title for name in wanted if name not in there)
    number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"Max of each row's window, {number} rows in all, with those that fill it.{smaller}" + (
        f" Not run: {left}." if left else ""
    )
