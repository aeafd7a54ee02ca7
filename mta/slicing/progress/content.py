"""The progress of a query of windows by content."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise
from typing import Any, Self

from mta.core.states import fold_states
from mta.encoding.untrusted import whole
from mta.kinds import Time
from mta.slicing.sliced_stream import Advance, DueWindow, SlicedStream
from mta.slicing.slices import KeptTuple
from mta.slicing.untrusted import checked_count, checked_list
from mta.slicing.windows import ContentWindow, Mark

#: the arrivals of a window's first and last tuple, and the number of its tuples
Signature = tuple[int, int, int]


class ContentProgress:
    """The emitted windows that may still change. Each watermark looks at all of their tuples."""

    idle_until: Time = -math.inf
    idle_horizon: Time = math.inf
    __slots__ = ("_dropped", "_emitted", "_emitted_tuples", "_final", "kind", "name", "since")

    def __init__(self, kind: ContentWindow, name: str, since: Time) -> None:
        self.kind, self.name, self.since = kind, name, since
        #: the number of tuples in windows that are over, or that were late for the query
        self._final = 0
        #: the number of tuples in slices that the stream has dropped
        self._dropped = 0
        self._emitted: frozenset[Signature] = frozenset()
        #: the arrivals of tuples in emitted windows that may still come into another window
        self._emitted_tuples: frozenset[int] = frozenset()

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
            if signature not in self._emitted:
                windows.append(self._window(stream, tuples, start, stop, closing))
            final = final and closing <= step.horizon
            if final:
                final_count = stop
            else:
                emitted.add(signature)
            due_count = stop
        after = self._copy()
        after._final, after._emitted = self._final + final_count, frozenset(emitted)
        arrivals = {each[1] for each in tuples[final_count:due_count]}
        waiting = (each[1] for each in tuples[due_count:] if each[1] in self._emitted_tuples)
        after._emitted_tuples = frozenset(arrivals.union(waiting))
        return windows, after

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
        tuples = self._open_tuples(stream) if self._final else []
        return tuples[0][0] if tuples else -math.inf

    def with_refused(self, times: list[Time]) -> Self:
        after = self._copy()
        after._final += sum(time >= self.since for time in times)
        return after

    def with_dropped(self, stream: SlicedStream, count: int) -> Self:
        after = self._copy()
        items = stream.slices.items[:count]
        after._dropped += sum(each.count for each in items if each.first >= self.since)
        return after

    def saved(self) -> Any:
        return [self._final, self._dropped, sorted(self._emitted), sorted(self._emitted_tuples)]

    def loaded(self, saved: Any) -> Self:
        after = self._copy()
        final, dropped, emitted, emitted_tuples = checked_list(saved, "a query's progress", 4)
        after._final, after._dropped = whole(final, "a number of tuples", checked_count(dropped)), dropped
        windows = [
            list(map(checked_count, checked_list(each, "a window", 3)))
            for each in checked_list(emitted, "windows")
        ]
        after._emitted = frozenset((first, last, count) for first, last, count in windows)
        after._emitted_tuples = frozenset(map(checked_count, checked_list(emitted_tuples, "tuples")))
        return after

    def check(self, stream: SlicedStream) -> None:
        """Any numbers do: tuples that are not there are in no window."""

    def _copy(self) -> Self:
        other = type(self)(self.kind, self.name, self.since)
        other._final, other._dropped, other._emitted = self._final, self._dropped, self._emitted
        other._emitted_tuples = self._emitted_tuples
        return other

    def _open_tuples(self, stream: SlicedStream) -> list[KeptTuple]:
        """The tuples of all windows that may still change, and of those to come."""
        slices, skip = stream.slices, self._final - self._dropped
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
        is_update = any(each[1] in self._emitted_tuples for each in window)
        return DueWindow(end, window[0][0], end, state, is_update)
