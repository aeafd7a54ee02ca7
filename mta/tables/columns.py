"""Results of windows as columns of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from mta.kinds import Array
from mta.tables.plan import Plan

#: The types of columns of numbers.
_PLAIN = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64()}


def types_of(plan: Plan, schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of results for rows of a schema: those for one row whose values are all 1, or text.

    Null where they are not known before the first results: an aggregate refuses such values.
    """
    found = dict.fromkeys(plan.names, pa.null())
    columns = {name: _sample(schema.field(name).type) for name in plan.inputs}
    for program in plan.programs:
        layout = program.layout
        # an operator may raise anything for a value that no row has; if a row has it, it raises again
        with suppress(Exception):
            results = layout.lower(layout.lift(program.elements(columns, 1)))
            for frame in program.frames:
                for shown in frame.shown:
                    found[shown.name] = _type_of(results[shown.aggregate])
    return found


def _sample(kind: pa.DataType) -> pa.Array:
    """A column of one value."""
    if pa.types.is_dictionary(kind):
        return _sample(kind.value_type)
    with suppress(pa.ArrowException):
        value = _sample_value(kind)
        return pa.array([1]).cast(kind) if value is None else pa.array([value], kind)
    return pa.array([1])


def _sample_value(kind: pa.DataType) -> Any:
    """A value of a type; None for one that 1 can be cast to."""
    if any(is_kind(kind) for is_kind in _TEXTS):
        return "1"
    if pa.types.is_fixed_size_binary(kind):
        return b"1" * kind.byte_width
    if pa.types.is_decimal(kind):  # with all its digits, which the type of results is to have too
        return Decimal((0, (9,) * kind.precision, -kind.scale))
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.array([1], pa.int32()).cast(kind)[0].as_py()
    if pa.types.is_nested(kind):
        return _nested_value(kind)
    return None


def _nested_value(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _sample(field.type)[0].as_py() for field in kind}
    size = kind.list_size if pa.types.is_fixed_size_list(kind) else 1
    return [_sample(kind.value_type)[0].as_py()] * size


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


def check_results(results: Mapping[str, Array], types: dict[str, pa.DataType]) -> None:
    """Raises the errors of `as_columns`. Types that are not known yet become those of the results."""
    for name, values in results.items():
        if pa.types.is_null(types[name]):
            with suppress(pa.ArrowException):
                types[name] = _type_of(values)
        if not (values.dtype.kind in "bif" and types[name] == _PLAIN[values.dtype.kind]):
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
