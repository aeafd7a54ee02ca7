"""What one query of windows by content has given, and what is due of it next."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise
from typing import Any, Self

from mta.encoding.untrusted import whole
from mta.slicing.content import ContentWindow
from mta.slicing.sliced_stream import Due, Moment, Stream
from mta.slicing.slices import Row, folded
from mta.slicing.untrusted import a_number, some
from mta.slicing.windows import Time

#: the arrivals of a window's first and last tuple, and how many it has
Signature = tuple[int, int, int]


class ContentProgress:
    """The windows that were given and may still change. Looks at all rows of these at each watermark."""

    idle_until: Time = -math.inf
    idle_horizon: Time = math.inf
    __slots__ = ("_base", "_given", "_gone", "_seen", "kind", "name", "since")

    def __init__(self, kind: ContentWindow, name: str, since: Time) -> None:
        self.kind, self.name, self.since = kind, name, since
        #: how many tuples are in windows that are over, or came too late; how many are in dropped slices
        self._base = self._gone = 0
        self._given: frozenset[Signature] = frozenset()
        #: the arrivals of the tuples that were given and may still be in another window
        self._seen: frozenset[int] = frozenset()

    def advance(self, stream: Stream, moment: Moment) -> tuple[list[Due], Self]:
        rows = self._rows(stream)
        starts = self._starts(rows)
        dues, given = [], set()
        base, due, final = 0, 0, True
        if moment.watermark == math.inf and rows:
            starts.append(len(rows))  # the end of the stream closes the last one
        for start, stop in pairwise(starts):
            closing = rows[stop][0] if stop < len(rows) else math.inf
            if closing > moment.watermark:
                break
            signature = rows[start][1], rows[stop - 1][1], stop - start
            if signature not in self._given:
                dues.append(self._due(stream, rows, start, stop, closing))
            final = final and closing <= moment.horizon
            if final:
                base = stop
            else:
                given.add(signature)
            due = stop
        successor = self._like()
        successor._base, successor._given = self._base + base, frozenset(given)
        seen = {row[1] for row in rows[base:due]}
        successor._seen = frozenset(seen.union(row[1] for row in rows[due:] if row[1] in self._seen))
        return dues, successor

    def early(self, stream: Stream) -> list[Due]:
        rows = self._rows(stream)
        if not rows:
            return []
        start = self._starts(rows)[-1]
        return [self._due(stream, rows, start, len(rows), stream.youngest)._replace(is_update=False)]

    def needs(self, stream: Stream, horizon: Time) -> Time:
        rows = self._rows(stream)
        if not rows:
            return max(horizon, self.since)
        place = bisect_left(stream.book.firsts, rows[0][0])
        # its slice may have begun before
        firsts, slices = stream.book.firsts, stream.book.slices
        while place and slices[place - 1].last >= rows[0][0]:
            place -= 1
        return firsts[place]

    def next_due(self, stream: Stream) -> Time:
        return stream.next_row(stream.watermark)

    def needed_until(self, stream: Stream) -> Time:
        return stream.youngest

    def open_from(self, stream: Stream) -> Time:
        """Tuples before this time belong to windows that are over."""
        rows = self._rows(stream) if self._base else []
        return rows[0][0] if rows else -math.inf

    def refusing(self, times: list[Time]) -> Self:
        successor = self._like()
        successor._base += sum(time >= self.since for time in times)
        return successor

    def without(self, stream: Stream, dropped: int) -> Self:
        successor = self._like()
        slices = stream.book.slices[:dropped]
        successor._gone += sum(each.count for each in slices if each.first >= self.since)
        return successor

    def saved(self) -> Any:
        return [self._base, self._gone, sorted(self._given), sorted(self._seen)]

    def loaded(self, saved: Any) -> Self:
        successor = self._like()
        base, gone, given, seen = some(saved, "a query's progress", 4)
        successor._base, successor._gone = whole(base, "a number of tuples", a_number(gone)), gone
        windows = [list(map(a_number, some(each, "a window", 3))) for each in some(given, "windows")]
        successor._given = frozenset((first, last, count) for first, last, count in windows)
        successor._seen = frozenset(map(a_number, some(seen, "tuples")))
        return successor

    def check(self, stream: Stream) -> None:
        """Nothing: tuples that are not there are in no window."""

    def _like(self) -> Self:
        other = type(self)(self.kind, self.name, self.since)
        other._base, other._gone, other._given = self._base, self._gone, self._given
        other._seen = self._seen
        return other

    def _rows(self, stream: Stream) -> list[Row]:
        """The tuples from the first window on that may change."""
        book, skip = stream.book, self._base - self._gone
        rows: list[Row] = []
        for each in book.slices[bisect_left(book.firsts, self.since) :]:
            assert each.rows is not None
            if each.count <= skip:
                skip -= each.count
            else:
                rows += each.rows[skip:]
                skip = 0
        return rows

    def _starts(self, rows: list[Row]) -> list[int]:
        kind, name = self.kind, self.name
        starts: list[int] = []
        first: Any = None
        for place, row in enumerate(rows):
            mark = row[3][name]
            if not starts or kind.opens(first, mark):
                starts.append(place)
                first = mark
        return starts

    def _due(self, stream: Stream, rows: list[Row], start: int, stop: int, end: Time) -> Due:
        """A window. It takes the place of others if it has a tuple that was given before."""
        window = rows[start:stop]
        state = folded(stream.store.monoid, [row[2] for row in window])
        is_update = any(row[1] in self._seen for row in window)
        return Due(end, window[0][0], end, state, is_update)
