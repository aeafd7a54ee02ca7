"""A slicer as plain values, and back: what a checkpoint keeps beside the leaves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from xxhash import xxh3_64_digest

from mta.encoding.packing import pack, unpack
from mta.encoding.untrusted import Malformed, fields, printable, real, text, whole
from mta.errors import ManifestCorrupt, ManifestMismatch, WindowError
from mta.monoids.base import Monoid
from mta.slicing.aggregate_store.base import AggregateStore
from mta.slicing.content import ContentWindow, Delta
from mta.slicing.progress.told import a_number, a_span, a_time, some
from mta.slicing.queries import Queries, check_query, progress_of
from mta.slicing.slices import Slice, Slices
from mta.slicing.stream import Stream
from mta.slicing.stream_slicer import Query
from mta.slicing.window_manager import Result
from mta.slicing.windows import Session, Sliding, Tumbling, Window, is_counted

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
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ManifestCorrupt(
            f"the state of {what} is not what was written: {printable(str(error))[:200]}; restore "
            "another version, or start anew"
        ) from error


def saved_queries(queries: Queries) -> list[Any]:
    return [[name, _told(kind), kind.fingerprint(), since] for name, (kind, since) in queries.items()]


def loaded_queries(what: str, saved: Any, given: Queries) -> Queries:
    """The queries of a checkpoint: those given, which must be the same, or out of what they are told by."""
    queries: Queries = {}
    given = dict(given)
    for each in some(saved, "queries"):
        name, told, fingerprint, since = some(each, "a query", 4)
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
        queries[name] = Query(kind, a_time(since))
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
    if type(kind) is Session:
        return ["Session", {"gap": kind.gap}]
    if type(kind) is Delta:
        return ["Delta", {"field": kind.field, "d": kind.d}]
    return None


def _kind(told: list[Any] | None) -> Window | None:
    kinds: dict[str, Any] = {"Tumbling": Tumbling, "Sliding": Sliding, "Session": Session, "Delta": Delta}
    return None if told is None else kinds[told[0]](**told[1])


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
        "pending": [[at, place, tuple(result)] for at, place, result in stream.pending],
        "given_values": list(stream.given_values.items()),
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
    stream.late = dict(map(a_span, some(saved["late"], "late tuples")))
    stream.changed_from, stream.since_trigger = (
        a_time(saved["changed_from"]),
        a_number(saved["since_trigger"]),
    )
    needed, looked_at = some(saved["needed"], "what is needed", 2)
    stream.needed, stream.looked_at = a_time(needed), a_number(looked_at)
    stream.pending = [_loaded_result(queries, each) for each in some(saved["pending"], "results")]
    stream.given_values = dict(_loaded_value(each) for each in some(saved["given_values"], "values"))
    # the next tuple looks for the next edge
    stream.next_edge = -math.inf
    return stream


def _loaded_result(queries: Queries, saved: Any) -> tuple[Any, int, Result]:
    at, place, told = some(saved, "a result", 3)
    result = Result(*told)
    if result.query not in queries:
        raise Malformed("a result is of a query that there is not")
    a_span((result.start, result.end))
    return a_time(at), a_number(place), result


def _loaded_value(saved: Any) -> tuple[Any, tuple[Any, Any]]:
    which, told = some(saved, "a value", 2)
    if type(which) is not str:
        query, start, end = some(which, "a window", 3)
        which = (text(query, "a query"), *a_span((start, end)))
    at, value = some(told, "a value", 2)
    return which, (a_time(at), value)


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
    if not a_time(first) <= a_time(last) < a_time(high, "an edge"):
        raise Malformed(f"a slice is from {first} to {last}, before {high}")
    whole(count, "the tuples of a slice", 1)
    rows = None
    if packed is not None:
        told = [some(row, "a tuple", 4) for row in some(packed, "tuples", count)]
        rows = [(a_time(t), a_number(n), monoid.unpack(state), mark) for t, n, state, mark in told]
        times = [row[0] for row in rows]
        if times != sorted(times) or (times[0], times[-1]) != (first, last):
            raise Malformed("tuples are not in the order of their times")
    return Slice(first, last, high, count, monoid.unpack(state), rows)
