"""What is known of one stream: of all tuples, or of those of one key."""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

from mta.slicing.aggregate_store import AggregateStore
from mta.slicing.emitted import Given
from mta.slicing.slices import Slices
from mta.slicing.windows import Time, Window


class Due(NamedTuple):
    """A window whose result is due."""

    #: when it was complete: results come in this order
    at: Time
    start: Any
    end: Any
    state: Any
    is_update: bool


class Moment(NamedTuple):
    """How far a stream has come for one query."""

    watermark: Time
    #: windows that end by then are over, as of this watermark, and as of the one before it
    horizon: Time
    over: Time
    #: times of tuples that came behind the watermark before this one, ascending: one a slice at least
    late: list[Time]


class Progress(Protocol):
    """What one query has given out of one stream. Is never changed: it gives its successor."""

    @property
    def kind(self) -> Window: ...

    @property
    def since(self) -> Time:
        """It sees tuples from this time on."""

    @property
    def idle_until(self) -> Time:
        """Nothing of it is due at watermarks before this time, but where tuples come late."""

    @property
    def idle_horizon(self) -> Time:
        """Nor does it take note of windows that are over, at a horizon up to this time."""

    def advance(self, stream: Stream, moment: Moment) -> tuple[list[Due], Self]:
        """The windows that are due, with those that late tuples have changed."""

    def early(self, stream: Stream) -> list[Due]:
        """The windows that the youngest tuple is in, as they are now."""

    def needs(self, stream: Stream, horizon: Time) -> Time:
        """The tuples before this time are in no window that may become due or change."""

    def next_due(self, stream: Stream) -> Time:
        """Nothing of it is due at watermarks before this time, if no tuple comes meanwhile."""

    def needed_until(self, stream: Stream) -> Time:
        """From this horizon on it needs no tuple that has come, but what only further tuples complete."""

    def refusing(self, times: list[Time]) -> Self:
        """As it is once the stream has tuples that come too late for it, at these times."""

    def without(self, stream: Stream, dropped: int) -> Self:
        """As it is once the stream has dropped so many of its slices."""

    def saved(self) -> Any:
        """It as plain values, but for kind and since."""

    def loaded(self, saved: Any) -> Self:
        """The reverse of `saved`."""

    def check(self, stream: Stream) -> None:
        """Refuses what was loaded if no such stream could have it."""


class Stream:
    """The slices of a stream, and how far each query has come in it."""

    __slots__ = (
        "arrivals",
        "book",
        "changed_from",
        "cuts",
        "given_values",
        "judged",
        "late",
        "looked_at",
        "needed",
        "next_edge",
        "number",
        "open_from",
        "pending",
        "progress",
        "since_trigger",
        "store",
        "watermark",
        "youngest",
    )

    def __init__(self, store: AggregateStore, progress: Mapping[str, Progress], watermark: Time) -> None:
        self.book = Slices([])
        self.store = store
        #: its place among the streams of all keys
        self.number = 0
        self.progress = progress
        self.watermark = watermark
        self.youngest: Time = -math.inf
        #: how many tuples have come
        self.arrivals = 0
        #: of each slice with tuples behind the watermark, the time of one of these
        self.late: dict[Time, Time] = {}
        #: no session reaches from a tuple at or before one of these times to one behind it; ascending
        self.cuts: list[Time] = []
        #: of queries that look at single tuples the time from which on they take some, once it is asked for
        self.open_from: dict[str, Time] = {}
        #: up to the first of these times tuples are late for all queries that have to be asked, and from the
        #: second one on for none of them
        self.judged: tuple[Time, Time] = (-math.inf, math.inf)
        #: the least time of a tuple that came since the last watermark
        self.changed_from: Time = math.inf
        #: no query needs tuples before this time
        self.needed: Time = -math.inf
        #: how many slices there had been when it was last looked at what queries need
        self.looked_at = 0
        #: where windows have to be given out before a tuple comes, where tuples come in order
        self.next_edge: Time = math.inf
        #: results that wait for the watermark, where windows are given out as tuples pass them
        self.pending: list[Any] = []
        #: the last value of each query and of each of its windows, where only changes are given out
        self.given_values = Given()
        #: how many tuples have come since the last trigger
        self.since_trigger = 0

    def shared(self) -> Stream:
        """Another one with the same slices, to take the place of this."""
        return copy.copy(self)

    def copy(self) -> Stream:
        """Another one that can be changed without changing this, as long as no slice is."""
        copied = self.shared()
        copied.book = self.book.copy()
        copied.late = self.late.copy()
        copied.pending = self.pending.copy()
        return copied

    def is_cut(self, older: Time, younger: Time) -> bool:
        """Whether tuples at two times are in no session together, of some query, however close they are."""
        cuts = self.cuts
        place = bisect_left(cuts, older)
        return place < len(cuts) and bool(cuts[place] < younger)

    @property
    def looked_through(self) -> int:
        """How many of the first slices have no tuple that came since the last watermark."""
        return bisect_left(self.book.slices, self.changed_from, key=lambda each: each.last)

    def between(self, start: Time, end: Time) -> Any:
        """The aggregate of the tuples with start <= time < end, or NOTHING; no slice has others beside."""
        return self.store.between(self.book, start, end)

    def next_row(self, time: Time) -> Time:
        """The time of the first tuple behind `time`, where slices have their tuples; infinity if none is."""
        slices = self.book.slices
        place = bisect_right(slices, time, key=lambda each: each.last)
        if place == len(slices):
            return math.inf
        rows = slices[place].rows
        return slices[place].first if rows is None else rows[bisect_right(rows, (time, math.inf))][0]

    def next_time(self, time: Time) -> Time | None:
        """The time of the first tuple at `time`, where slices are cut, or after it."""
        firsts = self.book.firsts
        index = bisect_left(firsts, time)
        if not index and self.store.has_before(self.book, time):
            return time
        return firsts[index] if index < len(firsts) else None
