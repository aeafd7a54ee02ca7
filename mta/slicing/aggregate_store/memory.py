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

    What has been combined of long windows is kept for those that are due next, in whole blocks of slices, as
    long as no slice in the block changes. So a window of n slices takes n / BLOCK combines and those at its
    two ends.
    """

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(monoid)
        self._lineage: Any = None
        #: of block k the aggregate of the slices k * BLOCK and on, counted with those that were dropped
        self._blocks: dict[int, Any] = {}

    def fold(self, book: Slices, start: int, stop: int) -> Any:
        slices, dropped = book.slices, book.dropped
        first, last = -(-(start + dropped) // BLOCK), (stop + dropped) // BLOCK
        # blocks of what grows are as large as what is in them
        if last - first < 2 or self.monoid.grows:
            return folded(self.monoid, states_of(self.monoid, slices[start:stop]))
        self._refresh(book)
        blocks = self._blocks
        for number in [number for number in range(first, last) if number not in blocks]:
            place = number * BLOCK - dropped
            blocks[number] = folded(self.monoid, states_of(self.monoid, slices[place : place + BLOCK]))
        states = states_of(self.monoid, slices[start : first * BLOCK - dropped])
        states += [blocks[number] for number in range(first, last)]
        states += states_of(self.monoid, slices[last * BLOCK - dropped : stop])
        return folded(self.monoid, states)

    def _refresh(self, book: Slices) -> None:
        """Forgets the blocks with slices that have changed since it was last called, or were dropped."""
        if not book.follows(self._lineage):
            self._blocks = {}
        elif book.fresh < len(book.slices):
            first, last = -(-book.dropped // BLOCK), (book.dropped + book.fresh) // BLOCK
            self._blocks = {k: state for k, state in self._blocks.items() if first <= k < last}
        self._lineage, book.fresh = book.lineage, len(book.slices)


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
