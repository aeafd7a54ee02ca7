"""The progress of a query of windows by count.

Such a window holds the tuples with the numbers [start, end), counted in the order of their times. A late
tuple shifts all tuples behind it, and then windows do not end where slices do: a window consists of whole
slices and of single tuples at its two ends.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, Self

from mta.core.states import fold_states
from mta.encoding.untrusted import Malformed
from mta.kinds import State, Time
from mta.slicing.sliced_stream import Advance, DueWindow, SlicedStream
from mta.slicing.slices import KeptTuple, Slice
from mta.slicing.untrusted import checked_count, checked_list
from mta.slicing.windows import Sliding

#: The arrivals of a window's first and last tuple. Windows of equally many tuples differ in one of them.
Signature = tuple[int, int]


_FIRST, _TIME = attrgetter("first"), itemgetter(0)


class NumberedTuples:
    """The tuples of a stream from a time on, by their numbers."""

    def __init__(self, stream: SlicedStream, since: Time, before: int) -> None:
        """`before` is the number of the first tuple that is still there."""
        slices = stream.slices
        self._aggregates, self._slices = stream.aggregates, slices
        self._first_slice = bisect_left(slices.first_times, since)
        self._items = slices.items[self._first_slice :]
        #: the number of each slice's first tuple, and of the next tuple to come
        self.numbers = list(accumulate((each.count for each in self._items), initial=before))
        self.stop = self.numbers[-1]

    def before(self, time: Time, or_at: bool = False) -> int:
        """The number of tuples before a time; with `or_at`, before it or at it."""
        search = bisect_right if or_at else bisect_left
        index = search(self._items, time, key=_FIRST)
        if not index:
            return self.numbers[0]
        return self.numbers[index - 1] + search(_tuples(self._items[index - 1]), time, key=_TIME)

    def __getitem__(self, number: int) -> KeptTuple:
        index = bisect_right(self.numbers, number) - 1
        return _tuples(self._items[index])[number - self.numbers[index]]

    def first_of_slice(self, number: int) -> Time:
        """The time of the first tuple in the slice of a tuple."""
        return self._items[bisect_right(self.numbers, number) - 1].first

    def fold(self, start: int, stop: int) -> State:
        """The aggregate of the tuples with numbers from `start` to `stop` - 1, at least one."""
        first = bisect_right(self.numbers, start) - 1
        last = bisect_right(self.numbers, stop) - 1  # the slice that `stop` is in
        if first == last:
            return fold_states(self._aggregates.monoid, self._states(first, start, stop))
        states = []
        if start > self.numbers[first]:
            states += self._states(first, start, self.numbers[first + 1])
            first += 1
        if first < last:
            shift = self._first_slice
            states.append(self._aggregates.fold(self._slices, shift + first, shift + last))
        if last < len(self._items):
            states += self._states(last, self.numbers[last], stop)
        return fold_states(self._aggregates.monoid, states)

    def _states(self, index: int, start: int, stop: int) -> list[State]:
        number = self.numbers[index]
        return [each[2] for each in _tuples(self._items[index])[start - number : stop - number]]


@dataclass(slots=True, eq=False)
class CountProgress:
    """The windows that end by number `emitted_until` are emitted; some of them, `emitted`, may change."""

    kind: Sliding
    since: Time
    emitted_until: int = 0
    #: the windows that end by this number are over
    final_until: int = 0
    #: the number of tuples in slices that the stream has dropped
    dropped: int = 0
    #: the start of a window to its signature
    emitted: dict[int, Signature] = field(default_factory=dict)
    #: the number of tuples that were late for the query; they are not numbered, and no open window is
    #: before one of them
    refused: int = 0
    idle_until: ClassVar[Time] = -math.inf
    idle_horizon: ClassVar[Time] = math.inf

    def advance(self, stream: SlicedStream, step: Advance) -> tuple[list[DueWindow], Self]:
        tuples = self._numbered(stream)
        until = tuples.before(step.watermark, or_at=True)
        late = [time for time in step.late if time >= self.since]
        changed = self.emitted_until
        if late:
            changed = max(self.final_until, min(changed, tuples.before(late[0])))
        windows, emitted = [], dict(self.emitted)
        for start in self._starts(changed, until):
            end = start + self._length
            signature = tuples[start][1], tuples[end - 1][1]
            if emitted.get(start) != signature:
                at = tuples[end - 1][0]
                windows.append(DueWindow(at, start, end, tuples.fold(start, end), start in emitted))
                emitted[start] = signature
        final = self._final_until(tuples, step.horizon)
        kept = {start: emitted[start] for start in emitted if start + self._length > final}
        until = max(until, self.emitted_until)
        after = type(self)(self.kind, self.since, until, final, self.dropped, kept, self.refused)
        return windows, after

    def early(self, stream: SlicedStream) -> list[DueWindow]:
        tuples = self._numbered(stream)
        if stream.youngest < self.since or tuples.stop == tuples.numbers[0]:
            return []
        return [
            DueWindow(stream.youngest, start, tuples.stop, tuples.fold(start, tuples.stop), False)
            for start in self._starts(tuples.stop - 1, tuples.stop - 1 + self._length)
            if start < tuples.stop and start + self._length > self.final_until
        ]

    def needed_from(self, stream: SlicedStream, horizon: Time) -> Time:
        if horizon == math.inf:
            return horizon
        tuples = self._numbered(stream)
        final = self._final_until(tuples, horizon)
        # late tuples may shift all that is not final
        start = min(final, next(iter(self._starts(final, math.inf))))
        return tuples.first_of_slice(start) if start < tuples.stop else max(horizon, self.since)

    def _final_until(self, tuples: NumberedTuples, horizon: Time) -> int:
        """A window that is over stays over, even if a dump was changed to an earlier watermark."""
        return max(self.final_until, tuples.before(horizon, or_at=True))

    def next_due(self, stream: SlicedStream) -> Time:
        return stream.next_tuple(stream.watermark)

    def needed_until(self, stream: SlicedStream) -> Time:
        return stream.youngest

    def with_dropped(self, stream: SlicedStream, count: int) -> Self:
        items = stream.slices.items[:count]
        dropped = sum(each.count for each in items if each.first >= self.since)
        return replace(self, dropped=self.dropped + dropped)

    def open_from(self, stream: SlicedStream) -> Time:
        """Tuples before this time are only in windows that are over; infinity if no window is open."""
        start = next(iter(self._starts(self.final_until, math.inf)))
        if not start:
            return -math.inf
        tuples = self._numbered(stream)
        if start > min(self.final_until, tuples.stop):
            return math.inf
        last_dropped = stream.slices.last_dropped
        if start <= tuples.numbers[0]:
            return last_dropped
        # the tuple of this number was dropped if the tuple found here is one that the query has refused
        return max(tuples[start - 1][0], last_dropped)

    def with_refused(self, times: list[Time]) -> Self:
        return replace(self, refused=self.refused + sum(time >= self.since for time in times))

    def saved(self) -> Any:
        emitted = list(self.emitted.items())
        return [self.emitted_until, self.final_until, self.dropped, emitted, self.refused]

    def loaded(self, saved: Any) -> Self:
        saved = checked_list(saved, "a query's progress")
        if len(saved) == 4:  # the first format had no refused tuples
            saved = [*saved, 0]
        until, final, dropped, windows, refused = checked_list(saved, "it", 5)
        until, final, dropped, refused = map(checked_count, (until, final, dropped, refused))
        emitted: dict[int, Signature] = {}
        for each in checked_list(windows, "windows"):
            start, signature = checked_list(each, "a window", 2)
            first, last = checked_list(signature, "a window's tuples", 2)
            emitted[checked_count(start)] = checked_count(first), checked_count(last)
        return type(self)(self.kind, self.since, until, final, dropped, emitted, refused)

    def check(self, stream: SlicedStream) -> None:
        tuples = self._numbered(stream)
        begin, stop = tuples.numbers[0], tuples.stop
        first = next(iter(self._starts(self.final_until, math.inf)))
        # nothing changes any more once a stream has ended
        ended = stream.watermark == math.inf and begin == self.final_until == stop
        numbered = ended or begin <= min(first, self.final_until)
        if not numbered or not self.final_until <= self.emitted_until <= stop:
            numbers = [self.emitted_until, self.final_until, self.dropped, self.refused]
            raise Malformed(f"windows of {stop} tuples were emitted up to the numbers {numbers}")

    @property
    def _length(self) -> int:
        return int(self.kind.length)

    def _numbered(self, stream: SlicedStream) -> NumberedTuples:
        return NumberedTuples(stream, self.since, self.dropped - self.refused)

    def _starts(self, after: int, until: float) -> Iterator[int]:
        """The starts of the windows with after < end <= until."""
        length, slide = self._length, int(self.kind.slide)
        start = max(0, (after - length) // slide + 1) * slide
        while start + length <= until:
            yield start
            start += slide


def _tuples(part: Slice) -> list[KeptTuple]:
    assert part.tuples is not None
    return part.tuples
