"""A slicer as plain values and as bytes, and back: a dump, or the part of a checkpoint beside the leaves.

The values are dicts with the names of the fields and lists in the order of the fields. Fields are only ever
added, so that all bytes that were once written are still read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from mta.checks import Clock
from mta.core.states import NOTHING
from mta.encoding.envelope import seal, unseal
from mta.encoding.packing import pack, unpack
from mta.encoding.untrusted import LARGEST, Malformed, fields, printable, real, shown, text, whole
from mta.errors import ManifestCorrupt, ManifestMismatch, WindowError
from mta.kinds import Packed, State, Time
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.monoids.missing import NO_VALUE
from mta.monoids.skipping import SkippingColumns
from mta.slicing.aggregate_store import AggregateStore
from mta.slicing.emitted import EmittedValue, EmittedValues
from mta.slicing.progress.sessions import session_cuts
from mta.slicing.queries import Queries, check_query, new_progress
from mta.slicing.settings import checked_lateness
from mta.slicing.sliced_stream import SlicedStream
from mta.slicing.slices import Slice, SliceList
from mta.slicing.stream_slicer import Query
from mta.slicing.untrusted import (
    checked_count,
    checked_finite_time,
    checked_list,
    checked_span,
    checked_time,
    checked_window,
)
from mta.slicing.window_manager import Result, TimedResult
from mta.slicing.windows import (
    ContentWindow,
    Delta,
    EdgeWindow,
    FixedBand,
    Session,
    Sliding,
    Tumbling,
    Window,
    is_counted,
)
from mta.times.durations import text_of
from mta.times.kinds import DATES, FIRST, LAST, NUMBERS, TimeKind, as_people_have_it

FORMAT = 1

#: the arguments of the kinds of windows that a dump holds as a whole
_ARGUMENTS: dict[type[Window], tuple[str, ...]] = {
    Tumbling: ("length", "offset", "measure"),
    Sliding: ("length", "slide", "offset", "measure"),
    FixedBand: ("start", "length"),
    Session: ("gap",),
    Delta: ("field", "d"),
}


def serialized(saved: dict[str, Any]) -> bytes:
    """A saved slicer as bytes, in an envelope without a magic."""
    return seal(pack(saved))


@contextmanager
def deserialized(what: str, data: Any) -> Iterator[dict[str, Any]]:
    """The reverse of `serialized`, for a `with` block that loads the values.

    Whatever is wrong with them raises ManifestCorrupt, in the block too.
    """
    try:
        saved = unpack(unseal(data))
        if not isinstance(saved, dict) or saved.get("slicer") != FORMAT:
            raise ManifestMismatch(f"{what} was not saved by a slicer of this format")
        yield saved
    except WindowError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ManifestCorrupt(
            f"the state of {what} is not what was written: {printable(str(error))[:200]}; restore "
            "another version, or start anew"
        ) from error


def saved_queries(queries: Queries) -> list[Any]:
    return [
        [name, _saved_kind(kind), kind.fingerprint(), since, lateness]
        for name, (kind, since, lateness) in queries.items()
    ]


def loaded_queries(what: str, saved: Any, given: Queries, lateness: Any) -> Queries:
    """The queries of a saved slicer.

    `given` has the queries that the user gives: those that hold a function, and any others. Their
    fingerprints must be the saved ones. `lateness` is for queries that were saved without one of their own.
    """
    queries: Queries = {}
    given = dict(given)
    for each in checked_list(saved, "queries"):
        parts = checked_list(each, "a query")
        # in the first format, queries had no lateness of their own
        own = parts.pop() if len(parts) == 5 else lateness
        name, saved_kind, fingerprint, since = checked_list(parts, "a query", 4)
        fingerprint = printable(text(fingerprint, "a query"))
        kind = given.pop(name).kind if name in given else _loaded_kind(saved_kind)
        if kind is None:
            raise ManifestMismatch(
                f"{what} has the query {name!r}, {fingerprint}, which holds a function: give it to "
                f"restore, in queries={{{name!r}: …}}"
            )
        check_query(queries, name, kind)
        if kind.fingerprint() != fingerprint:
            raise ManifestMismatch(
                f"{what} has the query {name!r} as {fingerprint}, not {kind.fingerprint()}; restore it so, "
                "and replace the query then"
            )
        queries[name] = Query(kind, checked_time(since), checked_lateness(own))
    if given:
        raise ManifestMismatch(
            f"{what} has no queries {sorted(given)}, only {sorted(queries)}; restore it without, and add "
            "them then"
        )
    return queries


def _saved_kind(kind: Window) -> list[Any] | None:
    """The name of a kind and its arguments; None if these are not all that it consists of."""
    names = _ARGUMENTS.get(type(kind))
    if names is None:
        return None
    return [type(kind).__name__, {name: _saved_argument(kind, name, getattr(kind, name)) for name in names}]


def _saved_argument(kind: Window, name: str, value: Any) -> Any:
    """A number, a text with its unit, or, for a date, its kind and its microseconds."""
    kinds = kind.kinds_of_times
    if NUMBERS in kinds or type(value) is str:
        return value
    if name in ("start", "offset") and value and len(kinds) == 1:
        return [*(each.name for each in kinds), value]
    return text_of(value)


def _loaded_kind(saved: list[Any] | None) -> Window | None:
    kinds: dict[str, Any] = {kind.__name__: kind for kind in _ARGUMENTS}
    if saved is None:
        return None
    kind: Window = kinds[saved[0]](**{name: _loaded_argument(value) for name, value in saved[1].items()})
    return kind


def _loaded_argument(value: Any) -> Any:
    if type(value) is not list:
        return value
    kind, number = checked_list(value, "a time of a window", 2)
    return as_people_have_it(whole(number, "a time of a window", FIRST, LAST), TimeKind[kind])


def saved_clock(clock: Clock, count: int) -> dict[str, Any]:
    """The kind of times of a slicer: nothing for numbers, as before there were others."""
    kind = clock.kind_of(count)
    if kind is not NUMBERS or clock.in_microseconds:
        return {"times": [None if kind is NUMBERS else kind.name, clock.in_microseconds]}
    return {}


def shown_time(saved: Mapping[str, Any], time: Any) -> Any:
    """A time of a saved slicer as users have it; an infinity, or what no date can be, as it is."""
    kind, _ = checked_list(saved.get("times", [None, False]), "a kind of times", 2)
    if kind is None or type(time) is not int or not FIRST <= time <= LAST:
        return time
    return as_people_have_it(time, TimeKind[kind])


def loaded_clock(saved: Mapping[str, Any], queries: Queries, begun: bool) -> Clock:
    """The reverse of `saved_clock`, for a slicer with these queries; it has begun if tuples have come."""
    kind, real = checked_list(saved.get("times", ["NUMBERS" if begun else None, False]), "a kind of times", 2)
    clock = Clock(None)
    for name, query in queries.items():
        clock = clock.agreeing(query.kind.kinds_of_times, f"the query {name!r}", 0)
    if real:
        clock = clock.agreeing(DATES, "a duration", 0)
    if kind is not None:
        clock.agreeing(frozenset([TimeKind[kind]]), "a saved slicer", 0)
        clock.resume(None, 1, TimeKind[kind])
    return clock


def saved_stream(monoid: Monoid, stream: SlicedStream) -> dict[str, Any]:
    slices = stream.slices
    return {
        "slices": [_saved_slice(monoid, each) for each in slices.items],
        "dropped": [slices.dropped, slices.last_dropped, slices.last_lost],
        "youngest": stream.youngest,
        "arrivals": stream.arrivals,
        "late": list(stream.late.items()),
        "changed_from": stream.changed_from,
        "needed": [stream.needed_from, stream.slices_at_last_drop],
        "pending": [_saved_result(monoid, each) for each in stream.pending],
        "given_values": [_saved_value(monoid, *each) for each in stream.emitted_values.items()],
        "since_trigger": stream.since_trigger,
        "progress": {name: one.saved() for name, one in stream.progress.items()},
    }


def loaded_stream(
    monoid: Monoid, aggregates: AggregateStore, queries: Queries, watermark: Time, saved: Mapping[str, Any]
) -> SlicedStream:
    progress = {
        name: new_progress(name, query, watermark).loaded(saved["progress"][name])
        for name, query in queries.items()
    }
    stream = SlicedStream(aggregates, progress, watermark)
    stream.slices = _loaded_slices(monoid, saved, queries)
    stream.youngest, stream.arrivals = checked_time(saved["youngest"]), checked_count(saved["arrivals"])
    # there must be numbers left for tuples to come
    whole(stream.arrivals, "the number of tuples", 0, LARGEST // 2)
    stream.late = dict(map(checked_span, checked_list(saved["late"], "late tuples")))
    stream.changed_from = checked_time(saved["changed_from"])
    stream.since_trigger = checked_count(saved["since_trigger"])
    needed_from, at_last_drop = checked_list(saved["needed"], "what is needed", 2)
    stream.needed_from, stream.slices_at_last_drop = checked_time(needed_from), checked_count(at_last_drop)
    pending = checked_list(saved["pending"], "results")
    stream.pending = [_loaded_result(monoid, queries, each) for each in pending]
    stream.emitted_values = EmittedValues(
        dict(_loaded_value(monoid, each) for each in checked_list(saved["given_values"], "values"))
    )
    stream.session_cuts = session_cuts(progress)
    # the next tuple computes the next edge
    stream.next_edge = -math.inf
    _check_stream(stream)
    return stream


def _check_stream(stream: SlicedStream) -> None:
    """Raises Malformed where the parts of a loaded stream contradict each other."""
    items, youngest = stream.slices.items, stream.youngest
    if sum(each.count for each in items) > stream.arrivals or youngest == math.inf:
        raise Malformed(f"{stream.arrivals} tuples have come, the youngest at {shown(youngest)}")
    if youngest != max([stream.slices.last_dropped, *(each.last for each in items[-1:])]):
        raise Malformed(f"the youngest tuple is of {shown(youngest)}, and the last slice ends otherwise")
    times = [time for time in (youngest, *(each.first for each in items[:1])) if time > -math.inf]
    for one in stream.progress.values():
        one.check(stream)
        for time in times:  # raises if there are too many windows up to this time to tell them apart
            if isinstance(one.kind, EdgeWindow):
                one.kind.edge_after(time)


def _saved_result(monoid: Monoid, each: TimedResult) -> list[Any]:
    """A result with its state instead of its value: `lower` may return values that cannot be saved."""
    if each.state is NOTHING:
        return [each.at, each.query_index, list(each.result)]
    query, start, end, _, *marks = each.result
    return [each.at, each.query_index, [query, start, end, *marks], monoid.pack(each.state)]


def _loaded_result(monoid: Monoid, queries: Queries, saved: Any) -> TimedResult:
    at, query_index, parts, *packed = checked_list(saved, "a result")
    if packed:
        state = _loaded_states(monoid, checked_list(packed, "a state", 1))[0]
        query, start, end, is_update, key, is_early = checked_list(parts, "a result", 6)
        value = monoid.lower(state)
    else:  # in the first format, results had no states
        state = NOTHING
        query, start, end, value, is_update, key, is_early = checked_list(parts, "a result", 7)
    if query not in queries:
        raise Malformed("a result is of a query that there is not")
    checked_span((start, end))
    for mark in (is_update, is_early):
        if type(mark) is not bool:
            raise Malformed(f"a mark of a result is {shown(mark)}, not true or false")
    result = Result(query, start, end, value, is_update, key, is_early)
    return TimedResult(checked_time(at), checked_count(query_index), result, state)


def _saved_value(monoid: Monoid, subject: Any, each: EmittedValue) -> list[Any]:
    if each.state is NOTHING:
        return [subject, [each.until, each.value]]
    return [subject, each.until, monoid.pack(each.state)]


def _loaded_value(monoid: Monoid, saved: Any) -> tuple[Any, EmittedValue]:
    subject, until, *packed = checked_list(saved, "a value")
    if type(subject) is not str:
        query, *span = checked_list(subject, "a window")
        subject = (text(query, "a query"), *(checked_window(span) if span else ()))
    if not packed:  # in the first format, values had no states
        until, value = checked_list(until, "a value", 2)
        return subject, EmittedValue(checked_time(until), value, NOTHING)
    state = _loaded_states(monoid, checked_list(packed, "a state", 1))[0]
    return subject, EmittedValue(checked_time(until), monoid.lower(state), state)


def _loaded_states(monoid: Monoid, packed: list[Packed]) -> list[State]:
    """The states that this monoid has packed; raises if they cannot be combined with each other."""
    loaded = states = [monoid.unpack(each) for each in packed]
    if isinstance(monoid, SkippingColumns):
        monoid, states = monoid.inner, [state for state in states if state is not NO_VALUE]
    if isinstance(monoid, ColumnarMonoid) and states:
        columns = monoid.columns_of(states)
        if len(columns) != monoid.width or any(column.shape != (len(states),) for column in columns):
            raise Malformed(f"states are none of {monoid!r}")
        monoid.check_states(columns)
        forms = {type(monoid.state_at(columns, 0)), type(states[0])} | set(map(type, states))
        if monoid.width > 1 and len(forms) > 1:
            raise Malformed(f"states are none of {monoid!r}")
    for each in states:
        monoid.combine(each, each)
    return loaded


def _loaded_slices(monoid: Monoid, saved: Mapping[str, Any], queries: Queries) -> SliceList:
    items = [_loaded_slice(monoid, each) for each in fields(saved["slices"], "slices")]
    if any(older.last > younger.first for older, younger in pairwise(items)):
        raise Malformed("slices are not in the order of their times")
    _check_tuples(items, queries)
    dropped, *times = checked_list(saved["dropped"], "what was dropped", 3)
    count, (last_dropped, last_lost) = checked_count(dropped), map(checked_time, times)
    firsts = [each.first for each in items]
    return SliceList(items, firsts, dropped=count, last_dropped=last_dropped, last_lost=last_lost)


def _check_tuples(items: list[Slice], queries: Queries) -> None:
    """Raises Malformed if slices lack tuples or marks that a query looks at."""
    content = [(name, each) for name, each in queries.items() if isinstance(each.kind, ContentWindow)]
    counted = [query.since for query in queries.values() if is_counted(query.kind)]
    since = min([*counted, *(query.since for _, query in content)], default=math.inf)
    for each in items:
        if each.tuples is None and each.first >= since:
            raise Malformed("a slice has no tuples, which a query needs")
        for time, _, _, marks in each.tuples or ():
            for name, query in content:
                if time >= query.since:
                    mark = marks[name]
                    if isinstance(query.kind, Delta):
                        real(mark, "the mark of a tuple")


def _saved_slice(monoid: Monoid, each: Slice) -> list[Any]:
    packed = None
    if each.tuples is not None:
        packed = [[time, arrival, monoid.pack(state), marks] for time, arrival, state, marks in each.tuples]
    return [each.first, each.last, each.edge, each.count, monoid.pack(each.aggregate(monoid)), packed]


def _loaded_slice(monoid: Monoid, saved: Any) -> Slice:
    first, last, edge, count, state, packed = fields(saved, "a slice", 6)
    if not checked_finite_time(first) <= checked_finite_time(last) < checked_time(edge, "an edge"):
        raise Malformed(f"a slice is from {first} to {last}, before {edge}")
    whole(count, "the tuples of a slice", 1)
    tuples = None
    if packed is not None:
        parts = [checked_list(each, "a tuple", 4) for each in checked_list(packed, "tuples", count)]
        states = _loaded_states(monoid, [each[2] for each in parts])
        tuples = [
            (checked_finite_time(time), checked_count(arrival), state_of_one, marks)
            for (time, arrival, _, marks), state_of_one in zip(parts, states, strict=True)
        ]
        times = [each[0] for each in tuples]
        if times != sorted(times) or (times[0], times[-1]) != (first, last):
            raise Malformed("tuples are not in the order of their times")
    return Slice(first, last, edge, count, _loaded_states(monoid, [state])[0], tuples)
