"""The paper's stream slicer: where slices have to be cut, whatever the number of queries.

Where all tuples come in order, slices are cut where a window starts. Otherwise also where one ends, so that
a tuple that comes late changes no slice beyond its windows. Of all sessions, those of the smallest gap cut.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from heapq import heapify, heapreplace
from typing import NamedTuple

from mta.slicing.windows import EdgeWindow, Session, Time, Window, is_counted

#: Edges of so many queries or more are kept for late tuples, so many of each query.
MANY, AHEAD = 4, 8


class Query(NamedTuple):
    """A kind of windows, the time from which on it has the tuples, and how late these may come."""

    kind: Window
    since: Time
    lateness: Time = 0


class StreamSlicer:
    """The edges of all queries. It has no state but what saves it work."""

    def __init__(self, queries: Iterable[Query], starts_only: bool = False) -> None:
        queries = list(queries)
        gaps = [query.kind.gap for query in queries if isinstance(query.kind, Session)]
        #: a tuple further than this from a slice is in another session; without sessions there are none
        self.gap: Time = min(gaps, default=math.inf)
        self._edges = [
            query for query in queries if isinstance(query.kind, EdgeWindow) and not is_counted(query.kind)
        ]
        self._limits = [query.since for query in queries if query.since > -math.inf]
        self._starts_only = starts_only
        #: for each query an edge, the first after a time up to `_time`
        self._heap: list[tuple[Time, int]] = []
        self._time: Time = math.inf
        #: all edges after a time, up to another
        self._known: tuple[Time, Time, list[Time]] = (math.inf, math.inf, [])
        self._misses = 0

    def edge_after(self, time: Time) -> Time:
        """The first time after `time` at which slices are cut; infinity if there is none."""
        start, stop, edges = self._known
        if start <= time < stop:
            return edges[bisect_right(edges, time)]
        if len(self._edges) >= MANY:
            self._misses += 1
            if self._misses > AHEAD:
                self._learn(time)
        edges = [self._edge(query, time) for query in self._edges]
        return min([*edges, *(since for since in self._limits if since > time)], default=math.inf)

    def _learn(self, time: Time) -> None:
        """Finds out the edges around a time, where tuples come late again and again."""
        start, stop, _ = self._known
        first = time if stop == math.inf else time - (stop - start) // 2
        found, last = {since for since in self._limits if since > first}, math.inf
        for query in self._edges:
            edge = first
            for _ in range(AHEAD):
                edge = self._edge(query, edge)
                if edge == math.inf:
                    break
                found.add(edge)
            last = min(last, edge)
        if last < math.inf:
            self._known = first, last, sorted(edge for edge in found if edge <= last)
        self._misses = 0

    def coming_edge(self, time: Time) -> Time:
        """`edge_after`, for times that mostly go up: looks only at queries whose edges were passed."""
        if time < self._time:
            if self._time < math.inf:
                return self.edge_after(time)
            heap = [(self._edge(query, time), number) for number, query in enumerate(self._edges)]
            heap += [(since, -1) for since in self._limits if since > time]
            heapify(heap)
            self._heap = heap
        # from here on an interrupt leaves edges that were passed, which the next call finds
        self._time, heap = time, self._heap
        while heap and heap[0][0] <= time:
            number = heap[0][1]
            edge = math.inf if number < 0 else self._edge(self._edges[number], time)
            heapreplace(heap, (edge, number))
        return heap[0][0] if heap else math.inf

    def _edge(self, query: Query, time: Time) -> Time:
        kind = query.kind
        assert isinstance(kind, EdgeWindow)
        if time < query.since:
            return query.since
        edge = kind.start_after(time) if self._starts_only else kind.edge_after(time)
        if edge is None:
            return math.inf
        if not edge > time:
            raise ValueError(f"{kind!r} has {edge!r} for the first edge after {time!r}")
        return edge
