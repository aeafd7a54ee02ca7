"""One stream, of all tuples or of those of one key: its slices, and how far each query has come in it."""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

from mta.kinds import State, Time
from mta.slicing.aggregate_store import AggregateStore
from mta.slicing.emitted import EmittedValues
from mta.slicing.slices import SliceList
from mta.slicing.windows import Window


class DueWindow(NamedTuple):
    """A window whose result is due."""

    #: when the window was complete: results are emitted in this order
    at: Time
    start: Any
    end: Any
    state: State
    is_update: bool


class Advance(NamedTuple):
    """How far a new watermark takes one query."""

    watermark: Time
    #: windows that end by this time are over under the new watermark
    horizon: Time
    #: windows that end by this time were over under the watermark before it
    previous_horizon: Time
    #: times of tuples that came behind the watermark before, ascending: one or more of each slice
    late: list[Time]


class Progress(Protocol):
    """How far one query has come in one stream: the windows that it has emitted, and what may still change.

    A progress never changes. A call that moves the query on returns the next progress.
    """

    @property
    def kind(self) -> Window: ...

    @property
    def since(self) -> Time:
        """The query sees tuples from this time on."""

    @property
    def idle_until(self) -> Time:
        """No window is due at watermarks before this time, except where tuples come late."""

    @property
    def idle_horizon(self) -> Time:
        """Up to this horizon `advance` would not mark any window as over."""

    def advance(self, stream: SlicedStream, step: Advance) -> tuple[list[DueWindow], Self]:
        """The windows that are due, and those that late tuples have changed; the progress after it."""

    def early(self, stream: SlicedStream) -> list[DueWindow]:
        """The windows that hold the youngest tuple, as they are now."""

    def needed_from(self, stream: SlicedStream, horizon: Time) -> Time:
        """No tuple before this time is in a window that may become due or change."""

    def next_due(self, stream: SlicedStream) -> Time:
        """No window is due at watermarks before this time, if no tuple comes until then."""

    def needed_until(self, stream: SlicedStream) -> Time:
        """From this horizon on the query needs no tuple that has come.

        Windows that only further tuples complete do not count here.
        """

    def with_refused(self, times: list[Time]) -> Self:
        """The progress after tuples that are late for the query, and that other queries take."""

    def with_dropped(self, stream: SlicedStream, count: int) -> Self:
        """The progress after the stream has dropped its `count` oldest slices."""

    def saved(self) -> Any:
        """The progress as plain values, without kind and since."""

    def loaded(self, saved: Any) -> Self:
        """The reverse of `saved`; it raises Malformed for values that `saved` cannot have returned."""

    def check(self, stream: SlicedStream) -> None:
        """Raises Malformed if a loaded progress contradicts its stream."""


@dataclass(slots=True, eq=False)
class SlicedStream:
    """The slices of a stream, and how far each query has come in it."""

    aggregates: AggregateStore
    progress: Mapping[str, Progress]
    watermark: Time
    slices: SliceList = field(default_factory=SliceList)
    #: the position of the stream among the streams of all keys
    number: int = 0
    youngest: Time = -math.inf
    #: the number of tuples that have come
    arrivals: int = 0
    #: the first time of each slice with late tuples to the time of one late tuple in it
    late: dict[Time, Time] = field(default_factory=dict)
    #: no session holds tuples on both sides of one of these times; ascending
    session_cuts: list[Time] = field(default_factory=list)
    #: the name of a query to the time from which it takes tuples; a cache of queries by count or content
    open_from: dict[str, Time] = field(default_factory=dict)
    #: tuples up to the first of these times are late for all queries that have to be asked; tuples from
    #: the second one on are late for none of them
    known_verdicts: tuple[Time, Time] = (-math.inf, math.inf)
    #: the earliest time of the tuples that came since the last watermark
    changed_from: Time = math.inf
    #: no query needs tuples before this time
    needed_from: Time = -math.inf
    #: the number of slices so far when unneeded slices were last looked for
    slices_at_last_drop: int = 0
    #: where tuples come in order: windows are emitted before a tuple at this time or later comes
    next_edge: Time = math.inf
    #: where tuples come in order: results that wait for the watermark
    pending: list[Any] = field(default_factory=list)
    #: where only changes are emitted: the last value of each query and of each of its windows
    emitted_values: EmittedValues = field(default_factory=EmittedValues)
    #: the number of tuples since the last trigger
    since_trigger: int = 0

    def shared(self) -> SlicedStream:
        """A stream with the same slices, which is going to replace this one."""
        return copy.copy(self)

    def copy(self) -> SlicedStream:
        """A stream that can be changed without changing this one, as long as no slice changes."""
        copied = self.shared()
        copied.slices = self.slices.copy()
        copied.late = self.late.copy()
        copied.pending = self.pending.copy()
        return copied

    def is_cut(self, older: Time, younger: Time) -> bool:
        """Whether no session of any query may hold tuples at both times, however close they are."""
        cuts = self.session_cuts
        index = bisect_left(cuts, older)
        return index < len(cuts) and bool(cuts[index] < younger)

    @property
    def unchanged_slices(self) -> int:
        """The number of the first slices that no tuple has joined since the last watermark."""
        return bisect_left(self.slices.items, self.changed_from, key=lambda each: each.last)

    def between(self, start: Time, end: Time) -> State:
        """The aggregate of the tuples with start <= time < end, or NOTHING; slices must be cut there."""
        return self.aggregates.between(self.slices, start, end)

    def next_tuple(self, time: Time) -> Time:
        """The time of the first tuple after `time`; infinity if there is none.

        Where slices do not keep their tuples, a slice counts as one tuple.
        """
        items = self.slices.items
        index = bisect_right(items, time, key=lambda each: each.last)
        if index == len(items):
            return math.inf
        tuples = items[index].tuples
        return items[index].first if tuples is None else tuples[bisect_right(tuples, (time, math.inf))][0]

    def next_time(self, time: Time) -> Time | None:
        """The time of the first tuple at or after `time`, where slices are cut; None if there is none."""
        firsts = self.slices.first_times
        index = bisect_left(firsts, time)
        if not index and self.aggregates.has_before(self.slices, time):
            return time
        return firsts[index] if index < len(firsts) else None
