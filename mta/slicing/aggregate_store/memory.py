"""The paper's aggregate stores in memory: lazy, which folds slices, and eager, with a tree over them."""

from __future__ import annotations

from typing import Any

from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.monoids.base import Monoid
from mta.slicing.aggregate_store.base import AggregateStore
from mta.slicing.slices import Slices, folded, states_of

#: The lazy store remembers the aggregates of so many slices that follow each other.
BLOCK = 32


class Lazy(AggregateStore):
    """One aggregate a slice, combined when a result is due.

    What has been combined of long windows is kept for those that are due next: aggregates of whole blocks of
    slices, and of whole blocks of blocks, as long as no slice in them changes. So a window of n slices takes
    some BLOCK combines for each power of BLOCK in n.
    """

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(monoid)
        self._lineage: Any = None
        #: blocks of slices, then blocks of these, and so on
        self._levels: list[_Blocks] = []

    def fold(self, book: Slices, start: int, stop: int) -> Any:
        # blocks of what grows are as large as what is in them
        if stop - start < 2 * BLOCK or self.monoid.grows:
            return folded(self.monoid, states_of(self.monoid, book.slices[start:stop]))
        self._refresh(book)
        older: list[Any] = []
        younger: list[Any] = []
        level, start, stop = 0, start + book.dropped, stop + book.dropped
        while stop - start >= 2 * BLOCK:
            first, last = -(-start // BLOCK), stop // BLOCK
            older += self._states(book, level, start, first * BLOCK)
            younger[:0] = self._states(book, level, last * BLOCK, stop)
            level, start, stop = level + 1, first, last
        return folded(self.monoid, [*older, *self._states(book, level, start, stop), *younger])

    def _states(self, book: Slices, level: int, start: int, stop: int) -> list[Any]:
        """Of slices (level 0) or of blocks, by their numbers, counted with those that were dropped."""
        if not level:
            return states_of(self.monoid, book.slices[start - book.dropped : stop - book.dropped])
        if level > len(self._levels):
            self._levels.append(_Blocks())
        blocks = self._levels[level - 1]
        for number in range(start, stop):
            if number not in blocks.states:
                inner = self._states(book, level - 1, number * BLOCK, (number + 1) * BLOCK)
                blocks.add(number, folded(self.monoid, inner))
        return [blocks.states[number] for number in range(start, stop)]

    def _refresh(self, book: Slices) -> None:
        """Forgets the blocks with slices that have changed since it was last called, or were dropped."""
        if not book.follows(self._lineage):
            self._levels = []
        elif book.fresh < len(book.slices):
            first, stop = book.dropped, book.dropped + book.fresh
            for blocks in self._levels:
                first, stop = -(-first // BLOCK), stop // BLOCK
                blocks.keep(first, stop)
        self._lineage, book.fresh = book.lineage, len(book.slices)


class _Blocks:
    """The aggregates of some blocks, by their numbers."""

    def __init__(self) -> None:
        self.states: dict[int, Any] = {}
        #: the numbers of all are in here
        self._span = range(0)

    def add(self, number: int, state: Any) -> None:
        span = self._span if self.states else range(number, number)
        self._span = range(min(span.start, number), max(span.stop, number + 1))
        self.states[number] = state

    def keep(self, first: int, stop: int) -> None:
        """Forgets all before `first`, and from `stop` on."""
        span = self._span
        for number in (*range(span.start, min(first, span.stop)), *range(max(stop, span.start), span.stop)):
            self.states.pop(number, None)
        self._span = range(max(first, span.start), min(stop, span.stop))


class Eager(AggregateStore):
    """FlatFAT over the slices; what changed is written when the next result is due."""

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(monoid)
        self._tree = FlatFAT(monoid, 1)
        self._lineage: Any = None
        #: how many slices were dropped before the one in slot 0, and the slots in use
        self._origin = 0
        self._used = range(0)

    def fold(self, book: Slices, start: int, stop: int) -> Any:
        self.refresh(book)
        shift = book.dropped - self._origin
        return self._tree.between(start + shift, stop + shift - 1)

    def refresh(self, book: Slices) -> None:
        """Writes what has changed since it was last called."""
        count, shift = len(book.slices), book.dropped - self._origin
        capacity = self._tree.capacity
        fresh = book.fresh
        if not book.follows(self._lineage) or shift + count > capacity or 2 * shift > capacity:
            self._tree, self._lineage = FlatFAT(self.monoid, 2 * count), None
            self._origin, self._used = book.dropped, range(0)
            shift = fresh = 0
        used = range(shift, shift + count)
        if fresh == count and used == self._used:
            self._lineage = book.lineage
            return
        writes: dict[int, Any] = dict.fromkeys(range(self._used.start, shift), EMPTY)
        writes.update(dict.fromkeys(range(used.stop, self._used.stop), EMPTY))
        writes.update(enumerate(states_of(self.monoid, book.slices[fresh:]), shift + fresh))
        if book.lineage is not self._lineage:
            # the book that this is a copy of may look next, if something raises
            self._lineage = None
        self._used = range(min(self._used.start, shift), max(self._used.stop, used.stop))
        self._tree.update(writes.items())
        self._used, self._lineage = used, book.lineage
        book.fresh = count
