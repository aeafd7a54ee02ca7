"""The queries of a slicer: what may be registered, from when on a query sees a stream, and what follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from mta.monoids.base import Monoid
from mta.slicing.content import ContentWindow
from mta.slicing.emitted import Given
from mta.slicing.progress.content import ContentProgress
from mta.slicing.progress.counts import CountProgress
from mta.slicing.progress.edges import EdgeProgress
from mta.slicing.progress.sessions import SessionProgress, cuts_of
from mta.slicing.settings import Settings, checked_lateness
from mta.slicing.slice_manager import SliceManager
from mta.slicing.sliced_stream import Progress, Stream
from mta.slicing.slices import Slice
from mta.slicing.stream_slicer import Query, StreamSlicer
from mta.slicing.window_manager import WindowManager
from mta.slicing.windows import EdgeWindow, Session, Sliding, Time, Window, after, is_counted

Queries: TypeAlias = dict[str, Query]

#: Where windows are made of rows, a slice has at most so many, so that parts of one are soon folded.
MOST_ROWS = 512


class Plan(NamedTuple):
    """The queries, and what follows from them. Is replaced as a whole."""

    queries: Queries
    #: kinds of windows that have to see each tuple
    markers: dict[str, ContentWindow]
    #: whether a query counts tuples
    counts: bool
    manager: SliceManager
    #: where windows start and end, whether or not slices are cut there
    edges: StreamSlicer
    windows: WindowManager

    @classmethod
    def of(cls, queries: Queries, monoid: Monoid, settings: Settings) -> Plan:
        in_order = settings.in_order
        kinds = {name: query.kind for name, query in queries.items()}
        markers = {name: kind for name, kind in kinds.items() if isinstance(kind, ContentWindow)}
        counted = [kind for kind in kinds.values() if is_counted(kind)]
        rows = bool(markers or counted)
        slides = [kind.slide for kind in counted if isinstance(kind, Sliding)]
        most = min([MOST_ROWS, *slides]) if rows else math.inf
        manager = SliceManager(
            monoid,
            StreamSlicer(queries.values(), starts_only=in_order),
            keeps_rows=rows or not (monoid.commutes or in_order),
            most=most,
        )
        windows = WindowManager(monoid, queries, settings.changes_only, settings.forget_after)
        return cls(queries, markers, bool(counted), manager, StreamSlicer(queries.values()), windows)


def checked_queries(
    queries: Mapping[str, Window] | Iterable[tuple[str, Window]], lateness: Any = 0
) -> Queries:
    """Queries from the beginning on; `lateness` is one for all, or of some by their names."""
    checked: Queries = {}
    pairs = queries.items() if isinstance(queries, Mapping) else queries
    if isinstance(pairs, (str, Window)) or not isinstance(pairs, Iterable):
        raise TypeError(f'queries are a mapping such as {{"minute": Tumbling(60)}}, got {queries!r}')
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"queries are a mapping, or pairs of a name and a kind of windows, got {pair!r}")
        name, kind = pair
        check_query(checked, name, kind)
        checked[name] = Query(kind, -math.inf, lateness_of(lateness, name))
    if isinstance(lateness, Mapping) and lateness.keys() - checked.keys():
        unknown = sorted(map(repr, lateness.keys() - checked.keys()))
        raise ValueError(
            f"lateness is told of the queries {', '.join(unknown)}; there are {sorted(checked)} only"
        )
    return checked


def lateness_of(lateness: Any, name: str) -> Time:
    return checked_lateness(lateness.get(name, 0) if isinstance(lateness, Mapping) else lateness)


def check_query(queries: Queries, name: Any, kind: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"a query has a name, a str that is not empty, got {name!r}")
    if not isinstance(kind, (EdgeWindow, Session, ContentWindow)):
        raise TypeError(f"the query {name!r} is a kind of windows such as Tumbling(60), got {kind!r}")
    if not isinstance(kind.fingerprint(), str):
        raise TypeError(f"the fingerprint of the query {name!r} is a str, got {kind.fingerprint()!r}")
    if name in queries:
        raise ValueError(f"there is a query {name!r} already, {queries[name].kind!r}; take another name")


def progress_of(name: str, query: Query, upto: Time) -> Progress:
    """What a query has given that is new to a stream, and whose windows up to a time are none of its."""
    kind, since, _ = query
    if isinstance(kind, Session):
        return SessionProgress(kind, since, upto=upto)
    if isinstance(kind, ContentWindow):
        return ContentProgress(kind, name, since)
    if isinstance(kind, Sliding) and kind.measure == "count":
        return CountProgress(kind, since)
    assert isinstance(kind, EdgeWindow)
    return EdgeProgress(kind, since, upto)


def from_now_on(streams: Iterable[Stream], watermark: Time, forgotten: Time) -> Time:
    """The time from which on there is no tuple yet; of streams that are forgotten the youngest is given."""
    youngest = max((stream.youngest for stream in streams), default=-math.inf)
    return max(watermark, behind(max(youngest, forgotten)))


def from_oldest_slice(
    kind: Window, queries: Queries, streams: Iterable[Stream], watermark: Time, forgotten: Time
) -> Time:
    """The time from which on no slice is dropped, and none is cut by windows of a kind."""
    if isinstance(kind, ContentWindow):
        raise ValueError(f"{kind!r} has to see each tuple, so it has no history; leave out history=True")
    streams = list(streams)
    now = from_now_on(streams, watermark, forgotten)
    since = min((stream.book.firsts[0] for stream in streams if stream.book.firsts), default=now)
    since = max(since, behind(max([forgotten, *(stream.book.last_dropped for stream in streams)])))
    for stream in streams:
        for each in reversed(stream.book.slices):
            if each.last >= since and not _keeps_whole(kind, each, queries):
                since = max(since, after(each.last))
                break
    changed = True
    while changed:  # it must not be inside a slice of any stream
        changed = False
        for each in (each for stream in streams for each in stream.book.slices):
            if each.first < since <= each.last:
                since, changed = after(each.last), True
    return min(since, now)


def behind(time: Time) -> Time:
    """The least time that is greater; none is where there is no tuple."""
    return time if time == -math.inf else after(time)


def cuts_all(finer: Window, kind: Window) -> bool:
    """Whether slices are cut by one kind of windows wherever those of another start or end."""
    if is_counted(finer) or not isinstance(finer, Sliding) or not isinstance(kind, Sliding):
        return isinstance(finer, EdgeWindow) and not is_counted(finer) and finer == kind
    edges = (kind.slide, kind.length, kind.offset - finer.offset)
    whole = all(isinstance(number, int) for number in (*edges, finer.slide))
    return finer == kind or (whole and all(number % finer.slide == 0 for number in edges))


def _keeps_whole(kind: Window, part: Slice, queries: Queries) -> bool:
    """Whether each window of a kind has all of a slice or nothing."""
    if is_counted(kind):
        return part.rows is not None
    if isinstance(kind, EdgeWindow):
        edge = kind.edge_after(part.first)
        return edge is None or edge > part.last
    assert isinstance(kind, Session)
    if part.last <= part.first + kind.gap:
        return True
    if part.rows is not None:
        return all(b[0] <= a[0] + kind.gap for a, b in pairwise(part.rows))
    return any(
        isinstance(query.kind, Session) and query.kind.gap <= kind.gap and query.since <= part.first
        for query in queries.values()
    )


def with_query(stream: Stream, name: str, query: Query, upto: Time) -> Stream:
    """A stream that one more query looks at, whose slices get no tuples beyond the query's edges."""
    kind, since, lateness = query
    changed = stream.shared()
    progress = progress_of(name, query, upto)
    if isinstance(progress, SessionProgress):
        progress = progress.begun(stream, stream.watermark - lateness)
    changed.progress = {**stream.progress, name: progress}
    changed.cuts = cuts_of(changed.progress)
    changed.book = stream.book.copy()
    changed.book.lineage = stream.book.lineage
    for place, each in enumerate(stream.book.slices):
        high = each.high
        if each.first < since:
            high = min(high, since)
        elif isinstance(kind, EdgeWindow) and not is_counted(kind):
            edge = kind.edge_after(each.first)
            high = high if edge is None else min(high, edge)
        if high != each.high:
            changed.book.slices[place] = Slice(each.first, each.last, high, each.count, each.state, each.rows)
    changed.needed = min(stream.needed, since)
    changed.open_from, changed.judged = {}, (-math.inf, math.inf)
    # the next tuple looks for the next edge
    changed.next_edge = -math.inf
    return changed


def without_query(stream: Stream, name: str) -> Stream:
    changed = stream.shared()
    changed.progress = {other: one for other, one in stream.progress.items() if other != name}
    changed.open_from, changed.judged = {}, (-math.inf, math.inf)
    changed.pending = [each for each in stream.pending if each.result.query != name]
    changed.given_values = Given(
        {
            which: value
            for which, value in stream.given_values.items()
            if which != name and (isinstance(which, str) or which[0] != name)
        }
    )
    return changed
