"""A slicer as plain values, and back: what a checkpoint keeps beside the leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from xxhash import xxh3_64_digest

from mta.core.states import NOTHING
from mta.encoding.packing import pack, unpack
from mta.encoding.untrusted import LARGEST, Malformed, fields, printable, real, shown, text, whole
from mta.errors import ManifestCorrupt, ManifestMismatch, WindowError
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.slicing.aggregate_store import AggregateStore
from mta.slicing.content import ContentWindow, Delta
from mta.slicing.emitted import Given, Value
from mta.slicing.progress.sessions import cuts_of
from mta.slicing.queries import Queries, check_query, progress_of
from mta.slicing.settings import checked_lateness
from mta.slicing.sliced_stream import Stream
from mta.slicing.slices import Slice, Slices
from mta.slicing.stream_slicer import Query
from mta.slicing.untrusted import a_moment, a_number, a_span, a_time, a_window, some, yes_or_no
from mta.slicing.window_manager import Result, Timed
from mta.slicing.windows import EdgeWindow, FixedBand, Session, Sliding, Tumbling, Window, is_counted

FORMAT = 1


def sealed(saved: dict[str, Any]) -> bytes:
    """A saved slicer as bytes, with what tells that they are whole."""
    body = pack(saved)
    return body + xxh3_64_digest(body)


@contextmanager
def opened(what: str, data: Any) -> Iterator[dict[str, Any]]:
    """The reverse of `sealed`. While it is looked at, whatever is wrong with it is ManifestCorrupt."""
    try:
        if not isinstance(data, bytes) or xxh3_64_digest(data[:-8]) != data[-8:]:
            raise Malformed("its checksum is another")
        saved = unpack(data[:-8])
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
        [name, _told(kind), kind.fingerprint(), since, lateness]
        for name, (kind, since, lateness) in queries.items()
    ]


def loaded_queries(what: str, saved: Any, given: Queries, lateness: Any) -> Queries:
    """The queries of a checkpoint: those given, which must be the same, or out of what they are told by."""
    queries: Queries = {}
    given = dict(given)
    for each in some(saved, "queries"):
        told_of = some(each, "a query")
        # those of before had the lateness of the slicer
        own = told_of.pop() if len(told_of) == 5 else lateness
        name, told, fingerprint, since = some(told_of, "a query", 4)
        fingerprint = printable(text(fingerprint, "a query"))
        kind = given.pop(name).kind if name in given else _kind(told)
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
        queries[name] = Query(kind, a_time(since), checked_lateness(own))
    if given:
        raise ManifestMismatch(
            f"{what} has no queries {sorted(given)}, only {sorted(queries)}; restore it without, and add "
            "them then"
        )
    return queries


def _told(kind: Window) -> list[Any] | None:
    """A kind by its name and what it is made with, where that is all."""
    if type(kind) is Tumbling:
        return ["Tumbling", {"length": kind.length, "offset": kind.offset, "measure": kind.measure}]
    if type(kind) is Sliding:
        told = {"length": kind.length, "slide": kind.slide, "offset": kind.offset, "measure": kind.measure}
        return ["Sliding", told]
    if type(kind) is FixedBand:
        return ["FixedBand", {"start": kind.start, "length": kind.length}]
    if type(kind) is Session:
        return ["Session", {"gap": kind.gap}]
    if type(kind) is Delta:
        return ["Delta", {"field": kind.field, "d": kind.d}]
    return None


def _kind(told: list[Any] | None) -> Window | None:
    kinds: list[Any] = [Tumbling, Sliding, FixedBand, Session, Delta]
    return None if told is None else {kind.__name__: kind for kind in kinds}[told[0]](**told[1])


def saved_stream(monoid: Monoid, stream: Stream) -> dict[str, Any]:
    book = stream.book
    return {
        "slices": [_saved_slice(monoid, each) for each in book.slices],
        "dropped": [book.dropped, book.last_dropped, book.lost],
        "youngest": stream.youngest,
        "arrivals": stream.arrivals,
        "late": list(stream.late.items()),
        "changed_from": stream.changed_from,
        "needed": [stream.needed, stream.looked_at],
        "pending": [_saved_result(monoid, each) for each in stream.pending],
        "given_values": [_saved_value(monoid, *each) for each in stream.given_values.items()],
        "since_trigger": stream.since_trigger,
        "progress": {name: one.saved() for name, one in stream.progress.items()},
    }


def loaded_stream(
    monoid: Monoid, store: AggregateStore, queries: Queries, watermark: Any, saved: Mapping[str, Any]
) -> Stream:
    progress = {
        name: progress_of(name, query, watermark).loaded(saved["progress"][name])
        for name, query in queries.items()
    }
    stream = Stream(store, progress, watermark)
    stream.book = _loaded_slices(monoid, saved, queries)
    stream.youngest, stream.arrivals = a_time(saved["youngest"]), a_number(saved["arrivals"])
    # more can come, and be counted
    whole(stream.arrivals, "the number of tuples", 0, LARGEST // 2)
    stream.late = dict(map(a_span, some(saved["late"], "late tuples")))
    stream.changed_from, stream.since_trigger = (
        a_time(saved["changed_from"]),
        a_number(saved["since_trigger"]),
    )
    needed, looked_at = some(saved["needed"], "what is needed", 2)
    stream.needed, stream.looked_at = a_time(needed), a_number(looked_at)
    stream.pending = [_loaded_result(monoid, queries, each) for each in some(saved["pending"], "results")]
    stream.given_values = Given(
        dict(_loaded_value(monoid, each) for each in some(saved["given_values"], "values"))
    )
    stream.cuts = cuts_of(progress)
    # the next tuple looks for the next edge
    stream.next_edge = -math.inf
    _check_stream(stream)
    return stream


def _check_stream(stream: Stream) -> None:
    """Whether what was told of a stream goes together."""
    slices, youngest = stream.book.slices, stream.youngest
    if sum(each.count for each in slices) > stream.arrivals or youngest == math.inf:
        raise Malformed(f"{stream.arrivals} tuples have come, the youngest at {shown(youngest)}")
    if youngest != max([stream.book.last_dropped, *(each.last for each in slices[-1:])]):
        raise Malformed(f"the youngest tuple is of {shown(youngest)}, and the last slice ends otherwise")
    times = [time for time in (youngest, *(each.first for each in slices[:1])) if time > -math.inf]
    for one in stream.progress.values():
        one.check(stream)
        for time in times:  # windows that cannot be told apart there are refused
            if isinstance(one.kind, EdgeWindow):
                one.kind.edge_after(time)


def _saved_result(monoid: Monoid, each: Timed) -> list[Any]:
    """A result with the state that it is of: what a monoid makes of a state may be anything."""
    query, start, end, value, is_update, key, is_early = each.result
    if each.state is NOTHING:
        return [each.at, each.place, [query, start, end, value, is_update, key, is_early]]
    return [each.at, each.place, [query, start, end, is_update, key, is_early], monoid.pack(each.state)]


def _loaded_result(monoid: Monoid, queries: Queries, saved: Any) -> Timed:
    at, place, told, *packed = some(saved, "a result")
    if packed:
        state = loaded_states(monoid, some(packed, "a state", 1))[0]
        query, start, end, is_update, key, is_early = some(told, "a result", 6)
        value = monoid.lower(state)
    else:  # those of before are without
        state = NOTHING
        query, start, end, value, is_update, key, is_early = some(told, "a result", 7)
    if query not in queries:
        raise Malformed("a result is of a query that there is not")
    a_span((start, end))
    for each in (is_update, is_early):
        yes_or_no(each, "what a result is")
    result = Result(query, start, end, value, is_update, key, is_early)
    return Timed(a_time(at), a_number(place), result, state)


def _saved_value(monoid: Monoid, which: Any, each: Value) -> list[Any]:
    if each.state is NOTHING:
        return [which, [each.until, each.value]]
    return [which, each.until, monoid.pack(each.state)]


def _loaded_value(monoid: Monoid, saved: Any) -> tuple[Any, Value]:
    which, until, *packed = some(saved, "a value")
    if type(which) is not str:
        query, *span = some(which, "a window")
        which = (text(query, "a query"), *(a_window(span) if span else ()))
    if not packed:  # those of before are without the state
        until, value = some(until, "a value", 2)
        return which, Value(a_time(until), value, NOTHING)
    state = loaded_states(monoid, some(packed, "a state", 1))[0]
    return which, Value(a_time(until), monoid.lower(state), state)


def loaded_states(monoid: Monoid, packed: list[Any]) -> list[Any]:
    """States as `pack` made them of this monoid: each of them can be combined with the others."""
    states = [monoid.unpack(each) for each in packed]
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
    return states


def _loaded_slices(monoid: Monoid, saved: Mapping[str, Any], queries: Queries) -> Slices:
    slices = [_loaded_slice(monoid, each) for each in fields(saved["slices"], "slices")]
    if any(older.last > younger.first for older, younger in pairwise(slices)):
        raise Malformed("slices are not in the order of their times")
    _check_rows(slices, queries)
    book = Slices(slices)
    dropped, last_dropped, lost = some(saved["dropped"], "what was dropped", 3)
    book.dropped, book.last_dropped, book.lost = a_number(dropped), a_time(last_dropped), a_time(lost)
    return book


def _check_rows(slices: list[Slice], queries: Queries) -> None:
    """Whether slices have what queries of single tuples look at."""
    content = [(name, each) for name, each in queries.items() if isinstance(each.kind, ContentWindow)]
    counted = [query.since for query in queries.values() if is_counted(query.kind)]
    since = min([*counted, *(query.since for _, query in content)], default=math.inf)
    for each in slices:
        if each.rows is None and each.first >= since:
            raise Malformed("a slice has no tuples, which a query needs")
        for time, _, _, mark in each.rows or ():
            for name, query in content:
                if time >= query.since:
                    _check_mark(query.kind, mark[name])


def _check_mark(kind: Window, mark: Any) -> None:
    if isinstance(kind, Delta):
        real(mark, "what a query has seen in a tuple")


def _saved_slice(monoid: Monoid, each: Slice) -> list[Any]:
    rows = each.rows
    packed = None if rows is None else [[t, n, monoid.pack(state), mark] for t, n, state, mark in rows]
    return [each.first, each.last, each.high, each.count, monoid.pack(each.total(monoid)), packed]


def _loaded_slice(monoid: Monoid, saved: Any) -> Slice:
    first, last, high, count, state, packed = fields(saved, "a slice", 6)
    if not a_moment(first) <= a_moment(last) < a_time(high, "an edge"):
        raise Malformed(f"a slice is from {first} to {last}, before {high}")
    whole(count, "the tuples of a slice", 1)
    rows = None
    if packed is not None:
        told = [some(row, "a tuple", 4) for row in some(packed, "tuples", count)]
        states = loaded_states(monoid, [row[2] for row in told])
        rows = [(a_moment(t), a_number(n), s, mark) for (t, n, _, mark), s in zip(told, states, strict=True)]
        times = [row[0] for row in rows]
        if times != sorted(times) or (times[0], times[-1]) != (first, last):
            raise Malformed("tuples are not in the order of their times")
    return Slice(first, last, high, count, loaded_states(monoid, [state])[0], rows)
