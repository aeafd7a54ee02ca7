"""Reactive Aggregator: section 5 of Tangwongsan, Hirzel, Schneider and Wu (PVLDB 2015)."""

from __future__ import annotations

from itertools import compress
from typing import Any

from mta.baselines.base import Baseline
from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.monoids.base import Monoid
from mta.policies import Policy

_SMALLEST = 4


class ReactiveAggregator(Baseline):
    """A circular buffer in the slots of a FlatFAT, which holds the partial aggregates of it.

    Insertions and evictions only note the slots that they change; the next query writes m of them in one
    update of at most m(1 + ⌈log2(n/m)⌉) combines, and makes at most 2·log2(n) - 1 more where the buffer runs
    over the end of the slots. Growing, shrinking and compacting change all slots, rarely enough to be O(1) an
    operation.

    Any element can leave at any time: `insert` returns a handle for `evict_handle`. A slot left in the
    middle is a hole, not used again until the buffer is compacted, because the order of the slots is the
    order of the window. The front and the back slot are never holes.
    """

    __slots__ = ("_changes", "_front", "_handles", "_next_handle", "_span", "fat")

    def __init__(self, monoid: Monoid, policy: Policy | None = None) -> None:
        super().__init__(monoid, policy)
        self.fat = FlatFAT(monoid, _SMALLEST)
        #: the slot of the oldest element, and the number of slots from there to the youngest, holes too
        self._front = 0
        self._span = 0
        #: what slots will hold after the next update
        self._changes: dict[int, Any] = {}
        #: the handle of each element in a slot; ascending from the front, also through holes
        self._handles: list[int] = [0] * _SMALLEST
        self._next_handle = 0

    @property
    def capacity(self) -> int:
        return self.fat.capacity

    def insert(self, value: Any, time: float | None = None) -> int:
        """Adds an element and returns its handle, which is good until the element leaves."""
        super().insert(value, time)
        return self._next_handle - 1

    def evict_handle(self, handle: int) -> None:
        """Lets go of one element, wherever it is in the window. KeyError if it has left already."""
        place = self._find(handle)
        if place is None:
            raise KeyError(f"no element of this window has the handle {handle!r}")
        if place == 0:
            self._evict()
            self._times.popleft()
            return
        self._changes[self._slot(place)] = EMPTY
        self._holes += 1
        while self._holds(self._span - 1) is EMPTY:
            self._span -= 1
            self._holes -= 1
            self._times.pop()
        self._shrink(len(self))

    def _aggregate(self) -> Any:
        fat = self.fat
        if self._changes:
            fat.update(self._changes.items())
            self._changes.clear()
        if not self._span:
            return self._identity
        front, back = self._front, self._slot(self._span - 1)
        if back >= front:
            return fat.aggregate()
        return self._combine(fat.suffix(front), fat.prefix(back))

    def _insert(self, state: Any) -> None:
        capacity = self.fat.capacity
        if self._span == capacity:
            if 4 * len(self) <= 3 * capacity:
                self._rebuild(capacity)
            else:
                self._rebuild(2 * capacity)
        slot = self._slot(self._span)
        self._changes[slot] = state
        self._handles[slot] = self._next_handle
        self._next_handle += 1
        self._span += 1

    def _evict(self) -> None:
        # The caller takes one time off; those of the holes behind the front go here.
        self._changes[self._front] = EMPTY
        self._front = self._slot(1)
        self._span -= 1
        while self._span and self._holds(0) is EMPTY:
            self._front = self._slot(1)
            self._span -= 1
            self._holes -= 1
            self._times.popleft()
        self._shrink(len(self) - 1)

    def _head(self) -> Any:
        return self._holds(0)

    def _slot(self, place: int) -> int:
        """The slot of the element at a place, counted from the front, holes too."""
        return (self._front + place) & (self.fat.capacity - 1)

    def _holds(self, place: int) -> Any:
        slot = self._slot(place)
        return self._changes[slot] if slot in self._changes else self.fat[slot]

    def _find(self, handle: Any) -> int | None:
        """The place of an element, by bisection, as handles ascend."""
        if isinstance(handle, bool) or not isinstance(handle, int):
            raise TypeError(f"a handle is what insert returned, got {handle!r}")
        low, high = 0, self._span
        while low < high:
            middle = (low + high) // 2
            if self._handles[self._slot(middle)] < handle:
                low = middle + 1
            else:
                high = middle
        if low == self._span or self._handles[self._slot(low)] != handle or self._holds(low) is EMPTY:
            return None
        return low

    def _shrink(self, held: int) -> None:
        capacity = self.fat.capacity
        if capacity > _SMALLEST and 4 * held < capacity:
            self._rebuild(capacity // 2)

    def _rebuild(self, capacity: int) -> None:
        """The paper's resize, and its compact where the capacity stays: elements from slot 0, no holes."""
        states: list[Any] = []
        handles: list[int] = []
        live: list[bool] = []
        for place in range(self._span):
            state = self._holds(place)
            live.append(state is not EMPTY)
            if state is not EMPTY:
                states.append(state)
                handles.append(self._handles[self._slot(place)])
        if self._holes:
            # Within `_evict`, one more time stands before those of the span.
            times = list(self._times)
            leaving = len(times) - self._span
            self._times.clear()
            self._times.extend(times[:leaving])
            self._times.extend(compress(times[leaving:], live))
            self._holes = 0
        self.fat = FlatFAT(self.monoid, capacity)
        self._changes = dict(enumerate(states))
        self._handles = handles + [0] * (capacity - len(handles))
        self._front = 0
        self._span = len(states)
