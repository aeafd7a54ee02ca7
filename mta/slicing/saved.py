"""A slicer as plain values, and back: what a checkpoint keeps beside the leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from xxhash import xxh3_64_digest

from mta.encoding.packing import pack, unpack
from mta.encoding.untrusted import Malformed, fields, printable, real, text, whole
from mta.errors import ManifestCorrupt, ManifestMismatch, WindowError
from mta.monoids.base import Monoid
from mta.slicing.aggregate_store.base import AggregateStore
from mta.slicing.content import Delta
from mta.slicing.queries import Queries, check_query, progress_of
from mta.slicing.slices import Slice, Slices
from mta.slicing.stream import Stream
from mta.slicing.stream_slicer import Query
from mta.slicing.window_manager import Result
from mta.slicing.windows import Session, Sliding, Tumbling, Window

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


def loaded_queries(what: str, saved: Iterable[Any], given: Mapping[str, Window] | None) -> Queries:
    """The queries of a checkpoint: those given, which must be the same, or out of what they are told by."""
    queries: Queries = {}
    given = dict(given or {})
    for name, told, fingerprint, since in saved:
        fingerprint = printable(text(fingerprint, "a query"))
        kind = given.pop(name) if name in given else _kind(told)
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
        queries[name] = Query(kind, since)
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
        "last_dropped": book.last_dropped,
        "youngest": stream.youngest,
        "arrivals": stream.arrivals,
        "late": list(stream.late.items()),
        "changed_from": stream.changed_from,
        "needed": stream.needed,
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
    slices = [_loaded_slice(monoid, each) for each in fields(saved["slices"], "slices")]
    if any(older.last > younger.first for older, younger in pairwise(slices)):
        raise Malformed("slices are not in the order of their times")
    stream.book = Slices(slices)
    stream.book.last_dropped = saved["last_dropped"]
    stream.youngest, stream.arrivals = saved["youngest"], saved["arrivals"]
    stream.late, stream.changed_from = dict(saved["late"]), saved["changed_from"]
    stream.needed, stream.since_trigger = saved["needed"], saved["since_trigger"]
    stream.pending = [(at, place, Result(*result)) for at, place, result in saved["pending"]]
    stream.given_values = {which: tuple(value) for which, value in saved["given_values"]}
    # the next tuple looks for the next edge
    stream.next_edge = -float("inf")
    return stream


def _saved_slice(monoid: Monoid, each: Slice) -> list[Any]:
    rows = each.rows
    packed = None if rows is None else [[t, n, monoid.pack(state), mark] for t, n, state, mark in rows]
    return [each.first, each.last, each.high, each.count, monoid.pack(each.state), packed]


def _loaded_slice(monoid: Monoid, saved: Any) -> Slice:
    first, last, high, count, state, packed = fields(saved, "a slice", 6)
    if not real(first, "a time") <= real(last, "a time") < real(high, "an edge"):
        raise Malformed(f"a slice is from {first} to {last}, before {high}")
    whole(count, "the tuples of a slice", 1)
    rows = None
    if packed is not None:
        rows = [(t, n, monoid.unpack(state), mark) for t, n, state, mark in packed]
    return Slice(first, last, high, count, monoid.unpack(state), rows)
