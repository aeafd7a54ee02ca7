"""What one query of windows with known edges has given, and what is due of it next."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, Self

from mta.core.states import NOTHING
from mta.encoding.untrusted import Malformed, shown
from mta.slicing.progress.spans import NONE, Edit, Spans
from mta.slicing.sliced_stream import Due, Moment, Stream
from mta.slicing.untrusted import a_span, a_time, some
from mta.slicing.windows import EdgeWindow, Span, Time


class EdgeProgress:
    """The windows that were given and may still change, of all that end at `upto` or before."""

    idle_horizon: Time = math.inf
    __slots__ = ("given", "idle_until", "kind", "since", "upto")

    def __init__(
        self,
        kind: EdgeWindow,
        since: Time,
        upto: Time = -math.inf,
        given: Spans = NONE,
        idle_until: Time = -math.inf,
    ) -> None:
        self.kind, self.since, self.upto = kind, since, upto
        #: their ends and starts
        self.given = given
        self.idle_until = idle_until

    def advance(self, stream: Stream, moment: Moment) -> tuple[list[Due], Self]:
        until = max(moment.watermark, self.upto)
        given, horizon = self.given, moment.horizon
        spans = [(span, False) for span in self._ending_in(stream.next_time, self.upto, until)]
        if moment.late:
            late = self._with_any(moment.late, moment.over, min(self.upto, stream.watermark))
            spans += [(span, span[::-1] in given) for span in late]
        dues = [due for span, is_update in spans if (due := self._due(stream, span, is_update))]
        edits: list[Edit] = []
        if given and given.first[0] <= horizon:
            edits.append((given.first, (horizon, math.inf), []))
        if horizon < until:
            new = sorted({(due.end, due.start) for due in dues if due.end > horizon and not due.is_update})
            if new and (not given or given.last < new[0]):
                edits.append((new[0], new[0], new))
            else:  # late tuples are in windows that had none
                edits += [(span, span, [span]) for span in new]
        given = given.edited(edits) if edits else given
        edge = None if until == math.inf else self.kind.edge_after(until)
        return dues, type(self)(self.kind, self.since, until, given, math.inf if edge is None else edge)

    def early(self, stream: Stream) -> list[Due]:
        if stream.youngest < self.since:
            return []
        spans = (span for span in self.kind.holding(stream.youngest) if span[1] > stream.watermark)
        return [due for span in spans if (due := self._due(stream, span, False))]

    def needs(self, stream: Stream, horizon: Time) -> Time:
        # long before all tuples, windows may be too many to be told apart
        first = stream.next_time(-math.inf)
        if first is None or abs(horizon) == math.inf:
            return max(horizon, self.since)
        return max(self.kind.reach(max(horizon, first)), self.since)

    def next_due(self, stream: Stream) -> Time:
        for _, end in self._ending_in(stream.next_time, self.upto, math.inf):
            return end
        return math.inf

    def needed_until(self, stream: Stream) -> Time:
        return self.kind.last_end(stream.youngest) if stream.youngest >= self.since else -math.inf

    def refusing(self, times: list[Time]) -> Self:  # noqa: ARG002
        return self

    def without(self, stream: Stream, dropped: int) -> Self:  # noqa: ARG002
        return self

    def saved(self) -> Any:
        return [self.upto, sorted((start, end) for end, start in self.given), self.idle_until]

    def loaded(self, saved: Any) -> Self:
        upto, given, idle_until = some(saved, "a query's progress", 3)
        spans = {a_span(each)[::-1] for each in some(given, "windows")}
        return type(self)(self.kind, self.since, a_time(upto), Spans(sorted(spans)), a_time(idle_until))

    def check(self, stream: Stream) -> None:
        if self.upto > max(stream.watermark, stream.youngest):
            raise Malformed(f"windows up to {shown(self.upto)} were given, behind all tuples")
        if self.given and self.given.last[0] > self.upto:
            raise Malformed(f"a window up to {shown(self.given.last[0])} was given before its end")
        if abs(self.upto) < math.inf:
            self.kind.edge_after(self.upto)

    def _due(self, stream: Stream, span: Span, is_update: bool) -> Due | None:
        start, end = span
        state = stream.between(max(start, self.since), end)
        return None if state is NOTHING else Due(end, start, end, state, is_update)

    def _with_any(self, times: list[Time], after: Time, until: Time) -> Iterator[Span]:
        """The windows with after < end <= until that hold some of these times, each once."""
        times = times[bisect_left(times, self.since) :]
        if not times:
            return

        def next_time(time: Time) -> Time | None:
            place = bisect_left(times, time)
            return times[place] if place < len(times) else None

        for start, end in self._ending_in(next_time, max(times[0], after), until):
            held = next_time(start)
            if held is not None and held < end:
                yield start, end

    def _ending_in(
        self, next_time: Callable[[Time], Time | None], after: Time, until: Time
    ) -> Iterator[Span]:
        """The windows with after < end <= until, without most of those that hold no time.

        `next_time` has the first time at or after another.
        """
        kind, time = self.kind, after
        if time == -math.inf:
            first = next_time(self.since)
            time = until if first is None else first
        while time < until:
            edge = kind.edge_after(time)
            if edge is None or edge > until:
                return
            # no window that holds `time` and none that starts later holds one before this
            coming = next_time(max(kind.reach(time), self.since))
            if coming is None:
                return
            if coming < edge:
                yield from kind.ending(time, edge)
                time = edge
            else:
                time = coming
