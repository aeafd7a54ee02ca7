"""The Scotty paper's aggregate store: it answers with the aggregates of slices that follow each other.

- `Lazy` folds slices when a result is due.
- `Eager` keeps a tree over the slices in the process.
- `Paged` keeps slices in a key-value store. Slices that cannot change any more become the elements of an
  `AmortizedMTA`, here called leaves, and a window of any length is one range of it. The process holds the
  slices within the lateness and up to `local` older ones, so that short windows need no page.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from typing import Any

from mta.algorithms import AmortizedMTA
from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.core.states import NOTHING, fold_states
from mta.kinds import State, Time
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.options import is_whole
from mta.slicing.slices import Slice, SliceList, states_of
from mta.slicing.windows import Session, Window, before, has_edges

#: The number of slices in a block of `Lazy`, and of blocks in a block of the next level.
BLOCK = 32

#: The default of `local`: the number of slices that cannot change and stay in the process.
LOCAL = 1024


class AggregateStore(ABC):
    """Aggregates of slices. Whatever it keeps beside the slices follows from them."""

    #: whether neighbouring slices may be merged where no query tells them apart
    may_merge: bool = True

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid

    @abstractmethod
    def fold(self, slices: SliceList, start: int, stop: int) -> State:
        """The aggregate of the slices with indices from `start` to `stop` - 1, at least one."""

    def between(self, slices: SliceList, start: Time, end: Time) -> State:
        """The aggregate of the slices that begin in [start, end), or NOTHING."""
        first, stop = bisect_left(slices.first_times, start), bisect_left(slices.first_times, end)
        return self.fold(slices, first, stop) if first < stop else NOTHING

    def has_before(self, slices: SliceList, time: Time) -> bool:  # noqa: ARG002
        """Whether slices that have left the process hold a tuple at `time` or after it."""
        return False


class Lazy(AggregateStore):
    """Slices are combined when a result is due.

    The aggregates of whole blocks of slices, and of whole blocks of blocks, are kept for later results until
    a slice in them changes. A window of n slices takes some BLOCK combines for each power of BLOCK in n.
    """

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(monoid)
        self._lineage: Any = None
        #: blocks of slices, blocks of these blocks, and so on
        self._levels: list[_Blocks] = []

    def fold(self, slices: SliceList, start: int, stop: int) -> State:
        # where states grow, the state of a block would be as large as all states in it
        if stop - start < 2 * BLOCK or self.monoid.grows:
            return fold_states(self.monoid, states_of(self.monoid, slices.items[start:stop]))
        self._forget_changed(slices)
        older: list[State] = []
        younger: list[State] = []
        level, start, stop = 0, start + slices.dropped, stop + slices.dropped
        while stop - start >= 2 * BLOCK:
            first, last = -(-start // BLOCK), stop // BLOCK
            older += self._states(slices, level, start, first * BLOCK)
            younger[:0] = self._states(slices, level, last * BLOCK, stop)
            level, start, stop = level + 1, first, last
        return fold_states(self.monoid, [*older, *self._states(slices, level, start, stop), *younger])

    def _states(self, slices: SliceList, level: int, start: int, stop: int) -> list[State]:
        """The states of slices (level 0) or of blocks, by numbers that count dropped slices too."""
        if not level:
            return states_of(self.monoid, slices.items[start - slices.dropped : stop - slices.dropped])
        if level > len(self._levels):
            self._levels.append(_Blocks())
        blocks = self._levels[level - 1]
        for number in range(start, stop):
            if number not in blocks.states:
                inner = self._states(slices, level - 1, number * BLOCK, (number + 1) * BLOCK)
                blocks.add(number, fold_states(self.monoid, inner))
        return [blocks.states[number] for number in range(start, stop)]

    def _forget_changed(self, slices: SliceList) -> None:
        """Forgets the blocks whose slices have changed or were dropped since the last call."""
        if not slices.is_known(self._lineage):
            self._levels = []
        elif slices.unchanged < len(slices.items):
            first, stop = slices.dropped, slices.dropped + slices.unchanged
            for blocks in self._levels:
                first, stop = -(-first // BLOCK), stop // BLOCK
                blocks.keep(first, stop)
        self._lineage, slices.unchanged = slices.lineage, len(slices.items)


class _Blocks:
    """The aggregates of some blocks, by their numbers."""

    def __init__(self) -> None:
        self.states: dict[int, State] = {}
        #: holds the numbers of all blocks
        self._span = range(0)

    def add(self, number: int, state: State) -> None:
        span = self._span if self.states else range(number, number)
        self._span = range(min(span.start, number), max(span.stop, number + 1))
        self.states[number] = state

    def keep(self, first: int, stop: int) -> None:
        """Forgets all blocks but those with numbers from `first` to `stop` - 1."""
        span = self._span
        for number in (*range(span.start, min(first, span.stop)), *range(max(stop, span.start), span.stop)):
            self.states.pop(number, None)
        self._span = range(max(first, span.start), min(stop, span.stop))


class Eager(AggregateStore):
    """FlatFAT over the slices. Changes are written to the tree when the next result is due."""

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(monoid)
        self._tree = FlatFAT(monoid, 1)
        self._lineage: Any = None
        #: the number of slices that were dropped before the slice in slot 0
        self._origin = 0
        #: the slots that hold slices
        self._used = range(0)

    def fold(self, slices: SliceList, start: int, stop: int) -> State:
        self.write_changed(slices)
        shift = slices.dropped - self._origin
        return self._tree.between(start + shift, stop + shift - 1)

    def write_changed(self, slices: SliceList) -> None:
        """Writes the slices that have changed since the last call to the tree."""
        count, shift = len(slices.items), slices.dropped - self._origin
        capacity = self._tree.capacity
        unchanged = slices.unchanged
        if not slices.is_known(self._lineage) or shift + count > capacity or 2 * shift > capacity:
            self._tree, self._lineage = FlatFAT(self.monoid, 2 * count), None
            self._origin, self._used = slices.dropped, range(0)
            shift = unchanged = 0
        used = range(shift, shift + count)
        if unchanged == count and used == self._used:
            self._lineage = slices.lineage
            return
        writes: dict[int, Any] = dict.fromkeys(range(self._used.start, shift), EMPTY)
        writes.update(dict.fromkeys(range(used.stop, self._used.stop), EMPTY))
        writes.update(enumerate(states_of(self.monoid, slices.items[unchanged:]), shift + unchanged))
        if slices.lineage is not self._lineage:
            # if the update raises, the next call may be for the list that this one is a copy of
            self._lineage = None
        self._used = range(min(self._used.start, shift), max(self._used.stop, used.stop))
        self._tree.update(writes.items())
        self._used, self._lineage = used, slices.lineage
        slices.unchanged = count


def check_local(local: object) -> None:
    if not is_whole(local):
        raise TypeError(f"local is a whole number of slices, got {local!r}")
    if local < 0:
        raise ValueError(f"local is 0 or more slices, got {local}")


def check_paged(name: str, kind: Window) -> None:
    """Refuses a query whose windows a store cannot tell apart by time alone."""
    if not isinstance(kind, Session) and not has_edges(kind):
        raise ValueError(
            f"the query {name!r} is {kind!r}, whose windows a late tuple shifts, and slices in a store do "
            'not change: take store="lazy" or "eager" for it'
        )


class Paged(AggregateStore):
    """Aggregates over leaves in a store, and over the slices in the process that follow them."""

    #: a query that is added later may tell leaves apart
    may_merge = False

    def __init__(self, monoid: Monoid, window: AmortizedMTA, local: int) -> None:
        super().__init__(monoid)
        #: the leaves; the time of a leaf is the time of the first tuple in its slice
        self.window = window
        self._local = local
        #: aggregates of the slices in the process
        self._lazy = Lazy(monoid)

    def fold(self, slices: SliceList, start: int, stop: int) -> State:
        return self._lazy.fold(slices, start, stop)

    def between(self, slices: SliceList, start: Time, end: Time) -> State:
        first = max(bisect_left(slices.first_times, start), self.paged_count(slices))
        stop = bisect_left(slices.first_times, end)
        states = []
        youngest = self.window.youngest
        if youngest is not None and start <= youngest:
            older = self.window.range_query(start, min(before(end), youngest))
            if older is not NOTHING:
                states.append(older)
        if first < stop:
            states.append(self.fold(slices, first, stop))
        return fold_states(self.monoid, states) if states else NOTHING

    def has_before(self, slices: SliceList, time: Time) -> bool:  # noqa: ARG002
        youngest = self.window.youngest
        return youngest is not None and bool(time <= youngest)

    def paged_count(self, slices: SliceList) -> int:
        """The number of the first slices that are leaves already.

        It is above 0 where an interrupt came between `page_out` and the drop of these slices.
        """
        youngest = self.window.youngest
        return 0 if youngest is None else bisect_right(slices.first_times, youngest)

    def page_out(self, slices: SliceList, final: int) -> int:
        """Appends slices to the leaves; `final` is the number of the first slices that cannot change.

        Returns the number of the first slices that the stream may drop.
        """
        count = final - self._local
        if count < max(self._local // 2, 1):
            return self.paged_count(slices)
        start = self.paged_count(slices)
        if start < count:
            older = slices.items[start:count]
            self.window.extend(self._leaves(older), [each.first for each in older])
        return max(count, start)

    def drop_before(self, needed_from: Time) -> None:
        """Drops the leaves before a time."""
        oldest = self.window.oldest
        if oldest is not None and oldest < needed_from:
            last = before(needed_from) if needed_from < math.inf else self.window.youngest
            self.window.evict_until(last)

    def _leaves(self, slices: list[Slice]) -> Any:
        states = states_of(self.monoid, slices)
        if not isinstance(self.monoid, ColumnarMonoid):
            return states
        columns = self.monoid.columns_of(states)
        return columns[0] if len(columns) == 1 else columns
