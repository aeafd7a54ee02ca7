"""Tuples into the streams of their keys, and results out of all of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mta.checks import MAX_TIME, check_time, check_times
from mta.core.states import layout_of
from mta.encoding.packing import check_text, pack, pack_entries
from mta.errors import MissingTime, OutOfOrderError
from mta.inputs import lift_of, row_of
from mta.monoids.base import Monoid
from mta.slicing.aggregate_store.base import AggregateStore
from mta.slicing.batches import Tuples, plain_rows
from mta.slicing.feeding import fed, quiet
from mta.slicing.queries import (
    Plan,
    Queries,
    check_query,
    from_now_on,
    from_oldest_slice,
    progress_of,
    with_query,
    without_query,
)
from mta.slicing.settings import Settings
from mta.slicing.stream import Stream
from mta.slicing.stream_slicer import Query
from mta.slicing.window_manager import Result, Timed, WindowManager, when
from mta.slicing.windows import Time, Window
from mta.turns import TakesTurns, in_turn


class KeyedStreams(TakesTurns):
    """What a slicer does with tuples, whatever its aggregate store. Without keys there is one stream, None.

    Each call finds out all that it comes to, while nothing changes, and then takes it on.
    """

    def __init__(self, monoid: Monoid, queries: Queries, settings: Settings, name: str) -> None:
        self._monoid, self._settings, self._name = monoid, settings, name
        self._layout = layout_of(monoid)
        # called for each tuple, so looked up once
        self._row, self._lift = row_of(monoid), lift_of(monoid)
        self._keyed, self._in_steps = settings.by is not None, settings.in_steps
        self._windows = WindowManager(monoid, settings.lateness, settings.changes_only)
        #: whether slices go to a store, which cannot hold everything
        self._stored = False
        self._plan = self._planned(queries)
        self._streams: dict[Any, Stream] = {}
        self._watermark: Time = -math.inf
        #: tuples before this time come too late
        self._horizon: Time = -math.inf
        self._late_dropped = 0
        #: the youngest tuple of the keys that are forgotten
        self._forgotten: Time = -math.inf

    # -- what it was made of, and how far it is -----------------------------------------------------------

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
    def lateness(self) -> Any:
        return self._settings.lateness

    @property
    def late_dropped(self) -> int:
        """How many tuples came too late."""
        return self._late_dropped

    @property
    def time(self) -> Any:
        """The last watermark; None before the first."""
        return None if self._watermark == -math.inf else self._watermark

    @property
    def keys(self) -> list[Any]:
        """The keys that have anything, in the order in which they came."""
        return [] if self._settings.by is None else list(self._streams)

    @property
    def slices(self) -> int:
        """How many slices are in the process."""
        return sum(len(stream.book.slices) for stream in self._streams.values())

    # -- tuples in --------------------------------------------------------------------------------------

    def insert(self, value: Any, time: float) -> list[Result]:
        """Takes a tuple in; returns what a trigger gives out early, if there is one."""
        if self._busy or self._closed:
            raise self._refusal()
        self._busy = True
        try:
            if (type(time) is not int and type(time) is not float) or not -MAX_TIME <= time <= MAX_TIME:
                time = _checked(time)
            row = value if self._row is None else self._row(value)
            state = row if self._lift is None else self._lift(row)
            plan = self._plan
            mark = self._mark(value) if plan.markers else None
            key = self._settings.key(value) if self._keyed else None
            if time < self._horizon:
                self._late_dropped += 1
                return []
            known = self._streams.get(key)
            if self._stored and (type(row) not in (float, int) or known is None):
                self._check_storable(row, state)
            stream = self._new_stream() if known is None else known
            if self._in_steps and not quiet(self._settings, stream, time):
                return self._insert_with_steps(stream, key, time, state, mark)
            plan.manager.add(stream, time, state, mark)
            if known is None:
                self._streams[key] = stream
            return []
        finally:
            self._busy = False

    def _insert_with_steps(self, stream: Stream, key: Any, time: Time, state: Any, mark: Any) -> list[Result]:
        marks = None if mark is None else [mark]
        tuples = Tuples(self._layout, np.array([time]), self._layout.gather([state]), marks)
        stream, early = self._fed(stream, key, tuples)
        self._streams[key] = stream
        return early

    @in_turn
    def extend(self, values: Any, times: Any) -> list[Result]:
        """Takes a batch in; returns what triggers give out early, in order."""
        elements = self._layout.elements(values)
        count = self._layout.length(elements)
        if times is None:
            raise MissingTime("tuples have times: extend(values, times)")
        times = check_times(times, count)
        asked_for = self._plan.markers or self._settings.by is not None
        rows = plain_rows(self._monoid, values) if asked_for else []
        marks = [self._mark(row) for row in rows] if self._plan.markers else None
        tuples = Tuples(self._layout, times, self._layout.lift(elements), marks)
        if self._stored and count:
            self._layout.check_storable(elements)
        streams, results, dropped = dict(self._streams), [], 0
        for key, part in self._by_key(tuples, rows).items():
            kept = part
            if self._horizon > -math.inf and (part.times < self._horizon).any():
                kept = part.take(np.flatnonzero(part.times >= self._horizon))
                dropped += len(part) - len(kept)
            if len(kept):
                streams[key], early = self._fed(streams.get(key), key, kept)
                results += early
        dropped += self._late_dropped
        # nothing is called from here on
        self._streams, self._late_dropped = streams, dropped
        return results

    # -- results out ------------------------------------------------------------------------------------

    @in_turn
    def watermark(self, time: float) -> list[Result]:
        """The windows that end by `time`, and those that late tuples have changed; the oldest end first."""
        if time is None:
            raise MissingTime("a watermark is a time: watermark(time)")
        time = check_time(time)
        if time < self._watermark:
            raise OutOfOrderError(
                f"the watermark {time!r} is before {self._watermark!r}, the one before it; watermarks go up"
            )
        self._tidy()
        found: list[Timed] = []
        streams, forgotten = {}, self._forgotten
        for key, stream in self._streams.items():
            due, after = self._windows.advance(stream, time, key)
            found += due
            # a key that has nothing any more is forgotten, unless its tuples are counted
            if after.book.slices or after.pending or self._plan.counts or self._settings.by is None:
                streams[key] = after
            else:
                forgotten = max(forgotten, after.youngest)
        if len(self._streams) > 1:
            found.sort(key=when)
        horizon = self._windows.horizon(time)
        results = [result for _, _, result in found]
        # nothing is called from here on
        self._streams, self._watermark, self._horizon = streams, time, horizon
        self._forgotten = forgotten
        return results

    # -- queries ----------------------------------------------------------------------------------------

    @in_turn
    def add(self, name: str, kind: Window, *, history: bool = False) -> Any:
        """Registers a query, which sees the tuples after the youngest. Returns the time from which on.

        With history it begins with the oldest slice from which on its windows cut none.
        """
        check_query(self._plan.queries, name, kind)
        self._check_kind(name, kind)
        self._tidy()
        queries, upto, streams = self._plan.queries, self._watermark, self._streams
        if history:
            since = from_oldest_slice(kind, queries, streams.values(), upto, self._forgotten)
            since, upto = self._history(kind, since), -math.inf
        else:
            since = from_now_on(streams.values(), upto, self._forgotten)
        query = Query(kind, since)
        plan = self._planned({**queries, name: query})
        changed = {key: with_query(stream, name, query, upto) for key, stream in streams.items()}
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
        plan = self._planned(queries)
        changed = {key: without_query(stream, name) for key, stream in self._streams.items()}
        # nothing is called from here on
        self._plan, self._streams = plan, changed

    # -- inside -----------------------------------------------------------------------------------------

    def _planned(self, queries: Queries) -> Plan:
        return Plan.of(queries, self._monoid, self._settings.in_order)

    def _new_store(self) -> AggregateStore:
        raise NotImplementedError

    def _check_kind(self, name: str, kind: Window) -> None:
        """Refuses what the aggregate store cannot do."""

    def _history(self, kind: Window, since: Time) -> Time:  # noqa: ARG002
        """The time from which on windows of a kind cut no slice, where those in the process have it so."""
        return since

    def _tidy(self) -> None:
        """What has to be done at times and changes nothing that anybody could see."""
        plan = self._plan
        if plan.manager.keeps_rows and not plan.markers and not plan.counts:
            for stream in self._streams.values():
                plan.manager.forget_rows(stream.book, self._horizon)

    def _fed(self, stream: Stream | None, key: Any, tuples: Tuples) -> tuple[Stream, list[Result]]:
        stream = self._new_stream() if stream is None else stream
        return fed(self._settings, self._plan, self._windows, stream, key, tuples)

    def _new_stream(self) -> Stream:
        queries = self._plan.queries.items()
        progress = {name: progress_of(name, query, self._watermark) for name, query in queries}
        return Stream(self._new_store(), progress, self._watermark)

    def _check_storable(self, row: Any, state: Any) -> None:
        """Refuses what a store cannot hold now, and not when its slice goes there."""
        check_text(row) if type(row) is str else pack(row)
        pack_entries([self._monoid.pack(state)])

    def _mark(self, value: Any) -> dict[str, Any]:
        return {name: kind.mark(value) for name, kind in self._plan.markers.items()}

    def _by_key(self, tuples: Tuples, rows: list[Any]) -> dict[Any, Tuples]:
        if self._settings.by is None:
            return {None: tuples}
        places: dict[Any, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(self._settings.key(row), []).append(place)
        return {key: tuples.take(np.array(which)) for key, which in places.items()}

    def __repr__(self) -> str:
        held = f"{len(self._plan.queries)} queries, {self.slices} slices"
        return f"<{type(self).__name__} {self._name!r} of {self._monoid!r}, {held}>"


def _checked(time: Any) -> Any:
    if time is None:
        raise MissingTime("a tuple has a time: insert(value, time=...)")
    return check_time(time)
