"""Where the windows of a batch's rows start.

Row i is leaf base + i; leaves are given and found by their absolute numbers. Windows start ever later.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from mta.core.forest import Forest
from mta.core.limits import Limits, OfRest, Predicate
from mta.core.stack import Leaves
from mta.core.states import NOTHING, ColumnLayout, Run
from mta.core.tree import Tree
from mta.monoids.base import Array
from mta.monoids.ufuncs import quiet
from mta.numbers.wide import is_wide
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
    def within(self, leaves: Leaves, between: Any, head: int, row: int, stop: int) -> Firsts:
        """The first leaf of each row's window, for rows from `row` on where it is one of these, or `head`.

        `between` is the aggregate from the stack's boundary to the batch.
        """

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

    def within(self, leaves: Leaves, between: Any, head: int, row: int, stop: int) -> Firsts:  # noqa: ARG002
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


class NotInColumns(Exception):
    """Rows have to be asked for one by one, or at least fewer at once."""


class _ColumnHeads(Heads):
    """Under a predicate that takes columns."""

    def __init__(self, layout: ColumnLayout, states: Run) -> None:
        self._layout, self._states, self._count = layout, states, layout.length(states)

    def _answers(self, predicate: Callable[..., Any], count: int, *runs: Run) -> Array:
        """What a predicate says of each of some rows, of runs of so many states or of one."""
        with quiet():
            found = np.asarray(predicate(*(self._layout.shaped(_read_only(run)) for run in runs)))
        if found.shape != (count,):
            raise TypeError(
                f"a predicate that takes columns gives one answer a row: for columns of {count} entries it "
                f"gave {found!r}"
            )
        return found.astype(bool, copy=False)


def _read_only(run: Run) -> Run:
    """Views that a function of the user's cannot change, of what pages and stacks share."""
    views = tuple(column.view() for column in run)
    for view in views:
        view.flags.writeable = False
    return views


class RestHeads(_ColumnHeads):
    """Under a predicate over the rest, of which each row adds up nothing but what stays.

    Before the batch that is a suffix of a page, what is between the page and the batch, and the rows so far;
    among the rows themselves it is put together of blocks of 2^k rows, greedily.
    """

    def __init__(self, layout: ColumnLayout, predicate: OfRest, states: Run) -> None:
        super().__init__(layout, states)
        self._predicate = predicate
        #: the aggregate of the batch up to each row
        self._so_far = layout.prefixes(states)

    def seeing(self, tree: Tree) -> int:  # noqa: ARG002
        return _first_true(self._enough(self._so_far), self._count)

    def idle(self, tree: Tree, stop: int) -> int:
        rest = tree.forest.fold_nodes(tree.head + 1, tree.tail)
        return _first_true(self._enough(self._followed(rest, 0, stop)), stop)

    def enter(self, forest: Forest, head: int, row: int) -> int:
        so_far = self._layout.at(self._so_far, row)
        return min(forest.shortest_suffix(head, so_far, self._predicate.enough), forest.tail - 1)

    def within(self, leaves: Leaves, between: Any, head: int, row: int, stop: int) -> Firsts:
        layout = self._layout
        younger = self._followed(layout.join(leaves.rest, between), row, stop)
        rows = max(1, _first_true(self._enough(younger), stop - row))
        behind = self._followed(between, row, row + rows)
        suffixes = layout.cut(leaves.suffixes(layout), head - leaves.start, leaves.stop - leaves.start)
        low = np.zeros(rows, dtype=np.int64)
        high = np.full(rows, layout.length(suffixes) - 1)
        while (low < high).any():
            middle = (low + high + 1) >> 1
            gone = self._enough(layout.combine(layout.take(suffixes, middle), behind))
            low, high = np.where(gone, middle, low), np.where(gone | (low == high), high, middle - 1)
        return np.maximum.accumulate(low) + head

    def in_batch(self, start: int) -> Array:
        layout, count = self._layout, self._count
        blocks = [self._states]
        while 1 << len(blocks) <= count and not self._enough(blocks[-1]).all():
            half, length = 1 << (len(blocks) - 1), layout.length(blocks[-1])
            blocks.append(
                layout.combine(layout.cut(blocks[-1], 0, length - half), layout.cut(blocks[-1], half, length))
            )
        # the leaf that the rest of each row begins at so far, and the rest, which is not enough
        first, rest = np.arange(start, count), layout.cut(self._states, start, count)
        alone = self._enough(rest)
        for level in reversed(range(len(blocks))):
            older = first - (1 << level)
            wider = layout.combine(layout.take(blocks[level], np.maximum(older, 0)), rest)
            wanted = ~alone & (older >= 0) & ~self._enough(wider)
            first, rest = np.where(wanted, older, first), layout.choose(wanted, wider, rest)
        return np.maximum.accumulate(np.maximum(np.where(alone, first, first - 1), 0))

    def _followed(self, older: Any, start: int, stop: int) -> Run:
        """An aggregate with the rows behind it, up to each of some."""
        return self._layout.preceded_by(older, self._layout.cut(self._so_far, start, stop))

    def _enough(self, rests: Run) -> Array:
        return self._answers(self._predicate.enough, self._layout.length(rests), rests)


def _first_true(answers: Array, stop: int) -> int:
    return int(answers.argmax()) if answers.any() else stop


#: Sums in which this many typical elements would be lost beside one: of real numbers, which have 53 bits.
LARGE = 2.0**28


class PredicateHeads(_ColumnHeads):
    """Under a predicate for which elements it has let go may as well be still there.

    So all aggregates begin at one leaf, the oldest when the batch came: that of the window with each row, and
    that of what is older than some leaf. A search for the leaves that stay is a few calls for all rows.
    """

    def __init__(self, layout: ColumnLayout, rejects: Predicate, whole: Any, states: Run) -> None:
        super().__init__(layout, states)
        self._predicate = rejects
        #: the aggregate of all of before with each row
        self._totals = layout.preceded_by(whole, layout.prefixes(states))
        #: the aggregate of what is before the head that was found last
        self._gone: Any = NOTHING

    def check(self) -> None:
        """Refuses rows of which one may not stay in its own window, and sums that one element outweighs."""
        if self._rejected(0, self._count, self._totals).any():
            raise NotInColumns
        if any(column.dtype.kind == "f" for column in self._totals):
            twice = self._layout.combine(self._states, self._states)
            for columns in zip(self._totals, self._states, twice, strict=True):
                if _outweighed(*columns):
                    raise NotInColumns

    def seeing(self, tree: Tree) -> int:
        return self._rows_before_rejection(tree.total(), 0, self._count)

    def idle(self, tree: Tree, stop: int) -> int:
        return self._rows_before_rejection(tree.oldest_state(), 0, stop)

    def enter(self, forest: Forest, head: int, row: int) -> int:
        layout, total = self._layout, self._layout.at(self._totals, row)
        first, gone = forest.longest_prefix(head, lambda prefix: self._predicate(total, prefix), self._gone)
        if first == forest.tail:  # `seeing` has said that it stays, of a sum that was rounded otherwise
            first -= 1
            gone = layout.join(self._gone, forest.fold(head, first))
        self._gone = gone
        return first

    def within(self, leaves: Leaves, between: Any, head: int, row: int, stop: int) -> Array:  # noqa: ARG002
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
        totals = self._layout.cut(self._totals, start, stop)
        if any(column.dtype == object or is_wide(column) for column in (*totals, *olds)):
            raise NotInColumns  # of numbers beyond 64 bits, of which few functions take columns
        return self._answers(self._predicate, stop - start, totals, olds)

    def _rows_before_rejection(self, old: Any, start: int, stop: int) -> int:
        """The end of the rows, from `start` on, that keep something of a prefix."""
        rejected = self._rejected(start, stop, self._layout.gather([old]))
        return start + _first_true(rejected, stop - start)

    def _search(self, olds: Run, start: int, most: Array) -> Array:
        """For each row from `start` on, how many of these prefixes it lets go, at most so many."""
        low, high = np.zeros(len(most), dtype=np.int64), most
        while (low < high).any():
            middle = (low + high) >> 1
            gone = self._rejected(start, start + len(most), self._layout.take(olds, middle))
            low, high = np.where(gone & (low < high), middle + 1, low), np.where(gone, high, middle)
        return np.maximum.accumulate(low)


def _outweighed(totals: Array, states: Array, twice: Array) -> bool:
    """Whether some totals are sums of real numbers so large that elements are lost in them.

    `twice` has each state combined with itself, which tells a sum from a choice, as of the greatest.
    """
    if totals.dtype.kind != "f":
        return False
    added = states[(states != 0) & (twice != states)]
    return bool(len(added)) and not float(np.abs(totals).max()) <= LARGE * float(np.median(np.abs(added)))
