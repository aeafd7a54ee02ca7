"""Results of windows as columns of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mta.kinds import Array
from mta.tables.plan import Plan


def types_of(plan: Plan, elements: list[Any]) -> dict[str, pa.DataType]:
    """The types of results, from those of the first element alone. Elements are those of each program."""
    found = {}
    for program, some in zip(plan.programs, elements, strict=True):
        layout = program.layout
        results = layout.lower(layout.lift(layout.cut(some, 0, 1)))
        for frame in program.frames:
            for shown in frame.shown:
                found[shown.name] = _type_of(shown.name, results[shown.aggregate])
    return {name: found[name] for name in plan.names}


def _type_of(name: str, results: Array) -> pa.DataType:
    kind = results.dtype.kind
    if kind in "bif":
        return {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64()}[kind]
    values = results.tolist()
    try:
        return pa.infer_type([_plain(value) for value in values])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise TypeError(
            f"the results of the aggregate {name!r} have no type of Arrow, got {values[0]!r} of type "
            f"{type(values[0]).__name__}: {error}"
        ) from None


def as_columns(results: Mapping[str, Array], types: Mapping[str, pa.DataType]) -> list[pa.Array]:
    """Results as columns of some types. Raises TypeError or OverflowError for results of another type."""
    return [_column(name, results[name], kind) for name, kind in types.items()]


def _column(name: str, values: Array, kind: pa.DataType) -> pa.Array:
    if values.dtype != object:
        column = pa.array(values)
        return column if column.type == kind else column.cast(kind)
    plain = [_plain(value) for value in values.tolist()]
    try:
        return pa.array(plain, type=kind, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        wrong = next(value for value in plain if not _fits(value, kind))
        raise TypeError(
            f"the results of the aggregate {name!r} are of type {kind}, as the first one is, and {wrong!r} does "
            f"not fit: {error}. Give the column that it reads one type, such as float64"
        ) from None


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], type=kind, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


def _plain(value: Any) -> Any:
    """A result as a value that Arrow takes."""
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=lambda each: (str(type(each)), each))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value
