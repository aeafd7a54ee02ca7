"""Many queries over one stream that is out of order: what users hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from mta.checks import MAX_TIME, check_time, check_times
from mta.core.states import layout_of
from mta.errors import MissingTime, OutOfOrderError
from mta.monoids.base import Array, Monoid, required
from mta.slicing.aggregate_store import AggregateStore, Eager, Lazy
from mta.slicing.batches import Tuples, first_at, plain_rows, put
from mta.slicing.queries import (
    Plan,
    check_query,
    checked_queries,
    from_now_on,
    from_oldest_slice,
    progress_of,
    with_query,
    without_query,
)
from mta.slicing.stream import Stream
from mta.slicing.stream_slicer import Query
from mta.slicing.window_manager import Result, Timed, WindowManager, when
from mta.slicing.windows import Time, Window, number, positive, positive_count
from mta.turns import in_turn, in_use

STORES: dict[str, type[AggregateStore]] = {"lazy": Lazy, "eager": Eager}


class Slicer:
    """Windows of any kinds over one stream of tuples, each of which is aggregated once, in one slice.

    Tuples come in any order. A watermark t says that those before t should have come: it gives out the
    windows that end by then. What comes later still counts, and corrects results, unless it is more than
    `lateness` behind the watermark.
    """

    def __init__(
        self,
        monoid: Monoid,
        queries: Mapping[str, Window] | Iterable[tuple[str, Window]],
        *,
        lateness: float = 0,
        store: str = "lazy",
        by: str | Callable[[Any], Hashable] | None = None,
        in_order: bool = False,
        changes_only: bool = False,
        every_tuples: int | None = None,
        every_time: float | None = None,
        name: str = "slicer",
    ) -> None:
        if not isinstance(monoid, Monoid):
            raise TypeError(f"the first argument is a monoid such as monoids.Sum(), got {monoid!r}")
        self._lateness = _checked_lateness(lateness, in_order)
        if store not in STORES:
            raise ValueError(
                f'store is "lazy", "eager" or what stores.open_store(url) returns, got {store!r}'
            )
        if by is not None and not isinstance(by, str) and not callable(by):
            raise TypeError(f"by is the name of a field or a function of an element, got {by!r}")
        self._every_tuples = (
            None if every_tuples is None else positive_count("Slicer", "every_tuples", every_tuples)
        )
        self._every_time = None if every_time is None else positive("Slicer", "every_time", every_time)
        self._monoid, self._by, self._in_order = monoid, by, bool(in_order)
        self._name, self._store = name, STORES[store]
        self._layout = layout_of(monoid)
        self._lift = monoid.lift
        self._windows = WindowManager(monoid, self._lateness, bool(changes_only))
        self._triggered = self._in_order or every_tuples is not None or every_time is not None
        self._streams: dict[Any, Stream] = {}
        self._watermark: Time = -math.inf
        self._horizon: Time = -math.inf
        self._late_dropped = 0
        self._busy = False
        self._plan = Plan.of(checked_queries(queries), monoid, self._in_order)

    # -- what it was made of ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def monoid(self) -> Monoid:
        return self._monoid

    @property
    def queries(self) -> dict[str, Window]:
        return {name: query.kind for name, query in self._plan.queries.items()}

    @property
    def lateness(self) -> float:
        return self._lateness  # type: ignore[no-any-return]

    @property
    def late_dropped(self) -> int:
        """How many tuples came too late."""
        return self._late_dropped

    @property
    def time(self) -> float | None:
        """The last watermark; None before the first."""
        return None if self._watermark == -math.inf else self._watermark

    @property
    def keys(self) -> list[Any]:
        """The keys that have anything, in the order in which they came."""
        return list(self._streams)

    @property
    def slices(self) -> int:
        """How many slices are in the process."""
        return sum(len(stream.book.slices) for stream in self._streams.values())

    # -- tuples in --------------------------------------------------------------------------------------

    def insert(self, value: Any, time: float) -> list[Result]:
        """Takes a tuple in; returns what a trigger gives out early, if there is one."""
        if self._busy:
            raise in_use(self)
        self._busy = True
        try:
            return self._insert(value, time)
        finally:
            self._busy = False

    def _insert(self, value: Any, time: Any) -> list[Result]:
        if (type(time) is not int and type(time) is not float) or not -MAX_TIME <= time <= MAX_TIME:
            time = _checked(time)
        state = self._lift(value)
        mark = self._mark(value) if self._plan.markers else None
        key = None if self._by is None else self._key(value)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._new_stream()
        if time < self._horizon:
            self._late_dropped += 1
            return []
        if self._triggered:
            marks = None if mark is None else [mark]
            tuples = Tuples(self._layout, _column(time), self._layout.gather([state]), marks)
            stream, early = self._feed(stream, key, tuples)
            self._streams[key] = stream
            return early
        if not stream.arrivals:
            stream = stream.copy()
            self._plan.manager.add(stream, time, state, mark)
            self._streams[key] = stream
        else:
            self._plan.manager.add(stream, time, state, mark)
        return []

    @in_turn
    def extend(self, values: Any, times: Any) -> list[Result]:
        """Takes a batch in; returns what triggers give out early, in order."""
        states = self._layout.lift(elements := self._layout.elements(values))
        count = self._layout.length(elements)
        if times is None:
            raise MissingTime("extend takes the times of the tuples: extend(values, times)")
        times = check_times(times, count)
        rows = plain_rows(self._monoid, values) if self._plan.markers or self._by is not None else None
        marks = [self._mark(row) for row in rows] if rows is not None and self._plan.markers else None
        tuples = Tuples(self._layout, times, states, marks)
        dropped = 0
        if count and self._horizon > -math.inf:
            kept = np.flatnonzero(times >= self._horizon)
            dropped = count - len(kept)
        parts = self._by_key(tuples, rows)
        if dropped:
            parts = {
                key: part.take(np.flatnonzero(part.times >= self._horizon)) for key, part in parts.items()
            }
        streams = dict(self._streams)
        results: list[Result] = []
        for key, part in parts.items():
            if len(part):
                stream = streams.get(key)
                stream, early = self._feed(self._new_stream() if stream is None else stream, key, part)
                streams[key] = stream
                results += early
        self._streams, self._late_dropped = streams, self._late_dropped + dropped
        return results

    # -- results out ------------------------------------------------------------------------------------

    @in_turn
    def watermark(self, time: float) -> list[Result]:
        """The windows that end by `time`, and those that late tuples have changed; the oldest end first."""
        time = _checked(time)
        if time < self._watermark:
            raise OutOfOrderError(
                f"the watermark {time!r} is before {self._watermark!r}, the one before it; watermarks go up"
            )
        found: list[Timed] = []
        streams = {}
        for key, stream in self._streams.items():
            due, after = self._windows.advance(stream, time, key)
            found += due
            # a key that has nothing any more is forgotten, unless its tuples are counted
            if after.book.slices or after.pending or self._plan.counts or self._by is None:
                streams[key] = after
        if len(self._streams) > 1:
            found.sort(key=when)
        horizon = self._windows.horizon(time)
        results = [result for _, _, result in found]
        # nothing is called from here on
        self._streams, self._watermark, self._horizon = streams, time, horizon
        return results

    # -- queries ----------------------------------------------------------------------------------------

    @in_turn
    def add(self, name: str, kind: Window, *, history: bool = False) -> Any:
        """Registers a query, which sees the tuples after the youngest. Returns the time from which on.

        With history it begins with the oldest slice from which on its windows cut none.
        """
        plan, streams = self._plan, self._streams.values()
        check_query(plan.queries, name, kind)
        upto = self._watermark
        if history:
            since, upto = from_oldest_slice(kind, plan.queries, streams, upto), -math.inf
        else:
            since = from_now_on(streams, upto)
        query = Query(kind, since)
        plan = Plan.of({**plan.queries, name: query}, self._monoid, self._in_order)
        changed = {key: with_query(stream, name, query, upto) for key, stream in self._streams.items()}
        # nothing is called from here on
        self._plan, self._streams = plan, changed
        return since

    @in_turn
    def remove(self, name: str) -> None:
        """Gives a query up. What was due of it and not given is lost."""
        queries = dict(self._plan.queries)
        if name not in queries:
            raise KeyError(f"there is no query {name!r}; there are {sorted(queries)}")
        del queries[name]
        plan = Plan.of(queries, self._monoid, self._in_order)
        changed = {key: without_query(stream, name) for key, stream in self._streams.items()}
        # nothing is called from here on
        self._plan, self._streams = plan, changed

    # -- inside -----------------------------------------------------------------------------------------

    def _new_stream(self) -> Stream:
        progress = {
            name: progress_of(name, query, self._watermark) for name, query in self._plan.queries.items()
        }
        return Stream(self._store(self._monoid), progress, self._watermark)

    def _feed(self, stream: Stream, key: Any, tuples: Tuples) -> tuple[Stream, list[Result]]:
        """The stream with tuples more, and what triggers give out on the way."""
        old, stream = stream.book, stream.copy()
        if not self._triggered:
            put(self._plan.manager, stream, tuples)
            stream.book.lineage = old.lineage
            return stream, []
        early: list[Result] = []
        times, start = tuples.times, 0
        newest = np.maximum.accumulate(times)
        if self._in_order:
            self._check_order(stream, times)
        while start < len(tuples):
            if self._in_order:
                stream = self._passed(stream, key, times[start : start + 1].tolist()[0])
            boundary = self._boundary(stream, times, start)
            stop = self._stop(stream, tuples, newest, boundary, start)
            put(self._plan.manager, stream, tuples.part(start, stop))
            start = stop
            full = self._every_tuples is not None and stream.since_trigger >= self._every_tuples
            if full or stream.youngest >= boundary:
                results, stream.given_values = self._windows.early(stream, key)
                early += results
                stream.since_trigger = 0
        return stream, early

    def _passed(self, stream: Stream, key: Any, time: Time) -> Stream:
        """The stream with what the windows hold that a tuple is the first to pass."""
        if stream.arrivals and time >= stream.next_edge:
            stream = self._windows.pass_edges(stream, time, key)
        if not stream.arrivals or time >= stream.next_edge:
            stream.next_edge = self._plan.edges.coming_edge(time)
        return stream

    def _boundary(self, stream: Stream, times: Array, start: int) -> Time:
        """The time at which the next trigger by time is."""
        if self._every_time is None:
            return math.inf
        time = stream.youngest if stream.arrivals else times[start : start + 1].tolist()[0]
        return (math.floor(time / self._every_time) + 1) * self._every_time

    def _stop(self, stream: Stream, tuples: Tuples, newest: Array, boundary: Time, start: int) -> int:
        """How many tuples to take in until the next thing happens."""
        stop = len(tuples)
        if self._in_order:
            stop = min(stop, first_at(tuples.times, stream.next_edge, start))
        if self._every_tuples is not None:
            stop = min(stop, start + self._every_tuples - stream.since_trigger)
        if boundary < math.inf:
            stop = min(stop, first_at(newest, boundary, start) + 1)
        return stop

    def _check_order(self, stream: Stream, times: Array) -> None:
        earlier = np.concatenate(([stream.youngest], times[:-1])) if stream.arrivals else times
        backwards = times < earlier
        if backwards.any():
            row = int(backwards.argmax())
            raise OutOfOrderError(
                f"time {times[row]!r} in row {row} is before {earlier[row]!r}, the time of the tuple before "
                "it; leave out in_order=True where tuples come late"
            )

    def _mark(self, value: Any) -> dict[str, Any]:
        return {name: kind.mark(value) for name, kind in self._plan.markers.items()}

    def _key(self, value: Any) -> Any:
        by = self._by
        assert by is not None
        key = required(value, by, self) if isinstance(by, str) else by(value)
        key = key.item() if isinstance(key, np.generic) else key
        try:
            hash(key)
        except TypeError:
            raise TypeError(f"the key {key!r} of type {type(key).__name__} cannot be hashed") from None
        return key

    def _by_key(self, tuples: Tuples, rows: list[Any] | None) -> dict[Any, Tuples]:
        if self._by is None or rows is None:
            return {None: tuples}
        places: dict[Any, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(self._key(row), []).append(place)
        return {key: tuples.take(np.array(which)) for key, which in places.items()}

    def __repr__(self) -> str:
        held = f"{len(self._plan.queries)} queries, {self.slices} slices"
        return f"<Slicer {self._name!r} of {self._monoid!r}, {held}>"


def _checked(time: Any) -> Any:
    if time is None:
        raise MissingTime("a tuple has a time: insert(value, time=...)")
    return check_time(time)


def _checked_lateness(lateness: Any, in_order: Any) -> Any:
    lateness = number("Slicer", "lateness", lateness)
    if lateness < 0:
        raise ValueError(f"Slicer(lateness=...) is 0 or more, got {lateness!r}")
    if in_order and lateness:
        raise ValueError(f"in_order=True goes with lateness=0, as nothing comes late, got {lateness!r}")
    return lateness


def _column(time: Any) -> Array:
    return np.array([time])
