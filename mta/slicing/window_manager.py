"""The paper's window manager: which results are due, and which slices are needed no more."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from mta.monoids.base import Monoid
from mta.owned import own
from mta.slicing.progress.edges import EdgeProgress
from mta.slicing.stream import Due, Moment, Progress, Stream
from mta.slicing.windows import Time

#: So few slices are dropped as soon as they can be. Of more it is looked at when an eighth more have come.
FEW = 256


class Result(NamedTuple):
    """The aggregate of one window."""

    query: str
    #: times; the numbers of tuples where a query's measure is "count"
    start: Any
    end: Any
    value: Any
    #: whether it takes the place of what was given of this window before; a session, or another window that
    #: tuples open, takes the place of all that lie in it
    is_update: bool = False
    #: of which key it is, where the stream is taken apart by one
    key: Any = None
    #: whether the window goes on, and this is how far it is
    is_early: bool = False


#: when a result was complete, the place of its query among all, and it
Timed: TypeAlias = tuple[Time, int, Result]


class WindowManager:
    """Gives out the windows of any stream of one slicer."""

    def __init__(self, monoid: Monoid, lateness: Time, changes_only: bool) -> None:
        self._monoid = monoid
        self._lateness = lateness
        self._changes_only = changes_only

    def horizon(self, watermark: Time) -> Time:
        """Tuples before this time come too late."""
        return watermark - self._lateness

    def advance(self, stream: Stream, watermark: Time, key: Any = None) -> tuple[list[Timed], Stream]:
        """The results that are due at a watermark, in order, and the stream after it."""
        moment = Moment(watermark, self.horizon(watermark), sorted(stream.late.values()))
        due, after = self._due(stream, moment, lambda _: True)
        places = _places(after)
        # of those that wait, some queries may have gone
        found = [(at, places[result.query], result) for at, _, result in stream.pending if at <= watermark]
        found = sorted([*found, *self._results(places, due, key)], key=when)
        found, after.given_values = self._changes(stream, found, moment.horizon)
        after.pending = [each for each in stream.pending if each[0] > watermark]
        after.watermark, after.late, after.changed_from = watermark, {}, stream.youngest
        self._drop(after, moment.horizon)
        return found, after

    def pass_edges(self, stream: Stream, time: Time, key: Any = None) -> Stream:
        """The stream with what its windows that end by `time` hold before a tuple of that time comes."""
        due, after = self._due(stream, Moment(time, time, []), lambda one: isinstance(one, EdgeProgress))
        after.pending = [*stream.pending, *self._results(_places(stream), due, key)]
        return after

    def early(self, stream: Stream, key: Any = None) -> tuple[list[Result], Mapping[Any, Any]]:
        """The windows that the youngest tuple is in, as they are now, and the values given after this."""
        due = [(name, each) for name, one in stream.progress.items() for each in one.early(stream)]
        found = sorted(self._results(_places(stream), due, key, is_early=True), key=when)
        found, values = self._changes(stream, found, -math.inf)
        return [result for _, _, result in found], values

    def _due(
        self, stream: Stream, moment: Moment, concerned: Callable[[Progress], bool]
    ) -> tuple[list[tuple[str, Due]], Stream]:
        after = stream.shared()
        due: list[tuple[str, Due]] = []
        progress: dict[str, Progress] = dict(stream.progress)
        watermark, nothing_late = moment.watermark, not moment.late
        for name, one in stream.progress.items():
            if nothing_late and watermark < one.idle_until:
                continue
            if concerned(one):
                dues, progress[name] = one.advance(stream, moment)
                due += [(name, each) for each in dues]
        after.progress = progress
        return due, after

    def _results(
        self, places: Mapping[str, int], due: list[tuple[str, Due]], key: Any, is_early: bool = False
    ) -> list[Timed]:
        """Results with when they were complete and the place of their query."""
        lower = self._monoid.lower
        return [
            (at, places[name], Result(name, start, end, lower(state), is_update, key, is_early))
            for name, (at, start, end, state, is_update) in due
        ]

    def _changes(
        self, stream: Stream, found: list[Timed], horizon: Time
    ) -> tuple[list[Timed], Mapping[Any, Any]]:
        """Results in their order, without those that did not change, and the values that were given then."""
        if not self._changes_only:
            return found, stream.given_values
        values = dict(stream.given_values)
        changed = []
        for at, place, result in found:
            window = (result.query, result.start, result.end)
            reference = window if result.is_update else result.query
            if reference not in values or not _same(values[reference][1], result.value):
                changed.append((at, place, result))
            value = own(result.value)
            if not result.is_early:
                values[window] = at, value
            if not result.is_update:
                values[result.query] = math.inf, value
        return changed, {which: each for which, each in values.items() if each[0] >= horizon}

    def _drop(self, after: Stream, horizon: Time) -> None:
        """Drops slices that no query needs, of a stream that is not in use yet."""
        book = after.book
        total = book.dropped + len(book.slices)
        if len(book.slices) >= FEW and 8 * (total - after.looked_at) < len(book.slices):
            return
        needed = min((each.needs(after, horizon) for each in after.progress.values()), default=horizon)
        # a tuple that comes yet may open a session earlier, but not before the horizon
        after.looked_at, after.needed = total, min(needed, horizon)
        count = 0
        while count < len(book.slices) and book.slices[count].last < needed:
            count += 1
        if count and (len(book.slices) < FEW or 8 * count >= len(book.slices)):
            after.progress = {name: one.without(after, count) for name, one in after.progress.items()}
            after.book = book.without(count)


def _places(stream: Stream) -> dict[str, int]:
    return {name: place for place, name in enumerate(stream.progress)}


def when(entry: Timed) -> tuple[Time, int, Any]:
    """The order in which results are given: the one that was complete first comes first."""
    return entry[0], entry[1], entry[2].start


def _same(older: Any, younger: Any) -> bool:
    """Whether two results are equal; where that cannot be told, they are not."""
    try:
        return older is younger or bool(older == younger)
    except (TypeError, ValueError):
        return False
