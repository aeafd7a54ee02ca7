"""Results of windows as columns of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mta.kinds import Array
from mta.tables.plan import Plan

#: The types of columns of numbers.
_PLAIN = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64()}


def types_of(plan: Plan, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of results for rows of a schema: those for one row whose values are all 1, or text.

    Null where there are none: the aggregate refuses such values, or its results have no type of Arrow.
    """
    found = dict.fromkeys(plan.names, pa.null())
    try:
        columns = {name: _sample(schema.field(name).type) for name in plan.inputs}
        for program in plan.programs:
            layout = program.layout
            results = layout.lower(layout.lift(program.elements(columns, 1)))
            for frame in program.frames:
                for shown in frame.shown:
                    found[shown.name] = _type_of(results[shown.aggregate])
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        pass  # which the rows will raise too, if there are any
    return found


def _sample(kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return _sample(kind.value_type)
    if pa.types.is_null(kind):
        return pa.array([1])
    if any(is_kind(kind) for is_kind in _TEXTS):
        return pa.array(["1"]).cast(kind)
    return pa.array([1]).cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else pa.array([1]).cast(kind)


_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def _type_of(results: Array) -> pa.DataType:
    kind = results.dtype.kind
    if kind in "bif":
        return _PLAIN[kind]
    return pa.infer_type([_plain(value) for value in results.tolist()])


def check_results(results: Mapping[str, Array], types: Mapping[str, pa.DataType]) -> None:
    """Raises the errors of `as_columns`."""
    for name, values in results.items():
        if not (values.dtype.kind in "bif" and types[name] in (_PLAIN[values.dtype.kind], pa.float64())):
            _column(name, values, types[name])


def as_columns(results: Mapping[str, Array], types: Mapping[str, pa.DataType]) -> list[pa.Array]:
    """Results as columns of some types. Raises TypeError or OverflowError for results of another type."""
    return [_column(name, results[name], kind) for name, kind in types.items()]


def _column(name: str, values: Array, kind: pa.DataType) -> pa.Array:
    try:
        if values.dtype != object:
            column = pa.array(values)
            return column if column.type == kind else column.cast(kind)
        return pa.array([_plain(value) for value in values.tolist()], type=kind, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        plain = [_plain(value) for value in values.tolist()]
        wrong = next((value for value in plain if not _fits(value, kind)), None)
        raise TypeError(
            f"the results of the aggregate {name!r} are of type {kind}, by the type of the column that it "
            f"reads, and {wrong!r} does not fit: {error}"
        ) from None


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], type=kind, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
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
