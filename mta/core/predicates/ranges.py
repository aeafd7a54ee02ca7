"""Aggregates of ranges of a run, for a predicate."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mta.core.states import ColumnLayout, Run
from mta.monoids.base import Array, joined
from mta.numbers.wide import is_large, subtractable

#: A sum of real numbers, which have 53 bits, is too large if it is more than this many typical elements.
LARGE = 2.0**28


class Stretches(Protocol):
    def of(self, first: Array, last: Array) -> Run:
        """The aggregates of the ranges from each of some entries to another, both included.

        Aggregates may begin before their first entry, but all with one first entry begin at the same entry.
        A difference of two such aggregates of whole numbers is exact.
        """


def stretches(layout: ColumnLayout, states: Run, window: int) -> Stretches:
    """The cheapest form in which no element is rounded away. `window` entries are in the window as it is."""
    prefixes = layout.prefixes(states)
    large = [column for column in prefixes if is_large(column)]
    if large:  # sums of all entries are, but those of a window may be smaller
        kept = window and any(is_large(column[window - 1 : window]) for column in large)
        return Prefixes(layout, prefixes) if kept else Ranges(layout, states)
    if any(column.dtype.kind == "f" for column in prefixes):
        twice = layout.combine(states, states)
        if any(map(_outweighed, prefixes, states, twice)):
            return Ranges(layout, states)
    return Prefixes(layout, prefixes)


def _outweighed(totals: Array, states: Array, twice: Array) -> bool:
    """Whether some totals are sums of real numbers so large that elements are rounded away.

    `twice` has each state combined with itself: that changes a sum, and does not change an extremum.
    """
    if totals.dtype.kind != "f":
        return False
    added = states[(states != 0) & (twice != states)]
    return bool(len(added)) and not float(np.abs(totals).max()) <= LARGE * float(np.median(np.abs(added)))


class Prefixes:
    """Every aggregate begins at the first entry of the run: the predicate does not mind entries that left."""

    def __init__(self, layout: ColumnLayout, prefixes: Run) -> None:
        self._layout, self._prefixes = layout, tuple(map(subtractable, prefixes))

    def of(self, first: Array, last: Array) -> Run:  # noqa: ARG002
        return self._layout.take(self._prefixes, last)


class Ranges:
    """Every aggregate begins at its first entry: a disjoint sparse table, where two entries make any range.

    Level j cuts the run into blocks of 2^(j + 1) entries. An entry in the older half of its block aggregates
    from itself to the middle, an entry in the younger half from the middle to itself. The two ends of a range
    are in the two halves of one block, on the level of the highest bit in which the ends differ. An aggregate
    is the result of O(log n) combines of its own entries, so no element is rounded away beside others.
    """

    def __init__(self, layout: ColumnLayout, states: Run) -> None:
        self._layout, self._count = layout, layout.length(states)
        levels: list[Run] = []
        at = np.arange(self._count)
        prefixes = suffixes = states
        half = 1
        while True:
            younger = (at & half) != 0
            levels.append(layout.choose(younger, prefixes, suffixes))
            if 2 * half >= self._count:
                break
            begin = at & -half
            rows = at[younger]
            ends = layout.take(prefixes, begin[rows] - 1)
            prefixes = layout.put(prefixes, rows, layout.combine(ends, layout.take(prefixes, rows)))
            # the last block may have no younger half: then no range begins in it and ends behind it
            rows = at[~younger & (begin + 2 * half <= self._count)]
            others = layout.take(suffixes, begin[rows] + half)
            suffixes = layout.put(suffixes, rows, layout.combine(layout.take(suffixes, rows), others))
            half *= 2
        self._levels = tuple(joined(columns) for columns in zip(*levels, strict=True))

    def of(self, first: Array, last: Array) -> Run:
        """The aggregates from each of some entries to another, both included."""
        layout = self._layout
        _, bits = np.frexp((first ^ last).astype(np.float64))
        level = (np.maximum(bits, 1) - 1) * self._count
        found = layout.take(self._levels, level + first)
        alone = first == last
        if not alone.all():
            both = layout.combine(found, layout.take(self._levels, level + last))
            found = layout.choose(alone, found, both) if alone.any() else both
        return tuple(map(subtractable, found))
