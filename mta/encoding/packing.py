"""Serializes plain Python values as msgpack, with extensions for types that msgpack has not.

Never pickle: data from a store must not be able to run code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import msgpack
import numpy as np

from mta.encoding.untrusted import Malformed, shown
from mta.kinds import Array, Packed

_TUPLE, _BIG_INT, _SET, _FROZENSET, _ARRAY, _COMPLEX = range(1, 7)
_COLLECTIONS: dict[type, int] = {tuple: _TUPLE, set: _SET, frozenset: _FROZENSET}

#: How deep tuples, sets and arrays may nest in data that is read: deeper than in data that is written.
DECODED = 66

#: Shorter data cannot ask for much memory.
HARMLESS = 1 << 10

#: How deep a value may nest. The decoder calls itself for each tuple, set or array in another one. Lists and
#: dicts count too, which makes the rule simple.
DEEPEST = 48

#: How many of these calls may have their state of some 25 KB on the thread's stack. The others use the heap.
ON_THE_STACK = 4

#: Pages and states add a few levels to their elements.
_DEEPEST_PAGE = DEEPEST + 16

#: the types of the arrays that are written
_OF_NUMBERS = re.compile("[<|][biufc][0-9]{1,2}")

_NESTS = frozenset({list, tuple, dict, set, frozenset})


class Unpackable(TypeError, ValueError):
    """A value that a store cannot hold."""


def pack(value: Packed) -> bytes:
    """Serializes a value. Raises Unpackable for other types and for deep nesting.

    A value consists of None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, and
    arrays of numbers. Tuples stay tuples, and ints may have any size.
    """
    if isinstance(value, (bytearray, memoryview)):
        raise _unpackable(value)
    _check_depth(value, DEEPEST)
    return _packed(value)


def pack_entries(entries: list[Packed]) -> bytes:
    """Serializes the elements or the states of a page, each of which `pack` accepts. Raises Unpackable."""
    _check_depth(entries, _DEEPEST_PAGE)
    return _packed(entries)


def unpack(data: bytes | memoryview) -> Packed:
    """The reverse of `pack`. Raises Malformed for data that `pack` does not make."""
    return _unpacked(data, 0)


def first_length(data: bytes | memoryview) -> int:
    """The number of bytes of the first value in the data, found without decoding it. Raises Malformed.

    Decoding allocates a list by the length that its first bytes claim, before it reads the items.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=len(data))
    unpacker.feed(data)
    try:
        unpacker.skip()
    except (ValueError, msgpack.UnpackException) as error:
        raise Malformed(f"no packed value: {error}") from None
    return int(unpacker.tell())


def _unpacked(data: bytes | memoryview, depth: int) -> Packed:
    if depth > DECODED:
        raise Malformed(f"values are more than {DECODED} deep inside each other")
    if len(data) > HARMLESS and first_length(data) != len(data):
        raise Malformed("more than one packed value")
    try:
        if depth < ON_THE_STACK:
            return msgpack.unpackb(data, ext_hook=_HOOKS[depth], strict_map_key=False)
        return _unpacked_on_the_heap(data, _HOOKS[depth])
    except Malformed:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise Malformed(f"no packed value: {error}") from None


def _unpacked_on_the_heap(data: bytes | memoryview, hook: Callable[[int, bytes], Packed]) -> Packed:
    """The same as `msgpack.unpackb`, which is faster but needs the stack for its state."""
    unpacker = msgpack.Unpacker(max_buffer_size=max(1, len(data)), ext_hook=hook, strict_map_key=False)
    unpacker.feed(data)
    value = unpacker.unpack()
    if unpacker.tell() != len(data):
        raise Malformed("more than one packed value")
    return value


def check_text(text: str) -> None:
    """Raises Unpackable for a text with half of a surrogate pair, which no encoding of Unicode has."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _no_text(error) from None


def _check_depth(value: Packed, deepest: int) -> None:
    """Raises Unpackable for a value that nests deeper than `deepest`."""
    level, depth = [value], 0
    while not _NESTS.isdisjoint(map(type, level)):
        level = [each for each in level if type(each) in _NESTS]
        depth += 1
        if depth > deepest:
            raise Unpackable(
                f"a value that is nested more than {deepest} levels deep cannot be kept in a store; make it "
                "flat, or give the monoid pack and unpack functions"
            )
        inner: list[Packed] = []
        for each in level:
            inner += each
            if type(each) is dict:
                inner += each.values()
        level = inner


def _packed(value: Packed) -> bytes:
    try:
        packed: bytes = msgpack.packb(value, default=_extend, strict_types=True)
    except UnicodeEncodeError as error:
        raise _no_text(error) from None
    return packed


def _no_text(error: UnicodeEncodeError) -> Unpackable:
    start = max(0, error.start - 10)
    return Unpackable(
        f"text with half of a surrogate pair cannot be kept in a store, got {error.object[start:][:30]!r}; "
        "decode it with errors='replace', or keep bytes"
    )


def _extend(value: Packed) -> Any:
    """The msgpack extension of a value whose type msgpack does not have."""
    kind = type(value)
    if kind in _COLLECTIONS:
        return msgpack.ExtType(_COLLECTIONS[kind], _packed(list(value)))
    if kind is int:
        return msgpack.ExtType(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if kind is complex:
        return msgpack.ExtType(_COMPLEX, _packed([value.real, value.imag]))
    if kind is np.ndarray and value.dtype.kind in "biufc":
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return msgpack.ExtType(_ARRAY, _packed([little.dtype.str, list(value.shape), little.tobytes()]))
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    raise _unpackable(value)


def _unpackable(value: object) -> Unpackable:
    return Unpackable(
        f"{value!r} of type {type(value).__name__} cannot be kept in a store; use plain Python values or "
        "NumPy arrays, or give the monoid pack and unpack functions"
    )


def _restore(depth: int, code: int, data: bytes) -> Packed:
    """The reverse of `_extend`, at a depth. Raises Malformed."""
    if code == _BIG_INT:
        return int.from_bytes(data, "little", signed=True)
    if not _TUPLE <= code <= _COMPLEX:
        raise Malformed(f"unknown extension type {code} in a packed value")
    content = _unpacked(data, depth + 1)
    if type(content) is not list:
        raise Malformed(f"extension type {code} of a {type(content).__name__}")
    if code == _TUPLE:
        return tuple(content)
    if code in (_SET, _FROZENSET):
        return set(content) if code == _SET else frozenset(content)
    if code == _COMPLEX:
        real, imaginary = content
        return complex(real, imaginary)
    return _array(*content)


def _array(dtype: Any, shape: Any, raw: Any) -> Array:
    # NumPy evaluates some texts as Python, so it gets none but these
    kind = np.dtype(dtype) if isinstance(dtype, str) and _OF_NUMBERS.fullmatch(dtype) else None
    if kind is None or type(shape) is not list or type(raw) is not bytes:
        raise Malformed("an array of no numbers")
    if any(type(length) is not int or length < 0 for length in shape):
        raise Malformed(f"an array of shape {shown(shape)}")
    return np.frombuffer(raw, dtype=kind).reshape(shape)


_HOOKS = [partial(_restore, depth) for depth in range(DECODED + 1)]
