"""What one query of sessions has given, and what is due of it next.

Slices are cut by the smallest gap of all queries, so a session of any gap is a run of whole slices. The
sessions found are kept until no tuple can join them, and a watermark looks only at slices that changed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Self

from mta.core.states import NOTHING
from mta.encoding.untrusted import Malformed, shown
from mta.slicing.progress.told import a_span, a_time, some, yes_or_no
from mta.slicing.stream import Due, Moment, Progress, Stream
from mta.slicing.windows import Session, Time, after

#: the times of the first and of the last tuple of a session
Extent = tuple[Time, Time]


class SessionProgress:
    """The sessions that may still change, in order, and what was given of them."""

    idle_until: Time = -math.inf
    __slots__ = ("final", "found", "given", "kind", "scanned", "since")

    def __init__(
        self,
        kind: Session,
        since: Time,
        final: Time = -math.inf,
        found: tuple[Extent, ...] = (),
        given: tuple[Extent, ...] = (),
        scanned: bool = False,
    ) -> None:
        self.kind, self.since = kind, since
        #: tuples up to this time are in sessions that are over, or were late themselves
        self.final = final
        self.found, self.given = found, given
        #: whether slices from before the last watermark were looked at
        self.scanned = scanned

    def begun(self, stream: Stream, horizon: Time) -> Self:
        """As it is where the stream has slices already, which may be gone when the next watermark comes."""
        found = tuple(self._sessions(stream))
        final = max((last for _, last in found if last + self.kind.gap < horizon), default=self.final)
        return type(self)(self.kind, self.since, final, found, self.given, True)

    def advance(self, stream: Stream, moment: Moment) -> tuple[list[Due], Self]:
        gap, until = self.kind.gap, moment.watermark
        found = self._sessions(stream)
        given, dues = list(self.given), []
        for session in found:
            start, last = session
            if last + gap >= until:  # a tuple that is not late may be exactly there
                break
            place = bisect_left(given, start, key=_last)
            stop = place
            while stop < len(given) and given[stop][0] <= last:
                stop += 1
            if given[place:stop] != [session] or _any_between(moment.late, start, last):
                state = stream.between(start, after(last))
                if state is not NOTHING:
                    dues.append(Due(last + gap, start, last + gap, state, stop > place))
                given[place:stop] = [session]
        live = tuple(session for session in found if session[1] + gap >= moment.horizon)
        finished = len(found) - len(live)
        final = found[finished - 1][1] if finished else self.final
        given = [each for each in given if live and each[0] >= live[0][0]]
        return dues, type(self)(self.kind, self.since, final, live, tuple(given), True)

    def early(self, stream: Stream) -> list[Due]:
        found = self._sessions(stream)
        if not found or found[-1][1] < stream.youngest:
            return []
        start, last = found[-1]
        end = last + self.kind.gap
        state = stream.between(start, after(last))
        if end < stream.watermark or state is NOTHING:
            return []
        return [Due(end, start, end, state, False)]

    def needs(self, stream: Stream, horizon: Time) -> Time:  # noqa: ARG002
        return self.found[0][0] if self.found else max(horizon, self.since)

    def next_due(self, stream: Stream) -> Time:  # noqa: ARG002
        given, gap = set(self.given), self.kind.gap
        ends = (session[1] + gap for session in self.found if session not in given)
        return after(min(ends, default=math.inf))

    def needed_until(self, stream: Stream) -> Time:  # noqa: ARG002
        return after(self.found[-1][1] + self.kind.gap) if self.found else -math.inf

    def oldest(self, stream: Stream) -> Time:
        """The time of the first tuple in a session that is not over; infinity if there is none."""
        firsts = stream.book.firsts
        place = max(bisect_left(firsts, self.since), bisect_right(firsts, self.final))
        first = firsts[place] if place < len(firsts) else math.inf
        place = bisect_right(self.found, self.final, key=_first)
        return min(first, self.found[place][0]) if place < len(self.found) else first

    def refusing(self, times: list[Time]) -> Self:
        final = max(self.final, *times)
        return type(self)(self.kind, self.since, final, self.found, self.given, self.scanned)

    def without(self, stream: Stream, dropped: int) -> Self:  # noqa: ARG002
        return self

    def saved(self) -> Any:
        return [self.final, self.found, self.given, self.scanned]

    def loaded(self, saved: Any) -> Self:
        final, found, given, scanned = some(saved, "a query's progress", 4)
        scanned = yes_or_no(scanned, "whether slices were looked at")
        return type(self)(self.kind, self.since, a_time(final), _extents(found), _extents(given), scanned)

    def check(self, stream: Stream) -> None:
        # sessions without tuples are not given
        if self.final > stream.youngest:
            raise Malformed(f"sessions up to {shown(self.final)} are over, behind all tuples")

    def _sessions(self, stream: Stream) -> list[Extent]:
        """All sessions as they are now, but those that cannot change."""
        firsts, slices = stream.book.firsts, stream.book.slices
        changed_from = stream.changed_from if self.scanned else -math.inf
        place = bisect_left(slices, changed_from, key=lambda each: each.last)
        place = max(place, bisect_left(firsts, self.since), bisect_right(firsts, self.final))
        found = list(self.found)
        if place < len(slices):
            del found[bisect_left(found, firsts[place], key=_first) :]
            if found:
                before = slices[place - 1].last if place else stream.book.last_dropped
                found[-1] = (found[-1][0], before)
        gap = self.kind.gap
        for each in slices[place:]:
            if found and found[-1][1] > self.final and each.first <= found[-1][1] + gap:
                found[-1] = (found[-1][0], each.last)
            else:
                found.append((each.first, each.last))
        return found


def cuts_of(progress: Mapping[str, Progress]) -> list[Time]:
    """The times that no session may reach over, of all queries of a stream, ascending."""
    finals = {one.final for one in progress.values() if isinstance(one, SessionProgress)}
    return sorted(finals - {-math.inf})


def _extents(saved: Any) -> tuple[Extent, ...]:
    extents = tuple(a_span(each, "a session") for each in some(saved, "sessions"))
    if any(older[1] >= younger[0] for older, younger in pairwise(extents)):
        raise Malformed("sessions are not in the order of their times")
    return extents


def _first(session: Extent) -> Time:
    return session[0]


def _last(session: Extent) -> Time:
    return session[1]


def _any_between(times: list[Time], start: Time, last: Time) -> bool:
    place = bisect_left(times, start)
    return place < len(times) and times[place] <= last
