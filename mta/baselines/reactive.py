"""Reactive Aggregator: section 5 of Tangwongsan, Hirzel, Schneider and Wu (PVLDB 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import compress
from typing import Any

from mta.baselines.base import Baseline
from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.checks import MAX_TIME, check_time, check_times
from mta.core.states import result_array
from mta.kinds import UNKNOWN
from mta.monoids.base import Monoid
from mta.policies import Policy

_SMALLEST = 4


class ReactiveAggregator(Baseline):
    """A circular buffer in the slots of a FlatFAT, which holds the partial aggregates of it.

    Insertions and evictions only note the slots that they change; the next query writes m of them in one
    update of at most m(1 + ⌈log2(n/m)⌉) combines, and makes at most 2·log2(n) - 1 more where the buffer runs
    over the end of the slots. Growing, shrinking and compacting change all slots, rarely enough to be O(1) an
    operation.

    An element that leaves at the front writes nothing (section 5.2): what is outside of the buffer is not
    read.

    Any element can leave at any time: `insert` returns a handle for `evict_handle`. A slot left in the
    middle is a hole, not used again until the buffer is compacted, because the order of the slots is the
    order of the window. The front and the back slot are never holes.

    With `late`, times may go backwards. Elements stay in the order in which they arrived, or where
    `insert_at` put them, while policies by time and `evict_until` let go of the oldest times wherever they
    are.

    >>> from mta import monoids
    >>> from mta.baselines import ReactiveAggregator
    >>> window = ReactiveAggregator(monoids.Concat())
    >>> handles = [window.insert(letter) for letter in "what"]
    >>> window.evict_handle(handles[1])
    >>> window.query()
    'wat'
    """

    __slots__ = (
        "_ascending",
        "_by_time",
        "_changes",
        "_front",
        "_handles",
        "_late",
        "_latest",
        "_next_handle",
        "_span",
        "fat",
    )

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, late: bool = False) -> None:
        super().__init__(monoid, policy)
        if late and self._predicates:
            raise ValueError(f"late=True goes with policies by count and by time, got {policy!r}")
        self._late = bool(late)
        #: where elements may come late: their times and handles, the least time first, also of some that left
        self._by_time: list[tuple[Any, int]] = []
        self._latest: Any = -MAX_TIME
        #: whether handles ascend from the front, as long as nothing was put between others
        self._ascending = True
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
        handle = self._next_handle - 1
        if self._late:
            self._note(handle)
        return handle

    def insert_at(self, place: int, value: Any, time: float | None = None) -> int:
        """Adds an element before the one at `place`, counted from the oldest; returns its handle.

        Writes all that is behind it.
        """
        if not self._late:
            raise TypeError("insert_at is for windows with late=True, where times need not go up")
        if isinstance(place, bool) or not isinstance(place, int):
            raise TypeError(f"insert_at takes a whole number for the place, got {place!r}")
        if not 0 <= place <= len(self):
            raise IndexError(f"there is no place {place} in a window that holds {len(self)}")
        handle = self.insert(value, time)
        if self._holes:
            self._rebuild(self.fat.capacity)
        last = self._span - 1
        state, moved = self._holds(last), self._times.pop()
        for each in range(last, place, -1):
            self._changes[self._slot(each)] = self._holds(each - 1)
            self._handles[self._slot(each)] = self._handles[self._slot(each - 1)]
        self._changes[self._slot(place)] = state
        self._handles[self._slot(place)] = handle
        self._times.insert(place, moved)
        self._ascending = self._ascending and place == last
        return handle

    def push(self, value: Any, time: float | None = None) -> Any:
        if not self._late:
            return super().push(value, time)
        self.insert(value, time)
        self.enforce()
        return self.query()

    def slide(self, values: Any, times: Any = None) -> Any:
        if not self._late:
            return super().slide(values, times)
        results = []
        for state, time in self._batch(values, times):
            self._put(state, time)
            self.enforce()
            results.append(self.query())
        return result_array(results)

    def extend(self, values: Any, times: Any = None) -> None:
        if not self._late:
            super().extend(values, times)
            return
        for state, time in self._batch(values, times):
            self._put(state, time)
        self.enforce()

    def evict_until(self, t: float) -> int:
        return self._evict_times(check_time(t), "right") if self._late else super().evict_until(t)

    def enforce(self) -> int:
        if not self._late:
            return super().enforce()
        evicted = 0
        if self._count is not None:
            evicted = max(0, len(self) - self._count)
            self.evict(evicted)
        for cut, side in self._limits.cuts(self._latest):
            evicted += self._evict_times(cut, side)
        return evicted

    @property
    def oldest(self) -> Any:
        if not self._late:
            return super().oldest
        while self._by_time and self._find(self._by_time[0][1]) is None:
            heappop(self._by_time)
        return self._by_time[0][0] if self._by_time else None

    @property
    def youngest(self) -> Any:
        """The greatest time of an element; where elements come late, also of one that has left."""
        if not self._late:
            return super().youngest
        return self._latest if len(self) else None

    def evict_handle(self, handle: int) -> None:
        """Lets go of one element, wherever it is in the window. KeyError if it has left already."""
        place = self._find(handle)
        if place is None:
            raise KeyError(f"no element of this window has the handle {handle!r}")
        self._kept = UNKNOWN
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

    def _put(self, state: Any, time: Any) -> None:
        """`insert`, of what has been checked."""
        self._kept = UNKNOWN
        self._insert(state)
        self._times.append(time)
        self._inserted += 1
        self._note(self._next_handle - 1)

    def _note(self, handle: int) -> None:
        time = self._times[-1]
        heappush(self._by_time, (time, handle))
        self._latest = max(self._latest, time)
        # so that no time comes before it
        self._youngest = -MAX_TIME

    def _evict_times(self, cut: Any, side: str) -> int:
        """Lets go of all elements with a time before the cut, or at it where the side is right."""
        evicted, by_time = 0, self._by_time
        while by_time and (by_time[0][0] < cut or (side == "right" and by_time[0][0] == cut)):
            handle = by_time[0][1]
            if self._find(handle) is not None:
                self.evict_handle(handle)
                evicted += 1
            heappop(by_time)
        return evicted

    def _batch_times(self, times: Any, length: int) -> Sequence[Any]:
        if not self._late or times is None:
            return super()._batch_times(times, length)
        if length:
            self._clock.give(self._inserted)
        stamps: list[Any] = check_times(times, length).tolist()
        return stamps

    def _aggregate(self) -> Any:
        fat = self.fat
        if self._changes:
            fat.update(self._changes.items())
            self._changes.clear()
        if not self._span:
            return self._identity
        front, back = self._front, self._slot(self._span - 1)
        if back >= front:
            return fat.between(front, back)
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
        self._changes.pop(self._front, None)
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
        if not self._ascending:
            return self._search(handle)
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

    def _search(self, handle: int) -> int | None:
        for place in range(self._span):
            if self._handles[self._slot(place)] == handle and self._holds(place) is not EMPTY:
                return place
        return None

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
