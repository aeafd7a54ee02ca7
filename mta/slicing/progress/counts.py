"""What one query of windows by count has given, and what is due of it next.

Such a window has the tuples with the numbers [start, end), counted in the order of their times. A tuple that
comes late shifts all behind it, so no slice ends where a window does, once one has come: a window is whole
slices and the rows at its two ends.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any, Self

from mta.encoding.untrusted import Malformed
from mta.slicing.sliced_stream import Due, Moment, Stream
from mta.slicing.slices import Row, Slice, folded
from mta.slicing.untrusted import a_number, some
from mta.slicing.windows import Sliding, Time

#: the arrivals of a window's first and last tuple: no other window of as many tuples has the same two
Signature = tuple[int, int]


class Numbered:
    """The tuples of a stream from a time on, by their numbers."""

    def __init__(self, stream: Stream, since: Time, gone: int) -> None:
        book = stream.book
        self._store, self._book = stream.store, book
        self._place = bisect_left(book.firsts, since)
        self._slices = book.slices[self._place :]
        #: the number of each slice's first tuple, and of the next to come
        self.numbers = list(accumulate((each.count for each in self._slices), initial=gone))
        self.stop = self.numbers[-1]

    def before(self, time: Time, or_at: bool = False) -> int:
        """How many tuples there are before a time, or up to it."""
        place = (
            bisect_right(self._slices, time, key=_first)
            if or_at
            else bisect_left(self._slices, time, key=_first)
        )
        if not place:
            return self.numbers[0]
        search = bisect_right if or_at else bisect_left
        return self.numbers[place - 1] + search(_rows(self._slices[place - 1]), time, key=_time)

    def row(self, number: int) -> Row:
        place = bisect_right(self.numbers, number) - 1
        return _rows(self._slices[place])[number - self.numbers[place]]

    def first_of_slice(self, number: int) -> Time:
        """The first time in the slice of a tuple."""
        return self._slices[bisect_right(self.numbers, number) - 1].first

    def fold(self, start: int, stop: int) -> Any:
        """The aggregate of the tuples with these numbers, of which there is one at least."""
        first = bisect_right(self.numbers, start) - 1
        last = bisect_right(self.numbers, stop) - 1  # the slice that `stop` is in
        if first == last:
            return folded(self._store.monoid, self._states(first, start, stop))
        states = []
        if start > self.numbers[first]:
            states += self._states(first, start, self.numbers[first + 1])
            first += 1
        if first < last:
            states.append(self._store.fold(self._book, self._place + first, self._place + last))
        if last < len(self._slices):
            states += self._states(last, self.numbers[last], stop)
        return folded(self._store.monoid, states)

    def _states(self, place: int, start: int, stop: int) -> list[Any]:
        number = self.numbers[place]
        return [row[2] for row in _rows(self._slices[place])[start - number : stop - number]]


class CountProgress:
    """The windows that were given and may still change, of all that end before number `upto`."""

    idle_until: Time = -math.inf
    idle_horizon: Time = math.inf
    __slots__ = ("final", "given", "gone", "kind", "refused", "since", "upto")

    def __init__(
        self,
        kind: Sliding,
        since: Time,
        upto: int = 0,
        final: int = 0,
        gone: int = 0,
        given: dict[int, Signature] | None = None,
        refused: int = 0,
    ) -> None:
        self.kind, self.since, self.upto = kind, since, upto
        #: the windows that end before this number are over
        self.final = final
        #: how many tuples are in slices that the stream has dropped
        self.gone = gone
        self.given = given or {}
        #: how many came too late for it, and have no number; they are before all that may change
        self.refused = refused

    def advance(self, stream: Stream, moment: Moment) -> tuple[list[Due], Self]:
        tuples = self._numbered(stream)
        until = tuples.before(moment.watermark, or_at=True)
        late = [time for time in moment.late if time >= self.since]
        changed = max(self.final, min(self.upto, tuples.before(late[0]))) if late else self.upto
        dues, given = [], dict(self.given)
        for start in self._starts(changed, until):
            end = start + self.kind.length
            signature = tuples.row(start)[1], tuples.row(end - 1)[1]
            if given.get(start) != signature:
                at = tuples.row(end - 1)[0]
                dues.append(Due(at, start, end, tuples.fold(start, end), start in given))
                given[start] = signature
        final = self._final(tuples, moment.horizon)
        kept = {start: given[start] for start in given if start + self.kind.length > final}
        upto = max(until, self.upto)
        return dues, type(self)(self.kind, self.since, upto, final, self.gone, kept, self.refused)

    def early(self, stream: Stream) -> list[Due]:
        tuples = self._numbered(stream)
        if stream.youngest < self.since or tuples.stop == tuples.numbers[0]:
            return []
        return [
            Due(stream.youngest, start, tuples.stop, tuples.fold(start, tuples.stop), False)
            for start in self._starts(tuples.stop - 1, tuples.stop - 1 + self.kind.length)
            if start < tuples.stop and start + self.kind.length > self.final
        ]

    def needs(self, stream: Stream, horizon: Time) -> Time:
        if horizon == math.inf:
            return horizon
        tuples = self._numbered(stream)
        final = self._final(tuples, horizon)
        # what is not final may shift
        start = min(final, next(iter(self._starts(final, math.inf))))
        return tuples.first_of_slice(start) if start < tuples.stop else max(horizon, self.since)

    def _final(self, tuples: Numbered, horizon: Time) -> int:
        """What is over stays over, also where a dump tells of an earlier watermark."""
        return max(self.final, tuples.before(horizon, or_at=True))

    def next_due(self, stream: Stream) -> Time:
        return stream.next_row(stream.watermark)

    def needed_until(self, stream: Stream) -> Time:
        return stream.youngest

    def without(self, stream: Stream, dropped: int) -> Self:
        gone = self.gone + sum(
            each.count for each in stream.book.slices[:dropped] if each.first >= self.since
        )
        return type(self)(self.kind, self.since, self.upto, self.final, gone, self.given, self.refused)

    def open_from(self, stream: Stream) -> Time:
        """Tuples before this time are in no window but in those that are over; infinity if there is none."""
        start = next(iter(self._starts(self.final, math.inf)))
        if not start:
            return -math.inf
        tuples = self._numbered(stream)
        if start > min(self.final, tuples.stop):
            return math.inf
        dropped = stream.book.last_dropped
        # the row may be one that it has refused, where that of the number was dropped
        return max(tuples.row(start - 1)[0], dropped) if start > tuples.numbers[0] else dropped

    def refusing(self, times: list[Time]) -> Self:
        refused = self.refused + sum(time >= self.since for time in times)
        return type(self)(self.kind, self.since, self.upto, self.final, self.gone, self.given, refused)

    def saved(self) -> Any:
        return [self.upto, self.final, self.gone, list(self.given.items()), self.refused]

    def loaded(self, saved: Any) -> Self:
        saved = some(saved, "a query's progress")
        # those of before had refused none
        upto, final, gone, windows, refused = some([*saved, 0] if len(saved) == 4 else saved, "it", 5)
        upto, final, gone, refused = map(a_number, (upto, final, gone, refused))
        given: dict[int, Signature] = {}
        for each in some(windows, "windows"):
            start, signature = some(each, "a window", 2)
            first, last = some(signature, "a window's tuples", 2)
            given[a_number(start)] = a_number(first), a_number(last)
        return type(self)(self.kind, self.since, upto, final, gone, given, refused)

    def _numbered(self, stream: Stream) -> Numbered:
        return Numbered(stream, self.since, self.gone - self.refused)

    def check(self, stream: Stream) -> None:
        tuples = self._numbered(stream)
        begin, stop = tuples.numbers[0], tuples.stop
        first = next(iter(self._starts(self.final, math.inf)))
        # nothing changes any more once a stream has ended
        ended = stream.watermark == math.inf and begin == self.final == stop
        if not (ended or begin <= min(first, self.final)) or not self.final <= self.upto <= stop:
            told = [self.upto, self.final, self.gone, self.refused]
            raise Malformed(f"windows of {stop} tuples were given up to the numbers {told}")

    def _starts(self, after: int, until: float) -> Any:
        """The starts of the windows with after < end <= until."""
        length, slide = self.kind.length, self.kind.slide
        start = max(0, (after - length) // slide + 1) * slide
        while start + length <= until:
            yield start
            start += slide


def _rows(part: Slice) -> list[Row]:
    assert part.rows is not None
    return part.rows


def _first(part: Slice) -> Time:
    return part.first


def _time(row: Row) -> Time:
    return row[0]
