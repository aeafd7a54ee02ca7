"""Columns of whole numbers that may exceed 64 bits, with two words an entry. NumPy adds them, not Python.

Sums of whole numbers are exact. Their elements have 64 bits, so 128 bits are enough for any number of them. A
column has one word an entry if all its entries fit. Entries of more than 128 bits are Python objects; only a
page that this library did not write can have them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mta.kinds import Array

#: An entry is high * 2^64 + low.
WIDE = np.dtype([("high", np.int64), ("low", np.uint64)])

_HALF = np.int64(32)
_LOW_HALF = 2**32 - 1
_LOW_WORD = 2**64 - 1
_WORD = 2**63

#: Floats hold all whole numbers up to this one.
_EXACT = 2**53

#: A mean of whole numbers is rounded as in Python if it has fewer elements than this.
_MOST = 2**26

#: Entries that are divided together, so that intermediate columns fit in a cache of the processor.
_BLOCK = 2**12

#: The lowest bits of a number of 64 bits: a float holds the number without them.
_FEW = np.uint64(2**11 - 1)


def is_wide(column: Array) -> bool:
    return column.dtype == WIDE


def widened(column: Array) -> Array | None:
    """A column of whole numbers in two words; None if it has other entries or more bits."""
    if column.dtype.kind == "i":
        return _pair(column >> 63, column.view(np.uint64))
    if column.dtype != object:
        return column if is_wide(column) else None
    values = column.tolist()
    if not set(map(type, values)) <= {int}:
        return None
    try:
        high = np.fromiter((value >> 64 for value in values), dtype=np.int64, count=len(values))
    except OverflowError:
        return None
    low = np.fromiter((value & _LOW_WORD for value in values), dtype=np.uint64, count=len(values))
    return _pair(high, low)


def narrowed(column: Array) -> Array:
    """A column of two words as one word if all entries fit; else the same column."""
    high, low = column["high"], column["low"].view(np.int64)
    if len(column) and high[-1] != low[-1] >> 63:  # if an entry does not fit, the last one mostly does not
        return column
    return low.copy() if bool((high == low >> 63).all()) else column


def plain_list(column: Array) -> list[Any]:
    """A column as a list of plain values."""
    if not is_wide(column):
        return column.tolist()  # type: ignore[no-any-return]
    return [(high << 64) | low for high, low in column.tolist()]


def as_objects(column: Array) -> Array:
    """A column of objects with the same values."""
    if not is_wide(column):
        return column.astype(object, copy=False)
    return np.fromiter(plain_list(column), dtype=object, count=len(column))


def is_large(column: Array) -> bool:
    """Whether a difference of two entries may leave 64 bits."""
    column = narrowed(column) if is_wide(column) else column
    return is_wide(column) or (column.dtype.kind == "i" and reach(column) >= _WORD // 2)


def subtractable(column: Array) -> Array:
    """The same values in a column whose differences are exact: of objects if one may leave 64 bits."""
    return as_objects(column) if is_large(column) else column


class Words:
    """A column of two words that can be compared with a number."""

    __slots__ = ("_column",)

    dtype = None

    def __init__(self, column: Array) -> None:
        self._column = column

    def __ge__(self, least: float) -> Array:
        """Whether each entry is at least a finite number, as a column of bools."""
        least = math.ceil(least)
        high, low = least >> 64, np.uint64(least & _LOW_WORD)
        if not -_WORD <= high < _WORD:
            return np.full(len(self._column), high < 0)
        found: Array = self._column["high"] > high
        found |= (self._column["high"] == high) & (self._column["low"] >= low)
        return found


def reach(column: Array) -> int:
    """The greatest absolute value."""
    return max(int(column.max()), -int(column.min())) if len(column) else 0


def added(older: Array, younger: Array) -> Array:
    """The sums of two columns of one or two words, entry by entry. One of them may have a single entry."""
    if older.dtype.kind == younger.dtype.kind == "i":
        sums = older + younger
        if not _wrapped(older, younger, sums).any():
            return sums
    a, b = _in_two_words(older), _in_two_words(younger)
    if reach(a["high"]) + reach(b["high"]) >= _WORD - 1:
        return as_objects(older) + as_objects(younger)
    low = a["low"] + b["low"]
    high = a["high"] + b["high"]
    high += low < b["low"]
    return narrowed(_pair(high, low))


def running(column: Array) -> Array:
    """The running sums of a column of one or two words, which is not empty."""
    if column.dtype.kind == "i":
        sums = np.add.accumulate(column)
        if not _wrapped(sums[:-1], column[1:], sums[1:]).any():
            return sums
    wide = _in_two_words(column)
    if (reach(wide["high"]) + 1) * len(wide) >= _WORD:
        return np.add.accumulate(as_objects(column), dtype=object)
    low = np.add.accumulate(wide["low"])
    high = wide["high"].copy()
    high[1:] += low[1:] < wide["low"][1:]
    return narrowed(_pair(np.add.accumulate(high, out=high), low))


def total(column: Array) -> int:
    """The sum of a column of one or two words."""
    if is_wide(column):
        return (total(column["high"]) << 64) + _sum_of_halves(column["low"], np.uint64(32))
    return _sum_of_halves(column, _HALF)


def ratios(totals: Array, counts: Array) -> Array:
    """Totals divided by counts, each rounded once, as in Python."""
    if totals.dtype.kind == "f" or (totals.dtype.kind == "i" and reach(totals) <= _EXACT):
        return np.asarray(totals / counts, dtype=np.float64)
    wide = widened(totals)
    if wide is None:
        return np.asarray(totals / counts, dtype=np.float64)
    means = np.empty(len(wide), dtype=np.float64)
    for start in range(0, len(wide), _BLOCK):
        block = slice(start, start + _BLOCK)
        means[block] = _block_of_ratios(wide[block], counts[block])
    return means


def _block_of_ratios(totals: Array, counts: Array) -> Array:
    if int(counts.min()) > 0 and int(counts.max()) < _MOST:
        negative = totals["high"] < 0
        low = np.where(negative, ~totals["low"] + np.uint64(1), totals["low"])
        high = np.where(negative, ~totals["high"] + (low == 0), totals["high"])
        if bool((high >= 0).all()) and bool((high < counts).all()):
            means = _divided(high.view(np.uint64), low, counts.astype(np.uint64))
            return np.where(negative, -means, means)
    return np.asarray(as_objects(totals) / counts, dtype=np.float64)


def _divided(high: Array, low: Array, counts: Array) -> Array:
    """(high * 2^64 + low) / counts. The counts are greater than `high` and less than `_MOST`."""
    upper = (high << np.uint64(32)) | (low >> np.uint64(32))
    first = upper // counts
    lower = ((upper - first * counts) << np.uint64(32)) | (low & np.uint64(_LOW_HALF))
    second = lower // counts
    part = (lower - second * counts) / counts
    whole = (first << np.uint64(32)) | second
    # Each result is rounded once: by the division if the total fits in a float. Otherwise the last addition
    # rounds: it adds the bits of the quotient that a float of this size does not hold, and the fraction.
    small = (high == 0) & (low <= np.uint64(_EXACT))
    few = whole & _FEW
    large = (whole - few).astype(np.float64) + (few.astype(np.float64) + part)
    means = np.where(whole < np.uint64(_EXACT), whole.astype(np.float64) + part, large)
    return np.where(small, low.astype(np.float64) / counts, means)


def _in_two_words(column: Array) -> Array:
    wide = widened(column)
    assert wide is not None
    return wide


def _pair(high: Array, low: Array) -> Array:
    column = np.empty(len(low), dtype=WIDE)
    column["high"], column["low"] = high, low
    return column


def _wrapped(older: Array, younger: Array, sums: Array) -> Array:
    """Whether each sum wrapped around: then its sign is not the sign of either argument."""
    found: Array = ((older ^ sums) & (younger ^ sums)) < 0
    return found


def _sum_of_halves(column: Array, half: np.int64 | np.uint64) -> int:
    return (int((column >> half).sum()) << 32) + int((column & type(half)(_LOW_HALF)).sum())
