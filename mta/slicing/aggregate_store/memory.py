"""The paper's aggregate stores in memory: lazy, which folds slices, and eager, with a tree over them."""

from __future__ import annotations

from typing import Any

from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.monoids.base import Monoid
from mta.slicing.aggregate_store.base import AggregateStore, folded
from mta.slicing.slices import Slices


class Lazy(AggregateStore):
    """One aggregate a slice, combined when a result is due."""

    def fold(self, book: Slices, start: int, stop: int) -> Any:
        return folded(self.monoid, [each.state for each in book.slices[start:stop]])


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
        if book.lineage is not self._lineage or shift + count > capacity or 2 * shift > capacity:
            self._tree, self._lineage = FlatFAT(self.monoid, 2 * count), None
            self._origin, self._used = book.dropped, range(0)
            shift = fresh = 0
        used = range(shift, shift + count)
        if fresh == count and used == self._used:
            return
        writes: dict[int, Any] = dict.fromkeys(range(self._used.start, shift), EMPTY)
        writes.update(dict.fromkeys(range(used.stop, self._used.stop), EMPTY))
        writes.update(enumerate((each.state for each in book.slices[fresh:]), shift + fresh))
        self._used = range(min(self._used.start, shift), max(self._used.stop, used.stop))
        self._tree.update(writes.items())
        self._used, self._lineage = used, book.lineage
        book.fresh = count
