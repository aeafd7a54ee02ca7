"""The progress of a query of sessions.

Slices are cut by the smallest gap of all queries, so a session of any gap consists of whole slices. Sessions
are kept until no tuple can join them. A watermark looks only at slices that have changed since the last one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from operator import itemgetter
from typing import Any, Self

from mta.core.states import NOTHING
from mta.encoding.untrusted import Malformed, shown
from mta.kinds import Time
from mta.slicing.progress.spans import NO_SPANS, Edit, Spans
from mta.slicing.sliced_stream import Advance, DueWindow, Progress, SlicedStream
from mta.slicing.untrusted import checked_list, checked_span, checked_time
from mta.slicing.windows import Session, after

#: the times of the first and of the last tuple of a session
Extent = tuple[Time, Time]

_LAST = itemgetter(1)


@dataclass(slots=True, eq=False)
class SessionProgress:
    """The sessions that may still change, in order, and the emitted ones among them."""

    kind: Session
    since: Time
    #: tuples up to this time are in sessions that are over, or were late for the query
    final_until: Time = -math.inf
    #: the sessions of all slices that begin before the watermark `seen_until`, as they were then
    sessions: Spans = NO_SPANS
    emitted: Spans = NO_SPANS
    seen_until: Time = -math.inf
    idle_until: Time = -math.inf
    idle_horizon: Time = math.inf

    def begun(self, stream: SlicedStream, horizon: Time) -> Self:
        """The progress of a query that is new to a stream with slices.

        It finds the sessions at once, since the stream may drop these slices before the next watermark.
        """
        sessions = self._find_sessions(stream, [], math.inf)
        over = [last for _, last in sessions if last + self.kind.gap < horizon]
        final = max(over, default=self.final_until)
        return type(self)(self.kind, self.since, final, sessions, self.emitted, stream.watermark)

    def advance(self, stream: SlicedStream, step: Advance) -> tuple[list[DueWindow], Self]:
        until, late, horizon = step.watermark, step.late, step.horizon
        sessions, final = self._find_sessions(stream, late, until), self.final_until
        windows, edits = [], []
        for session in self._ended(sessions, late, until):
            start, last = session
            end = last + self.kind.gap
            older = _begun_by(last, self.emitted.at_least(start, key=_LAST))
            if older != [session] or _any_between(late, start, last):
                state = stream.between(start, after(last))
                if state is not NOTHING:
                    windows.append(DueWindow(end, start, end, state, bool(older)))
                low, high = (min(older[0], session), (last, math.inf)) if older else (session, session)
                edits.append((low, high, [session]))
        emitted = self.emitted.edited(edits) if edits else self.emitted
        if sessions and sessions.first[1] + self.kind.gap < horizon:
            over = [*takewhile(lambda each: each[1] + self.kind.gap < horizon, sessions)]
            final = over[-1][1]
            sessions = sessions.edited([(over[0], (final, math.inf), [])])
        if emitted and (not sessions or emitted.first < (sessions.first[0],)):
            emitted = emitted.edited([(emitted.first, (sessions.first[0],) if sessions else (math.inf,), [])])
        # slices go to a store once all queries have looked at them, so there no query may idle
        idle_until = self._next_end(sessions, emitted, until) if stream.aggregates.may_merge else -math.inf
        idle_horizon = sessions.first[1] + self.kind.gap if sessions else math.inf
        kept = (final, sessions, emitted, until, idle_until, idle_horizon)
        return windows, type(self)(self.kind, self.since, *kept)

    def _next_end(self, sessions: Spans, emitted: Spans, until: Time) -> Time:
        """No session that was not emitted ends before this time, nor one of tuples that come in order."""
        older = emitted.last[1] if emitted else -math.inf
        session = next(sessions.at_least(after(older), key=_LAST), None)
        next_last: Time = until if session is None else min(session[1], until)
        return next_last + self.kind.gap

    def early(self, stream: SlicedStream) -> list[DueWindow]:
        slices, firsts, gap = stream.slices.items, stream.slices.first_times, self.kind.gap
        index, lowest = len(slices) - 1, self._lowest(stream)
        if index < lowest or slices[index].last < stream.youngest:
            return []
        start, last = slices[index].first, slices[index].last
        end = last + gap
        if end < stream.watermark:
            return []
        first_unseen = bisect_left(firsts, self.seen_until)
        while True:
            near = index > lowest and slices[index - 1].last + gap >= start
            if not near or index <= first_unseen:
                # slices further back are in a known session, or have late tuples
                joined = self.sessions.at_least(start, key=lambda each: each[1] + gap)
                session = next((each for each in joined if each[1] > self.final_until), None)
                if session is not None and session[0] < start:
                    start = session[0]
                    index = bisect_left(firsts, start)
                    continue
            if not near:
                break
            index -= 1
            start = slices[index].first
        state = stream.between(start, after(last))
        return [] if state is NOTHING else [DueWindow(end, start, end, state, False)]

    def needed_from(self, stream: SlicedStream, horizon: Time) -> Time:
        if self.sessions:
            return self.sessions.first[0]
        firsts = stream.slices.first_times
        index = max(self._lowest(stream), bisect_left(firsts, self.seen_until))
        needed = max(horizon, self.since)
        return min(needed, firsts[index]) if index < len(firsts) else needed

    def next_due(self, stream: SlicedStream) -> Time:
        """The end of the oldest session that was not emitted; slices that are not seen yet may extend it."""
        older = self.emitted.last[1] if self.emitted else -math.inf
        session = next(self.sessions.at_least(after(older), key=_LAST), None)
        slices = stream.slices.items
        if session is None:
            index = max(self._lowest(stream), bisect_left(stream.slices.first_times, self.seen_until))
            if index == len(slices):
                return math.inf
            session = slices[index].first, slices[index].last
        return after(session[1] + self.kind.gap)

    def needed_until(self, stream: SlicedStream) -> Time:
        slices = stream.slices.items
        last = self.sessions.last[1] if self.sessions else -math.inf
        if len(slices) > self._lowest(stream):
            last = max(last, slices[-1].last)
        return after(last + self.kind.gap)

    def oldest(self, stream: SlicedStream) -> Time:
        """The time of the first tuple in a session that is not over; infinity if there is none."""
        firsts, index = stream.slices.first_times, self._lowest(stream)
        first = firsts[index] if index < len(firsts) else math.inf
        session = next(self.sessions.at_least((after(self.final_until),)), None)
        return first if session is None else min(first, session[0])

    def with_refused(self, times: list[Time]) -> Self:
        return replace(self, final_until=max(self.final_until, *times))

    def with_dropped(self, stream: SlicedStream, count: int) -> Self:  # noqa: ARG002
        return self

    def saved(self) -> Any:
        return [self.final_until, tuple(self.sessions), tuple(self.emitted), self.seen_until]

    def loaded(self, saved: Any) -> Self:
        final, sessions, emitted, seen_until = checked_list(saved, "a query's progress", 4)
        if type(seen_until) is bool:  # in the first format: whether slices were seen, up to the watermark
            seen_until = self.seen_until if seen_until else -math.inf
        sessions, emitted = Spans(_extents(sessions)), Spans(_extents(emitted))
        final, seen_until = checked_time(final), checked_time(seen_until)
        return type(self)(self.kind, self.since, final, sessions, emitted, seen_until)

    def check(self, stream: SlicedStream) -> None:
        # a session has a tuple at its last time
        last = max([self.final_until, *(each.last[1] for each in (self.sessions, self.emitted) if each)])
        if last > stream.youngest:
            raise Malformed(f"there are sessions up to {shown(last)}, behind all tuples")
        if self.seen_until > stream.watermark:
            raise Malformed(f"sessions were seen up to {shown(self.seen_until)}, behind the watermark")

    def _find_sessions(self, stream: SlicedStream, late: list[Time], until: Time) -> Spans:
        """All sessions that are not over, of the slices that begin before a time.

        Sessions never become shorter, so it looks only at slices that came since the last watermark and at
        slices with late tuples.
        """
        firsts, slices, gap = stream.slices.first_times, stream.slices.items, self.kind.gap
        lowest = self._lowest(stream)
        # the last slice that was seen may have got longer
        indices: Iterable[int] = range(
            max(lowest, bisect_left(firsts, self.seen_until) - 1), bisect_left(firsts, until)
        )
        if late:
            holding = (bisect_right(firsts, time) - 1 for time in late)
            indices = sorted({*indices, *(index for index in holding if index >= lowest)})
        changed: list[Extent] = []
        for index in indices:
            each = slices[index]
            if changed and each.first <= changed[-1][1] + gap:
                changed[-1] = changed[-1][0], each.last
            else:
                changed.append((each.first, each.last))
        edits: list[Edit] = []
        for first, last in changed:
            low: Any = (first,)
            high = low
            if edits and first <= edits[-1][2][0][1] + gap:  # both join a session between them
                low, high, ((first, older),) = edits.pop()
                last = max(last, older)
            for session in self.sessions.at_least(first, key=lambda one: one[1] + gap):
                if session[0] > last + gap:
                    break
                if session[1] > self.final_until:
                    low, high = min(low, session), max(high, (session[0], math.inf))
                    first, last = min(first, session[0]), max(last, session[1])
            edits.append((low, high, [(first, last)]))
        return self.sessions.edited(edits) if edits else self.sessions

    def _ended(self, sessions: Spans, late: list[Time], until: Time) -> list[Extent]:
        """The sessions that have ended, and were not emitted or have late tuples."""
        gap = self.kind.gap
        older = self.emitted.last[1] if self.emitted else -math.inf
        ended = set(takewhile(lambda each: each[1] + gap < until, sessions.at_least(after(older), key=_LAST)))
        for time in late:
            session = next(sessions.at_least(time, key=_LAST), None)
            # the session is open for a tuple exactly at its end
            if session is not None and session[0] <= time and session[1] + gap < until:
                ended.add(session)
        return sorted(ended)

    def _lowest(self, stream: SlicedStream) -> int:
        """The index of the first slice that is not over."""
        firsts = stream.slices.first_times
        return max(bisect_left(firsts, self.since), bisect_right(firsts, self.final_until))


def session_cuts(progress: Mapping[str, Progress]) -> list[Time]:
    """The times that no session of any query may cross, ascending."""
    finals = {one.final_until for one in progress.values() if isinstance(one, SessionProgress)}
    return sorted(finals - {-math.inf})


def _extents(saved: Any) -> list[Extent]:
    extents = [checked_span(each, "a session") for each in checked_list(saved, "sessions")]
    if any(older[1] >= younger[0] for older, younger in pairwise(extents)):
        raise Malformed("sessions are not in the order of their times")
    return extents


def _begun_by(time: Time, sessions: Iterable[Extent]) -> list[Extent]:
    return [*takewhile(lambda each: each[0] <= time, sessions)]


def _any_between(times: list[Time], start: Time, last: Time) -> bool:
    index = bisect_left(times, start)
    return index < len(times) and times[index] <= last
