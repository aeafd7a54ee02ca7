"""What has to come out of a stream, by the rules of its results alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rolled import roll
from streams import NUMBER, Row


@dataclass
class Wanted:
    """What has to come out of a stream, by the rules alone."""

    rows: dict[int, Row]
    #: rows of each file that are late
    late: list[int]
    #: rows that come out in each micro-batch; the last one has no file
    out: list[int]


def wanted_with_watermark(
    files: Sequence[pa.Table],
    delay: int,
    *,
    end: int | None = None,
    marks: list[int] | None = None,
    **how: Any,
) -> Wanted:
    """Rows come out when the watermark has passed them.

    `delay` is in milliseconds, as its end is; `marks` are the watermarks themselves, where they are known.
    """
    marks = marks or watermarks(files, delay)
    if end is not None:
        marks[-1] = end
    late, on_time, untimed = [], [], []
    for file, mark in zip(files, marks, strict=False):
        timed, without = _split(file)
        kept = [row for row in timed if mark <= 0 or _micros(row["o"]) > mark * 1000]
        late.append(len(timed) - len(kept))
        on_time += kept
        untimed.append(without)
    ready = [row for row in on_time if _micros(row["o"]) <= max(marks[-1], 0) * 1000]
    rows = _rolled(ready, files[0].schema, how)
    out = [sum(each) for each in zip(*(_passed(row, marks) for row in ready), strict=True)] or [0] * len(
        marks
    )
    for number, without in enumerate(untimed):
        rows |= _rolled(without, files[0].schema, how)
        out[number] += len(without)
    return Wanted(rows, late, out)


def _passed(row: Row, marks: list[int]) -> list[bool]:
    """In which micro-batch the watermark comes to a row."""
    time = _micros(row["o"])
    return [
        time <= mark * 1000 and not (number and time <= marks[number - 1] * 1000)
        for number, mark in enumerate(marks)
    ]


def wanted_without_watermark(files: Sequence[pa.Table], **how: Any) -> Wanted:
    """The rows of each file come out at once; those older than what came out of their key are late."""
    youngest: dict[Any, Any] = {}
    before: list[Row] = []
    wanted = Wanted({}, [], [])
    for file in files:
        timed, untimed = _split(file)
        kept = [row for row in timed if (key := _key(row, how)) not in youngest or row["o"] >= youngest[key]]
        for row in kept:
            key = _key(row, how)
            youngest[key] = max(row["o"], youngest.get(key, row["o"]))
        before += sorted(kept, key=_by(how["order_by"]))
        rows = _rolled(before, file.schema, how, in_order=True)
        numbers = {row[NUMBER] for row in kept}
        wanted.rows |= {number: row for number, row in rows.items() if number in numbers}
        wanted.rows |= _rolled(untimed, file.schema, how)
        wanted.late.append(len(timed) - len(kept))
        wanted.out.append(len(kept) + len(untimed))
    return wanted


def watermarks(files: Sequence[pa.Table], delay: int) -> list[int]:
    """In milliseconds, of the micro-batch of each file, and of the one behind the last file."""
    marks = [0]
    for file in files:
        times = [_micros(time) for time in file["o"].to_pylist() if time is not None]
        newest = max(times) // 1000 - delay if times else 0
        marks.append(max(marks[-1], newest))
    return marks


def _split(file: pa.Table) -> tuple[list[Row], list[Row]]:
    """Rows with a time, and those without."""
    timed, untimed = [], []
    for row in file.to_pylist():
        time = row["o"]
        missing = time is None or (isinstance(time, float) and not math.isfinite(time))
        (untimed if missing else timed).append(row)
    return timed, untimed


def _micros(time: Any) -> int:
    """Of a timestamp, since 1970."""
    micros: int = pa.scalar(time).cast(pa.timestamp("us")).value
    return micros


def _rolled(
    rows: list[Row], schema: pa.Schema, how: Mapping[str, Any], *, in_order: bool = False
) -> dict[int, Row]:
    """The batch's results of rows, by number."""
    if not rows:
        return {}
    if not in_order:
        rows = sorted(rows, key=_by(how["order_by"]))
    rows = sorted(rows, key=lambda row: repr(_key(row, how)))
    table = roll(pa.Table.from_pylist(rows, schema), batch=1000, **{"partition_by": None} | how)
    return {row[NUMBER]: row for row in table.to_pylist()}


def _names(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _key(row: Row, how: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal where Spark says that keys are equal."""
    values = (row[name] for name in _names(how.get("partition_by")))
    return tuple(
        "NaN" if value != value else value + 0.0 if isinstance(value, float) else value for value in values
    )


def _by(order: str | Sequence[str]) -> Callable[[Row], list[Any]]:
    """Spark's order: null, numbers, NaN."""

    def place(value: Any) -> tuple[Any, ...]:
        return (0,) if value is None else (2,) if value != value else (1, value)

    return lambda row: [place(row[name]) for name in _names(order)]


def same(a: Any, b: Any) -> bool:
    """Whole numbers and text exactly; real ones as far as they may be summed in another order."""
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)


def assert_as_wanted(found: Mapping[int, Row], wanted: Mapping[int, Row], names: Sequence[str]) -> None:
    """The same rows, with the same values of some columns."""
    assert found.keys() == wanted.keys(), (
        f"missing: {sorted(wanted.keys() - found.keys())[:20]}, "
        f"not wanted: {sorted(found.keys() - wanted.keys())[:20]}"
    )
    for number, row in wanted.items():
        for name in names:
            got = found[number][name]
            assert same(got, row[name]), f"row {number}, {name}: {got!r}, not {row[name]!r}"
