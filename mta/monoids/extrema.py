"""Monoids that say how often, or with what, an extremum occurs: MinCount, MaxCount, ArgMin, ArgMax."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.monoids.base import Array, ColumnarMonoid, Columns, aligned, number, numeric_column
from mta.monoids.values import own, plain, plain_column


class MaxCount(ColumnarMonoid):
    """How often the greatest element occurs; 0 of nothing. A state is (maximum, count)."""

    identity = (None, 0)
    width = 2
    extreme: np.ufunc = np.maximum

    def lift_row(self, row: Any) -> Any:
        return (row, 1)

    def combine(self, older: Any, younger: Any) -> Any:
        if not older[1] or not younger[1]:
            return younger if not older[1] else older
        if older[0] == younger[0]:
            return (older[0], older[1] + younger[1])
        return older if older[0] > younger[0] else younger

    def lower(self, state: Any) -> Any:
        return state[1]

    def lift_columns(self, inputs: Columns) -> Columns:
        return (inputs[0], np.ones(len(inputs[0]), dtype=np.int64))

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        older, younger = aligned(older, younger)
        best = self.extreme(older[0], younger[0])
        count = older[1] * (older[0] == best)
        count += younger[1] * (younger[0] == best)
        return (best, count)

    def lower_columns(self, states: Columns) -> Any:
        return states[1]

    def prefix_columns(self, states: Columns) -> Columns:
        best = self.extreme.accumulate(states[0])
        seen = np.add.accumulate((states[0] == best) * states[1])
        before = np.zeros_like(seen)
        records = best[1:] != best[:-1]
        before[1:] = seen[:-1] * records
        return (best, seen - np.maximum.accumulate(before))

    def suffix_columns(self, states: Columns) -> Columns:
        scanned = self.prefix_columns(tuple(column[::-1] for column in states))
        return tuple(column[::-1] for column in scanned)


class MinCount(MaxCount):
    """How often the least element occurs; 0 of nothing. A state is (minimum, count)."""

    extreme = np.minimum

    def combine(self, older: Any, younger: Any) -> Any:
        if not older[1] or not younger[1]:
            return younger if not older[1] else older
        if older[0] == younger[0]:
            return (older[0], older[1] + younger[1])
        return older if older[0] < younger[0] else younger


class ArgMax(ColumnarMonoid):
    """The argument of the greatest value, the oldest where several tie; None of nothing.

    An element is a pair (value, argument), or a mapping: `ArgMax("amount", "user")`. An argument may be
    anything but a missing value. A state is (maximum, argument).
    """

    identity = (None, None)
    arity = 2
    width = 2
    extreme: np.ufunc = np.maximum

    def check_row(self, row: Any) -> Any:
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise TypeError(f"{self!r} takes a pair (value, argument), got {row!r}")
        return (number(row[0], self), plain(row[1], self))

    def check_columns(self, inputs: Columns) -> Columns:
        return (numeric_column(inputs[0], self), plain_column(inputs[1], self))

    def combine(self, older: Any, younger: Any) -> Any:
        if younger[0] is None:
            return older
        return younger if older[0] is None or younger[0] > older[0] else older

    def lower(self, state: Any) -> Any:
        return own(state[1])

    def lift_columns(self, inputs: Columns) -> Columns:
        return inputs

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        older, younger = aligned(older, younger)
        best = self.extreme(older[0], younger[0])
        return (best, np.where(older[0] == best, older[1], younger[1]))

    def lower_columns(self, states: Columns) -> Any:
        return states[1]

    def prefix_columns(self, states: Columns) -> Columns:
        best = self.extreme.accumulate(states[0])
        records = np.ones(len(best), dtype=bool)
        np.not_equal(best[1:], best[:-1], out=records[1:])
        return (best, _last_marked(states[1], records))

    def suffix_columns(self, states: Columns) -> Columns:
        values, arguments = (column[::-1] for column in states)
        best = self.extreme.accumulate(values)
        return (best[::-1], _last_marked(arguments, values == best)[::-1])

    def fold_columns(self, states: Columns) -> Columns:
        values = states[0]
        index = int(values.argmax() if self.extreme is np.maximum else values.argmin())
        return tuple(column[index : index + 1] for column in states)


class ArgMin(ArgMax):
    """The argument of the least value, the oldest where several tie; None of nothing."""

    extreme = np.minimum

    def combine(self, older: Any, younger: Any) -> Any:
        if younger[0] is None:
            return older
        return younger if older[0] is None or younger[0] < older[0] else older


def _last_marked(column: Array, marks: Array) -> Array:
    """Entry i is the entry at the last mark up to i; the first entry is marked."""
    length = len(column)
    places = np.flatnonzero(marks)
    if 4 * len(places) < length:
        return np.repeat(column[places], np.diff(places, append=length))
    indices = np.arange(length)
    indices *= marks
    return column.take(np.maximum.accumulate(indices, out=indices))
