"""The progress of a query of windows with known edges."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from mta.core.states import NOTHING
from mta.encoding.untrusted import Malformed, shown
from mta.kinds import Time
from mta.slicing.progress.spans import NO_SPANS, Edit, Spans
from mta.slicing.sliced_stream import Advance, DueWindow, SlicedStream
from mta.slicing.untrusted import checked_list, checked_span, checked_time
from mta.slicing.windows import EdgeWindow, Span


@dataclass(slots=True, eq=False)
class EdgeProgress:
    """The windows that end by `emitted_until` are emitted; some of them, `emitted`, may change."""

    kind: EdgeWindow
    since: Time
    emitted_until: Time = -math.inf
    #: pairs of an end and a start
    emitted: Spans = NO_SPANS
    idle_until: Time = -math.inf
    idle_horizon: ClassVar[Time] = math.inf

    def advance(self, stream: SlicedStream, step: Advance) -> tuple[list[DueWindow], Self]:
        until = max(step.watermark, self.emitted_until)
        emitted, horizon = self.emitted, step.horizon
        spans = [(span, False) for span in self._ending_in(stream.next_time, self.emitted_until, until)]
        if step.late:
            late = self._holding_any(
                step.late, step.previous_horizon, min(self.emitted_until, stream.watermark)
            )
            spans += [(span, span[::-1] in emitted) for span in late]
        windows = [each for span, is_update in spans if (each := self._window(stream, span, is_update))]
        edits: list[Edit] = []
        if emitted and emitted.first[0] <= horizon:
            edits.append((emitted.first, (horizon, math.inf), []))
        if horizon < until:
            new = sorted(
                {(each.end, each.start) for each in windows if each.end > horizon and not each.is_update}
            )
            if new and (not emitted or emitted.last < new[0]):
                edits.append((new[0], new[0], new))
            else:  # late tuples are in windows that were empty
                edits += [(span, span, [span]) for span in new]
        emitted = emitted.edited(edits) if edits else emitted
        edge = None if until == math.inf else self.kind.edge_after(until)
        idle_until = math.inf if edge is None else edge
        return windows, type(self)(self.kind, self.since, until, emitted, idle_until)

    def early(self, stream: SlicedStream) -> list[DueWindow]:
        if stream.youngest < self.since:
            return []
        spans = (span for span in self.kind.holding(stream.youngest) if span[1] > stream.watermark)
        return [each for span in spans if (each := self._window(stream, span, False))]

    def needed_from(self, stream: SlicedStream, horizon: Time) -> Time:
        # long before all tuples, there may be too many windows to tell them apart
        first = stream.next_time(-math.inf)
        if first is None or abs(horizon) == math.inf:
            return max(horizon, self.since)
        return max(self.kind.reach(max(horizon, first)), self.since)

    def next_due(self, stream: SlicedStream) -> Time:
        for _, end in self._ending_in(stream.next_time, self.emitted_until, math.inf):
            return end
        return math.inf

    def needed_until(self, stream: SlicedStream) -> Time:
        return self.kind.last_end(stream.youngest) if stream.youngest >= self.since else -math.inf

    def with_refused(self, times: list[Time]) -> Self:  # noqa: ARG002
        return self

    def with_dropped(self, stream: SlicedStream, count: int) -> Self:  # noqa: ARG002
        return self

    def saved(self) -> Any:
        return [self.emitted_until, sorted((start, end) for end, start in self.emitted), self.idle_until]

    def loaded(self, saved: Any) -> Self:
        emitted_until, emitted, idle_until = checked_list(saved, "a query's progress", 3)
        spans = Spans(sorted({checked_span(each)[::-1] for each in checked_list(emitted, "windows")}))
        emitted_until, idle_until = checked_time(emitted_until), checked_time(idle_until)
        return type(self)(self.kind, self.since, emitted_until, spans, idle_until)

    def check(self, stream: SlicedStream) -> None:
        if self.emitted_until > max(stream.watermark, stream.youngest):
            raise Malformed(f"windows up to {shown(self.emitted_until)} were emitted, behind all tuples")
        if self.emitted and self.emitted.last[0] > self.emitted_until:
            raise Malformed(f"a window up to {shown(self.emitted.last[0])} was emitted before its end")
        if abs(self.emitted_until) < math.inf:
            self.kind.edge_after(self.emitted_until)

    def _window(self, stream: SlicedStream, span: Span, is_update: bool) -> DueWindow | None:
        start, end = span
        state = stream.between(max(start, self.since), end)
        return None if state is NOTHING else DueWindow(end, start, end, state, is_update)

    def _holding_any(self, times: list[Time], after: Time, until: Time) -> Iterator[Span]:
        """The windows with after < end <= until that hold at least one of some times, each window once."""
        times = times[bisect_left(times, self.since) :]
        if not times:
            return

        def next_time(time: Time) -> Time | None:
            index = bisect_left(times, time)
            return times[index] if index < len(times) else None

        for start, end in self._ending_in(next_time, max(times[0], after), until):
            held = next_time(start)
            if held is not None and held < end:
                yield start, end

    def _ending_in(
        self, next_time: Callable[[Time], Time | None], after: Time, until: Time
    ) -> Iterator[Span]:
        """The windows with after < end <= until, without most of the empty ones.

        `next_time` returns the first time of a tuple at or after a time, or None.
        """
        kind, time = self.kind, after
        if time == -math.inf:
            first = next_time(self.since)
            time = until if first is None else first
        while time < until:
            edge = kind.edge_after(time)
            if edge is None or edge > until:
                return
            # all windows that hold `time`, and all that start later, are empty before the next tuple
            coming = next_time(max(kind.reach(time), self.since))
            if coming is None:
                return
            if coming < edge:
                yield from kind.ending(time, edge)
                time = edge
            else:
                time = coming
