"""The paper's window manager: which results are due, and which slices are needed no more."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mta.monoids.base import Monoid
from mta.owned import own
from mta.slicing.emitted import Given, Value
from mta.slicing.progress.edges import EdgeProgress
from mta.slicing.progress.sessions import SessionProgress, cuts_of
from mta.slicing.sliced_stream import Due, Moment, Progress, Stream
from mta.slicing.stream_slicer import Query
from mta.slicing.windows import Time
from mta.slicing.windows import after as next_after

#: So few slices are dropped as soon as they can be. Of more it is looked at when an eighth more have come.
FEW = 256

#: Where slices have their tuples, so many at most get into one that was made of several.
ROWS = 512


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


class Timed(NamedTuple):
    """A result, when it was complete, the place of its query among all, and the state that it is of."""

    at: Time
    place: int
    result: Result
    state: Any = None


class WindowManager:
    """Gives out the windows of any stream of one slicer."""

    def __init__(
        self,
        monoid: Monoid,
        queries: Mapping[str, Query],
        changes_only: bool,
        forget_after: Time | None = None,
    ) -> None:
        self._monoid = monoid
        self._lateness = {name: query.lateness for name, query in queries.items()}
        self._most_late = max(self._lateness.values(), default=0)
        self._changes_only = changes_only
        self._forget_after = forget_after

    def advance(self, stream: Stream, watermark: Time, key: Any = None) -> tuple[list[Timed], Stream]:
        """The results that are due at a watermark, in order, and the stream after it."""
        late = sorted(stream.late.values())
        moments = {
            lateness: Moment(watermark, watermark - lateness, stream.watermark - lateness, late)
            for lateness in set(self._lateness.values())
        }
        least = watermark - self._most_late
        due, after = self._due(stream, bool(late), watermark, lambda name, _: moments[self._lateness[name]])
        places = _places(after)
        # of those that wait, some queries may have gone
        found = [
            each._replace(place=places[each.result.query]) for each in stream.pending if each.at <= watermark
        ]
        found = sorted([*found, *self._results(places, due, key)], key=when)
        found, after.given_values = self._changes(stream, found, least)
        after.pending = [each for each in stream.pending if each.at > watermark]
        after.watermark, after.late, after.changed_from = watermark, {}, stream.youngest
        after.open_from, after.judged = {}, (-math.inf, math.inf)
        self._drop(after, least)
        return found, after

    def pass_edges(self, stream: Stream, time: Time, key: Any = None) -> Stream:
        """The stream with what its windows that end by `time` hold before a tuple of that time comes."""
        moment = Moment(time, time, time, [])
        due, after = self._due(
            stream, False, time, lambda _, one: moment if isinstance(one, EdgeProgress) else None
        )
        after.pending = [*stream.pending, *self._results(_places(stream), due, key)]
        return after

    def early(self, stream: Stream, key: Any = None) -> tuple[list[Result], Given]:
        """The windows that the youngest tuple is in, as they are now, and the values given after this."""
        due = [(name, each) for name, one in stream.progress.items() for each in one.early(stream)]
        found = sorted(self._results(_places(stream), due, key, is_early=True), key=when)
        found, values = self._changes(stream, found, stream.watermark - self._most_late)
        return [each.result for each in found], values

    def wake(self, stream: Stream) -> Time:
        """There is nothing to do for a stream at watermarks before this time, if no tuple comes meanwhile."""
        times = [each.at for each in stream.pending]
        times += [one.next_due(stream) for one in stream.progress.values()]
        due = min(times, default=math.inf)
        if due < math.inf:
            return due  # and then it is looked at again
        later = [self._needed_until(stream), self._silent_until(stream)]
        return min((each for each in later if each > stream.watermark), default=math.inf)

    def is_over(self, stream: Stream, counted: bool) -> bool:
        """Whether a stream has nothing left that its next tuple would need, or was silent for too long."""
        if stream.pending:
            return False
        if not stream.book.slices and not counted:
            return True
        if self._forget_after is None:
            return False
        return bool(max(self._needed_until(stream), self._silent_until(stream)) <= stream.watermark)

    def _needed_until(self, stream: Stream) -> Time:
        """The watermark from which on it needs no tuple that has come, but what only further complete."""
        least, lateness = next_after(stream.youngest), self._lateness
        return max(
            (
                _first_with_horizon(max(least, one.needed_until(stream)), lateness[name])
                for name, one in stream.progress.items()
            ),
            default=least,
        )

    def _silent_until(self, stream: Stream) -> Time:
        """The watermark from which on a stream was silent for too long, if no tuple comes meanwhile."""
        if self._forget_after is None:
            return math.inf
        return _first_with_horizon(stream.youngest + self._forget_after, self._most_late)

    def _due(
        self,
        stream: Stream,
        any_late: bool,
        time: Time,
        moment_of: Callable[[str, Progress], Moment | None],
    ) -> tuple[list[tuple[str, Due]], Stream]:
        """What is due of queries at a time, and the stream after it; those without a moment stay."""
        after = stream.shared()
        due: list[tuple[str, Due]] = []
        progress: dict[str, Progress] = dict(stream.progress)
        over = False
        for name, one in stream.progress.items():
            moment = moment_of(name, one)
            if moment is None:
                continue
            if any_late or time >= one.idle_until or moment.horizon > one.idle_horizon:
                dues, progress[name] = one.advance(stream, moment)
                due += [(name, each) for each in dues]
                over = over or isinstance(one, SessionProgress)
        after.progress = progress
        if over:
            after.cuts = cuts_of(progress)
        return due, after

    def _results(
        self, places: Mapping[str, int], due: list[tuple[str, Due]], key: Any, is_early: bool = False
    ) -> list[Timed]:
        """Results with when they were complete and the place of their query."""
        lower, found = self._monoid.lower, []
        for name, (at, start, end, state, is_update) in due:
            try:
                result = Result(name, start, end, lower(state), is_update, key, is_early)
            except OverflowError as error:
                of_key = "" if key is None else f", key {key!r}"
                raise OverflowError(
                    f"query {name!r}, window [{start!r}, {end!r}){of_key}: {error}"
                ) from error
            found.append(Timed(at, places[name], result, state))
        return found

    def _changes(self, stream: Stream, found: list[Timed], horizon: Time) -> tuple[list[Timed], Given]:
        """Results in their order, without those that did not change, and the values that were given then."""
        if not self._changes_only:
            return found, stream.given_values
        older: Given = stream.given_values
        values: dict[Any, Value] = {}
        changed = []
        for each in found:
            result = each.result
            query, window = result.query, (result.query, result.start, result.end)
            # a result that is early takes the place of no other: the last one of a window is given too
            reference = window if result.is_update else (query,) if result.is_early else query
            before = values.get(reference) or older.get(reference)
            if before is None or not _same(before.value, result.value):
                changed.append(each)
            value = Value(math.inf, own(result.value), each.state)
            if not result.is_early:
                values[window] = value._replace(until=each.at)
            if not result.is_update:
                values[query,] = value
                if not result.is_early:
                    values[query] = value
        return changed, older.followed(values, horizon)

    def _drop(self, after: Stream, least: Time) -> None:
        """Drops slices that no query needs, of a stream that is not in use yet."""
        book = after.book
        total = book.dropped + len(book.slices)
        few_came = len(book.slices) >= FEW and 8 * (total - after.looked_at) < len(book.slices)
        if few_came and after.watermark < self._needed_until(after):
            return
        watermark, lateness = after.watermark, self._lateness
        needed = min(
            (each.needs(after, watermark - lateness[name]) for name, each in after.progress.items()),
            default=least,
        )
        # a tuple that comes yet may open a session earlier, but with a store not before this time
        after.looked_at, after.needed = total, min(needed, least)
        count = 0
        while count < len(book.slices) and book.slices[count].last < needed:
            count += 1
        if count and (len(book.slices) < FEW or 8 * count >= len(book.slices)):
            after.progress = {name: one.without(after, count) for name, one in after.progress.items()}
            after.book = book.without(count)
        if after.store.joins:
            self._join(after, least)

    def _join(self, after: Stream, least: Time) -> None:
        """Makes one slice of those that only open sessions need: a session may go on for ever."""
        sessions = [one for one in after.progress.values() if isinstance(one, SessionProgress)]
        edges = {name: one for name, one in after.progress.items() if isinstance(one, EdgeProgress)}
        if not sessions or len(sessions) + len(edges) < len(after.progress):
            return
        horizons = {name: after.watermark - self._lateness[name] for name in edges}
        until = min([least, *(one.needs(after, horizons[name]) for name, one in edges.items())])
        gap, since = min(one.kind.gap for one in sessions), sorted(one.since for one in sessions)
        slices = after.book.slices
        ends, place, count = [], 0, 0
        while place < len(slices) and slices[place].last < until:
            here = slices[place]
            count += here.count
            if place and (
                here.first > slices[place - 1].last + gap
                or after.is_cut(slices[place - 1].last, here.first)
                or bisect_right(since, here.first) > bisect_right(since, slices[place - 1].first)
                or (here.rows is None) != (slices[place - 1].rows is None)
                or (here.rows is not None and count > ROWS)
            ):
                ends.append(place)
                count = here.count
            place += 1
        ends += [place] if place else []
        saved = place - len(ends)
        if saved and saved >= FEW // 8 and 8 * saved >= len(slices):
            after.book = after.book.joined(self._monoid, ends)
            after.looked_at = after.book.dropped + len(after.book.slices)


def _first_with_horizon(horizon: Time, lateness: Time) -> Time:
    """A watermark that is `lateness` behind a time, or the next number where that rounds to less."""
    watermark = horizon + lateness
    return watermark if watermark - lateness >= horizon else next_after(watermark)


def _places(stream: Stream) -> dict[str, int]:
    return {name: place for place, name in enumerate(stream.progress)}


def when(entry: Timed) -> tuple[Time, int, Any]:
    """The order in which results are given: the one that was complete first comes first."""
    return entry.at, entry.place, entry.result.start


def _same(older: Any, younger: Any) -> bool:
    """Whether two results are equal; where that cannot be told, they are not."""
    try:
        return older is younger or bool(older == younger)
    except (TypeError, ValueError):
        return False
