"""`Slicer`: the windows of many queries over one stream that is out of order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from itertools import count
from typing import Any, NoReturn, Self
from uuid import uuid4

import numpy as np

from mta.checks import MAX_TIME, Clock, check_kept, check_parts
from mta.core.frame import check_one_window
from mta.core.states import layout_of
from mta.encoding.packing import check_text, pack, pack_entries
from mta.encoding.untrusted import Malformed, printable
from mta.errors import ManifestMismatch, MissingTime, OutOfOrderError, WindowError
from mta.inputs import lift_of, row_of
from mta.kinds import Row, State, Time, Value
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls, nulls_hint
from mta.owned import own
from mta.slicing.aggregate_store import LOCAL, AggregateStore, Eager, Lazy, Paged, check_local, check_paged
from mta.slicing.batches import Tuples, plain_rows
from mta.slicing.ingest import after_refusals, nothing_due, split_by_key, with_tuples, without_late
from mta.slicing.lateness import Gate, Late, Refusal
from mta.slicing.leaves import slice_states
from mta.slicing.queries import (
    Plan,
    Queries,
    check_query,
    checked_queries,
    cuts_all,
    new_progress,
    start_of_history,
    start_without_history,
    with_query,
    without_query,
)
from mta.slicing.saved import (
    FORMAT,
    deserialized,
    loaded_clock,
    loaded_queries,
    loaded_stream,
    saved_clock,
    saved_queries,
    saved_stream,
    serialized,
)
from mta.slicing.schedule import KeySchedule
from mta.slicing.settings import By, Settings, check_key, checked_lateness, kinds_with_options
from mta.slicing.sliced_stream import SlicedStream
from mta.slicing.stream_slicer import Query
from mta.slicing.untrusted import checked_count, checked_list, checked_time, checked_watermark
from mta.slicing.window_manager import Result, TimedResult, result_order
from mta.slicing.windows import Window, is_counted
from mta.slicing.windows import after as next_after
from mta.times.kinds import FIRST, LAST, NUMBERS, as_people_have_it
from mta.turns import TakesTurns, in_turn
from mta.window import AmortizedMTA
from stores import Store

_IN_MEMORY: dict[str, Callable[[Monoid], AggregateStore]] = {"lazy": Lazy, "eager": Eager}


class Slicer(TakesTurns):
    """Windows of many queries over one stream. Each tuple is aggregated once, into one slice.

    Tuples come in any order. A watermark t promises that all tuples before t have come, but for late ones,
    and returns the results of the windows that end by t. A late tuple still counts in all of its windows that
    are not over: a window is over once it has ended `lateness` before the watermark.

    - `monoid`: the aggregate of all queries.
    - `queries`: a mapping from names to kinds of windows, or pairs of both.
    - `lateness`: a duration for all queries; or a mapping from names to durations, 0 for the others.
    - `on_late`: a function that is called with each `Late` tuple before the call that brings it returns. A
      call that fails and is made again calls it again.
    - `store`: where slices are. "lazy" and "eager" keep them in the process. A store of `stores.open_store`
      gets the slices that cannot change any more, and checkpoints.
    - `by`: the name of a field, or a function of an element. Each key has windows of its own.
    - `in_order`: promises that times never go backwards, so that slices are cut less often.
    - `changes_only`: leaves out results that equal the result before them.
    - `every_tuples`, `every_time`: after this number of tuples, or at multiples of this time, `insert` and
      `extend` return the windows of the youngest tuple so far.
    - `forget_after`: a key without tuples for this time is forgotten.
    - `name`: the name of the windows in the store.
    - `page_size`, `local`, `retain`, `lease`: go with a store. `local` is the number of slices that cannot
      change and stay in the process; the others are options of `AmortizedMTA`.
    - `nulls`: "skip" lets missing values be in tuples, and not in aggregates; "refuse" refuses them.

    Durations are numbers in the unit of the times; or they have a unit, such as "10 minutes" or a
    `timedelta`, and then the times are dates, and so are the starts and ends of results. The times of a
    slicer are of one kind: numbers, instants, or local times without a zone.

    Raises TypeError or ValueError for arguments that are not of this form. A call that raises, or is
    interrupted, has changed nothing or has happened as a whole. One call is made at a time: from another
    thread a second one raises ConcurrentUse. After `close` calls raise WindowClosed.

    Costs are in docs/slicing.md.
    """

    def __init__(
        self,
        monoid: Monoid,
        queries: Mapping[str, Window] | Iterable[tuple[str, Window]],
        *,
        lateness: Any = 0,
        on_late: Callable[[Late], object] | None = None,
        store: str | Store = "lazy",
        by: By | None = None,
        in_order: bool = False,
        changes_only: bool = False,
        every_tuples: int | None = None,
        every_time: Any = None,
        forget_after: Any = None,
        name: str | None = None,
        page_size: int | None = None,
        local: int = LOCAL,
        retain: int = 2,
        lease: float | None = None,
        nulls: Nulls = "refuse",
    ) -> None:
        monoid = check_parts(monoid, None, None, nulls)
        check_one_window("a slicer", monoid)
        if name is not None and (not isinstance(name, str) or not name):
            raise TypeError(f"the name of a slicer is a str that is not empty, got {name!r}")
        check_local(local)
        settings = Settings.checked(
            lateness, by, in_order, changes_only, every_tuples, every_time, forget_after
        )
        self._name = f"slicer-{uuid4().hex}" if name is None else name
        checked = checked_queries(queries, lateness)
        if on_late is not None and not callable(on_late):
            raise TypeError(f"on_late is a function of a late tuple, got {on_late!r}")
        self._monoid, self._settings, self._on_late = monoid, settings, on_late
        self._layout = layout_of(monoid)
        # every insert needs these, so they are looked up once
        self._row, self._lift = row_of(monoid), lift_of(monoid)
        self._keyed, self._in_steps = settings.by is not None, settings.in_steps
        self._clock = Clock(None)
        for what, kinds in [
            *(
                (f"the query {each!r}, {query.kind!r},", query.kind.kinds_of_times)
                for each, query in checked.items()
            ),
            *kinds_with_options(lateness=lateness, every_time=every_time, forget_after=forget_after),
        ]:
            self._clock = self._clock.agreeing(kinds, what, 0)
        self._plan = self._plan_of(checked)
        #: the stream of each key; without keys one stream under None
        self._streams: dict[Any, SlicedStream] = {}
        #: forgotten keys; after an interrupt their streams may still be there
        self._forgotten_keys: list[Any] = []
        #: the youngest time in the streams of forgotten keys
        self._forgotten: Time = -math.inf
        #: which keys the next watermark looks at
        self._schedule = KeySchedule()
        self._numbers = count()
        self._watermark: Time = -math.inf
        self._gate = Gate(self._plan.queries, self._watermark, settings.lateness)
        self._late_dropped = 0
        self._offset: Any = None
        #: the aggregate store over a key-value store, where there is one
        self._paged: Paged | None = None
        self._in_memory: Callable[[Monoid], AggregateStore] = Lazy
        if isinstance(store, Store):
            if settings.by is not None:
                raise ValueError(
                    'by= goes with store="lazy" or "eager": a stream in a store has no keys of its own'
                )
            for query_name, query in checked.items():
                check_paged(query_name, query.kind)
            options: Any = {"page_size": page_size, "retain": retain, "lease": lease}
            window = AmortizedMTA(slice_states(monoid), store=store, name=self._name, **options)
            self._keep_in(Paged(monoid, window, local))
        elif isinstance(store, str) and store in _IN_MEMORY:
            self._in_memory = _IN_MEMORY[store]
            check_kept(retain, lease, None, None, None)
            if page_size is not None or lease is not None:
                raise ValueError(f"page_size and lease go with a store of open_store(url), not {store!r}")
        else:
            raise ValueError(
                f'store is "lazy", "eager" or what stores.open_store(url) returns, got {store!r}'
            )

    # -- properties -------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def monoid(self) -> Monoid:
        return self._monoid

    @property
    def queries(self) -> dict[str, Window]:
        """The kinds of windows by the names of the queries; a new dict."""
        return {name: query.kind for name, query in self._plan.queries.items()}

    @property
    def lateness(self) -> Any:
        """The lateness of queries that were given none of their own."""
        late = self._settings.lateness
        return timedelta(microseconds=late) if self._clock.in_microseconds else late

    @property
    def late_dropped(self) -> int:
        """The number of tuples that were late for all queries, and were left out."""
        return self._late_dropped

    @property
    def time(self) -> Any:
        """The last watermark; None before the first."""
        return None if self._watermark == -math.inf else self._shown(self._watermark)

    @property
    def keys(self) -> list[Any]:
        """The keys that are not forgotten, in the order in which they came; [] without `by`."""
        if not self._keyed:
            return []
        forgotten = set(self._forgotten_keys)
        return [key for key in list(self._streams) if key not in forgotten]

    @property
    def slices(self) -> int:
        """The number of slices in the process."""
        return sum(len(stream.slices.items) for stream in list(self._streams.values()))

    @property
    def leaves(self) -> int:
        """The number of slices in the store; 0 without one."""
        return 0 if self._paged is None else len(self._paged.window)

    @property
    def offset(self) -> Any:
        """The caller's offset in the last checkpoint; None before the first."""
        return own(self._offset)

    @property
    def version(self) -> int | None:
        """The number of the last checkpoint; None before the first."""
        return None if self._paged is None else self._paged.window.version

    # -- tuples in --------------------------------------------------------------------------------------

    def insert(self, value: Any, time: Any) -> list[Result]:
        """Adds a tuple; returns early results if it fires a trigger.

        Raises MissingTime without a time, TypeError or ValueError for a bad value, time or key, and
        OutOfOrderError with `in_order` for a time that goes backwards. Costs one combine if the tuple comes
        in order or the monoid commutes.
        """
        if self._busy or self._closed:
            raise self._refusal()
        self._busy = True
        try:
            if (type(time) is not int and type(time) is not float) or not -MAX_TIME <= time <= MAX_TIME:
                if time is None:
                    raise MissingTime("a tuple has a time: insert(value, time=...)")
                time = self._clock.take(time, self._begun)
            elif not self._clock.numbers:
                self._clock.give(time, NUMBERS, self._begun)
            row = value if self._row is None else self._row(value)
            state = row if self._lift is None else self._lift(row)
            plan = self._plan
            marks = self._marks(value) if plan.markers else None
            key = self._settings.key(value) if self._keyed else None
            known = self._stream_of(key) if self._keyed else self._streams.get(key)
            if time < self._gate.open_from:
                kept, refused, queries = self._gate.judge(known, [time], self._on_late is not None)
                if queries[0] and self._on_late is not None:
                    self._on_late(Late(value, self._shown(time), queries[0], key))
                if not kept[0]:
                    self._late_dropped += 1
                    return []
            else:
                refused = []
            if self._paged is not None and (type(row) not in (float, int) or known is None):
                self._check_storable(row, state)
            stream = self._new_stream() if known is None else known
            if self._in_steps and not nothing_due(self._settings, stream, time):
                return self._insert_with_steps(stream, key, time, state, marks, refused)
            progress, cuts = stream.progress, stream.session_cuts
            if refused:
                progress, cuts = after_refusals(stream, refused)
            plan.manager.add(stream, time, state, marks)
            # nothing is called from here on
            stream.progress, stream.session_cuts = progress, cuts
            if known is None:
                self._streams[key] = stream
            return []
        finally:
            self._busy = False

    def _insert_with_steps(
        self, stream: SlicedStream, key: Any, time: Time, state: State, marks: Any, refused: list[Refusal]
    ) -> list[Result]:
        column = None if marks is None else [marks]
        tuples = Tuples(self._layout, np.array([time]), self._layout.gather([state]), column)
        parts = self._settings, self._plan, self._clock
        stream, early = with_tuples(*parts, stream, key, tuples, refused)
        early = self._shown_results(early)
        self._streams[key] = stream
        return early

    @in_turn
    def extend(self, values: Any, times: Any) -> list[Result]:
        """Adds a batch of tuples in any order; returns the early results of triggers, in order.

        `values` is any batch that windows take: a list, an array, a table, a mapping of columns. `times` has
        one time for each. Raises as `insert` does; then no tuple of the batch was added. One pass over the
        batch, one fold for each slice that it changes, and a copy of the lists of slices.
        """
        elements = self._layout.elements(values)
        length = self._layout.length(elements)
        if times is None:
            raise MissingTime("tuples have times: extend(values, times)")
        times = self._clock.take_all(times, length, self._begun, ordered=False)
        needs_rows = self._plan.markers or self._settings.by is not None
        rows = list(plain_rows(self._monoid, values)) if needs_rows else []
        marks = [self._marks(row) for row in rows] if self._plan.markers else None
        tuples = Tuples(self._layout, times, self._layout.lift(elements), marks)
        if self._paged is not None and length:
            self._layout.check_storable(elements)
        changed: dict[Any, SlicedStream] = {}
        results, dropped = [], self._late_dropped
        late: list[tuple[int, tuple[str, ...], Any]] = []
        for key, (part, indices) in split_by_key(self._settings, tuples, rows).items():
            stream = self._stream_of(key) if self._keyed else self._streams.get(key)
            kept, refused, found = without_late(self._gate, stream, part, self._on_late is not None)
            late += [(row if indices is None else int(indices[row]), names, key) for row, names in found]
            dropped += len(part) - len(kept)
            if len(kept):
                stream = self._new_stream() if stream is None else stream
                parts = self._settings, self._plan, self._clock
                changed[key], early = with_tuples(*parts, stream, key, kept, refused)
                results += early
        if late and self._on_late is not None:
            rows = rows or list(plain_rows(self._monoid, values))
            for row, names, key in sorted(late, key=lambda each: each[0]):
                time = self._shown(times[row : row + 1].tolist()[0])
                self._on_late(Late(rows[row], time, names, key))
        results = self._shown_results(results)
        # nothing is called from here on
        self._streams |= changed
        self._late_dropped = dropped
        return results

    # -- results out ------------------------------------------------------------------------------------

    @in_turn
    def watermark(self, time: Any) -> list[Result]:
        """The results of the windows that end by `time`, and of those that late tuples have changed.

        The window that ended first comes first. Infinity ends the stream: all windows are returned, and later
        tuples are late.

        Raises OutOfOrderError for a watermark that goes back, and OverflowError if the aggregate of a window
        does not fit in 64 bits. Costs grow with the number of queries, and of keys that have got tuples or
        have a window due.
        """
        if time is None:
            raise MissingTime("a watermark is a time: watermark(time)")
        if isinstance(time, (float, np.floating)) and time == math.inf:
            time = math.inf
        else:
            time = self._clock.take(time, self._begun)
        if time < self._watermark:
            raise OutOfOrderError(
                f"the watermark {self._shown(time)!r} is before {self.time!r}, the one before it; "
                "watermarks go up"
            )
        found: list[TimedResult] = []
        schedule, forgotten, windows = self._schedule, self._forgotten, self._plan.windows
        due_streams = self._due_streams(time)
        changed: dict[Any, SlicedStream] = {}
        forgotten_keys: list[Any] = []
        for key, stream in due_streams:
            due, after = windows.advance(stream, time, key)
            found += due
            changed[key] = after
            if not self._keyed:
                continue
            if windows.is_over(after, self._plan.counts):
                forgotten_keys.append(key)
                forgotten = max(forgotten, after.youngest)
            else:
                schedule.wake(key, windows.next_wake(after))
        if len(due_streams) > 1:
            found.sort(key=result_order)
        gate = self._gate_at(time, self._plan)
        results = self._shown_results([each.result for each in found])
        touched: dict[Any, None] = {}
        # nothing is called from here on
        self._streams |= changed
        self._watermark, self._gate, self._forgotten_keys = time, gate, forgotten_keys
        self._forgotten, schedule.touched = forgotten, touched
        # the call has happened
        self._remove_forgotten()
        return results

    def _due_streams(self, time: Time) -> list[tuple[Any, SlicedStream]]:
        """The streams for which a watermark may have something to do, in the order of their keys."""
        if not self._keyed:
            self._tidy()
            return list(self._streams.items())
        self._remove_forgotten()
        streams, due = self._streams, self._schedule.due(time)
        # the end of the stream emits windows that otherwise only another tuple completes
        found = [(key, streams[key]) for key in (streams if time == math.inf else due) if key in streams]
        found.sort(key=lambda entry: entry[1].number)
        for _, stream in found:
            stream.watermark = self._watermark
        return found

    # -- queries ----------------------------------------------------------------------------------------

    @in_turn
    def add(self, name: str, kind: Window, *, history: bool = False, lateness: Any = None) -> Any:
        """Registers a query. Returns the first time at which it sees tuples: just behind the youngest one.

        - `history`: begin earlier, at the earliest time since when its windows cut no slice.
        - `lateness`: the lateness of the query; None for the slicer's.

        Raises TypeError or ValueError for a name or a kind that cannot be registered. Looks at all slices in
        the process.
        """
        check_query(self._plan.queries, name, kind)
        if self._paged is not None:
            check_paged(name, kind)
        late = self._settings.lateness if lateness is None else checked_lateness(lateness)
        clock = self._clock.agreeing(kind.kinds_of_times, f"the query {name!r}, {kind!r},", self._begun)
        for what, kinds in kinds_with_options(lateness=lateness):
            clock = clock.agreeing(kinds, what, self._begun)
        if late and self._settings.in_order:
            raise ValueError(f"in_order=True goes with lateness=0, as nothing comes late, got {late!r}")
        self._tidy()
        queries, emitted_until, streams = self._plan.queries, self._watermark, self._streams
        if history:
            since = start_of_history(kind, queries, streams.values(), emitted_until, self._forgotten)
            since, emitted_until = self._start_in_store(kind, since), -math.inf
        else:
            since = start_without_history(streams.values(), emitted_until, self._forgotten)
        query = Query(kind, since, late)
        plan = self._plan_of({**queries, name: query})
        changed = {key: with_query(stream, name, query, emitted_until) for key, stream in streams.items()}
        gate, shown = self._gate_at(self._watermark, plan), self._shown(since)
        self._schedule.touched.update(dict.fromkeys(changed))
        # nothing is called from here on
        self._plan, self._streams, self._gate, self._clock = plan, changed, gate, clock
        return shown

    @in_turn
    def remove(self, name: str) -> None:
        """Removes a query. Windows that were due and not yet returned are lost.

        Raises KeyError if there is no such query. Looks at all keys, and under `changes_only` at all values
        that may still be updated.
        """
        queries = dict(self._plan.queries)
        if name not in queries:
            raise KeyError(f"there is no query {name!r}; there are {sorted(queries)}")
        del queries[name]
        self._remove_forgotten()
        plan = self._plan_of(queries)
        changed = {key: without_query(stream, name) for key, stream in self._streams.items()}
        gate = self._gate_at(self._watermark, plan)
        self._schedule.touched.update(dict.fromkeys(changed))
        # nothing is called from here on
        self._plan, self._streams, self._gate = plan, changed, gate

    # -- checkpoints and dumps --------------------------------------------------------------------------

    @in_turn
    def checkpoint(self, offset: Any = None) -> int:
        """Commits slices, queries, watermark and the caller's offset to the store; returns the version.

        Raises WindowError without a store, Fenced if another process has restored the slicer, and the errors
        of the store.
        """
        if self._paged is None:
            raise WindowError(
                f"the slicer {self._name!r} has no store to make a checkpoint in; give it "
                "store=open_store(url), or keep what dump() returns"
            )
        self._tidy()
        window = self._paged.window
        version = window.checkpoint({"slicer": serialized(self._saved()), "offset": offset})
        self._offset = window.offset["offset"]
        return version

    @classmethod
    def restore(
        cls,
        store: Store,
        name: str,
        monoid: Monoid,
        queries: Mapping[str, Window] | None = None,
        *,
        on_late: Callable[[Late], object] | None = None,
        version: int | None = None,
        local: int = LOCAL,
        retain: int = 2,
        lease: float | None = None,
        nulls: Nulls = "refuse",
    ) -> Self:
        """The slicer of a checkpoint, with its queries. An older writer of the same name is fenced.

        - `queries`: the queries that hold a function, as they were; the checkpoint has the others.
        - `version`: the number of a checkpoint; None for the last.
        - `on_late`, `local`, `retain`, `lease`: as when a slicer is made; `nulls` must be the same.

        Raises WindowNotFound, ManifestMismatch for another monoid or other queries, and ManifestCorrupt for a
        damaged checkpoint.
        """
        monoid = check_parts(monoid, None, store, nulls)
        check_one_window("a slicer", monoid)
        check_local(local)
        given = checked_queries(queries or {})
        options: Any = {"version": version, "retain": retain, "lease": lease}
        window = AmortizedMTA.restore(store, name, slice_states(monoid), **options)
        try:
            offset = window.offset
            if not isinstance(offset, dict) or offset.keys() != {"slicer", "offset"}:
                raise ManifestMismatch(f"the window {name!r} was not checkpointed by a slicer")
            with deserialized(f"the slicer {name!r}", offset["slicer"]) as saved:
                slicer = cls._without_streams(name, saved, monoid, given, None, on_late=on_late)
                slicer._offset = offset["offset"]
                # the first format has no such time, and one lateness for all queries
                stored = checked_time(saved.get("stored", -math.inf))
                if stored > slicer._watermark:
                    raise Malformed("slices in the store are said to be final after the watermark")
                slicer._keep_in(Paged(monoid, window, local), stored)
                slicer._load_streams(saved)
        except BaseException:
            window.close()
            raise
        return slicer

    @in_turn
    def dump(self) -> bytes:
        """All of a slicer in memory, for `load`. Raises WindowError with a store."""
        if self._paged is not None:
            raise WindowError(
                f"the slicer {self._name!r} has its slices in a store: make a checkpoint instead"
            )
        self._tidy()
        return serialized(self._saved())

    @classmethod
    def load(
        cls,
        data: bytes,
        monoid: Monoid,
        queries: Mapping[str, Window] | None = None,
        *,
        store: str = "lazy",
        by: By | None = None,
        on_late: Callable[[Late], object] | None = None,
        nulls: Nulls = "refuse",
    ) -> Self:
        """The slicer of a dump.

        - `queries`: the queries that hold a function, as they were; the dump has the others.
        - `store`: "lazy" or "eager".
        - `by`, `on_late`, `nulls`: as when a slicer is made; `by` and `nulls` must be the same.

        Raises ManifestMismatch for another monoid, other queries or another `by`, and ManifestCorrupt for
        damaged bytes.
        """
        monoid = check_parts(monoid, None, None, nulls)
        check_one_window("a slicer", monoid)
        given = checked_queries(queries or {})
        if not isinstance(store, str):
            raise ValueError(f'load takes store="lazy" or "eager", got {store!r}')
        with deserialized("the slicer", data) as saved:
            options: Any = {"store": store, "on_late": on_late}
            slicer = cls._without_streams(saved["name"], saved, monoid, given, by, **options)
            slicer._load_streams(saved)
        return slicer

    def _end(self) -> None:
        if self._paged is not None:
            self._paged.window.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"the slicer {self._name!r} can be neither copied nor pickled: restore() a checkpoint where it "
            "is needed, or load() what dump() returns"
        )

    def __repr__(self) -> str:
        held = f"{len(self._plan.queries)} queries, {self.slices} slices"
        return f"<{type(self).__name__} {self._name!r} of {self._monoid!r}, {held}>"

    # -- inside: times ----------------------------------------------------------------------------------

    @property
    def _begun(self) -> int:
        """0 until a tuple or a watermark has come: until then the kind of times is open."""
        return int(bool(self._streams) or self._watermark > -math.inf)

    def _shown(self, time: Time) -> Any:
        """A time of a tuple, or an edge, as users have it: the first date at or after it."""
        kind = self._clock.kind
        if kind is None or kind is NUMBERS or abs(time) == math.inf:
            return time
        number = math.ceil(time)
        # the edge of a window may be where no datetime is
        return as_people_have_it(number, kind) if FIRST <= number <= LAST else np.datetime64(number, "us")

    def _shown_results(self, results: list[Result]) -> list[Result]:
        if self._clock.kind is None or self._clock.kind is NUMBERS:
            return results
        queries, shown = self._plan.queries, self._shown
        return [
            each
            if is_counted(queries[each.query].kind)
            else each._replace(start=shown(each.start), end=shown(each.end))
            for each in results
        ]

    # -- inside: streams --------------------------------------------------------------------------------

    def _plan_of(self, queries: Queries) -> Plan:
        return Plan.of(queries, self._monoid, self._settings)

    def _gate_at(self, watermark: Time, plan: Plan) -> Gate:
        stored = None if self._paged is None else self._gate.floor
        return Gate(plan.queries, watermark, self._settings.lateness, stored)

    def _new_aggregates(self) -> AggregateStore:
        return self._in_memory(self._monoid) if self._paged is None else self._paged

    def _new_stream(self) -> SlicedStream:
        queries = self._plan.queries.items()
        progress = {name: new_progress(name, query, self._watermark) for name, query in queries}
        stream = SlicedStream(self._new_aggregates(), progress, self._watermark)
        stream.number = next(self._numbers)
        return stream

    def _stream_of(self, key: Any) -> SlicedStream | None:
        """The stream of a key that gets a tuple; None for a new key. The next watermark looks at the key."""
        if self._forgotten_keys:
            self._remove_forgotten()
        known = self._streams.get(key)
        if known is None:
            check_key(key)
        elif known.watermark < self._watermark:
            known = self._caught_up(key, known)
        self._schedule.touched[key] = None
        return known

    def _caught_up(self, key: Any, stream: SlicedStream) -> SlicedStream:
        """A stream as of the last watermark, if watermarks have passed it by as nothing was due."""
        if stream.watermark < self._watermark:
            _, stream = self._plan.windows.advance(stream, self._watermark, key)
            self._streams[key] = stream
        return stream

    def _remove_forgotten(self) -> None:
        """Removes the streams of forgotten keys, after an interrupt too."""
        forgotten = self._forgotten_keys
        while forgotten:
            self._streams.pop(forgotten[-1], None)
            forgotten.pop()

    def _marks(self, value: Value) -> dict[str, Any]:
        return {name: kind.mark(value) for name, kind in self._plan.markers.items()}

    # -- inside: the store ------------------------------------------------------------------------------

    def _keep_in(self, paged: Paged, stored: Time = -math.inf) -> None:
        """Keeps slices in a store, which may have slices before the time `stored` already."""
        self._paged = paged
        self._gate = Gate(self._plan.queries, self._watermark, self._settings.lateness, stored)
        self._stays_in_this_process()

    def _check_storable(self, row: Row, state: State) -> None:
        """Refuses a row that a store cannot hold now, and not when its slice goes to the store."""
        check_text(row) if type(row) is str else pack(row)
        pack_entries([self._monoid.pack(state)])

    def _start_in_store(self, kind: Window, since: Time) -> Time:
        """An earlier start of a query's history, if the slices in the store were cut at all of its edges."""
        stream = self._streams.get(None)
        oldest = None if self._paged is None else self._paged.window.oldest
        finer = [query.since for query in self._plan.queries.values() if cuts_all(query.kind, kind)]
        if oldest is None or stream is None or not finer:
            return since
        slices = stream.slices
        if slices.items and since > max(slices.first_times[0], next_after(slices.last_dropped)):
            return since
        start: Time = max(oldest, min(finer), next_after(slices.last_lost))
        return min(since, start)

    def _tidy(self) -> None:
        """Work that changes nothing that a user sees: streams catch up, and slices move to the store."""
        if self._keyed:
            self._remove_forgotten()
            for key, stream in self._streams.items():
                self._caught_up(key, stream)
        paged, stream_or_none = self._paged, self._streams.get(None)
        if paged is None or stream_or_none is None:
            return
        stream, manager = stream_or_none, self._plan.manager
        if manager.keeps_tuples:
            manager.drop_tuples(stream.slices, self._gate.floor)
        stream = self._drop_stored(stream, paged.paged_count(stream.slices))
        paged.drop_before(stream.needed_from)
        final = min(manager.final_count(stream.slices, self._gate.floor), stream.unchanged_slices)
        self._drop_stored(stream, paged.page_out(stream.slices, final))

    def _drop_stored(self, stream: SlicedStream, count: int) -> SlicedStream:
        """Drops the oldest slices, which are leaves now."""
        if count:
            stream = stream.shared()
            stream.slices = stream.slices.without_oldest(count, stored=True)
            self._streams = {None: stream}
        return stream

    # -- inside: saving and loading ---------------------------------------------------------------------

    def _saved(self) -> dict[str, Any]:
        return {
            "slicer": FORMAT,
            "name": self._name,
            "monoid": self._monoid.fingerprint(),
            "settings": self._settings.plain(),
            "queries": saved_queries(self._plan.queries),
            "watermark": self._watermark,
            "late_dropped": self._late_dropped,
            "stored": -math.inf if self._paged is None else self._gate.floor,
            "forgotten": self._forgotten,
            **saved_clock(self._clock, self._begun),
            "streams": [(key, saved_stream(self._monoid, stream)) for key, stream in self._streams.items()],
        }

    @classmethod
    def _without_streams(
        cls, name: str, saved: Any, monoid: Monoid, given: Queries, by: Any, **options: Any
    ) -> Self:
        """A saved slicer with its settings and queries, and without its streams."""
        settings = Settings(**{**saved["settings"], "by": by})
        what = f"the slicer {name!r}"
        compared = {
            "monoid": (saved["monoid"], monoid.fingerprint()),
            "by": (saved["settings"]["by"], settings.plain()["by"]),
        }
        for part, (then, now) in compared.items():
            if then != now:
                raise ManifestMismatch(
                    f"{what} was saved with the {part} {printable(str(then))}, not {now}; restore it so"
                    + nulls_hint(str(then), str(now))
                )
        slicer = cls(monoid, {}, name=name, **options, **vars(settings))
        slicer._plan = slicer._plan_of(loaded_queries(what, saved["queries"], given, settings.lateness))
        slicer._watermark = checked_watermark(saved["watermark"])
        slicer._forgotten = checked_time(saved["forgotten"])
        if slicer._forgotten == math.inf:
            raise Malformed("the youngest tuple of keys that are forgotten is of no time")
        slicer._late_dropped = checked_count(saved["late_dropped"])
        begun = bool(saved["streams"]) or slicer._watermark > -math.inf
        slicer._clock = loaded_clock(saved, slicer._plan.queries, begun)
        slicer._gate = slicer._gate_at(slicer._watermark, slicer._plan)
        return slicer

    def _load_streams(self, saved: Any) -> None:
        queries, watermark = self._plan.queries, self._watermark
        pairs = [checked_list(each, "a stream", 2) for each in checked_list(saved["streams"], "streams")]
        self._streams = {
            key: loaded_stream(self._monoid, self._new_aggregates(), queries, watermark, stream)
            for key, stream in pairs
        }
        for stream in self._streams.values():
            if stream.arrivals:
                self._settings.next_trigger(stream.youngest)
            stream.number = next(self._numbers)
        self._schedule = KeySchedule(self._streams)
