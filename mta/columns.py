"""A column as bytes: raw little-endian numbers, fewer bytes of whole numbers that are close together.

Times mostly come at a steady rate, or close to each other, and are half of what a page of numbers holds, so
whole numbers are kept as a step, or as 1, 2 or 4 bytes above the least of them, where that is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta import packing
from mta.monoids.base import Array

#: kind, parameters, and the bytes
Encoded = tuple[str, list[int], Any]

_RAW: dict[str, np.dtype[Any]] = {"<i8": np.dtype("<i8"), "<f8": np.dtype("<f8")}
_NARROW: dict[str, np.dtype[Any]] = {"<u1": np.dtype("<u1"), "<u2": np.dtype("<u2"), "<u4": np.dtype("<u4")}
_OBJECTS, _STEPS = "objects", "steps"

#: Shorter columns are not worth a second look.
SHORT = 32


def encode_column(column: Array) -> Encoded:
    if column.dtype == object:
        return _OBJECTS, [], packing.pack_entries(column.tolist())
    if column.dtype == np.int64 and len(column) >= SHORT:
        return _encode_whole(column)
    return _raw(column)


def decode_column(kind: str, parameters: list[int], raw: memoryview, count: int) -> Array:
    if kind == _OBJECTS:
        values = packing.unpack(raw)
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    if kind == _STEPS:
        first, step = parameters
        return np.arange(count, dtype=np.int64) * step + first
    if kind in _NARROW:
        whole: Array = np.frombuffer(raw, dtype=_NARROW[kind]).astype(np.int64)
        whole += parameters[0]
        return whole
    return np.frombuffer(raw, dtype=_RAW[kind])


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
    little = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
    return little.dtype.str, [], _bytes(little)


def _bytes(column: Array) -> Any:
    return column.data.cast("B") if len(column) else b""
