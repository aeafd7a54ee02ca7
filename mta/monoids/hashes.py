"""Hashes of 64 bits, the same in every process and for equal values: 1, 1.0 and True have one hash.

Columns of numbers are hashed by array arithmetic; text, bytes and all else one by one, by xxHash.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from itertools import repeat

import numpy as np
import xxhash

from mta.kinds import Array, Value
from mta.monoids.values import canonical

_ALL = (1 << 64) - 1
_WORD = 2**63

#: SplitMix64: an increment, and two factors
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

#: sets fractions apart from the whole numbers with the same bits
_FRACTION = 0xD1B54A32D192ED03

#: seeds that set text, bytes, and other values apart
_TEXT, _BYTES, _OTHER = 1, 2, 3


def hash_of(value: Value, monoid: object) -> int:
    """The hash of a value: of str, bytes, a number or a tuple of them. Raises TypeError for other types."""
    if isinstance(value, str):
        return xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass"), _TEXT)
    if isinstance(value, float):
        if not value.is_integer():
            return _mixed(_mixed(_bits(value)) ^ _FRACTION)
        value = int(value)
    if isinstance(value, int) and -_WORD <= value < _WORD:
        return _mixed(value & _ALL)
    if isinstance(value, bytes):
        return xxhash.xxh3_64_intdigest(value, _BYTES)
    return xxhash.xxh3_64_intdigest(canonical(value, monoid), _OTHER)


def hashes_of(column: Array, monoid: object) -> Array:
    """The hash of each value of a column, as unsigned numbers. Raises TypeError for other types."""
    if column.dtype.kind == "i":
        return _mixed_columns(column.view(np.uint64))
    if column.dtype.kind != "f":
        values = column.tolist()
        hashed: Iterable[int] = (hash_of(value, monoid) for value in values)
        if set(map(type, values)) == {str}:
            encoded = (value.encode("utf-8", "surrogatepass") for value in values)
            hashed = map(xxhash.xxh3_64_intdigest, encoded, repeat(_TEXT))
        return np.fromiter(hashed, dtype=np.uint64, count=len(values))
    bits = np.where(np.isnan(column), math.nan, column).view(np.uint64)
    mixed = _mixed_columns(_mixed_columns(bits) ^ np.uint64(_FRACTION))
    finite = np.isfinite(column)
    whole = finite & (column == np.floor(column))
    small = whole & (column >= -_WORD) & (column < _WORD)
    mixed[small] = _mixed_columns(column[small].astype(np.int64).view(np.uint64))
    for row in np.flatnonzero(whole & ~small).tolist():
        mixed[row] = hash_of(float(column[row]), monoid)
    return mixed


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", math.nan if value != value else value), "little")


def _mixed(bits: int) -> int:
    """The function of SplitMix64, which gives different numbers different hashes."""
    bits = bits + _STEP & _ALL
    bits = (bits ^ bits >> 30) * _FIRST & _ALL
    bits = (bits ^ bits >> 27) * _SECOND & _ALL
    return bits ^ bits >> 31


def _mixed_columns(bits: Array) -> Array:
    """The same for a column."""
    bits = bits + np.uint64(_STEP)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(_FIRST)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(_SECOND)
    bits ^= bits >> np.uint64(31)
    return bits
