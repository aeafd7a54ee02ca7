"""The Scotty paper's stream slicer: it finds where slices are cut, for any number of queries.

Where all tuples come in order, slices are cut where a window starts. Otherwise they are cut where a window
ends too, so that a late tuple changes no slice outside of its windows. Sessions cut by the smallest gap.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from heapq import heapify, heapreplace
from typing import NamedTuple

from mta.kinds import Time
from mta.slicing.windows import EdgeWindow, Session, Window, has_edges

#: The edges around late tuples are cached from this number of queries on.
MANY_QUERIES = 4

#: The number of edges of each query in the cache. The cache moves after as many misses.
CACHED_EDGES = 8


class Query(NamedTuple):
    """A kind of windows, the time from which on the query sees tuples, and its lateness."""

    kind: Window
    since: Time
    lateness: Time = 0


class StreamSlicer:
    """The edges of all queries. Its state is a cache and changes no answer."""

    def __init__(self, queries: Iterable[Query], starts_only: bool = False) -> None:
        queries = list(queries)
        gaps = [query.kind.gap for query in queries if isinstance(query.kind, Session)]
        #: a tuple further than this from a slice is in another session; infinite without sessions
        self.gap: Time = min(gaps, default=math.inf)
        self._queries = [query for query in queries if has_edges(query.kind)]
        #: where queries begin to see tuples
        self._begins = [query.since for query in queries if query.since > -math.inf]
        self._starts_only = starts_only
        #: one edge of each query with its number, a heap: the first edge after some time up to `_heap_time`
        self._heap: list[tuple[Time, int]] = []
        self._heap_time: Time = math.inf
        #: all edges after the first of these times, up to the second one
        self._cache: tuple[Time, Time, list[Time]] = (math.inf, math.inf, [])
        self._misses = 0

    def edge_after(self, time: Time) -> Time:
        """The first time after `time` at which slices are cut; infinity if there is none."""
        start, stop, edges = self._cache
        if start <= time < stop:
            return edges[bisect_right(edges, time)]
        if len(self._queries) >= MANY_QUERIES:
            self._misses += 1
            if self._misses > CACHED_EDGES:
                self._fill_cache(time)
        edges = [self._edge(query, time) for query in self._queries]
        return min([*edges, *(since for since in self._begins if since > time)], default=math.inf)

    def _fill_cache(self, time: Time) -> None:
        """Caches the edges around a time, as tuples come late again and again."""
        start, stop, _ = self._cache
        first = time if stop == math.inf else time - (stop - start) // 2
        found, last = {since for since in self._begins if since > first}, math.inf
        for query in self._queries:
            edge = first
            for _ in range(CACHED_EDGES):
                edge = self._edge(query, edge)
                if edge == math.inf:
                    break
                found.add(edge)
            last = min(last, edge)
        if last < math.inf:
            self._cache = first, last, sorted(edge for edge in found if edge <= last)
        self._misses = 0

    def next_edge(self, time: Time) -> Time:
        """`edge_after`, for times that mostly go up: it looks only at queries whose edge has passed."""
        if time < self._heap_time:
            if self._heap_time < math.inf:
                return self.edge_after(time)
            heap = [(self._edge(query, time), number) for number, query in enumerate(self._queries)]
            heap += [(since, -1) for since in self._begins if since > time]
            heapify(heap)
            self._heap = heap
        # an interrupt from here on leaves edges in the heap that have passed; the next call replaces them
        self._heap_time, heap = time, self._heap
        while heap and heap[0][0] <= time:
            number = heap[0][1]
            edge = math.inf if number < 0 else self._edge(self._queries[number], time)
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
