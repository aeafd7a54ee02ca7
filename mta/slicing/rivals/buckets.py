"""Buckets: an aggregate a window, as stream processors keep them."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from heapq import heappop, heappush
from typing import Any

from mta.monoids.base import Monoid
from mta.slicing.rivals.base import Rival
from mta.slicing.slices import folded
from mta.slicing.window_manager import Result, Timed
from mta.slicing.windows import EdgeWindow, Session, Span, Time, is_counted


class Bucket:
    """The aggregate of a window, or its tuples where their order matters."""

    __slots__ = ("given", "last", "rows", "stale", "start", "state")

    def __init__(self, start: Time) -> None:
        self.start = self.last = start
        self.state: Any = None
        self.rows: list[tuple[Time, int, Any]] = []
        #: whether a result was given of it, and whether it has changed since
        self.given, self.stale = False, True

    def add(self, monoid: Monoid, time: Time, arrival: int, state: Any) -> None:
        if not monoid.commutes:
            insort(self.rows, (time, arrival, state), key=_order)
        else:
            self.state = state if self.state is None else monoid.combine(self.state, state)
        self.stale = True

    def take_in(self, monoid: Monoid, other: Bucket) -> None:
        """Fuses two sessions."""
        self.start, self.last = min(self.start, other.start), max(self.last, other.last)
        self.given = self.given or other.given
        if monoid.commutes:
            self.state = monoid.combine(self.state, other.state)
        else:
            self.rows = sorted(self.rows + other.rows, key=_order)

    def total(self, monoid: Monoid) -> Any:
        return self.state if monoid.commutes else folded(monoid, [row[2] for row in self.rows])


class Buckets(Rival):
    """One bucket a window: a tuple is added to each that holds it. Takes windows by time, and sessions."""

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        for name, kind in self.kinds.items():
            if is_counted(kind) or not isinstance(kind, (EdgeWindow, Session)):
                raise ValueError(f"the query {name!r} is {kind!r}, and a tuple does not leave its bucket")
        names = enumerate(self.kinds.items())
        self._fixed = [
            (place, name, kind, {}, []) for place, (name, kind) in names if isinstance(kind, EdgeWindow)
        ]  # type: list[tuple[int, str, EdgeWindow, dict[Span, Bucket], list[Any]]]
        names = enumerate(self.kinds.items())
        self._sessions = [
            (place, name, kind.gap, [], [-math.inf])
            for place, (name, kind) in names
            if isinstance(kind, Session)
        ]  # type: list[tuple[int, str, Time, list[Bucket], list[Time]]]
        self._late: list[tuple[Any, ...]] = []

    def _take(self, time: Time, arrival: int, state: Any) -> bool:
        monoid, horizon = self.monoid, self._time - self.lateness
        taken = bool(time >= horizon)
        for place, name, kind, buckets, ends in self._fixed:
            for span in kind.holding(time):
                if span[1] <= horizon:
                    continue
                taken = True
                bucket = buckets.get(span)
                if bucket is None:
                    bucket = buckets[span] = Bucket(span[0])
                    heappush(ends, (span[1], span[0]))
                if span[1] <= self._time and not (bucket.given and bucket.stale):
                    self._late.append((place, name, span, bucket))
                bucket.add(monoid, time, arrival, state)
        refusing = []
        for query in self._sessions:
            _, _, gap, sessions, over = query
            oldest = sessions[0].start if sessions else horizon
            if time > over[0] and time + gap >= min(horizon, oldest):
                self._join(sessions, gap, time, arrival, state)
                taken = True
            else:
                refusing.append(over)
        if taken:
            for over in refusing:
                over[0] = max(over[0], time)
        return taken

    def _join(self, sessions: list[Bucket], gap: Time, time: Time, arrival: int, state: Any) -> None:
        at = bisect_right(sessions, time, key=_start)
        new = Bucket(time)
        new.add(self.monoid, time, arrival, state)
        if at and time <= sessions[at - 1].last + gap:
            bucket = sessions[at - 1]
            bucket.add(self.monoid, time, arrival, state)
            bucket.last = max(bucket.last, time)
        else:
            sessions.insert(at, new)
            at += 1
        if at < len(sessions) and sessions[at].start <= sessions[at - 1].last + gap:
            sessions[at - 1].take_in(self.monoid, sessions.pop(at))

    def _due(self, time: Time) -> list[Timed]:
        horizon = time - self.lateness
        found: list[Timed] = []
        for place, name, span, bucket in self._late:
            if bucket.stale:
                found.append(self._given(place, name, span, bucket))
        self._late = []
        for place, name, _, buckets, ends in self._fixed:
            while ends and ends[0][0] <= time:
                end, start = heappop(ends)
                bucket = buckets[start, end]
                if bucket.stale:
                    found.append(self._given(place, name, (start, end), bucket))
            for span in [span for span in buckets if span[1] <= horizon]:
                del buckets[span]
        for place, name, gap, sessions, over in self._sessions:
            found += [
                self._given(place, name, (bucket.start, bucket.last + gap), bucket)
                for bucket in sessions
                if bucket.stale and bucket.last + gap < time
            ]
            over[0] = max([over[0], *(one.last for one in sessions if one.last + gap < horizon)])
            sessions[:] = [bucket for bucket in sessions if bucket.last + gap >= horizon]
        return found

    def _given(self, place: int, name: str, span: Span, bucket: Bucket) -> Timed:
        value = self.monoid.lower(bucket.total(self.monoid))
        result = Result(name, *span, value, bucket.given)
        bucket.given, bucket.stale = True, False
        return Timed(span[1], place, result)


def _order(row: tuple[Time, int, Any]) -> tuple[Time, int]:
    return row[:2]


def _start(bucket: Bucket) -> Time:
    return bucket.start
