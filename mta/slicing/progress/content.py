"""The progress of a query of windows by content."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

from mta.core.states import fold_states
from mta.encoding.untrusted import whole
from mta.kinds import Time
from mta.slicing.sliced_stream import Advance, DueWindow, SlicedStream
from mta.slicing.slices import KeptTuple
from mta.slicing.untrusted import checked_count, checked_list
from mta.slicing.windows import ContentWindow, Mark

#: the arrivals of a window's first and last tuple, and the number of its tuples
Signature = tuple[int, int, int]


@dataclass(slots=True, eq=False)
class ContentProgress:
    """The emitted windows that may still change. Each watermark looks at all of their tuples."""

    kind: ContentWindow
    name: str
    since: Time
    #: the number of tuples in windows that are over, or that were late for the query
    final: int = 0
    #: the number of tuples in slices that the stream has dropped
    dropped: int = 0
    emitted: frozenset[Signature] = frozenset()
    #: the arrivals of tuples in emitted windows that may still come into another window
    emitted_tuples: frozenset[int] = frozenset()
    idle_until: ClassVar[Time] = -math.inf
    idle_horizon: ClassVar[Time] = math.inf

    def advance(self, stream: SlicedStream, step: Advance) -> tuple[list[DueWindow], Self]:
        tuples = self._open_tuples(stream)
        starts = self._starts(tuples)
        windows, emitted = [], set()
        final_count, due_count, final = 0, 0, True
        if step.watermark == math.inf and tuples:
            starts.append(len(tuples))  # the end of the stream closes the last window
        for start, stop in pairwise(starts):
            closing = tuples[stop][0] if stop < len(tuples) else math.inf
            if closing > step.watermark:
                break
            signature = tuples[start][1], tuples[stop - 1][1], stop - start
            if signature not in self.emitted:
                windows.append(self._window(stream, tuples, start, stop, closing))
            final = final and closing <= step.horizon
            if final:
                final_count = stop
            else:
                emitted.add(signature)
            due_count = stop
        arrivals = {each[1] for each in tuples[final_count:due_count]}
        arrivals.update(each[1] for each in tuples[due_count:] if each[1] in self.emitted_tuples)
        final_count += self.final
        kept = (final_count, self.dropped, frozenset(emitted), frozenset(arrivals))
        return windows, type(self)(self.kind, self.name, self.since, *kept)

    def early(self, stream: SlicedStream) -> list[DueWindow]:
        tuples = self._open_tuples(stream)
        if not tuples:
            return []
        start = self._starts(tuples)[-1]
        return [self._window(stream, tuples, start, len(tuples), stream.youngest)._replace(is_update=False)]

    def needed_from(self, stream: SlicedStream, horizon: Time) -> Time:
        tuples = self._open_tuples(stream)
        if not tuples:
            return max(horizon, self.since)
        firsts, items = stream.slices.first_times, stream.slices.items
        index = bisect_left(firsts, tuples[0][0])
        # the slice of the first tuple may begin before it
        while index and items[index - 1].last >= tuples[0][0]:
            index -= 1
        return firsts[index]

    def next_due(self, stream: SlicedStream) -> Time:
        return stream.next_tuple(stream.watermark)

    def needed_until(self, stream: SlicedStream) -> Time:
        return stream.youngest

    def open_from(self, stream: SlicedStream) -> Time:
        """Tuples before this time belong to windows that are over."""
        tuples = self._open_tuples(stream) if self.final else []
        return tuples[0][0] if tuples else -math.inf

    def with_refused(self, times: list[Time]) -> Self:
        return replace(self, final=self.final + sum(time >= self.since for time in times))

    def with_dropped(self, stream: SlicedStream, count: int) -> Self:
        items = stream.slices.items[:count]
        dropped = sum(each.count for each in items if each.first >= self.since)
        return replace(self, dropped=self.dropped + dropped)

    def saved(self) -> Any:
        return [self.final, self.dropped, sorted(self.emitted), sorted(self.emitted_tuples)]

    def loaded(self, saved: Any) -> Self:
        final, dropped, emitted, emitted_tuples = checked_list(saved, "a query's progress", 4)
        final = whole(final, "a number of tuples", checked_count(dropped))
        windows = (checked_list(each, "a window", 3) for each in checked_list(emitted, "windows"))
        signatures: Any = frozenset(tuple(map(checked_count, each)) for each in windows)
        arrivals = frozenset(map(checked_count, checked_list(emitted_tuples, "tuples")))
        return type(self)(self.kind, self.name, self.since, final, dropped, signatures, arrivals)

    def check(self, stream: SlicedStream) -> None:
        """Any numbers do: tuples that are not there are in no window."""

    def _open_tuples(self, stream: SlicedStream) -> list[KeptTuple]:
        """The tuples of all windows that may still change, and of those to come."""
        slices, skip = stream.slices, self.final - self.dropped
        tuples: list[KeptTuple] = []
        for each in slices.items[bisect_left(slices.first_times, self.since) :]:
            assert each.tuples is not None
            if each.count <= skip:
                skip -= each.count
            else:
                tuples += each.tuples[skip:]
                skip = 0
        return tuples

    def _starts(self, tuples: list[KeptTuple]) -> list[int]:
        """The indices of the tuples that open a window."""
        kind, name = self.kind, self.name
        starts: list[int] = []
        first: Mark = None
        for index, each in enumerate(tuples):
            mark = each[3][name]
            if not starts or kind.opens(first, mark):
                starts.append(index)
                first = mark
        return starts

    def _window(
        self, stream: SlicedStream, tuples: list[KeptTuple], start: int, stop: int, end: Time
    ) -> DueWindow:
        """A window; it replaces others if one of its tuples was in an emitted window."""
        window = tuples[start:stop]
        state = fold_states(stream.aggregates.monoid, [each[2] for each in window])
        is_update = any(each[1] in self.emitted_tuples for each in window)
        return DueWindow(end, window[0][0], end, state, is_update)
