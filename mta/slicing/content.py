"""Windows that the tuples open: Delta, Punctuation, and those of a user; and what is due of them.

Each window begins with a tuple and ends before the one that opens the next, in the order of times. A tuple
that comes late may open a window in the past, or move all that follow.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Self

from mta.functions import check_name, described
from mta.monoids.base import number as value_number
from mta.monoids.base import required
from mta.slicing.aggregate_store import folded
from mta.slicing.slices import Row
from mta.slicing.stream import Due, Moment, Stream
from mta.slicing.windows import Time, Window, positive

#: the arrivals of a window's first and last tuple, and how many it has
Signature = tuple[int, int, int]


class ContentWindow(Window):
    """Windows that begin at tuples of their own choice. Subclass it for windows of your own."""

    @abstractmethod
    def mark(self, value: Any) -> Any:
        """What `opens` has to know of a tuple: a plain value."""

    @abstractmethod
    def opens(self, first: Any, mark: Any) -> bool:
        """Whether a tuple opens a window, in view of the mark of the window's first tuple before it."""


class Delta(ContentWindow):
    """A window ends where `field` is more than `d` away from what it is in the window's first tuple."""

    def __init__(self, field: str | None, d: float) -> None:
        if field is not None and not isinstance(field, str):
            raise TypeError(f"Delta takes the name of a field, or None for plain elements, got {field!r}")
        self.field, self.d = field, positive("Delta", "d", d)

    def fingerprint(self) -> str:
        return f"Delta({self.field!r}, {self.d})"

    def mark(self, value: Any) -> Any:
        return value_number(value if self.field is None else required(value, self.field, self), self)

    def opens(self, first: Any, mark: Any) -> bool:
        return bool(abs(mark - first) > self.d)


class Punctuation(ContentWindow):
    """A window begins at each tuple of which `predicate(value)` is true.

    `name` stands for the predicate in a checkpoint; without one it is told by its code.
    """

    def __init__(self, predicate: Callable[[Any], Any], *, name: str | None = None) -> None:
        if not callable(predicate):
            raise TypeError(f"Punctuation takes a function of a tuple's value, got {predicate!r}")
        check_name("Punctuation", name)
        self.predicate = predicate
        self._text = f"Punctuation({described(predicate) if name is None else name})"

    def fingerprint(self) -> str:
        return self._text

    def mark(self, value: Any) -> bool:
        return bool(self.predicate(value))

    def opens(self, first: Any, mark: Any) -> bool:  # noqa: ARG002
        return bool(mark)


class ContentProgress:
    """The windows that were given and may still change. Looks at all rows of these at each watermark."""

    __slots__ = ("_asof", "_base", "_frontier", "_given", "_gone", "kind", "name", "since")

    def __init__(self, kind: ContentWindow, name: str, since: Time) -> None:
        self.kind, self.name, self.since = kind, name, since
        #: how many of its tuples are in windows that cannot change, and in slices that are dropped
        self._base = self._gone = 0
        self._given: frozenset[Signature] = frozenset()
        #: what was given ends before this tuple, and is made of arrivals before this one
        self._frontier: tuple[Time, int] = (-math.inf, -1)
        self._asof = 0

    def advance(self, stream: Stream, moment: Moment) -> tuple[list[Due], Self]:
        rows = self._rows(stream)
        starts = self._starts(rows)
        dues, given = [], set()
        frontier, base, final = self._frontier, 0, True
        for start, stop in pairwise(starts):
            closing = rows[stop]
            if closing[0] > moment.watermark:
                break
            signature = rows[start][1], rows[stop - 1][1], stop - start
            if signature not in self._given:
                dues.append(self._due(stream, rows, start, stop, closing[0]))
            final = final and closing[0] <= moment.horizon
            if final:
                base = stop
            else:
                given.add(signature)
            frontier = max(frontier, closing[:2])
        successor = self._like()
        successor._base, successor._given = self._base + base, frozenset(given)
        successor._frontier, successor._asof = frontier, stream.arrivals
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

    def without(self, stream: Stream, dropped: int) -> Self:
        successor = self._like()
        slices = stream.book.slices[:dropped]
        successor._gone += sum(each.count for each in slices if each.first >= self.since)
        return successor

    def saved(self) -> Any:
        return [self._base, self._gone, sorted(self._given), self._frontier, self._asof]

    def loaded(self, saved: Any) -> Self:
        successor = self._like()
        successor._base, successor._gone, given, frontier, successor._asof = saved
        successor._given, successor._frontier = frozenset(map(tuple, given)), tuple(frontier)
        return successor

    def _like(self) -> Self:
        other = type(self)(self.kind, self.name, self.since)
        other._base, other._gone, other._given = self._base, self._gone, self._given
        other._frontier, other._asof = self._frontier, self._asof
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
        is_update = any(row[1] < self._asof and row[:2] < self._frontier for row in window)
        return Due(end, window[0][0], end, state, is_update)
