"""The windows of rows of many keys, as ranges of the rows of each key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mta.frames.limits import Limits
from mta.keyed.folds import since
from mta.kinds import Array
from mta.times.cuts import Side, comparable_column, cuts


class Older(NamedTuple):
    """Rows of some keys that came before: where those of each key begin, and how many there are."""

    times: Array | None
    starts: Array
    lengths: Array


class Groups:
    """New rows of some keys, key by key and in the order of their times, behind older rows."""

    def __init__(self, starts: Array, times: Array | None, count: int, older: Sequence[Older]) -> None:
        self.starts, self.times, self.older = starts, times, older
        self.lengths = np.diff(starts, append=count)
        #: for each row the first new row of its key
        self.firsts = np.repeat(starts, self.lengths)
        #: for each key the number of its older rows
        self.before = np.zeros(len(starts), np.int64)
        for each in older:
            self.before += each.lengths
        #: the position behind each row, among all rows of its key
        self.tails = np.arange(1, count + 1) - self.firsts + self.of_rows(self.before)
        self._order: Array | None = None

    def of_rows(self, of_keys: Array) -> Array:
        """For each row what its key has."""
        return np.repeat(of_keys, self.lengths)

    def windows(self, limits: Limits) -> tuple[Array, Array]:
        """Where the window of each row begins and ends, as positions among all rows of its key."""
        ends = self.tails
        for lag, side in limits.lags():
            ends = np.minimum(ends, self._passed(lag, side))
        heads = np.zeros(len(ends), np.int64)
        for span, side in limits.spans():
            heads = np.maximum(heads, self._passed(span, side))
        if limits.count is not None:
            heads = np.maximum(heads, self.tails - min(limits.count, 2**62))
        return np.minimum(heads, ends), ends

    def _passed(self, span: float, side: Side) -> Array:
        """How many of the rows of its key are before a row's cut."""
        times = self.times
        assert times is not None
        found: Array = np.maximum(since(self.starts, self.lengths, times, span, side), self.firsts)
        found = found - self.firsts
        for each in self.older:
            assert each.times is not None
            of_older = each.times

            def moments(sorted_times: Array, of_older: Array = of_older) -> Array:
                return comparable_column(of_older, cuts(sorted_times, span, side), side)

            found += self._search(each, self._in_order(moments), side)
        return found

    def _in_order(self, change: Callable[[Array], Array]) -> Array:
        """What a function of times that never go backwards makes of all times."""
        times = self.times
        assert times is not None
        if len(self.starts) == 1:
            return change(times)
        if self._order is None:
            self._order = times.argsort(kind="stable")
        changed = change(times[self._order])
        found = np.empty_like(changed)
        found[self._order] = changed
        return found

    def _search(self, older: Older, moments: Array, side: Side) -> Array:
        """For each row how many of its key's older rows are before a moment, by bisection of all at once."""
        times = older.times
        assert times is not None
        first = self.of_rows(older.starts)
        low, high = first.copy(), first + self.of_rows(older.lengths)
        rows = np.flatnonzero(low < high)
        while len(rows):
            middle = (low[rows] + high[rows]) >> 1
            passed = times[middle] <= moments[rows] if side == "right" else times[middle] < moments[rows]
            low[rows[passed]] = middle[passed] + 1
            high[rows[~passed]] = middle[~passed]
            rows = rows[low[rows] < high[rows]]
        return low - first
