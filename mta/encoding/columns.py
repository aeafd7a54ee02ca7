"""Serializes a column: numbers as little-endian bytes, objects as a packed list (`mta.encoding.packing`).

Half of the bytes of a page of numbers would be times, which are often equidistant or close together. So whole
numbers are stored as the first one and a step if they are equidistant, and otherwise as 1, 2, 4 or 8 bytes
above the least of them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from mta.encoding import packing
from mta.encoding.untrusted import Malformed, fields, shown, whole
from mta.kinds import Array, Value
from mta.numbers.wide import is_wide, plain_list

#: kind, parameters, bytes
Encoded: TypeAlias = tuple[str, list[int], Any]

_TRUTH = "|b1"
#: Types that are stored unchanged. Only a user's monoid has columns of other types than <i8 and <f8.
_RAW: dict[str, np.dtype[Any]] = {
    kind: np.dtype(kind)
    for kind in (
        "<i8", "<f8", _TRUTH, "|i1", "<i2", "<i4", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<c8", "<c16",
    )
}  # fmt: skip
_NARROW: dict[str, np.dtype[Any]] = {"<u1": np.dtype("<u1"), "<u2": np.dtype("<u2"), "<u4": np.dtype("<u4")}
_OBJECTS, _TUPLES, _STEPS = "objects", "tuples", "steps"

_WORD = 2**63

#: Shorter columns are not compressed.
COMPRESSED_FROM = 32


def check_column(column: Array) -> None:
    """Raises Unpackable for a column that cannot be serialized."""
    if column.dtype == object:
        packing.pack_entries(column.tolist())
    elif not is_wide(column) and column.dtype.newbyteorder("<").str not in _RAW:
        raise packing.Unpackable(
            f"a column of type {column.dtype} cannot be kept in a store; make it one of bools, of numbers, "
            "or of Python objects"
        )


def encode_column(column: Array) -> Encoded:
    """The kind, the parameters and the bytes of a column. Raises Unpackable."""
    if column.dtype == object or is_wide(column):
        return encode_objects(plain_list(column))
    if column.dtype == np.int64 and len(column) >= COMPRESSED_FROM:
        return _encode_whole(column)
    return _raw(column)


def encode_objects(values: list[Value]) -> Encoded:
    """Serializes objects as one list, and tuples of equal length as one list for each part of the tuples.

    msgpack has no tuples and would call Python for each one. A few long tuples are one list.
    """
    if set(map(type, values)) == {tuple}:
        lengths = set(map(len, values))
        if len(lengths) == 1 and 0 < lengths.pop() <= len(values):
            return _TUPLES, [], packing.pack_entries(list(map(list, zip(*values, strict=True))))
    return _OBJECTS, [], packing.pack_entries(values)


def decode_column(kind: object, parameters: object, raw: memoryview, count: int) -> Array:
    """The reverse of `encode_column`. Raises Malformed unless the result has `count` entries."""
    if kind == _OBJECTS:
        values = packing.unpack(raw)
        if type(values) is not list or len(values) != count:
            raise Malformed(f"a column of objects does not hold {count} entries")
        return np.fromiter(values, dtype=object, count=count)
    if kind == _TUPLES:
        parts = fields(packing.unpack(raw), "a column of tuples")
        if not parts or any(len(fields(part, "a part of tuples")) != count for part in parts):
            raise Malformed(f"a column of tuples does not hold {count} entries")
        return np.fromiter(zip(*parts, strict=True), dtype=object, count=count)
    if kind == _STEPS:
        first, step = _whole_numbers(parameters, 2)
        if raw.nbytes or not _fits(first + step * max(0, count - 1)):
            raise Malformed(f"a column of {count} steps of {step} from {first}")
        if step and _fits(first + step * count):
            return np.arange(first, first + step * count, step, dtype=np.int64)
        return np.arange(count, dtype=np.int64) * step + first
    narrow = _NARROW.get(kind) if isinstance(kind, str) and parameters else None
    dtype = narrow or (_RAW.get(kind) if isinstance(kind, str) else None)
    if dtype is None or raw.nbytes != count * dtype.itemsize:
        raise Malformed(f"a column of {count} entries of the kind {shown(kind)} in {raw.nbytes} bytes")
    column = np.frombuffer(raw, dtype=dtype)
    if narrow is None:
        _whole_numbers(parameters, 0)
        if kind == _TRUTH and count and int(np.frombuffer(raw, dtype=np.uint8).max()) > 1:
            raise Malformed("a column of bools has another entry")
        return column
    (least,) = _whole_numbers(parameters, 1)
    if count and not _fits(least + int(column.max())):
        raise Malformed(f"a column of numbers above {least} that do not fit in 64 bits")
    column = column.astype(np.int64)
    column += least
    return column


def _whole_numbers(parameters: object, count: int) -> list[int]:
    numbers = fields(parameters, "the parameters of a column", count)
    return [whole(each, "a parameter of a column", -_WORD, _WORD - 1) for each in numbers]


def _fits(number: int) -> bool:
    return -_WORD <= number < _WORD


def _encode_whole(column: Array) -> Encoded:
    first, step = int(column[0]), int(column[1]) - int(column[0])
    if int(column[-1]) == first + step * (len(column) - 1) and bool((column[1:] - column[:-1] == step).all()):
        return _STEPS, [first, step], b""
    least = int(column.min())
    extent = int(column.max()) - least
    for kind, dtype in _NARROW.items():
        if extent < 256**dtype.itemsize:
            return kind, [least], _bytes((column - least).astype(dtype))
    return _raw(column)


def _raw(column: Array) -> Encoded:
    check_column(column)
    little = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
    return little.dtype.str, [], _bytes(little)


def _bytes(column: Array) -> Any:
    return column.data.cast("B") if len(column) else b""
