"""The windows of any number of keys, with as many rows in memory as one leaf has.

Keys are split by their hashes as long as a leaf has more rows than fit in memory. A key that has most of the
rows is set apart from all others. A key that alone has more rows than fit in memory has windows of its own
(`mta.tables.long`). Nodes never change, so that a call that fails leaves them as they were.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mta.kinds import Array
from mta.monoids.base import joined
from mta.tables.columns import check_results
from mta.tables.leaf import Leaf
from mta.tables.long import LongKeys, LongWork, WindowStore
from mta.tables.plan import Plan
from mta.tables.rows import Rows, SortedRows, merged, together
from mta.tables.scratch import InMemory, Scratch

#: The most rows whose windows are computed in memory together, and the most values of these rows and their
#: results.
LEAF_ROWS, LEAF_VALUES = 1 << 19, 1 << 23

#: How full leaves are on average when a node is split.
FILL = 0.75

#: The most children of a node.
MOST_CHILDREN = 1 << 10


class Part(NamedTuple):
    """Rows that came before: a handle, and how many."""

    handle: Any
    rows: int


@dataclass(frozen=True)
class Node:
    """Some keys: a leaf, a node with children, or the keys with windows of their own."""

    #: older rows first
    parts: tuple[Part, ...] = ()
    children: tuple[Node, ...] | None = None
    #: the hash of the keys of the first of two children; None if children are numbered by parts of hashes
    apart: int | None = None
    long: LongKeys | None = None

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def handles(self) -> list[Any]:
        """All handles, also of the children."""
        return [part.handle for part in self.parts] + [
            handle for child in self.children or () for handle in child.handles()
        ]

    def moved(self, move: Callable[[Any], Any]) -> Node:
        """The same node with other handles."""
        parts = tuple(Part(move(part.handle), part.rows) for part in self.parts)
        children = None if self.children is None else tuple(child.moved(move) for child in self.children)
        return replace(self, parts=parts, children=children)


class Places(NamedTuple):
    """What one call of `rolling` works with."""

    plan: Plan
    #: the types of the new columns; null for those that the first results decide
    types: dict[str, pa.DataType]
    #: whether more rows are to come
    keeps: bool
    #: for rows that came before
    state: Scratch
    #: for rows of this call, and for results
    rows: Scratch
    results: Scratch
    windows: WindowStore
    #: takes the number of rows whose results are there, since the last time
    tell: Callable[[int], None]

    @property
    def leaf_rows(self) -> int:
        """The most rows of a leaf."""
        return min(LEAF_ROWS, max(1024, LEAF_VALUES // (len(self.plan.columns) + len(self.plan.names))))


class Inflow:
    """The rows of one call that come to one node, piece by piece, and then their results."""

    def __init__(self, places: Places, node: Node, coming: int, factor: int = 1) -> None:
        """About `coming` rows are to come. The nodes above were split into `factor` nodes together."""
        self._places, self._node, self._coming, self._factor = places, node, coming, factor
        self._pieces: list[Any] = []
        self._counts = array("q")
        self._rows = node.rows
        #: the least and the greatest hash of the keys so far; None before it is known
        self._bounds: tuple[int, int] | None = None
        self._children: list[Inflow] | None = None
        self._apart = node.apart
        #: of each piece, which child each row is in
        self._routes: list[Any] = []
        if node.children is not None:
            self._children = self._inflows(node.children)
        self._results: list[Any] = []

    def _inflows(self, nodes: Sequence[Node]) -> list[Inflow]:
        coming, factor = self._coming // len(nodes), self._factor
        if self._apart is None:
            factor *= len(nodes)
        return [Inflow(self._places, node, coming, factor) for node in nodes]

    def add(self, rows: Rows | None, hashes: Array | None) -> None:
        """Takes a piece, None for one without rows."""
        if self._children is not None:
            self._route(rows, hashes)
            return
        self._pieces.append(None if rows is None else self._places.rows.put((rows, hashes)))
        self._counts.append(0 if rows is None else rows.count)
        if rows is None or hashes is None:
            return
        self._rows += rows.count
        expected = max(self._rows, self._node.rows + self._coming)
        if self._node.long is not None or expected > self._places.leaf_rows:
            self._see(hashes)
            if self._bounds is not None and self._bounds[0] < self._bounds[1] and self._factor < 2**54:
                self._split()

    def _see(self, hashes: Array) -> None:
        """Notes which hashes there are: keys of one hash cannot be split."""
        if self._bounds is None:
            older = [self._places.state.get(part.handle).hashes for part in self._node.parts]
            if self._node.long is not None:
                older.append(self._node.long.hashes())
            hashes = np.concatenate([*older, self._hashes_of_pieces()])
            self._bounds = int(hashes.min()), int(hashes.max())
        self._bounds = min(self._bounds[0], int(hashes.min())), max(self._bounds[1], int(hashes.max()))

    def _hashes_of_pieces(self) -> Array:
        pieces = [self._places.rows.get(piece)[1] for piece in self._pieces if piece is not None]
        found: Array = np.concatenate(pieces)
        return found

    def _split(self) -> None:
        places, node = self._places, self._node
        rows = max(self._rows, node.rows + self._coming)
        self._apart = self._largest(rows)
        fan = min(MOST_CHILDREN, max(2, math.ceil(rows / (FILL * places.leaf_rows))))
        if self._apart is not None:
            fan = 2
        parts: list[list[Part]] = [[] for _ in range(fan)]
        for part in node.parts:
            older = places.state.get(part.handle)
            routes = self._routes_of(older.hashes, fan)
            for child in range(fan):
                some = older.take(places.plan, np.flatnonzero(routes == child))
                if some.rows:
                    parts[child].append(Part(places.state.put(some), some.rows))
        long: list[LongKeys | None] = [None] * fan
        if node.long is not None:
            long = node.long.split(self._routes_of(node.long.hashes(), fan), fan)
        nodes = [Node(parts=tuple(each), long=its_long) for each, its_long in zip(parts, long, strict=True)]
        self._children = self._inflows(nodes)
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            self._route(*((None, None) if piece is None else places.rows.get(piece)))

    def _largest(self, rows: int) -> int | None:
        """The hash of the key that has windows of its own, or most of so many rows; None if no key has.

        Most of the rows so far say nothing: where rows come key by key, each key in turn has them.
        """
        if self._node.long is not None:
            return int(self._node.long.hashes()[0])
        hashes = self._hashes_of_pieces()
        middle = len(hashes) // 2
        median = np.partition(hashes, middle)[middle]
        return int(median) if 2 * np.count_nonzero(hashes == median) > rows else None

    def _routes_of(self, hashes: Array, fan: int) -> Array:
        """Which of so many children each hash belongs to."""
        routes: Array = (hashes // np.uint64(self._factor)) % np.uint64(fan)
        if self._apart is not None:
            routes = hashes != np.uint64(self._apart)
        return routes.astype(np.uint16)

    def _route(self, rows: Rows | None, hashes: Array | None) -> None:
        assert self._children is not None
        if rows is None or hashes is None:
            self._routes.append(None)
            for child in self._children:
                child.add(None, None)
            return
        fan = len(self._children)
        routes = self._routes_of(hashes, fan)
        order = routes.argsort(kind="stable")
        self._routes.append(self._places.rows.put(routes))
        counts = np.bincount(routes, minlength=fan)
        ends = np.cumsum(counts).tolist()
        for child, end, count in zip(self._children, ends, counts.tolist(), strict=True):
            some = order[end - count : end]
            if count:
                child.add(rows.take(self._places.plan, some), hashes[some])
            else:
                child.add(None, None)

    # -- results ----------------------------------------------------------------------------------------

    def finish(self) -> Node:
        """Computes all results; returns the node to go on from."""
        if self._children is not None:
            children = tuple(child.finish() for child in self._children)
            return Node(children=children, apart=self._apart)
        if not any(self._counts):
            self._results = [None] * len(self._counts)
            return self._node
        if self._node.long is not None or self._rows > self._places.leaf_rows:
            node = self._finish_long()
            self._places.tell(sum(self._counts))
            return node
        places = self._places
        older = [places.state.get(part.handle) for part in self._node.parts]
        pieces = [places.rows.get(piece)[0] for piece in self._pieces if piece is not None]
        leaf = Leaf(places.plan, older, together(places.plan, pieces))
        del older, pieces
        results = leaf.results()
        self._put(results)
        places.tell(sum(self._counts))
        return Node(parts=self._with(leaf.kept())) if places.keeps else self._node

    def _put(self, results: dict[str, Array]) -> None:
        """Keeps the results of all pieces."""
        check_results(results, self._places.types)
        ends = np.cumsum(self._counts).tolist()
        for end, count in zip(ends, self._counts.tolist(), strict=True):
            some = {name: column[end - count : end] for name, column in results.items()}
            self._results.append(self._places.results.put(some) if count else None)

    def _with(self, kept: SortedRows) -> tuple[Part, ...]:
        """The parts and a younger one; parts of about one size are merged, so that there are few."""
        places, parts = self._places, list(self._node.parts)
        while parts and 2 * kept.rows > parts[-1].rows:
            kept = merged(places.plan, [places.state.get(parts.pop().handle), kept])
        return (*parts, Part(places.state.put(kept), kept.rows))

    def _finish_long(self) -> Node:
        places = self._places
        work = LongWork(places.plan, self._node.long or LongKeys(), places.windows)
        try:
            for part in self._node.parts:
                work.extend(places.state.get(part.handle))
            if isinstance(places.rows, InMemory):
                self._put(self._sorted_results(work))
            else:
                for piece in self._pieces:
                    if piece is None:
                        self._results.append(None)
                        continue
                    results = work.results(places.rows.get(piece)[0])
                    check_results(results, places.types)
                    self._results.append(places.results.put(results))
            return Node(long=work.saved()) if places.keeps else self._node
        finally:
            work.close()

    def _sorted_results(self, work: LongWork) -> dict[str, Array]:
        """The results of all pieces, whose rows may be in any order."""
        places = self._places
        rows = together(
            places.plan, [places.rows.get(piece)[0] for piece in self._pieces if piece is not None]
        )
        if rows.times is None or bool((rows.times[1:] >= rows.times[:-1]).all()):
            return work.results(rows)
        order = rows.times.argsort(kind="stable")
        found = work.results(rows.take(places.plan, order))
        for column in found.values():
            column[order] = column.copy()
        return found

    def results(self, piece: int) -> dict[str, Array] | None:
        """The results of a piece; None if it has no rows."""
        if self._children is None:
            handle = self._results[piece]
            return None if handle is None else dict(self._places.results.get(handle))
        if self._routes[piece] is None:
            return None
        parts = [part for child in self._children if (part := child.results(piece)) is not None]
        order = self._places.rows.get(self._routes[piece]).argsort(kind="stable")
        found = {}
        for name in self._places.plan.names:
            column = joined([part.pop(name) for part in parts])
            found[name] = np.empty_like(column)
            found[name][order] = column
        return found
