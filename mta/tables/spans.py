"""The windows of rows of many keys, as ranges of the rows of each key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

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

    def of_keys(self, first: int, last: int) -> Older:
        """The rows of some of the keys."""
        return Older(self.times, self.starts[first:last], self.lengths[first:last])


#: How far before a row's time a cut is, and the side on which times at the cut are.
Cut: TypeAlias = tuple[float, Side]


def cuts_of(all_limits: Iterable[Limits]) -> list[Cut]:
    """The different cuts of some limits."""
    return list(dict.fromkeys(cut for limits in all_limits for cut in (*limits.spans(), *limits.lags())))


class Groups:
    """New rows of some keys, key by key and in the order of their times, behind older rows."""

    def __init__(
        self, starts: Array, times: Array | None, count: int, older: Sequence[Older], cuts: Sequence[Cut]
    ) -> None:
        """`cuts` are those of all limits that are asked for."""
        self.starts, self.times, self.older, self._cuts = starts, times, older, cuts
        self.lengths = np.diff(starts, append=count)
        #: for each row the first new row of its key
        self.firsts = np.repeat(starts, self.lengths)
        #: the position behind each row, among all rows of its key
        self.tails = np.arange(1, count + 1) - self.firsts
        for each in older:
            self.tails += self.of_rows(each.lengths)

    def of_rows(self, of_keys: Array) -> Array:
        """For each row what its key has."""
        return np.repeat(of_keys, self.lengths)

    def windows(self, limits: Limits) -> tuple[Array, Array]:
        """Where the window of each row begins and ends, as positions among all rows of its key."""
        ends = self.tails
        for lag in limits.lags():
            ends = np.minimum(ends, self._passed[lag])
        heads = np.zeros(len(ends), np.int64)
        for span in limits.spans():
            heads = np.maximum(heads, self._passed[span])
        if limits.count is not None:
            heads = np.maximum(heads, self.tails - min(limits.count, 2**62))
        return np.minimum(heads, ends), ends

    @cached_property
    def _passed(self) -> dict[Cut, Array]:
        """For each cut, how many of the rows of its key are before the cut of each row."""
        times, found = self.times, {}
        if times is None:
            return {}
        for span, side in self._cuts:
            first = np.maximum(since(self.starts, self.lengths, times, span, side), self.firsts)
            found[span, side] = first - self.firsts
        if self._cuts and any(each.lengths.any() for each in self.older):
            order = None if len(self.starts) == 1 else times.argsort(kind="stable")
            for each in self.older:
                for cut, passed in zip(self._cuts, self._search(each, times, order), strict=True):
                    found[cut] += passed
        return found

    def _search(self, older: Older, times: Array, order: Array | None) -> Array:
        """For each cut and row how many of its key's older rows are before, by bisection of all at once."""
        of_older = older.times
        assert of_older is not None
        moments = np.concatenate([_moments(of_older, times, order, *cut) for cut in self._cuts])
        right = np.repeat([side == "right" for _, side in self._cuts], len(times))
        first = np.tile(self.of_rows(older.starts), len(self._cuts))
        low, high = first.copy(), first + np.tile(self.of_rows(older.lengths), len(self._cuts))
        rows = np.flatnonzero(low < high)
        while len(rows):
            middle = (low[rows] + high[rows]) >> 1
            found, wanted = of_older[middle], moments[rows]
            passed = (found < wanted) | (right[rows] & (found == wanted))
            low[rows[passed]] = middle[passed] + 1
            high[rows[~passed]] = middle[~passed]
            rows = rows[low[rows] < high[rows]]
        counts: Array = (low - first).reshape(len(self._cuts), -1)
        return counts


def _moments(older: Array, times: Array, order: Array | None, span: float, side: Side) -> Array:
    """The cut of each row, as a number that compares with older times. `order` is that of the times."""
    ordered = times if order is None else times[order]
    moments = comparable_column(older, cuts(ordered, span, side), side)
    if order is None:
        return moments
    found = np.empty_like(moments)
    found[order] = moments
    return found
