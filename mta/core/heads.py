"""Where the windows of a batch's rows start.

Row i is leaf base + i; leaves are given and found by their absolute numbers. Windows start ever later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from mta.core.forest import Forest
from mta.core.limits import Limits, Predicate
from mta.core.stack import Leaves
from mta.core.states import NOTHING, ColumnLayout, Run
from mta.core.tree import Tree
from mta.monoids.base import Array
from mta.times.boundaries import boundaries, steady
from mta.times.cuts import Side, before

#: The first leaf of each of some rows' windows; a range where they follow each other.
Firsts: TypeAlias = Array | range


class Heads(ABC):
    """Rows see elements of before the batch first, and then no more."""

    @abstractmethod
    def seeing(self, tree: Tree) -> int:
        """How many rows hold the youngest element of before."""

    @abstractmethod
    def idle(self, tree: Tree, stop: int) -> int:
        """How many of the first rows hold the oldest element of before, and so all of them."""

    @abstractmethod
    def enter(self, forest: Forest, head: int, row: int) -> int:
        """The first leaf of a row's window, if it is before the batch and not before `head`."""

    @abstractmethod
    def within(self, leaves: Leaves, head: int, row: int, stop: int) -> Firsts:
        """The first leaf of each row's window, for rows from `row` on where it is one of these, or `head`."""

    @abstractmethod
    def in_batch(self, start: int) -> Array:
        """The first row of the window of each row from `start` on, which see nothing of before."""


class LimitHeads(Heads):
    """Under limits on count and time."""

    def __init__(self, limits: Limits, times: Array, base: int) -> None:
        self._count = None if limits.count is None else min(limits.count, 2**62)
        self._times, self._base = times, base
        #: what a leaf's time is compared with: it is kept if > (right) or >= (left)
        self._cuts = limits.cut_columns(times)

    def seeing(self, tree: Tree) -> int:
        return self._rows_that_keep(tree.tail - 1, tree.youngest, 0, len(self._times))

    def idle(self, tree: Tree, stop: int) -> int:
        return self._rows_that_keep(tree.head, tree.oldest, 0, stop)

    def enter(self, forest: Forest, head: int, row: int) -> int:
        if self._count is not None:
            head = max(head, self._base + row + 1 - self._count)
        return max([head, *(forest.first_leaf(head, cut, side) for cut, side in self._cuts_of(row))])

    def within(self, leaves: Leaves, head: int, row: int, stop: int) -> Firsts:
        end = self._rows_that_keep(leaves.stop - 1, leaves.page.times[-1], row, stop)
        firsts = self._among(leaves.page.times, leaves.start, row, end)
        return firsts if firsts[0] >= head else np.maximum(as_column(firsts), head)

    def in_batch(self, start: int) -> Array:
        return as_column(self._among(self._times, self._base, start, len(self._times))) - self._base

    def _rows_that_keep(self, leaf: int, time: Any, start: int, stop: int) -> int:
        """The end of the rows, from `start` on, whose windows hold a leaf with this time."""
        for cuts, side in self._cuts:
            other: Side = "left" if side == "right" else "right"
            stop = start + before(cuts[start:stop], time, other)
        if self._count is not None:
            stop = max(start, min(stop, leaf + self._count - self._base))
        return stop

    def _among(self, times: Array, first: int, start: int, stop: int) -> Firsts:
        """The first leaf of each row's window, where all of them are among leaves from `first` on."""
        following = self._following(times, first, start, stop)
        if following is not None:
            return following
        found = [first + boundaries(times, cuts[start:stop], side) for cuts, side in self._cuts]
        if self._count is not None:
            counted = self._base + 1 - self._count
            found.append(np.maximum(np.arange(start + counted, stop + counted), first))
        return reduce(np.maximum, found) if found else np.full(stop - start, first)

    def _following(self, times: Array, first: int, start: int, stop: int) -> range | None:
        """The same where they follow each other, under one limit."""
        if self._count is not None:
            counted = self._base + 1 - self._count
            alone = not self._cuts and start + counted >= first
            return range(start + counted, stop + counted) if alone else None
        if len(self._cuts) != 1:
            return None
        cuts, side = self._cuts[0]
        found = steady(times, cuts[start:stop], side)
        return None if found is None else range(first + found.start, first + found.stop)

    def _cuts_of(self, row: int) -> list[tuple[Any, Side]]:
        return [(cuts[row : row + 1].tolist()[0], side) for cuts, side in self._cuts]


def as_column(firsts: Firsts) -> Array:
    return np.arange(firsts.start, firsts.stop) if isinstance(firsts, range) else firsts


class PredicateHeads(Heads):
    """Under a predicate that takes columns, and for which elements it has let go may as well be still there.

    So all aggregates begin at one leaf, the oldest when the batch came: that of the window with each row, and
    that of what is older than some leaf. A search for the leaves that stay is a few calls for all rows.
    """

    def __init__(self, layout: ColumnLayout, rejects: Predicate, whole: Any, states: Run) -> None:
        self._layout, self._predicate = layout, rejects
        #: the aggregate of all of before with each row
        self._totals = layout.preceded_by(whole, layout.prefixes(states))
        self._count = layout.length(states)
        #: the aggregate of what is before the head that was found last
        self._gone: Any = NOTHING

    def keep_their_rows(self) -> bool:
        """Whether each row may stay in its own window."""
        return not self._rejected(0, self._count, self._totals).any()

    def seeing(self, tree: Tree) -> int:
        return self._rows_before_rejection(tree.total(), 0, self._count)

    def idle(self, tree: Tree, stop: int) -> int:
        return self._rows_before_rejection(tree.oldest_state(), 0, stop)

    def enter(self, forest: Forest, head: int, row: int) -> int:
        total = self._layout.at(self._totals, row)
        head, self._gone = forest.longest_prefix(
            head, lambda prefix: self._predicate(total, prefix), self._gone
        )
        return head

    def within(self, leaves: Leaves, head: int, row: int, stop: int) -> Array:
        layout = self._layout
        part = leaves.page.cut(layout, head - leaves.start, leaves.stop - leaves.start)
        olds = layout.preceded_by(self._gone, layout.prefixes(part.states(layout)))
        last = layout.length(olds) - 1
        end = max(row + 1, self._rows_before_rejection(layout.at(olds, last), row, stop))
        found = self._search(olds, row, np.full(end - row, last))
        if found[-1]:
            self._gone = layout.at(olds, int(found[-1]) - 1)
        return found + head

    def in_batch(self, start: int) -> Array:
        return self._search(self._totals, start, np.arange(start, self._count))

    def _rejected(self, start: int, stop: int, olds: Run) -> Array:
        """Whether each of some rows lets go of a prefix of its own, or all of them of one."""
        layout, count = self._layout, stop - start
        totals = layout.cut(self._totals, start, stop)
        found = np.asarray(self._predicate(layout.shaped(totals), layout.shaped(olds)))
        if found.shape != (count,):
            raise TypeError(
                f"a predicate that takes columns gives one answer a row: for columns of {count} entries it "
                f"gave {found!r}"
            )
        return found.astype(bool, copy=False)

    def _rows_before_rejection(self, old: Any, start: int, stop: int) -> int:
        """The end of the rows, from `start` on, that keep something of a prefix."""
        rejected = self._rejected(start, stop, self._layout.gather([old]))
        return start + int(rejected.argmax()) if rejected.any() else stop

    def _search(self, olds: Run, start: int, most: Array) -> Array:
        """For each row from `start` on, how many of these prefixes it lets go, at most so many."""
        low, high = np.zeros(len(most), dtype=np.int64), most
        while (low < high).any():
            middle = (low + high) >> 1
            gone = self._rejected(start, start + len(most), self._layout.take(olds, middle))
            low, high = np.where(gone & (low < high), middle + 1, low), np.where(gone, high, middle)
        return np.maximum.accumulate(low)
