"""Reactive Aggregator: section 5 of Tangwongsan, Hirzel, Schneider and Wu (PVLDB 2015)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import compress
from typing import Any

from mta.baselines.base import Baseline
from mta.baselines.flatfat import EMPTY, FlatFAT
from mta.checks import MAX_TIME
from mta.core.states import result_array
from mta.kinds import UNKNOWN, Result, Results, State, Time, Value
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.options import is_whole
from mta.policies import Policy
from mta.times.cuts import Side

_SMALLEST = 4


class ReactiveAggregator(Baseline):
    """A circular buffer of states in the slots of a FlatFAT, which aggregates them.

    Insertions and evictions only note the slots that they change. The next query writes these m slots in one
    update of at most m(1 + ⌈log2(n/m)⌉) combines, and makes at most 2·log2(n) - 1 more if the buffer wraps
    around the end of the slots. Resizing and compacting change all slots, at amortized cost O(1) a call.

    An eviction at the front writes no slot (section 5.2), because slots outside of the buffer are not read.

    Any element can be evicted at any time: `insert` returns a handle for `evict_handle`. The order of the
    slots is the order of the window, so the slot of an element in the middle becomes a hole until the buffer
    is compacted. The front slot and the back slot are never holes.

    With `late=True`, times may go backwards. Elements stay in the order of their arrival, or where
    `insert_at` put them. Policies by time and `evict_until` then evict elements by their times, at any index.
    Raises ValueError for `late=True` with a policy that has a predicate.

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

    def __init__(
        self,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        late: bool = False,
        nulls: Nulls = "refuse",
    ) -> None:
        super().__init__(monoid, policy, nulls=nulls)
        if late and self._limits.predicates:
            raise ValueError(f"late=True goes with policies by count and by time, got {policy!r}")
        self._late = bool(late)
        #: with `late`, a heap of times and handles, also of elements that were evicted by their handle
        self._by_time: list[tuple[Time, int]] = []
        self._latest: Time = -MAX_TIME
        #: whether handles ascend from the front: `insert_at` may break it
        self._ascending = True
        self.fat = FlatFAT(self._monoid, _SMALLEST)
        #: the slot of the oldest element, and the number of slots from there to the youngest, with holes
        self._front = 0
        self._span = 0
        #: the states of slots after the next update
        self._changes: dict[int, State] = {}
        #: the handle of the element in each slot; holes keep theirs
        self._handles: list[int] = [0] * _SMALLEST
        self._next_handle = 0

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return self.fat.capacity

    def insert(self, value: Value, time: Any = None) -> int:
        """Adds an element and returns its handle, which is valid until the element is evicted."""
        super().insert(value, time)
        if self._late:
            self._note()
        return self._next_handle - 1

    def insert_at(self, place: int, value: Value, time: Any = None) -> int:
        """Adds an element before the one at index `place`, counted from the oldest; returns its handle.

        It changes the slots of all elements after `place`. Raises TypeError without `late=True` and unless
        `place` is an int, IndexError if the window holds fewer elements, and the errors of `insert`.
        """
        if not self._late:
            raise TypeError("insert_at is for windows with late=True, where times need not go up")
        if not is_whole(place):
            raise TypeError(f"insert_at takes a whole number as the index, got {place!r}")
        if not 0 <= place <= len(self):
            raise IndexError(f"there is no index {place} in a window that holds {len(self)}")
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

    def push(self, value: Value, time: Any = None) -> Result:
        if not self._late:
            return super().push(value, time)
        self.insert(value, time)
        self.enforce()
        return self.query()

    def slide(self, values: Value, times: Value = None) -> Results:
        if not self._late:
            return super().slide(values, times)
        results = []
        for state, time in self._batch(values, times):
            self._put(state, time)
            self.enforce()
            results.append(self.query())
        return result_array(results)

    def extend(self, values: Value, times: Value = None) -> None:
        if not self._late:
            super().extend(values, times)
            return
        for state, time in self._batch(values, times):
            self._put(state, time)
        self.enforce()

    def evict_until(self, t: Any) -> int:
        if not self._late:
            return super().evict_until(t)
        return self._evict_times(self._clock.asked(t, self._inserted), "right")

    def enforce(self) -> int:
        if not self._late:
            return super().enforce()
        evicted = 0
        if self._limits.count is not None:
            evicted = max(0, len(self) - self._limits.count)
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
        return self._clock.shown(self._by_time[0][0]) if self._by_time else None

    @property
    def youngest(self) -> Any:
        """The greatest time of an element; with `late=True`, also of an evicted one."""
        if not self._late:
            return super().youngest
        return self._clock.shown(self._latest) if len(self) else None

    def evict_handle(self, handle: int) -> None:
        """Evicts one element at any index, in O(log n), or O(n) after `insert_at`, without a combine.

        Raises TypeError unless the handle is an int, and KeyError if the element is no longer in the window.
        """
        offset = self._find(handle)
        if offset is None:
            raise KeyError(f"no element of this window has the handle {handle!r}")
        self._kept = UNKNOWN
        if offset == 0:
            self._evict()
            self._times.popleft()
            return
        self._changes[self._slot(offset)] = EMPTY
        self._holes += 1
        while self._holds(self._span - 1) is EMPTY:
            self._span -= 1
            self._holes -= 1
            self._times.pop()
        self._shrink(len(self))

    def _put(self, state: State, time: Time) -> None:
        """`insert`, for a state and a time that were checked."""
        self._kept = UNKNOWN
        self._insert(state)
        self._times.append(time)
        self._inserted += 1
        self._note()

    def _note(self) -> None:
        time = self._times[-1]
        heappush(self._by_time, (time, self._next_handle - 1))
        self._latest = max(self._latest, time)
        # so that `insert` accepts any time
        self._youngest = -MAX_TIME

    def _evict_times(self, cut: Time, side: Side) -> int:
        """Evicts all elements with a time before the cut, or at the cut if the side is right."""
        evicted, by_time = 0, self._by_time
        while by_time and (by_time[0][0] < cut or (side == "right" and by_time[0][0] == cut)):
            handle = by_time[0][1]
            if self._find(handle) is not None:
                self.evict_handle(handle)
                evicted += 1
            heappop(by_time)
        return evicted

    def _batch_times(self, times: Value, length: int) -> Sequence[Time]:
        if not self._late or times is None:
            return super()._batch_times(times, length)
        stamps: list[Time] = self._clock.take_all(times, length, self._inserted, ordered=False).tolist()
        return stamps

    def _aggregate(self) -> State:
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

    def _insert(self, state: State) -> None:
        capacity = self.fat.capacity
        if self._span == capacity:
            self._rebuild(capacity if 4 * len(self) <= 3 * capacity else 2 * capacity)
        slot = self._slot(self._span)
        self._changes[slot] = state
        self._handles[slot] = self._next_handle
        self._next_handle += 1
        self._span += 1

    def _evict(self) -> None:
        # The caller drops one time. This drops the times of holes behind the front.
        self._changes.pop(self._front, None)
        self._front = self._slot(1)
        self._span -= 1
        while self._span and self._holds(0) is EMPTY:
            self._front = self._slot(1)
            self._span -= 1
            self._holes -= 1
            self._times.popleft()
        self._shrink(len(self) - 1)

    def _head(self) -> State:
        return self._holds(0)

    def _slot(self, offset: int) -> int:
        """The slot at an offset from the front, which counts holes."""
        return (self._front + offset) & (self.fat.capacity - 1)

    def _holds(self, offset: int) -> State:
        slot = self._slot(offset)
        return self._changes[slot] if slot in self._changes else self.fat[slot]

    def _find(self, handle: object) -> int | None:
        """The offset of the element with a handle: by bisection, if handles ascend. None if there is none."""
        if not is_whole(handle):
            raise TypeError(f"a handle is an int that insert returned, got {handle!r}")

        def handle_at(offset: int) -> int:
            return self._handles[self._slot(offset)]

        offsets = range(self._span)
        if self._ascending:
            low = bisect_left(offsets, handle, key=handle_at)
            offsets = offsets[low : low + 1]
        found = (each for each in offsets if handle_at(each) == handle and self._holds(each) is not EMPTY)
        return next(found, None)

    def _shrink(self, held: int) -> None:
        capacity = self.fat.capacity
        if capacity > _SMALLEST and 4 * held < capacity:
            self._rebuild(capacity // 2)

    def _rebuild(self, capacity: int) -> None:
        """The paper's resize, or its compact for the same capacity: elements from slot 0, no holes."""
        held = [self._holds(offset) for offset in range(self._span)]
        live = [state is not EMPTY for state in held]
        states = list(compress(held, live))
        handles = [self._handles[self._slot(offset)] for offset in compress(range(self._span), live)]
        if self._holes:
            # During `_evict` there is one more time, before the times of the span.
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
