"""Batches with missing values as coded columns: NULL, whole or real, stands for a missing value.

Types of other libraries are recognized by their methods, so that no library has to be imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from mta.kinds import Array, Value
from mta.monoids.columns import column_of
from mta.monoids.missing import NULL, is_code, is_missing, refusal

#: the values of a column, and which of them are not missing; None for all, unless the values say it
Split: TypeAlias = tuple[Array, Array | None]

_NONE = type(None)

#: types of which no value is missing, or None
_TEXTS = frozenset({str, bytes, bool, _NONE})


def array_of(values: Sequence[Value]) -> Array:
    """A column of plain values, which keeps whole numbers beyond 64 bits beside real ones."""
    array = column_of(values)
    if array.dtype.kind == "f":
        large = np.flatnonzero(~((array >= -(2.0**63)) & (array < 2.0**63))).tolist()
        if any(type(values[row]) is int for row in large):  # refused later, though it fits in a float
            return np.fromiter(values, dtype=object, count=len(values))
    return array


def coded_array(column: Value, monoid: object) -> Array:
    """A column as a new array with NULL for missing values, also for NaN.

    Times stay what they are, with NaT. Raises ValueError for a number that equals NULL.
    """
    values, there = _split(column)
    kind = values.dtype.kind
    if kind == "O":
        return _coded_objects(values.tolist(), there, monoid)
    if kind == "f":
        return _coded_reals(values, there, monoid)
    if kind in "mM":
        if there is not None:
            values[~there] = np.array("NaT", values.dtype)
        return values
    if kind not in "iub" or (there is not None and values.dtype == np.uint64 and _beyond(values[there])):
        return values if there is None else _coded_objects(values.tolist(), there, monoid)
    _refuse_code(values, there, monoid)
    return values if there is None else np.where(there, values.astype(np.int64, copy=False), NULL)


def presence_array(column: Value) -> Array:
    """A column with 1 for each value, of any type, and NULL where it is missing."""
    if _is_arrow(column):
        from mta.encoding.arrow import is_real, valid_entries

        if not is_real(column):
            return np.where(valid_entries(column), 1, NULL)
    values, there = _split(column)
    if there is None:
        there = np.ones(len(values), dtype=bool)
    kind = values.dtype.kind
    if kind == "f":
        there = there & ~np.isnan(values)
    elif kind in "mM":
        there = there & ~np.isnat(values)
    elif kind == "O":
        listed = values.tolist()
        there = there & ~np.fromiter(_missing(listed), bool, len(listed))
    return np.where(there, 1, NULL)


def _beyond(values: Array) -> bool:
    return bool(len(values)) and int(values.max()) >= 2**63


def _coded_reals(values: Array, there: Array | None, monoid: object) -> Array:
    if values.dtype != np.float64:
        with np.errstate(over="ignore"):  # a long float may be beyond the range of a float
            values = values.astype(np.float64)
    if not len(values) or (there is None and float(values.min()) > NULL):
        return values
    missing = np.isnan(values)
    if there is not None:
        missing |= ~there
    _refuse_code(values, ~missing, monoid)
    values[missing] = NULL
    return values


def _refuse_code(values: Array, there: Array | None, monoid: object) -> None:
    """Raises ValueError if a number that is there equals NULL."""
    if values.dtype.kind not in "if" or values.dtype.itemsize < 4 or not len(values):
        return
    if values.dtype.kind == "i" and values.min() > NULL:
        return
    found = values == NULL
    if there is not None:
        found &= there
    if found.any():
        raise ValueError(refusal(monoid, f" in row {int(found.argmax())}"))


def _coded_objects(values: list[Any], there: Array | None, monoid: object) -> Array:
    """A column of Python values, of numbers if those that are there are."""
    missing = _missing(values)
    if there is not None:
        missing = [each or not valid for each, valid in zip(missing, there.tolist(), strict=True)]
    if not _TEXTS.issuperset(map(type, values)):
        for row, (value, absent) in enumerate(zip(values, missing, strict=True)):
            if not absent and is_code(value):
                raise ValueError(refusal(monoid, f" in row {row}"))
    if True in missing:
        values = [NULL if absent else value for value, absent in zip(values, missing, strict=True)]
    return array_of(values)


def _missing(values: list[Any]) -> list[bool]:
    kinds = set(map(type, values))
    if kinds <= _TEXTS | {int}:
        return [value is None for value in values] if _NONE in kinds else [False] * len(values)
    return list(map(is_missing, values))


def _split(column: Value) -> Split:
    """A column as an array that the caller may change, and which values are not missing."""
    if isinstance(column, np.ma.MaskedArray):
        return np.array(column.data), ~np.ma.getmaskarray(column)
    if isinstance(column, np.ndarray):
        return np.array(column), None
    if _is_arrow(column):
        return _split_arrow(column)
    if hasattr(column, "null_count"):
        return _split_polars(column)
    if hasattr(column, "isna") and not isinstance(getattr(column, "dtype", None), np.dtype):
        return _split_pandas(column)
    if hasattr(column, "__array__"):
        return np.array(column), None
    values = list(column)
    if set(map(type, values)) <= {int, float, bool}:
        return array_of(values), None
    return np.fromiter(values, dtype=object, count=len(values)), None


def _is_arrow(column: Value) -> bool:
    return hasattr(column, "null_count") and not callable(column.null_count)


def _split_arrow(column: Value) -> Split:
    from mta.encoding.arrow import valid_values

    values, there = valid_values(column)
    return np.array(values), there


def _split_polars(column: Value) -> Split:
    if not column.null_count():
        return np.array(column), None
    kind, there = column.dtype, np.array(column.is_not_null())
    if kind.is_integer() or kind.is_float():
        return np.array(column.fill_null(0)), there
    if str(kind) == "Boolean":
        return np.array(column.fill_null(False)), there
    return np.fromiter(column.to_list(), object, len(column)), None


def _split_pandas(column: Value) -> Split:
    """A column of one of pandas' own types."""
    there = ~np.asarray(column.isna())
    if there.all():
        return np.array(column), None
    kind = getattr(column.dtype, "kind", "O")
    if kind in "iufb":
        plain = {"i": np.int64, "u": np.uint64, "f": np.float64, "b": np.bool_}[kind]
        return np.array(column.to_numpy(dtype=plain, na_value=plain(0))), there
    return np.array(column.to_numpy(dtype=object)), there
