"""The Scotty paper's window manager: it finds the results that are due and drops slices nobody needs."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mta.kinds import State, Time
from mta.monoids.base import Monoid
from mta.owned import own
from mta.slicing.emitted import EmittedValue, EmittedValues
from mta.slicing.progress.edges import EdgeProgress
from mta.slicing.progress.sessions import SessionProgress, session_cuts
from mta.slicing.sliced_stream import Advance, DueWindow, Progress, SlicedStream
from mta.slicing.stream_slicer import Query
from mta.slicing.windows import after as next_after

#: Up to this number of slices, unneeded ones are dropped at once. Above it, they are looked for when the
#: number of slices has grown by an eighth.
FEW_SLICES = 256

#: A slice that several others were merged into keeps at most this number of tuples, where slices keep tuples.
MERGED_TUPLES = 512


class Result(NamedTuple):
    """The aggregate of one window."""

    query: str
    #: start and end are times; numbers of tuples where the measure of the query is "count"
    start: Any
    end: Any
    value: Any
    #: whether it replaces an earlier result of this window; for sessions and windows by content it replaces
    #: all earlier results that lie in the window
    is_update: bool = False
    #: the key of the tuples; None without keys
    key: Any = None
    #: whether the window is still open, and this is its aggregate so far
    is_early: bool = False


class TimedResult(NamedTuple):
    """A result, the time when it was complete, the position of its query among all queries, and its state."""

    at: Time
    query_index: int
    result: Result
    state: State = None


class WindowManager:
    """Emits the windows of any stream of one slicer."""

    def __init__(
        self,
        monoid: Monoid,
        queries: Mapping[str, Query],
        changes_only: bool,
        forget_after: Time | None = None,
    ) -> None:
        self._monoid = monoid
        self._lateness = {name: query.lateness for name, query in queries.items()}
        self._max_lateness = max(self._lateness.values(), default=0)
        self._changes_only = changes_only
        self._forget_after = forget_after

    def advance(
        self, stream: SlicedStream, watermark: Time, key: Any = None
    ) -> tuple[list[TimedResult], SlicedStream]:
        """The results that are due at a watermark, in order, and the stream after it."""
        late = sorted(stream.late.values())
        steps = {
            lateness: Advance(watermark, watermark - lateness, stream.watermark - lateness, late)
            for lateness in set(self._lateness.values())
        }
        lowest = watermark - self._max_lateness
        due, after = self._due(stream, bool(late), watermark, lambda name, _: steps[self._lateness[name]])
        indices = _query_indices(after)
        waiting = [each for each in stream.pending if each.at <= watermark]
        # queries may have been removed since these results were found
        found = [each._replace(query_index=indices[each.result.query]) for each in waiting]
        found = sorted([*found, *self._results(indices, due, key)], key=result_order)
        found, after.emitted_values = self._changes(stream, found, lowest)
        after.pending = [each for each in stream.pending if each.at > watermark]
        after.watermark, after.late, after.changed_from = watermark, {}, stream.youngest
        after.open_from, after.known_verdicts = {}, (-math.inf, math.inf)
        self._drop(after, lowest)
        return found, after

    def pass_edges(self, stream: SlicedStream, time: Time, key: Any = None) -> SlicedStream:
        """The stream with the results of windows that end at or before `time`, where tuples come in order.

        They wait for the watermark.
        """
        step = Advance(time, time, time, [])
        due, after = self._due(
            stream, False, time, lambda _, one: step if isinstance(one, EdgeProgress) else None
        )
        after.pending = [*stream.pending, *self._results(_query_indices(stream), due, key)]
        return after

    def early(self, stream: SlicedStream, key: Any = None) -> tuple[list[Result], EmittedValues]:
        """The windows that hold the youngest tuple, as they are now, and the emitted values after this."""
        due = [(name, each) for name, one in stream.progress.items() for each in one.early(stream)]
        found = sorted(self._results(_query_indices(stream), due, key, is_early=True), key=result_order)
        found, values = self._changes(stream, found, stream.watermark - self._max_lateness)
        return [each.result for each in found], values

    def next_wake(self, stream: SlicedStream) -> Time:
        """Watermarks before this time have nothing to do for a stream, if no tuple comes until then."""
        times = [each.at for each in stream.pending]
        times += [one.next_due(stream) for one in stream.progress.values()]
        due = min(times, default=math.inf)
        if due < math.inf:
            return due
        later = [self._needed_until(stream), self._silent_until(stream)]
        return min((each for each in later if each > stream.watermark), default=math.inf)

    def is_over(self, stream: SlicedStream, counted: bool) -> bool:
        """Whether a stream can be forgotten: no next tuple needs it, or it was silent for too long."""
        if stream.pending:
            return False
        if not stream.slices.items and not counted:
            return True
        if self._forget_after is None:
            return False
        return bool(max(self._needed_until(stream), self._silent_until(stream)) <= stream.watermark)

    def _needed_until(self, stream: SlicedStream) -> Time:
        """From this watermark on no query needs the tuples so far, but for windows that others complete."""
        least, lateness = next_after(stream.youngest), self._lateness
        return max(
            (
                _first_with_horizon(max(least, one.needed_until(stream)), lateness[name])
                for name, one in stream.progress.items()
            ),
            default=least,
        )

    def _silent_until(self, stream: SlicedStream) -> Time:
        """From this watermark on a stream has been silent for too long, if no tuple comes until then."""
        if self._forget_after is None:
            return math.inf
        return _first_with_horizon(stream.youngest + self._forget_after, self._max_lateness)

    def _due(
        self,
        stream: SlicedStream,
        any_late: bool,
        time: Time,
        step_of: Callable[[str, Progress], Advance | None],
    ) -> tuple[list[tuple[str, DueWindow]], SlicedStream]:
        """The windows that are due at a time, and the stream after it; queries without a step do not move."""
        after = stream.shared()
        due: list[tuple[str, DueWindow]] = []
        progress: dict[str, Progress] = dict(stream.progress)
        sessions_moved = False
        for name, one in stream.progress.items():
            step = step_of(name, one)
            if step is None:
                continue
            if any_late or time >= one.idle_until or step.horizon > one.idle_horizon:
                windows, progress[name] = one.advance(stream, step)
                due += [(name, each) for each in windows]
                sessions_moved = sessions_moved or isinstance(one, SessionProgress)
        after.progress = progress
        if sessions_moved:
            after.session_cuts = session_cuts(progress)
        return due, after

    def _results(
        self, indices: Mapping[str, int], due: list[tuple[str, DueWindow]], key: Any, is_early: bool = False
    ) -> list[TimedResult]:
        lower, found = self._monoid.lower, []
        for name, (at, start, end, state, is_update) in due:
            try:
                result = Result(name, start, end, lower(state), is_update, key, is_early)
            except OverflowError as error:
                of_key = "" if key is None else f", key {key!r}"
                raise OverflowError(
                    f"query {name!r}, window [{start!r}, {end!r}){of_key}: {error}"
                ) from error
            found.append(TimedResult(at, indices[name], result, state))
        return found

    def _changes(
        self, stream: SlicedStream, found: list[TimedResult], horizon: Time
    ) -> tuple[list[TimedResult], EmittedValues]:
        """The results that differ from the emitted values, in order, and the emitted values after them."""
        if not self._changes_only:
            return found, stream.emitted_values
        older = stream.emitted_values
        values: dict[Any, EmittedValue] = {}
        changed = []
        for each in found:
            result = each.result
            query, window = result.query, (result.query, result.start, result.end)
            # an early result replaces no other: the last result of a window is emitted even if it is equal
            reference = window if result.is_update else (query,) if result.is_early else query
            before = values.get(reference) or older.get(reference)
            if before is None or not _same(before.value, result.value):
                changed.append(each)
            value = EmittedValue(math.inf, own(result.value), each.state)
            if not result.is_early:
                values[window] = value._replace(until=each.at)
            if not result.is_update:
                values[query,] = value
                if not result.is_early:
                    values[query] = value
        return changed, older.updated(values, horizon)

    def _drop(self, after: SlicedStream, lowest: Time) -> None:
        """Drops slices that no query needs, of a stream that is not in use yet."""
        slices = after.slices
        size = len(slices.items)
        total = slices.dropped + size
        few_came = size >= FEW_SLICES and 8 * (total - after.slices_at_last_drop) < size
        if few_came and after.watermark < self._needed_until(after):
            return
        watermark, lateness = after.watermark, self._lateness
        needed = min(
            (each.needed_from(after, watermark - lateness[name]) for name, each in after.progress.items()),
            default=lowest,
        )
        # a late tuple may open a session earlier; with a store not before the lowest horizon
        after.slices_at_last_drop, after.needed_from = total, min(needed, lowest)
        count = 0
        while count < size and slices.items[count].last < needed:
            count += 1
        if count and (size < FEW_SLICES or 8 * count >= size):
            after.progress = {name: one.with_dropped(after, count) for name, one in after.progress.items()}
            after.slices = slices.without_oldest(count)
        if after.aggregates.may_merge:
            self._merge(after, lowest)

    def _merge(self, after: SlicedStream, lowest: Time) -> None:
        """Merges slices that only open sessions need: a session may go on for ever."""
        sessions = [one for one in after.progress.values() if isinstance(one, SessionProgress)]
        edges = {name: one for name, one in after.progress.items() if isinstance(one, EdgeProgress)}
        if not sessions or len(sessions) + len(edges) < len(after.progress):
            return
        horizons = {name: after.watermark - self._lateness[name] for name in edges}
        until = min([lowest, *(one.needed_from(after, horizons[name]) for name, one in edges.items())])
        gap, since = min(one.kind.gap for one in sessions), sorted(one.since for one in sessions)
        items = after.slices.items
        ends, index, count = [], 0, 0
        while index < len(items) and items[index].last < until:
            here = items[index]
            count += here.count
            if index and (
                here.first > items[index - 1].last + gap
                or after.is_cut(items[index - 1].last, here.first)
                or bisect_right(since, here.first) > bisect_right(since, items[index - 1].first)
                or (here.tuples is None) != (items[index - 1].tuples is None)
                or (here.tuples is not None and count > MERGED_TUPLES)
            ):
                ends.append(index)
                count = here.count
            index += 1
        ends += [index] if index else []
        saved = index - len(ends)
        if saved and saved >= FEW_SLICES // 8 and 8 * saved >= len(items):
            after.slices = after.slices.merged(self._monoid, ends)
            after.slices_at_last_drop = after.slices.dropped + len(after.slices.items)


def _first_with_horizon(horizon: Time, lateness: Time) -> Time:
    """The least watermark that is `lateness` or more behind a time, for numbers that may round."""
    watermark = horizon + lateness
    return watermark if watermark - lateness >= horizon else next_after(watermark)


def _query_indices(stream: SlicedStream) -> dict[str, int]:
    return {name: index for index, name in enumerate(stream.progress)}


def result_order(entry: TimedResult) -> tuple[Time, int, Any]:
    """Results are emitted in the order of the times when they were complete, then of queries and starts."""
    return entry.at, entry.query_index, entry.result.start


def _same(older: Any, younger: Any) -> bool:
    """Whether two results are equal; False where they cannot be compared."""
    try:
        return older is younger or bool(older == younger)
    except (TypeError, ValueError):
        return False
