"""What one query of sessions has given, and what is due of it next.

Slices are cut by the smallest gap of all queries, so a session of any gap is a run of whole slices. The
sessions found are kept until no tuple can join them, and a watermark looks only at slices that changed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise, takewhile
from typing import Any, Self

from mta.core.states import NOTHING
from mta.encoding.untrusted import Malformed, shown
from mta.slicing.progress.spans import NONE, Edit, Spans
from mta.slicing.sliced_stream import Due, Moment, Progress, Stream
from mta.slicing.untrusted import a_span, a_time, some
from mta.slicing.windows import Session, Time, after

#: the times of the first and of the last tuple of a session
Extent = tuple[Time, Time]


class SessionProgress:
    """The sessions that may still change, in order, and what was given of them."""

    __slots__ = ("final", "found", "given", "idle_horizon", "idle_until", "kind", "since", "upto")

    def __init__(
        self,
        kind: Session,
        since: Time,
        final: Time = -math.inf,
        found: Spans = NONE,
        given: Spans = NONE,
        upto: Time = -math.inf,
        idle_until: Time = -math.inf,
        idle_horizon: Time = math.inf,
    ) -> None:
        self.kind, self.since = kind, since
        self.idle_until, self.idle_horizon = idle_until, idle_horizon
        #: tuples up to this time are in sessions that are over, or were late themselves
        self.final = final
        #: the sessions of all slices that begin before `upto`, as they were at that watermark
        self.found, self.upto = found, upto
        self.given = given

    def begun(self, stream: Stream, horizon: Time) -> Self:
        """As it is where the stream has slices already, which may be gone when the next watermark comes."""
        found = self._sessions(stream, [], math.inf)
        final = max((last for _, last in found if last + self.kind.gap < horizon), default=self.final)
        return type(self)(self.kind, self.since, final, found, self.given, stream.watermark)

    def advance(self, stream: Stream, moment: Moment) -> tuple[list[Due], Self]:
        until, late, horizon = moment.watermark, moment.late, moment.horizon
        found, final = self._sessions(stream, late, until), self.final
        dues, edits = [], []
        for session in self._ended(found, late, until):
            start, last = session
            end = last + self.kind.gap
            older = _begun_by(last, self.given.at_least(start, key=_last))
            if older != [session] or _any_between(late, start, last):
                state = stream.between(start, after(last))
                if state is not NOTHING:
                    dues.append(Due(end, start, end, state, bool(older)))
                edits.append(
                    (min(older[0], session), (last, math.inf), [session])
                    if older
                    else (session, session, [session])
                )
        given = self.given.edited(edits) if edits else self.given
        if found and found.first[1] + self.kind.gap < horizon:
            over = [*takewhile(lambda each: each[1] + self.kind.gap < horizon, found)]
            final = over[-1][1]
            found = found.edited([(over[0], (final, math.inf), [])])
        if given and (not found or given.first < (found.first[0],)):
            given = given.edited([(given.first, (found.first[0],) if found else (math.inf,), [])])
        # a store takes slices that all sessions have looked at, and waits for none
        idle_until = self._next_end(found, given, until) if stream.store.joins else -math.inf
        idle_horizon = found.first[1] + self.kind.gap if found else math.inf
        kept = (final, found, given, until, idle_until, idle_horizon)
        return dues, type(self)(self.kind, self.since, *kept)

    def _next_end(self, found: Spans, given: Spans, until: Time) -> Time:
        """No session ends before this time that was not given, and none of tuples yet to come in order."""
        older = given.last[1] if given else -math.inf
        session = next(found.at_least(after(older), key=_last), None)
        return (until if session is None else min(session[1], until)) + self.kind.gap

    def early(self, stream: Stream) -> list[Due]:
        slices, firsts, gap = stream.book.slices, stream.book.firsts, self.kind.gap
        place, lowest = len(slices) - 1, self._lowest(stream)
        if place < lowest or slices[place].last < stream.youngest:
            return []
        start, last = slices[place].first, slices[place].last
        end = last + gap
        if end < stream.watermark:
            return []
        came = bisect_left(firsts, self.upto)
        while True:
            near = place > lowest and slices[place - 1].last + gap >= start
            if not near or place <= came:  # what is further back is in a session that was found, or came late
                joined = self.found.at_least(start, key=lambda each: each[1] + gap)
                session = next((each for each in joined if each[1] > self.final), None)
                if session is not None and session[0] < start:
                    start = session[0]
                    place = bisect_left(firsts, start)
                    continue
            if not near:
                break
            place -= 1
            start = slices[place].first
        state = stream.between(start, after(last))
        return [] if state is NOTHING else [Due(end, start, end, state, False)]

    def needs(self, stream: Stream, horizon: Time) -> Time:
        if self.found:
            return self.found.first[0]
        firsts = stream.book.firsts
        place = max(self._lowest(stream), bisect_left(firsts, self.upto))
        needed = max(horizon, self.since)
        return min(needed, firsts[place]) if place < len(firsts) else needed

    def next_due(self, stream: Stream) -> Time:
        """The end of the oldest session that was not given, or sooner where slices to come make it longer."""
        given = self.given.last[1] if self.given else -math.inf
        session = next(self.found.at_least(after(given), key=_last), None)
        slices = stream.book.slices
        if session is None:
            place = max(self._lowest(stream), bisect_left(stream.book.firsts, self.upto))
            if place == len(slices):
                return math.inf
            session = slices[place].first, slices[place].last
        return after(session[1] + self.kind.gap)

    def needed_until(self, stream: Stream) -> Time:
        slices = stream.book.slices
        last = self.found.last[1] if self.found else -math.inf
        if len(slices) > self._lowest(stream):
            last = max(last, slices[-1].last)
        return after(last + self.kind.gap)

    def oldest(self, stream: Stream) -> Time:
        """The time of the first tuple in a session that is not over; infinity if there is none."""
        firsts, place = stream.book.firsts, self._lowest(stream)
        first = firsts[place] if place < len(firsts) else math.inf
        session = next(self.found.at_least((after(self.final),)), None)
        return first if session is None else min(first, session[0])

    def refusing(self, times: list[Time]) -> Self:
        final = max(self.final, *times)
        kept = (self.found, self.given, self.upto, self.idle_until, self.idle_horizon)
        return type(self)(self.kind, self.since, final, *kept)

    def without(self, stream: Stream, dropped: int) -> Self:  # noqa: ARG002
        return self

    def saved(self) -> Any:
        return [self.final, tuple(self.found), tuple(self.given), self.upto]

    def loaded(self, saved: Any) -> Self:
        final, found, given, upto = some(saved, "a query's progress", 4)
        if type(upto) is bool:  # those of before told whether slices were looked at, up to the watermark
            upto = self.upto if upto else -math.inf
        found, given = Spans(_extents(found)), Spans(_extents(given))
        return type(self)(self.kind, self.since, a_time(final), found, given, a_time(upto))

    def check(self, stream: Stream) -> None:
        # sessions without tuples are not given
        last = max([self.final, *(each.last[1] for each in (self.found, self.given) if each)])
        if last > stream.youngest:
            raise Malformed(f"there are sessions up to {shown(last)}, behind all tuples")
        if self.upto > stream.watermark:
            raise Malformed(f"sessions were looked at up to {shown(self.upto)}, behind the watermark")

    def _sessions(self, stream: Stream, late: list[Time], until: Time) -> Spans:
        """All sessions of the slices that begin before a time, and are not over.

        Only slices that came since the last watermark, or have late tuples, are looked at. Sessions never
        become shorter.
        """
        firsts, slices, gap = stream.book.firsts, stream.book.slices, self.kind.gap
        lowest = self._lowest(stream)
        # the slice before may have got longer
        places: Iterable[int] = range(
            max(lowest, bisect_left(firsts, self.upto) - 1), bisect_left(firsts, until)
        )
        if late:
            holding = (bisect_right(firsts, time) - 1 for time in late)
            places = sorted({*places, *(place for place in holding if place >= lowest)})
        runs: list[Extent] = []
        for place in places:
            each = slices[place]
            if runs and each.first <= runs[-1][1] + gap:
                runs[-1] = runs[-1][0], each.last
            else:
                runs.append((each.first, each.last))
        edits: list[Edit] = []
        for first, last in runs:
            low = high = (first,)
            if edits and first <= edits[-1][2][0][1] + gap:  # both join a session between them
                low, high, ((first, older),) = edits.pop()
                last = max(last, older)
            for session in self.found.at_least(first, key=lambda one: one[1] + gap):
                if session[0] > last + gap:
                    break
                if session[1] > self.final:
                    low, high = min(low, session), max(high, (session[0], math.inf))
                    first, last = min(first, session[0]), max(last, session[1])
            edits.append((low, high, [(first, last)]))
        return self.found.edited(edits) if edits else self.found

    def _ended(self, found: Spans, late: list[Time], until: Time) -> list[Extent]:
        """The sessions that have ended, which were not given or have late tuples."""
        gap = self.kind.gap
        given = self.given.last[1] if self.given else -math.inf
        ended = set(takewhile(lambda each: each[1] + gap < until, found.at_least(after(given), key=_last)))
        for time in late:
            session = next(found.at_least(time, key=_last), None)
            # a tuple that is not late may be exactly at its end
            if session is not None and session[0] <= time and session[1] + gap < until:
                ended.add(session)
        return sorted(ended)

    def _lowest(self, stream: Stream) -> int:
        """The place of the first slice that is not over."""
        firsts = stream.book.firsts
        return max(bisect_left(firsts, self.since), bisect_right(firsts, self.final))


def cuts_of(progress: Mapping[str, Progress]) -> list[Time]:
    """The times that no session may reach over, of all queries of a stream, ascending."""
    finals = {one.final for one in progress.values() if isinstance(one, SessionProgress)}
    return sorted(finals - {-math.inf})


def _extents(saved: Any) -> list[Extent]:
    extents = [a_span(each, "a session") for each in some(saved, "sessions")]
    if any(older[1] >= younger[0] for older, younger in pairwise(extents)):
        raise Malformed("sessions are not in the order of their times")
    return extents


def _begun_by(time: Time, sessions: Iterable[Extent]) -> list[Extent]:
    return [*takewhile(lambda each: each[0] <= time, sessions)]


def _last(session: Extent) -> Time:
    return session[1]


def _any_between(times: list[Time], start: Time, last: Time) -> bool:
    place = bisect_left(times, start)
    return place < len(times) and times[place] <= last
