"""Batches as users give them: lists, arrays, columns of Arrow, Series of pandas and polars, tables of them.

Types of other libraries are recognized by their methods, so that no library has to be imported. All results
are copies: the caller may change a batch after the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AnySet
from typing import Any, TypeAlias

import numpy as np

from mta.encoding.nulls import array_of, coded_array, presence_array
from mta.kinds import Array, Columns, Row, Value
from mta.monoids.base import ColumnarMonoid, Monoid, row_columns
from mta.monoids.columns import number, refuse_time_types, row_by_row
from mta.monoids.runs import LongestIncreasingRun
from mta.monoids.values import ValueMonoid

_WORD = 2**63


def batch_columns(monoid: ColumnarMonoid, values: Value) -> Columns:
    """The input columns of a batch, in the order of the monoid's inputs, all of one length.

    Raises TypeError, ValueError or KeyError if the batch is no batch for this monoid.
    """
    columns: Sequence[Value]
    if monoid.fields and _is_table(values):
        columns = _named_columns(monoid, values)
    elif monoid.fields or (monoid.arity > 1 and not isinstance(values, tuple)):
        return row_columns(monoid, row_by_row(monoid.row, batch_rows(monoid, values)))
    elif monoid.reads_nothing and _is_table(values):
        return (np.zeros(_rows_of(monoid, values), np.int64),)
    elif monoid.arity > 1:
        columns = _tuple_of_columns(monoid, values)
    else:
        columns = (values,)
    for column in columns:
        _refuse_no_column(monoid, column)
    if monoid.skips_nulls:
        arrays = _coded_arrays(monoid, columns)
    else:
        names = monoid.fields or ("",) * len(columns)
        arrays = tuple(as_array(*each) for each in zip(columns, names, strict=False))
    if not any(array.ndim != 1 for array in arrays):
        _refuse_unequal({str(i): len(array) for i, array in enumerate(arrays)})
    return arrays


def _tuple_of_columns(monoid: ColumnarMonoid, values: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(values) != monoid.arity:
        raise TypeError(
            f"{monoid!r} takes a tuple of {monoid.arity} columns or a list of rows, "
            f"got a tuple of {len(values)}"
        )
    return values


def _coded_arrays(monoid: ColumnarMonoid, columns: Sequence[Value]) -> Columns:
    if monoid.reads_nothing:
        return (np.zeros(len(columns[0]), np.int64),)
    for column in columns:
        if getattr(column, "ndim", 1) != 1:
            raise TypeError(f"{monoid!r} takes columns, got an array of shape {column.shape}")
    return tuple(
        presence_array(column)
        if index in monoid.presence
        else coded_array(column, monoid.fields[index] if monoid.fields else monoid)
        for index, column in enumerate(columns)
    )


def _rows_of(monoid: Monoid, table: Value) -> int:
    """How many rows a table has, whose columns may hold anything."""
    lengths = {str(name): len(table[name]) for name in _names(table)}
    if not lengths:
        raise TypeError(f"a batch for {monoid!r} has rows, and a table without columns has none: {table!r}")
    _refuse_unequal(lengths)
    return next(iter(lengths.values()))


def batch_rows(monoid: Monoid, values: Value) -> list[Value]:
    """The elements of a batch as a list. A mapping of columns gives a mapping for each row.

    Raises the errors of `batch_columns`.
    """
    if monoid.fields and _is_table(values):
        named = zip(_named_columns(monoid, values), monoid.fields, strict=True)
        columns = [_listed(monoid, *each) for each in named]
        _refuse_unequal(dict(zip(monoid.fields, map(len, columns), strict=True)))
        return [dict(zip(monoid.fields, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(monoid, ColumnarMonoid) and monoid.arity > 1 and isinstance(values, tuple):
        if monoid.skips_nulls:
            columns = [_listed(monoid, column) for column in _tuple_of_columns(monoid, values)]
            _refuse_unequal({str(i): len(column) for i, column in enumerate(columns)})
            return list(zip(*columns, strict=True))
        return list(zip(*(column.tolist() for column in batch_columns(monoid, values)), strict=True))
    return _listed(monoid, values)


def as_array(column: Value, name: str = "") -> Array:
    """A column as a new array. Raises ValueError for missing values, which an array may not show."""
    _refuse_missing(column, name)
    if hasattr(column, "__array__"):
        return np.array(column)
    return array_of(list(column))


def _listed(monoid: Monoid, column: Value, name: str = "") -> list[Value]:
    """The column as a list of plain Python values: pages hold no NumPy scalars."""
    _refuse_no_column(monoid, column)
    times = getattr(getattr(column, "dtype", None), "kind", "") in ("m", "M")
    if monoid.skips_nulls:
        if times:  # which are refused one by one, unless they are only counted
            return list(np.asarray(column))
    else:
        _refuse_missing(column, name)
        if times:
            refuse_time_types(column, monoid)
    for method in ("tolist", "to_pylist", "to_list"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def _refuse_missing(column: Value, name: str) -> None:
    """Raises ValueError for masked entries, and nulls of Arrow, polars and the nullable types of pandas."""
    missing: Any = None
    if isinstance(column, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(column).reshape(-1)
    elif hasattr(column, "null_count"):
        count = column.null_count() if callable(column.null_count) else column.null_count
        if count:
            values = column.to_pylist() if hasattr(column, "to_pylist") else column
            missing = np.array([value is None for value in values])
    elif hasattr(column, "isna") and not isinstance(getattr(column, "dtype", None), np.dtype):
        missing = np.asarray(column.isna())
    if missing is not None and missing.any():
        of_name, or_skip = (f" of {name!r}", ', or skip them by nulls="skip"') if name else ("", "")
        raise ValueError(
            f"row {int(missing.argmax())}: the value{of_name} is missing, as are {int(missing.sum())} of "
            f"{len(missing)}; drop or replace missing values before they enter a window{or_skip}"
        )


def _named_columns(monoid: Monoid, values: Value) -> tuple[Value, ...]:
    names = _names(values)
    missing = [field for field in monoid.fields if field not in names]
    if missing:
        raise KeyError(f"{monoid!r} needs the column(s) {missing}, got only {sorted(map(str, names))}")
    return tuple(map(values.__getitem__, monoid.fields))


def _is_table(values: Value) -> bool:
    """Whether it is a mapping of columns or a data frame. A Series has names too, but one dimension.

    So has a column of mappings of Arrow, which counts its nulls.
    """
    if isinstance(getattr(values, "null_count", None), int):
        return False
    return isinstance(values, Mapping) or (getattr(values, "ndim", 2) == 2 and _names(values) is not None)


def _names(values: Value) -> Any:
    """The names of a table's columns, or None if it is no table."""
    if isinstance(values, Mapping):
        return values.keys()
    for attribute in ("column_names", "columns", "keys"):  # Arrow; polars and pandas; dict-like classes
        found = getattr(values, attribute, None)
        if found is not None and hasattr(values, "__getitem__"):
            return list(found() if callable(found) else found)
    return None


def _refuse_no_column(monoid: Monoid, values: Value) -> None:
    if _is_table(values):
        raise TypeError(
            f"{monoid!r} has no named fields, so it takes one column and not a mapping or a table, got one "
            f"with the columns {sorted(map(str, _names(values)))[:10]}; give it one of them, or name it in "
            "the monoid"
        )
    if isinstance(values, AnySet):
        raise TypeError(
            f"a batch for {monoid!r} has an order, which a {type(values).__name__} has not: {values!r}; "
            "make it a list"
        )
    scalar = isinstance(values, (str, bytes, int, float)) or getattr(values, "ndim", 1) == 0
    if scalar or not hasattr(values, "__len__"):
        raise TypeError(
            f"a batch for {monoid!r} is a sequence or an array, got {values!r} of type "
            f"{type(values).__name__}; use insert or push for a single element"
        )


def _refuse_unequal(lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a batch must have one length, got {lengths}")


#: `row`, `lift_row` or `lower` of a monoid
Change: TypeAlias = Callable[[Any], Any]

# The next functions return None for a method of a monoid that changes nothing, so that a window need not call
# it: in Python a call costs as much as a combine.


def row_of(monoid: Monoid) -> Change | None:
    """`row`, or None if it changes no element."""
    if _is(monoid.row, Monoid.row):
        return None
    if monoid.fields or getattr(monoid.row, "__func__", None) not in _CHECKS_ALONE:
        return monoid.row
    return _number_of(monoid) if _is(monoid.check_row, ColumnarMonoid.check_row) else monoid.check_row


#: `row` methods that only call `check_row` if the monoid reads no fields
_CHECKS_ALONE = (ColumnarMonoid.row, ValueMonoid.row, LongestIncreasingRun.row)


def _number_of(monoid: Monoid) -> Change:
    """`number`, which is not called for the common types."""

    def row(value: Value) -> Row:
        kind = type(value)
        if (kind is float and value == value) or (kind is int and -_WORD <= value < _WORD):
            return value
        return number(value, monoid)

    return row


def lift_of(monoid: Monoid) -> Change | None:
    """`lift_row`, or None if a row is its own state."""
    if _is(monoid.lift_row, ColumnarMonoid.lift_row):
        return None
    return monoid.lift if _is(monoid.lift_row, Monoid.lift_row) else monoid.lift_row


def lower_of(monoid: Monoid) -> Change | None:
    """`lower`, or None if a state is its own result and cannot be changed."""
    unchanged = isinstance(monoid, ColumnarMonoid) and _is(monoid.lower, Monoid.lower)
    return None if unchanged else monoid.lower


def _is(bound: object, method: object) -> bool:
    return getattr(bound, "__func__", None) is method
