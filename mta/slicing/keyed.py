"""Tuples into the streams of their keys, and results out of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from mta.checks import MAX_TIME, check_time, check_times
from mta.core.states import layout_of
from mta.encoding.packing import check_text, pack, pack_entries
from mta.errors import MissingTime, OutOfOrderError
from mta.inputs import lift_of, row_of
from mta.monoids.base import Monoid
from mta.slicing.aggregate_store import AggregateStore
from mta.slicing.batches import Tuples, plain_rows
from mta.slicing.ingest import by_key, fed, in_time, quiet, refusing
from mta.slicing.lateness import Gate, Late, Refusal
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
from mta.slicing.schedule import Schedule
from mta.slicing.settings import Settings, check_key, checked_lateness
from mta.slicing.sliced_stream import Stream
from mta.slicing.stream_slicer import Query
from mta.slicing.window_manager import Result, Timed, when
from mta.slicing.windows import Time, Window
from mta.turns import TakesTurns, in_turn


class KeyedStreams(TakesTurns):
    """What a slicer does with tuples, whatever its aggregate store. Without keys there is one stream, None.

    Each call finds out all that it comes to, while nothing changes, and then takes it on.
    """

    def __init__(
        self,
        monoid: Monoid,
        queries: Queries,
        settings: Settings,
        name: str,
        on_late: Callable[[Late], object] | None = None,
    ) -> None:
        if on_late is not None and not callable(on_late):
            raise TypeError(f"on_late is a function of a late tuple, got {on_late!r}")
        self._monoid, self._settings, self._name = monoid, settings, name
        self._layout = layout_of(monoid)
        # called for each tuple, so looked up once
        self._row, self._lift = row_of(monoid), lift_of(monoid)
        self._keyed, self._in_steps = settings.by is not None, settings.in_steps
        self._on_late = on_late
        #: whether slices go to a store, which cannot hold everything
        self._stored = False
        self._plan = self._planned(queries)
        self._streams: dict[Any, Stream] = {}
        #: keys that are forgotten, and may still be among the streams where a call was interrupted
        self._leaving: list[Any] = []
        #: which keys the next watermark looks at, where there are keys
        self._schedule = Schedule()
        self._numbers = count()
        self._watermark: Time = -math.inf
        self._gate = Gate(self._plan.queries, self._watermark, settings.lateness)
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
        """That of queries which were given none of their own."""
        return self._settings.lateness

    @property
    def late_dropped(self) -> int:
        """How many tuples were late for all queries, and are left out."""
        return self._late_dropped

    @property
    def time(self) -> Any:
        """The last watermark; None before the first."""
        return None if self._watermark == -math.inf else self._watermark

    @property
    def keys(self) -> list[Any]:
        """The keys that have anything, in the order in which they came."""
        if not self._keyed:
            return []
        leaving = set(self._leaving)
        return [key for key in list(self._streams) if key not in leaving]

    @property
    def slices(self) -> int:
        """How many slices are in the process."""
        return sum(len(stream.book.slices) for stream in list(self._streams.values()))

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
            known = self._known(key) if self._keyed else self._streams.get(key)
            if time < self._gate.open_from:
                kept, refused, queries = self._gate.judge(known, [time], self._on_late is not None)
                if queries[0] and self._on_late is not None:
                    self._on_late(Late(value, time, queries[0], key))
                if not kept[0]:
                    self._late_dropped += 1
                    return []
            else:
                refused = []
            if self._stored and (type(row) not in (float, int) or known is None):
                self._check_storable(row, state)
            stream = self._new_stream() if known is None else known
            if self._in_steps and not quiet(self._settings, stream, time):
                return self._insert_with_steps(stream, key, time, state, mark, refused)
            progress, cuts = refusing(stream, refused) if refused else (stream.progress, stream.cuts)
            plan.manager.add(stream, time, state, mark)
            # nothing is called from here on
            stream.progress, stream.cuts = progress, cuts
            if known is None:
                self._streams[key] = stream
            return []
        finally:
            self._busy = False

    def _insert_with_steps(
        self, stream: Stream, key: Any, time: Time, state: Any, mark: Any, refused: list[Refusal]
    ) -> list[Result]:
        marks = None if mark is None else [mark]
        tuples = Tuples(self._layout, np.array([time]), self._layout.gather([state]), marks)
        stream, early = self._fed(stream, key, tuples, refused)
        self._streams[key] = stream
        return early

    @in_turn
    def extend(self, values: Any, times: Any) -> list[Result]:
        """Takes a batch in; returns what triggers give out early, in order."""
        elements = self._layout.elements(values)
        length = self._layout.length(elements)
        if times is None:
            raise MissingTime("tuples have times: extend(values, times)")
        times = check_times(times, length)
        asked_for = self._plan.markers or self._settings.by is not None
        rows = list(plain_rows(self._monoid, values)) if asked_for else []
        marks = [self._mark(row) for row in rows] if self._plan.markers else None
        tuples = Tuples(self._layout, times, self._layout.lift(elements), marks)
        if self._stored and length:
            self._layout.check_storable(elements)
        changed: dict[Any, Stream] = {}
        results, dropped = [], self._late_dropped
        late: list[tuple[int, tuple[str, ...], Any]] = []
        for key, (part, places) in by_key(self._settings, tuples, rows).items():
            known = self._known(key) if self._keyed else self._streams.get(key)
            kept, refused, found = in_time(self._gate, known, part, self._on_late is not None)
            late += [(row if places is None else int(places[row]), names, key) for row, names in found]
            dropped += len(part) - len(kept)
            if len(kept):
                changed[key], early = self._fed(known, key, kept, refused)
                results += early
        if late and self._on_late is not None:
            rows = rows or list(plain_rows(self._monoid, values))
            for row, names, key in sorted(late, key=lambda each: each[0]):
                self._on_late(Late(rows[row], times[row : row + 1].tolist()[0], names, key))
        # nothing is called from here on
        self._streams |= changed
        self._late_dropped = dropped
        return results

    # -- results out ------------------------------------------------------------------------------------

    @in_turn
    def watermark(self, time: float) -> list[Result]:
        """The windows that end by `time`, and those that late tuples have changed; the oldest end first.

        Infinity ends the stream: it gives all windows out, and whatever comes after it is late.
        """
        if time is None:
            raise MissingTime("a watermark is a time: watermark(time)")
        time = math.inf if isinstance(time, (float, np.floating)) and time == math.inf else check_time(time)
        if time < self._watermark:
            raise OutOfOrderError(
                f"the watermark {time!r} is before {self._watermark!r}, the one before it; watermarks go up"
            )
        found: list[Timed] = []
        schedule, forgotten, windows = self._schedule, self._forgotten, self._plan.windows
        looked_at = self._looked_at(time)
        changed: dict[Any, Stream] = {}
        leaving: list[Any] = []
        for key, stream in looked_at:
            due, after = windows.advance(stream, time, key)
            found += due
            changed[key] = after
            if not self._keyed:
                continue
            if windows.is_over(after, self._plan.counts):
                leaving.append(key)
                forgotten = max(forgotten, after.youngest)
            else:
                schedule.wake(key, windows.wake(after))
        if len(looked_at) > 1:
            found.sort(key=when)
        gate = self._gate_at(time, self._plan)
        results = [each.result for each in found]
        touched: dict[Any, None] = {}
        # nothing is called from here on
        self._streams |= changed
        self._watermark, self._gate, self._leaving = time, gate, leaving
        self._forgotten, schedule.touched = forgotten, touched
        # the call has happened
        self._forget()
        return results

    def _looked_at(self, time: Time) -> list[tuple[Any, Stream]]:
        """The streams that may have something to do at a watermark, in the order in which their keys came."""
        if not self._keyed:
            self._tidy()
            return list(self._streams.items())
        self._forget()
        known, due = self._streams, self._schedule.due(time)
        # the end of a stream gives out what only another tuple would complete
        found = [(key, known[key]) for key in (known if time == math.inf else due) if key in known]
        found.sort(key=_number)
        for _, stream in found:
            stream.watermark = self._watermark
        return found

    # -- queries ----------------------------------------------------------------------------------------

    @in_turn
    def add(self, name: str, kind: Window, *, history: bool = False, lateness: float | None = None) -> Any:
        """Registers a query, which sees the tuples after the youngest. Returns the time from which on.

        With history it begins with the oldest slice from which on its windows cut none. `lateness` is its
        own, where it is not that of the slicer.
        """
        check_query(self._plan.queries, name, kind)
        self._check_kind(name, kind)
        late = self._settings.lateness if lateness is None else checked_lateness(lateness)
        if late and self._settings.in_order:
            raise ValueError(f"in_order=True goes with lateness=0, as nothing comes late, got {late!r}")
        self._tidy()
        queries, upto, streams = self._plan.queries, self._watermark, self._streams
        if history:
            since = from_oldest_slice(kind, queries, streams.values(), upto, self._forgotten)
            since, upto = self._history(kind, since), -math.inf
        else:
            since = from_now_on(streams.values(), upto, self._forgotten)
        query = Query(kind, since, late)
        plan = self._planned({**queries, name: query})
        changed = {key: with_query(stream, name, query, upto) for key, stream in streams.items()}
        gate = self._gate_at(self._watermark, plan)
        self._schedule.touched.update(dict.fromkeys(changed))
        # nothing is called from here on
        self._plan, self._streams, self._gate = plan, changed, gate
        return since

    @in_turn
    def remove(self, name: str) -> None:
        """Gives a query up. What was due of it and not given is lost."""
        queries = dict(self._plan.queries)
        if name not in queries:
            raise KeyError(f"there is no query {name!r}; there are {sorted(queries)}")
        del queries[name]
        self._forget()
        plan = self._planned(queries)
        changed = {key: without_query(stream, name) for key, stream in self._streams.items()}
        gate = self._gate_at(self._watermark, plan)
        self._schedule.touched.update(dict.fromkeys(changed))
        # nothing is called from here on
        self._plan, self._streams, self._gate = plan, changed, gate

    # -- inside -----------------------------------------------------------------------------------------

    def _planned(self, queries: Queries) -> Plan:
        return Plan.of(queries, self._monoid, self._settings)

    def _gate_at(self, watermark: Time, plan: Plan) -> Gate:
        stored = self._gate.floor if self._stored else None
        return Gate(plan.queries, watermark, self._settings.lateness, stored)

    def _new_store(self) -> AggregateStore:
        raise NotImplementedError

    def _check_kind(self, name: str, kind: Window) -> None:
        """Refuses what the aggregate store cannot do."""

    def _history(self, kind: Window, since: Time) -> Time:  # noqa: ARG002
        """The time from which on windows of a kind cut no slice, where those in the process have it so."""
        return since

    def _tidy(self) -> None:
        """What has to be done at times and changes nothing that anybody could see."""
        if self._keyed:
            self._forget()
            for key, stream in self._streams.items():
                self._caught_up(key, stream)

    def _forget(self) -> None:
        """Takes keys that are forgotten out of the streams, also those that an interrupt has left there."""
        leaving = self._leaving
        while leaving:
            self._streams.pop(leaving[-1], None)
            leaving.pop()

    def _known(self, key: Any) -> Stream | None:
        """The stream that a tuple comes to, which the next watermark looks at."""
        if self._leaving:
            self._forget()
        known = self._streams.get(key)
        if known is None:
            check_key(key)
        elif known.watermark < self._watermark:
            known = self._caught_up(key, known)
        self._schedule.touched[key] = None
        return known

    def _caught_up(self, key: Any, stream: Stream) -> Stream:
        """A stream as of the last watermark. Those before have passed it by, as nothing of it was due."""
        if stream.watermark < self._watermark:
            _, stream = self._plan.windows.advance(stream, self._watermark, key)
            self._streams[key] = stream
        return stream

    def _fed(
        self, stream: Stream | None, key: Any, tuples: Tuples, refused: list[Refusal]
    ) -> tuple[Stream, list[Result]]:
        stream = self._new_stream() if stream is None else stream
        return fed(self._settings, self._plan, stream, key, tuples, refused)

    def _new_stream(self) -> Stream:
        queries = self._plan.queries.items()
        progress = {name: progress_of(name, query, self._watermark) for name, query in queries}
        stream = Stream(self._new_store(), progress, self._watermark)
        stream.number = next(self._numbers)
        return stream

    def _check_storable(self, row: Any, state: Any) -> None:
        """Refuses what a store cannot hold now, and not when its slice goes there."""
        check_text(row) if type(row) is str else pack(row)
        pack_entries([self._monoid.pack(state)])

    def _mark(self, value: Any) -> dict[str, Any]:
        return {name: kind.mark(value) for name, kind in self._plan.markers.items()}

    def __repr__(self) -> str:
        held = f"{len(self._plan.queries)} queries, {self.slices} slices"
        return f"<{type(self).__name__} {self._name!r} of {self._monoid!r}, {held}>"


def _number(entry: tuple[Any, Stream]) -> int:
    return entry[1].number


def _checked(time: Any) -> Any:
    if time is None:
        raise MissingTime("a tuple has a time: insert(value, time=...)")
    return check_time(time)
