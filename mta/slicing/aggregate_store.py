"""The paper's aggregate stores in memory: lazy, which folds slices, and eager, with a tree over them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from typing import Any

from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.core.states import NOTHING
from mta.monoids.base import Monoid
from mta.slicing.slices import Slices
from mta.slicing.windows import Time


class AggregateStore(ABC):
    """Aggregates of runs of slices. What it keeps follows from the slices."""

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid

    @abstractmethod
    def fold(self, book: Slices, start: int, stop: int) -> Any:
        """The aggregate of slices `start` to `stop` - 1, of which there is one at least."""

    def between(self, book: Slices, start: Time, end: Time) -> Any:
        """The aggregate of the slices that start in [start, end), or NOTHING."""
        first, stop = bisect_left(book.firsts, start), bisect_left(book.firsts, end)
        return self.fold(book, first, stop) if first < stop else NOTHING

    def has_before(self, book: Slices, time: Time) -> bool:  # noqa: ARG002
        """Whether slices that are no more in the process have tuples at `time` or after it."""
        return False

    def last_before(self) -> Time:
        """The time of the last tuple in slices that are no more in the process."""
        return -math.inf


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
        self._refresh(book)
        shift = book.dropped - self._origin
        return self._tree.between(start + shift, stop + shift - 1)

    def _refresh(self, book: Slices) -> None:
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


def folded(monoid: Monoid, states: Sequence[Any]) -> Any:
    """The aggregate of states, of which there is one at least."""
    if monoid.grows:  # one by one, every state would be copied again for each that follows
        while len(states) > 1:
            pairs = [monoid.combine(states[i], states[i + 1]) for i in range(0, len(states) - 1, 2)]
            states = [*pairs, states[-1]] if len(states) % 2 else pairs
        return states[0]
    return reduce(monoid.combine, states)
