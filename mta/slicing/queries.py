"""The queries of a slicer: which may be registered, what follows from them, and how they come and go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from mta.kinds import Time
from mta.monoids.base import Monoid
from mta.slicing.emitted import EmittedValues
from mta.slicing.progress.content import ContentProgress
from mta.slicing.progress.counts import CountProgress
from mta.slicing.progress.edges import EdgeProgress
from mta.slicing.progress.sessions import SessionProgress, session_cuts
from mta.slicing.settings import Settings, checked_lateness
from mta.slicing.slice_manager import SliceManager
from mta.slicing.sliced_stream import Progress, SlicedStream
from mta.slicing.slices import Slice
from mta.slicing.stream_slicer import Query, StreamSlicer
from mta.slicing.window_manager import WindowManager
from mta.slicing.windows import (
    ContentWindow,
    EdgeWindow,
    Session,
    Sliding,
    Window,
    after,
    has_edges,
    is_counted,
)

Queries: TypeAlias = dict[str, Query]

#: The most tuples in a slice where windows are made of single tuples, so that parts of a slice fold fast.
MAX_TUPLES = 512


class Plan(NamedTuple):
    """The queries, and the objects that follow from them. A slicer replaces its plan as a whole."""

    queries: Queries
    #: the kinds of windows that look at the value of each tuple
    markers: dict[str, ContentWindow]
    #: whether a query has windows by count
    counts: bool
    manager: SliceManager
    #: where windows start and end, even where slices are not cut
    edges: StreamSlicer
    windows: WindowManager

    @classmethod
    def of(cls, queries: Queries, monoid: Monoid, settings: Settings) -> Plan:
        in_order = settings.in_order
        kinds = {name: query.kind for name, query in queries.items()}
        markers = {name: kind for name, kind in kinds.items() if isinstance(kind, ContentWindow)}
        counted = [kind for kind in kinds.values() if is_counted(kind)]
        by_tuples = bool(markers or counted)
        max_tuples = min([MAX_TUPLES, *(kind.slide for kind in counted)]) if by_tuples else math.inf
        manager = SliceManager(
            monoid,
            StreamSlicer(queries.values(), starts_only=in_order),
            keeps_tuples=by_tuples or not (monoid.commutes or in_order),
            max_tuples=max_tuples,
        )
        windows = WindowManager(monoid, queries, settings.changes_only, settings.forget_after)
        return cls(queries, markers, bool(counted), manager, StreamSlicer(queries.values()), windows)


def checked_queries(
    queries: Mapping[str, Window] | Iterable[tuple[str, Window]], lateness: Any = 0
) -> Queries:
    """Queries that see all tuples; `lateness` is a number for all, or a mapping from names to numbers."""
    checked: Queries = {}
    pairs = queries.items() if isinstance(queries, Mapping) else queries
    if isinstance(pairs, (str, Window)) or not isinstance(pairs, Iterable):
        raise TypeError(f'queries are a mapping such as {{"minute": Tumbling(60)}}, got {queries!r}')
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"queries are a mapping, or pairs of a name and a kind of windows, got {pair!r}")
        name, kind = pair
        check_query(checked, name, kind)
        own = lateness.get(name, 0) if isinstance(lateness, Mapping) else lateness
        checked[name] = Query(kind, -math.inf, checked_lateness(own))
    if isinstance(lateness, Mapping) and lateness.keys() - checked.keys():
        unknown = sorted(map(repr, lateness.keys() - checked.keys()))
        raise ValueError(f"lateness names the queries {', '.join(unknown)}; there are {sorted(checked)} only")
    return checked


def check_query(queries: Queries, name: Any, kind: Any) -> None:
    """Raises TypeError or ValueError if a query cannot be registered beside others."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"a query has a name, a str that is not empty, got {name!r}")
    if not isinstance(kind, (EdgeWindow, Session, ContentWindow)):
        raise TypeError(f"the query {name!r} is a kind of windows such as Tumbling(60), got {kind!r}")
    if not isinstance(kind.fingerprint(), str):
        raise TypeError(f"the fingerprint of the query {name!r} is a str, got {kind.fingerprint()!r}")
    if name in queries:
        raise ValueError(f"there is a query {name!r} already, {queries[name].kind!r}; take another name")


def new_progress(name: str, query: Query, emitted_until: Time) -> Progress:
    """The progress of a query that is new to a stream; windows that end by `emitted_until` are left out."""
    kind, since, _ = query
    if isinstance(kind, Session):
        return SessionProgress(kind, since, seen_until=emitted_until)
    if isinstance(kind, ContentWindow):
        return ContentProgress(kind, name, since)
    if is_counted(kind):
        return CountProgress(kind, since)
    assert isinstance(kind, EdgeWindow)
    return EdgeProgress(kind, since, emitted_until)


def start_without_history(streams: Iterable[SlicedStream], watermark: Time, forgotten: Time) -> Time:
    """The first time behind all tuples; `forgotten` is the youngest time in streams that were forgotten."""
    youngest = max((stream.youngest for stream in streams), default=-math.inf)
    return max(watermark, after(max(youngest, forgotten)))


def start_of_history(
    kind: Window, queries: Queries, streams: Iterable[SlicedStream], watermark: Time, forgotten: Time
) -> Time:
    """The earliest time from which a new query can be answered by the slices in the process.

    From this time on no slice was dropped, and windows of this kind hold each slice as a whole or not at all.
    """
    if isinstance(kind, ContentWindow):
        raise ValueError(f"{kind!r} has to see each tuple, so it has no history; leave out history=True")
    streams = list(streams)
    now = start_without_history(streams, watermark, forgotten)
    since = min((stream.slices.first_times[0] for stream in streams if stream.slices.items), default=now)
    since = max(since, after(max([forgotten, *(stream.slices.last_dropped for stream in streams)])))
    for stream in streams:
        for each in reversed(stream.slices.items):
            if each.last >= since and not _keeps_whole(kind, each, queries):
                since = max(since, after(each.last))
                break
    changed = True
    while changed:  # until the time is inside of no slice of any stream
        changed = False
        for each in (each for stream in streams for each in stream.slices.items):
            if each.first < since <= each.last:
                since, changed = after(each.last), True
    return min(since, now)


def cuts_all(finer: Window, kind: Window) -> bool:
    """Whether windows of one kind have an edge wherever a window of the other kind starts or ends."""
    if is_counted(finer) or not isinstance(finer, Sliding) or not isinstance(kind, Sliding):
        return has_edges(finer) and finer == kind
    edges = (kind.slide, kind.length, kind.offset - finer.offset)
    whole = all(isinstance(number, int) for number in (*edges, finer.slide))
    return finer == kind or (whole and all(number % finer.slide == 0 for number in edges))


def _keeps_whole(kind: Window, part: Slice, queries: Queries) -> bool:
    """Whether each window of a kind holds a slice as a whole or not at all."""
    if is_counted(kind):
        return part.tuples is not None
    if has_edges(kind):
        edge = kind.edge_after(part.first)
        return edge is None or edge > part.last
    assert isinstance(kind, Session)
    if part.last <= part.first + kind.gap:
        return True
    if part.tuples is not None:
        return all(b[0] <= a[0] + kind.gap for a, b in pairwise(part.tuples))
    return any(
        isinstance(query.kind, Session) and query.kind.gap <= kind.gap and query.since <= part.first
        for query in queries.values()
    )


def with_query(stream: SlicedStream, name: str, query: Query, emitted_until: Time) -> SlicedStream:
    """The stream with one more query. Its slices take no more tuples beyond the edges of the query."""
    kind, since, lateness = query
    changed = stream.shared()
    progress = new_progress(name, query, emitted_until)
    if isinstance(progress, SessionProgress):
        progress = progress.begun(stream, stream.watermark - lateness)
    changed.progress = {**stream.progress, name: progress}
    changed.session_cuts = session_cuts(changed.progress)
    changed.slices = stream.slices.copy()
    changed.slices.lineage = stream.slices.lineage
    for index, each in enumerate(stream.slices.items):
        edge = each.edge
        if each.first < since:
            edge = min(edge, since)
        elif has_edges(kind):
            next_edge = kind.edge_after(each.first)
            edge = edge if next_edge is None else min(edge, next_edge)
        if edge != each.edge:
            changed.slices.items[index] = replace(each, edge=edge)
    changed.needed_from = min(stream.needed_from, since)
    changed.open_from, changed.known_verdicts = {}, (-math.inf, math.inf)
    # the next tuple computes the next edge
    changed.next_edge = -math.inf
    return changed


def without_query(stream: SlicedStream, name: str) -> SlicedStream:
    """The stream without one of its queries."""
    changed = stream.shared()
    changed.progress = {other: one for other, one in stream.progress.items() if other != name}
    changed.open_from, changed.known_verdicts = {}, (-math.inf, math.inf)
    changed.pending = [each for each in stream.pending if each.result.query != name]
    changed.emitted_values = EmittedValues(
        {
            subject: value
            for subject, value in stream.emitted_values.items()
            if subject != name and (isinstance(subject, str) or subject[0] != name)
        }
    )
    return changed
