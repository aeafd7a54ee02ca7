"""The paper's aggregate stores: lazy and eager in memory, and one over a key-value store.

Lazy folds slices, eager has a tree over them. In the third one, slices that cannot change are leaves of an
AmortizedMTA. In the process are the slices within the lateness, and up to `local` of those before, so that
short windows need no page. All older ones page out, and a window of any length is one range of the same tree.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from typing import Any

from mta.algorithms import AmortizedMTA
from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.core.states import NOTHING
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.slicing.slices import Slice, Slices, folded, states_of
from mta.slicing.windows import EdgeWindow, Session, Time, Window, before, is_counted

#: The lazy store remembers the aggregates of so many slices that follow each other.
BLOCK = 32

#: How many slices that cannot change stay in the process.
LOCAL = 1024


class AggregateStore(ABC):
    """Aggregates of runs of slices. What it keeps follows from the slices."""

    #: whether slices in the process may become one where no query tells them apart
    joins: bool = True

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


def check_local(local: Any) -> int:
    if isinstance(local, bool) or not isinstance(local, int):
        raise TypeError(f"local is a whole number of slices, got {local!r}")
    if local < 0:
        raise ValueError(f"local is 0 or more slices, got {local}")
    return local


def check_pages(name: str, kind: Window) -> None:
    """Refuses a query for which slices in a store would have to be told apart by more than time."""
    if not isinstance(kind, Session) and (not isinstance(kind, EdgeWindow) or is_counted(kind)):
        raise ValueError(
            f"the query {name!r} is {kind!r}, whose windows a late tuple shifts, and slices in a store do "
            'not change: take store="lazy" or "eager" for it'
        )


class Paged(AggregateStore):
    """Aggregates over leaves, and over slices behind them."""

    #: leaves are told apart by queries that come later
    joins = False

    def __init__(self, monoid: Monoid, window: AmortizedMTA, local: int) -> None:
        super().__init__(monoid)
        #: a leaf's time is that of the first tuple in its slice
        self.window = window
        self._local = local
        #: aggregates of the slices that are in the process
        self._lazy = Lazy(monoid)

    def fold(self, book: Slices, start: int, stop: int) -> Any:
        return self._lazy.fold(book, start, stop)

    def between(self, book: Slices, start: Time, end: Time) -> Any:
        known = self.known(book)
        first = max(bisect_left(book.firsts, start), known)
        stop = bisect_left(book.firsts, end)
        states = []
        youngest = self.window.youngest
        if youngest is not None and start <= youngest:
            older = self.window.range_query(start, min(before(end), youngest))
            if older is not NOTHING:
                states.append(older)
        if first < stop:
            states.append(self.fold(book, first, stop))
        return folded(self.monoid, states) if states else NOTHING

    def has_before(self, book: Slices, time: Time) -> bool:  # noqa: ARG002
        youngest = self.window.youngest
        return youngest is not None and bool(time <= youngest)

    def known(self, book: Slices) -> int:
        """How many of the first slices are leaves already: an interrupt may come before they are dropped."""
        youngest = self.window.youngest
        return 0 if youngest is None else bisect_right(book.firsts, youngest)

    def page_out(self, book: Slices, final: int) -> int:
        """Makes leaves of slices, of which so many cannot change; returns how many are to be dropped."""
        count = final - self._local
        if count < max(self._local // 2, 1):
            return self.known(book)
        start = self.known(book)
        if start < count:
            older = book.slices[start:count]
            self.window.extend(self._leaves(older), [each.first for each in older])
        return max(count, start)

    def let_go(self, needed: Time) -> None:
        """Evicts the leaves before a time."""
        oldest = self.window.oldest
        if oldest is not None and oldest < needed:
            self.window.evict_until(before(needed) if needed < math.inf else self.window.youngest)

    def _leaves(self, slices: list[Slice]) -> Any:
        states = states_of(self.monoid, slices)
        if not isinstance(self.monoid, ColumnarMonoid):
            return states
        columns = self.monoid.columns_of(states)
        return columns[0] if len(columns) == 1 else columns
