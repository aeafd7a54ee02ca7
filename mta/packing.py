"""Plain Python values as msgpack, with the few types that msgpack itself cannot tell apart or hold.

Never pickle: what a store returns is data, and must not be able to run code.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

_TUPLE, _BIG_INT, _SET, _FROZENSET, _ARRAY, _COMPLEX = range(1, 7)


class Unpackable(TypeError):
    """A value of a type that a store cannot hold."""


def pack(value: Any) -> bytes:
    """The bytes of a value made of None, bool, int, float, complex, str, bytes, list, tuple, dict, set,
    frozenset and numeric NumPy arrays; tuples stay tuples and whole numbers have any size."""
    if isinstance(value, (bytearray, memoryview)):
        return pack(_extend(value))
    packed: bytes = msgpack.packb(value, default=_extend, strict_types=True)
    return packed


def unpack(data: bytes | memoryview) -> Any:
    return msgpack.unpackb(data, ext_hook=_restore, strict_map_key=False)


def _extend(value: Any) -> Any:
    kind = type(value)
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, pack(list(value)))
    if kind is int:
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if kind is set:
        return msgpack.ExtType(_SET, pack(list(value)))
    if kind is frozenset:
        return msgpack.ExtType(_FROZENSET, pack(list(value)))
    if kind is complex:
        return msgpack.ExtType(_COMPLEX, pack([value.real, value.imag]))
    if kind is np.ndarray and value.dtype.kind in "biufc":
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return msgpack.ExtType(_ARRAY, pack([little.dtype.str, list(value.shape), little.tobytes()]))
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    raise Unpackable(
        f"{value!r} of type {kind.__name__} cannot be kept in a store; use plain Python values or NumPy "
        "arrays, or give the monoid pack and unpack functions"
    )


def _restore(code: int, data: bytes) -> Any:
    if code == _BIG_INT:
        return int.from_bytes(data, "little", signed=True)
    content = unpack(data)
    if code == _TUPLE:
        return tuple(content)
    if code == _SET:
        return set(content)
    if code == _FROZENSET:
        return frozenset(content)
    if code == _COMPLEX:
        return complex(*content)
    if code == _ARRAY:
        dtype, shape, raw = content
        return np.frombuffer(raw, dtype=np.dtype(dtype)).reshape(shape)
    raise ValueError(f"unknown extension type {code} in a packed value")
