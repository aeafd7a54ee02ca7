"""Columns of a DataFrame as NumPy columns that a window can keep, with nulls coded among the values.

A store's column is int64, float64 or Python objects. A null of a whole number is the least int64, and a null
of a real number is a NaN of its own, so that validity costs no second column. Python columns have None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import types as sql

from mta.encoding.arrow import to_numpy, validity
from mta.monoids.base import Array

#: int64, float64, or Python objects
Encoding = Literal["whole", "real", "object"]

NULL_WHOLE = -(2**63)
_NULL_REAL_BITS = 0x7FF8_6E75_6C6C_0000
NULL_REAL: float = float(np.array([_NULL_REAL_BITS], dtype=np.int64).view(np.float64)[0])


@dataclass(frozen=True)
class Input:
    """A column that aggregates read."""

    name: str
    index: int
    type: sql.DataType
    nullable: bool
    #: only whether it is null is looked at, so that any type will do
    presence: bool = False

    @property
    def key(self) -> str:
        """Its name among the fields of a window's elements."""
        return self.name + ("\0there" if self.presence else "")

    @property
    def encoding(self) -> Encoding | None:
        return "whole" if self.presence else encoding_of(self.type)


_WHOLE = (
    sql.IntegralType,
    sql.BooleanType,
    sql.DateType,
    sql.TimestampType,
    sql.TimestampNTZType,
    sql.DayTimeIntervalType,
)
_REAL = (sql.DoubleType, sql.FloatType)
_OBJECT = (sql.StringType, sql.BinaryType)


def encoding_of(kind: sql.DataType) -> Encoding | None:
    """How values of a type are kept; None where they cannot be."""
    if isinstance(kind, _WHOLE):
        return "whole"
    if isinstance(kind, _REAL):
        return "real"
    return "object" if isinstance(kind, _OBJECT) else None


def whole_numbers(column: pa.Array) -> Array:
    """int64 values of a column of whole numbers, dates, timestamps or booleans; 0 where null."""
    kind = column.type
    if (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)) and kind.unit != "us":
        column = column.cast(
            pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.duration("us")
        )
    values = to_numpy(column).astype(np.int64, copy=False)
    return np.where(validity(column), values, 0) if column.null_count else values


def real_numbers(column: pa.Array) -> Array:
    """float64 values; 0 where null."""
    values = to_numpy(column).astype(np.float64, copy=False)
    return np.where(validity(column), values, 0.0) if column.null_count else values


def encoded(column: pa.Array, source: Input) -> Array:
    """The column as a window keeps it, with its nulls coded."""
    if not source.nullable and column.null_count:
        raise ValueError(f"column {source.name!r} holds nulls, which its schema rules out")
    if source.presence:
        return np.where(_there(column), 1, NULL_WHOLE)
    if source.encoding == "whole":
        values = whole_numbers(column)
        if not source.nullable:
            return values
        if len(values) and int(values.min()) == NULL_WHOLE:
            kind = source.type.simpleString()
            remedy = "cast the column to double" if kind == "bigint" else "replace it, or drop its rows"
            raise ValueError(
                f"column {source.name!r} holds {NULL_WHOLE}, the one {kind} that rolling keeps for null; "
                f"{remedy}"
            )
        return np.where(validity(column), values, NULL_WHOLE) if column.null_count else values
    values = real_numbers(column)
    if not source.nullable:
        return values
    missing = np.isnan(values)
    if missing.any():  # any NaN is no null
        values = np.where(missing, np.nan, values)
    return np.where(validity(column), values, NULL_REAL) if column.null_count else values


def _there(column: pa.Array) -> Array:
    """Which values are not null, for any type."""
    return to_numpy(column.is_valid())


def are_valid(column: Array) -> Array:
    """Which values of an encoded column are not null."""
    valid: Array
    if column.dtype.kind == "f":
        valid = np.ascontiguousarray(column).view(np.int64) != _NULL_REAL_BITS
    else:
        valid = column != NULL_WHOLE
    return valid


def listed(column: pa.Array, source: Input) -> list[Any]:
    """The column as plain Python values, with None for null, for windows over objects.

    Dates and timestamps are whole numbers.
    """
    kind = source.type
    if source.presence:
        return [1 if there else None for there in _there(column).tolist()]
    if source.encoding == "whole" and not isinstance(kind, sql.BooleanType):
        values = whole_numbers(column).tolist()
    elif source.encoding == "real":
        values = real_numbers(column).tolist()
    else:
        return _texts(column, source)
    if column.null_count:
        valid = validity(column).tolist()
        return [value if there else None for value, there in zip(values, valid, strict=True)]
    plain: list[Any] = values
    return plain


def _texts(column: pa.Array, source: Input) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"column {source.name!r} holds text that is no UTF-8, {_cut(error.object)!r}: cast it to binary, "
            "or mend it by make_valid_utf8"
        ) from None
    return found


def _cut(data: bytes) -> bytes:
    return data if len(data) <= 40 else data[:40] + b"..."


def in_total_order(column: Array) -> Array:
    """Whole numbers in the order that Spark gives real ones: NaN is the greatest, 0.0 and -0.0 are equal."""
    if column.dtype.kind != "f":
        return column
    bits = np.where(np.isnan(column), np.nan, column + 0.0).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)


def total_order_key(value: Any) -> Any:
    """`in_total_order` of one plain value."""
    if type(value) is not float:
        return value
    return int(in_total_order(np.array([value]))[0])
