"""Values of Arrow columns as plain Python values, also where Python has no type for them.

A time zone may be one that Java knows and Python does not, a time may be beyond the years of Python's own,
and text may be no UTF-8: Spark checks none that it casts from bytes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

#: Offsets as Java writes them, which are no names of zones to Python.
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")

_MICROSECOND = timedelta(microseconds=1)


def plain(column: pa.Array) -> pa.Array:
    """The column with dates, times and intervals as whole numbers: an instant has no time zone."""
    kind = _plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain_type(each.type), each.nullable) for each in kind])
    if pa.types.is_map(kind):
        item = pa.field("value", _plain_type(kind.item_type), kind.item_field.nullable)
        return pa.map_(pa.field("key", _plain_type(kind.key_type), nullable=False), item)
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _plain_type(kind.value_type), kind.value_field.nullable))
    return kind


def values_of(column: pa.Array) -> list[Any]:
    """The values of a plain column; text that is no UTF-8 as bytes."""
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_value(each) for each in column]
    return found


def _value(scalar: pa.Scalar) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if _is_text(kind):
        return _text(scalar)
    if pa.types.is_struct(kind):
        return {each.name: _value(scalar[number]) for number, each in enumerate(kind)}
    if pa.types.is_map(kind):
        return [(_value(entry[0]), _value(entry[1])) for entry in scalar.values]
    if pa.types.is_list(kind):
        return [_value(each) for each in scalar.values]
    return scalar.as_py()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text(scalar: pa.Scalar) -> str | bytes:
    data: bytes = scalar.as_buffer().to_pybytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def shown(scalar: pa.Scalar) -> str:
    """A value for people to read: an instant is in its zone, or in UTC where Python does not know that."""
    kind = scalar.type
    if not scalar.is_valid:
        return "None"
    if pa.types.is_timestamp(kind):
        return _shown_time(scalar.value, kind.tz)
    if pa.types.is_date32(kind):
        return str(np.datetime64(scalar.value, "D"))
    if pa.types.is_struct(kind):
        return f"{{{', '.join(f'{each.name!r}: {shown(scalar[n])}' for n, each in enumerate(kind))}}}"
    if pa.types.is_map(kind):
        return f"{{{', '.join(f'{shown(entry[0])}: {shown(entry[1])}' for entry in scalar.values)}}}"
    if pa.types.is_list(kind):
        return f"[{', '.join(map(shown, scalar.values))}]"
    value = _text(scalar) if _is_text(kind) else scalar.as_py()
    return repr(value) if isinstance(value, (str, bytes)) else str(value)


def _shown_time(microseconds: int, zone: str | None) -> str:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        moment = epoch + microseconds * _MICROSECOND
        return str(moment.replace(tzinfo=None) if zone is None else moment.astimezone(_zone(zone)))
    except OverflowError:  # Spark's years go on where Python's end
        if microseconds == -(2**63):  # NumPy's word for no time at all
            return f"{microseconds} µs"
        text = str(np.datetime64(microseconds, "us")).replace("T", " ").removesuffix(".000000")
        return text if zone is None else f"{text}+00:00"


def _zone(name: str) -> tzinfo:
    offset = _OFFSET.fullmatch(name)
    try:
        if offset is None:
            return ZoneInfo(name)
        sign, *parts = offset.groups()
        hours, minutes, seconds = (int(each or 0) for each in parts)
        return timezone((-1 if sign == "-" else 1) * timedelta(hours=hours, minutes=minutes, seconds=seconds))
    except (KeyError, ValueError, OSError):  # no such zone, or no name of one
        return UTC
