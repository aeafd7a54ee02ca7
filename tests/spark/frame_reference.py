"""Frames row by row in plain Python, as slow as they are plain."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def frame(
    group: list[Row], at: int, *, span: Any = None, rows: int | None = None, closed: str = "both"
) -> list[Row]:
    """The rows of one row's frame; the order column is `o`."""
    if rows is not None:
        return group[max(0, at - rows + 1) : at + 1]
    now = group[at]["o"]
    kind = kind_of(now)
    alike = [row for row in group if kind_of(row["o"]) == kind]
    if kind != "time":
        return alike
    inside: Callable[[Any], bool] = (
        (lambda age: age <= span) if closed == "both" else (lambda age: age < span)
    )
    return [row for row in alike if row["o"] <= now and inside(now - row["o"])]


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return "time"


def order(value: Any) -> tuple[bool, Any]:
    """NaN is greater than any number."""
    return (True, 0) if value != value else (False, value)


def aggregates(rows: list[Row]) -> Row:
    """Aggregates of columns x (real), i (whole) and r (the row's number)."""
    x = [row["x"] for row in rows if row["x"] is not None]
    i = [row["i"] for row in rows if row["i"] is not None]
    spread = None
    if len(x) > 1:
        spread = math.nan if any(value != value for value in x) else statistics.stdev(x)
    return {
        "sum_x": sum(x) if x else None,
        "max_x": max(x, key=order) if x else None,
        "min_x": min(x, key=order) if x else None,
        "mean_x": sum(x) / len(x) if x else None,
        "std_x": spread,
        "sum_i": sum(i) if i else None,
        "max_i": max(i) if i else None,
        "most_i": i.count(max(i)) if i else 0,
        "count": len(rows),
        "first_i": i[0] if i else None,
        "last_x": x[-1] if x else None,
        "r_of_max_x": max((row for row in rows if row["x"] is not None), key=lambda row: order(row["x"]))["r"]
        if x
        else None,
        "x_of_min_i": min((row for row in rows if row["i"] is not None), key=lambda row: row["i"])["x"]
        if i
        else None,
        "all_i": i,
    }


def expected(table: list[Row], /, **how: Any) -> list[Row]:
    """The rows, grouped by k, with their aggregates."""
    groups: dict[Any, list[Row]] = {}
    for row in table:
        groups.setdefault(row["k"], []).append(row)
    return [
        row | aggregates(frame(group, at, **how)) for group in groups.values() for at, row in enumerate(group)
    ]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, (float, int)):
        return (a != a and b != b) or a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def assert_same(found: list[Row], wanted: list[Row], columns: list[str], about: object = "") -> None:
    assert len(found) == len(wanted)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        for name in columns:
            assert same(a[name], b[name]), f"{about} row {number}, {name}: {a[name]!r}, not {b[name]!r}; {b}"
