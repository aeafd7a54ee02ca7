"""Plain Python values as msgpack, with the few types that msgpack itself cannot tell apart or hold.

Never pickle: what a store returns is data, and must not be able to run code.
"""

from __future__ import annotations

import functools
from typing import Any

import msgpack
import numpy as np

_TUPLE, _BIG_INT, _SET, _FROZENSET, _ARRAY, _COMPLEX = range(1, 7)


#: Values nest at most so deep. The decoder calls itself for each tuple, set or array in another, and takes
#: some 40 KB of the thread's stack each time; lists and dicts count as well, so that there is one rule.
DEEPEST = 48

#: Pages and states have an element inside a few levels of their own.
_DEEPEST_PAGE = DEEPEST + 16

_NESTS = frozenset({list, tuple, dict, set, frozenset})


class Unpackable(TypeError, ValueError):
    """A value that a store cannot hold."""


def pack(value: Any) -> bytes:
    """The bytes of a value made of None, bool, int, float, complex, str, bytes, list, tuple, dict, set,
    frozenset and numeric NumPy arrays; tuples stay tuples and whole numbers have any size."""
    if isinstance(value, (bytearray, memoryview)):
        raise _unpackable(value)
    _check_depth(value, DEEPEST)
    return _packed(value)


def pack_entries(entries: list[Any]) -> bytes:
    """The bytes of a page's elements or states, which have passed `pack` one by one."""
    _check_depth(entries, _DEEPEST_PAGE)
    return _packed(entries)


def unpack(data: bytes | memoryview) -> Any:
    return _unpacked(data, 1)


def check_text(text: str) -> None:
    """Refuses text that is none: half of a surrogate pair, which no encoding of Unicode has."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _no_text(error) from None


def _check_depth(value: Any, deepest: int) -> None:
    level, depth = [value], 0
    while level := [each for each in level if type(each) in _NESTS]:
        depth += 1
        if depth > deepest:
            raise Unpackable(
                f"a value that is nested more than {deepest} levels deep cannot be kept in a store; make it "
                "flat, or give the monoid pack and unpack functions"
            )
        inner: list[Any] = []
        for each in level:
            inner += each
            if type(each) is dict:
                inner += each.values()
        level = inner


def _packed(value: Any) -> bytes:
    try:
        packed: bytes = msgpack.packb(value, default=_extend, strict_types=True)
    except UnicodeEncodeError as error:
        raise _no_text(error) from None
    return packed


def _unpacked(data: bytes | memoryview, depth: int) -> Any:
    if depth > _DEEPEST_PAGE + 2:
        raise ValueError(f"a packed value is nested more than {_DEEPEST_PAGE} levels deep")
    hook = functools.partial(_restore, depth)
    return msgpack.unpackb(data, ext_hook=hook, strict_map_key=False)


def _no_text(error: UnicodeEncodeError) -> Unpackable:
    start = max(0, error.start - 10)
    return Unpackable(
        f"text with half of a surrogate pair cannot be kept in a store, got {error.object[start:][:30]!r}; "
        "decode it with errors='replace', or keep bytes"
    )


def _extend(value: Any) -> Any:
    kind = type(value)
    if kind is tuple:
        return msgpack.ExtType(_TUPLE, _packed(list(value)))
    if kind is int:
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if kind is set:
        return msgpack.ExtType(_SET, _packed(list(value)))
    if kind is frozenset:
        return msgpack.ExtType(_FROZENSET, _packed(list(value)))
    if kind is complex:
        return msgpack.ExtType(_COMPLEX, _packed([value.real, value.imag]))
    if kind is np.ndarray and value.dtype.kind in "biufc":
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return msgpack.ExtType(_ARRAY, _packed([little.dtype.str, list(value.shape), little.tobytes()]))
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    raise _unpackable(value)


def _unpackable(value: Any) -> Unpackable:
    return Unpackable(
        f"{value!r} of type {type(value).__name__} cannot be kept in a store; use plain Python values or "
        "NumPy arrays, or give the monoid pack and unpack functions"
    )


def _restore(depth: int, code: int, data: bytes) -> Any:
    if code == _BIG_INT:
        return int.from_bytes(data, "little", signed=True)
    content = _unpacked(data, depth + 1)
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
