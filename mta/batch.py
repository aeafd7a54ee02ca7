"""`slide`: one result a row for a whole batch, with whole-array operations.

With B the boundary before the batch, a row whose window starts at `lo` < B is suffix(lo) ⊕ prefix(row): one
suffix scan over the pages that the heads cross, one prefix scan over the new rows, and combines over all
rows. Rows whose window lies wholly in the batch are folded there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mta.cuts import Side, before
from mta.forest import Forest, Piece
from mta.merge import boundaries
from mta.monoids.base import Array, joined
from mta.pages import Pyramid
from mta.policies import Limits
from mta.stack import Leaves, Stack
from mta.states import NOTHING, Layout, Run

if TYPE_CHECKING:
    from mta.window import MonoidTreeAggregator

#: Windows shorter than this on average are cheaper in plain Python than in NumPy calls.
SHORT_WINDOW = 24


class Batch:
    """Rows that were checked."""

    __slots__ = ("elements", "times")

    def __init__(self, elements: Run, times: Array) -> None:
        self.elements = elements
        self.times = times

    def __len__(self) -> int:
        return len(self.times)

    def time(self, row: int) -> Any:
        """The time of a row as a plain number."""
        return self.times[row : row + 1].tolist()[0]

    @property
    def last(self) -> Any:
        """The time of the last row."""
        return self.time(len(self.times) - 1)


class Outcome(NamedTuple):
    """What a batch comes to: its results, and what the window is after it."""

    results: Any
    #: the first leaf of the last row's window, and its time
    head: int
    oldest: Any
    #: the stack walked up to that head; None where the last window lies in the batch
    walker: Stack | None
    #: the aggregate from the walker's boundary, or from the head where there is no walker, to the new tail
    younger: Any


class Heads:
    """Where the windows of a batch's rows start, under limits on count and time.

    Row i is leaf base + i; leaves are given and found by their absolute numbers.
    """

    def __init__(self, limits: Limits, times: Array, base: int) -> None:
        self._count = None if limits.count is None else min(limits.count, 2**62)
        self._base = base
        #: what a leaf's time is compared with: it is kept if > (right) or >= (left)
        self.cuts = limits.cut_columns(times)

    def rows_that_keep(self, leaf: int, time: Any, start: int, stop: int) -> int:
        """The end of the rows, from `start` on, whose windows hold a leaf with this time."""
        for cuts, side in self.cuts:
            other: Side = "left" if side == "right" else "right"
            stop = start + before(cuts[start:stop], time, other)
        if self._count is not None:
            stop = max(start, min(stop, leaf + self._count - self._base))
        return stop

    def among(self, times: Array, first: int, start: int, stop: int) -> Array:
        """The first leaf of each row's window, where all of them are among leaves from `first` on."""
        found = np.full(stop - start, first)
        for cuts, side in self.cuts:
            np.maximum(found, first + boundaries(times, cuts[start:stop], side), out=found)
        if self._count is not None:
            counted = self._base + 1 - self._count
            np.maximum(found, np.arange(start + counted, stop + counted), out=found)
        return found

    def first(self, forest: Forest, head: int, row: int) -> int:
        """The first leaf of one row's window, if it is before the batch and not before `head`."""
        if self._count is not None:
            head = max(head, self._base + row + 1 - self._count)
        return max([head, *(forest.first_leaf(head, cut, side) for cut, side in self._cuts_of(row))])

    def _cuts_of(self, row: int) -> list[tuple[Any, Side]]:
        return [(cuts[row : row + 1].tolist()[0], side) for cuts, side in self.cuts]


def slide(window: MonoidTreeAggregator, batch: Batch) -> Outcome:
    """The outcome of a batch that is not empty; the window is not changed."""
    layout, base, count = window._layout, window._tail, len(batch)
    heads = Heads(window._limits, batch.times, base)
    states = layout.lift(batch.elements)
    if layout.monoid.grows:
        return _slide_on_demand(window, batch, heads, states)
    # rows whose windows still hold what was there before the batch
    seeing = heads.rows_that_keep(base - 1, window._youngest, 0, count) if len(window) else 0
    walk = _Walk(window, heads)
    if seeing:
        walk.go(states, seeing)
        if seeing == count:
            return Outcome(join_results(walk.results), walk.head, walk.oldest, walk.stack, walk.younger)
    firsts = heads.among(batch.times, base, seeing, count) - base
    folds = window_folds(layout, states, firsts, seeing)
    results = join_results([*walk.results, layout.lower(folds)])
    first, last = int(firsts[-1]), layout.length(folds) - 1
    return Outcome(results, base + first, batch.time(first), None, layout.at(folds, last))


def _slide_on_demand(window: MonoidTreeAggregator, batch: Batch, heads: Heads, states: Run) -> Outcome:
    """The outcome where states are as large as what they aggregate: each row's is made of nodes of trees."""
    layout, base, head, count = window._layout, window._tail, window._head, len(batch)
    nodes = Pyramid()
    nodes.add(layout, states)
    seeing = heads.rows_that_keep(base - 1, window._youngest, 0, count) if len(window) else 0
    firsts = heads.among(batch.times, base, seeing, count).tolist()
    totals = []
    for row in range(count):
        head = heads.first(window._forest, head, row) if row < seeing else firsts[row - seeing]
        total = window._forest.fold_nodes(head, base) if head < base else NOTHING
        for node in nodes.cover(max(head - base, 0), row + 1):
            total = layout.join(total, node)
        totals.append(total)
    if head < base:
        oldest = window._forest.read([Piece(0, head, head + 1)])[0].times.tolist()[0]
    else:
        oldest = batch.time(head - base)
    return Outcome(layout.lower(layout.gather(totals)), head, oldest, None, totals[-1])


class _Walk:
    """Rows whose windows start before the batch, page by page of where they start."""

    def __init__(self, window: MonoidTreeAggregator, heads: Heads) -> None:
        self._window, self._heads = window, heads
        self.stack = window._walker()
        #: the aggregate from the stack's boundary to the batch, and that of the batch's rows so far
        self._between = window._younger
        self._so_far: Any = NOTHING
        self.head = window._head
        self.oldest = window._oldest
        self.results: list[Any] = []

    @property
    def younger(self) -> Any:
        """The aggregate from the stack's boundary on, as far as the walk has come."""
        return self._window._layout.join(self._between, self._so_far)

    def go(self, states: Run, stop: int) -> None:
        layout, row = self._window._layout, 0
        if self.stack.leaves is None:
            row = self._before_any_leaves(states, stop)
        while row < stop:
            leaves = self._enter(row)
            end = self._heads.rows_that_keep(leaves.stop - 1, leaves.page.times[-1], row, stop)
            firsts = self._heads.among(leaves.page.times, leaves.start, row, end)
            np.maximum(firsts, self.head, out=firsts)
            rest = layout.join(leaves.rest, self.younger)
            suffixes = take(layout, leaves.suffixes(layout), firsts - leaves.start)
            self._answer(layout.followed_by(suffixes, rest), layout.cut(states, row, end))
            self.head, row = int(firsts[-1]), end
            self.oldest = leaves.times(self.head, self.head + 1)[0]

    def _answer(self, older: Run, states: Run) -> None:
        """The results of some rows, whose windows hold an older part each and the rows up to them."""
        layout = self._window._layout
        prefixes = layout.prefixes(states)
        self.results.append(layout.lower(layout.combine(older, prefixes)))
        self._so_far = layout.join(self._so_far, layout.at(prefixes, layout.length(prefixes) - 1))

    def _before_any_leaves(self, states: Run, stop: int) -> int:
        """Rows that evict nothing, while there is no stack yet: what is there is one state."""
        idle = self._heads.rows_that_keep(self.head, self.oldest, 0, stop)
        if idle:
            layout = self._window._layout
            self._answer(layout.gather([self._window._total()]), layout.cut(states, 0, idle))
        return idle

    def _enter(self, row: int) -> Leaves:
        head = self._heads.first(self._window._forest, self.head, row)
        boundary = self.stack.boundary
        leaves = self.stack.seek(head)
        if self.stack.boundary != boundary:
            self._between = NOTHING
        self.head = head
        return leaves


def window_folds(layout: Layout, states: Run, firsts: Array, start: int) -> Run:
    """For each row from `start` on, the fold of rows firsts[row - start] to row; firsts never decrease."""
    stop = layout.length(states)
    rows = np.arange(start, stop)
    if (rows - firsts).mean() < SHORT_WINDOW:
        return _short_folds(layout, states, firsts.tolist(), start)
    parts = []
    row = start
    while row < stop:
        # two stacks: suffixes of what the row sees of before, prefixes from the row on
        first = int(firsts[row - start])
        end = start + int(firsts.searchsorted(row, "right"))
        both = start + int(firsts.searchsorted(row, "left"))
        prefixes = layout.prefixes(layout.cut(states, row, end))
        if both > row:
            suffixes = layout.suffixes(layout.cut(states, first, row))
            suffixes = take(layout, suffixes, firsts[row - start : both - start] - first)
            parts.append(layout.combine(suffixes, layout.cut(prefixes, 0, both - row)))
        if end > both:
            parts.append(layout.cut(prefixes, max(both, row) - row, end - row))
        row = end
    return layout.concat(parts)


def _short_folds(layout: Layout, states: Run, firsts: list[int], start: int) -> Run:
    """Two-Stacks over plain states."""
    items = layout.state_list(states)
    combine = layout.monoid.combine
    oldest, flip = firsts[0], start
    front = _suffixes_reversed(combine, items[oldest:start])
    back = NOTHING
    folds = []
    for row, first in enumerate(firsts, start):
        if first >= flip > oldest or first > oldest >= flip:
            front, flip, back = _suffixes_reversed(combine, items[first:row]), row, NOTHING
        elif first > oldest:
            del front[oldest - first :]
        oldest = first
        back = items[row] if back is NOTHING else combine(back, items[row])
        folds.append(combine(front[-1], back) if front else back)
    return layout.gather(folds)


def _suffixes_reversed(combine: Any, items: list[Any]) -> list[Any]:
    out: list[Any] = []
    for item in reversed(items):
        out.append(combine(item, out[-1]) if out else item)
    return out


def take(layout: Layout, run: Run, indices: Array) -> Run:
    """Entries by ascending indices; a view where they follow each other."""
    first, count = int(indices[0]), len(indices)
    if int(indices[-1]) - first == count - 1 and bool((indices[1:] > indices[:-1]).all()):
        return layout.cut(run, first, first + count)
    return layout.take(run, indices)


def join_results(parts: list[Any]) -> Any:
    """Results of consecutive rows as one array, or one mapping of arrays."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], dict):
        return {key: joined([part[key] for part in parts]) for key in parts[0]}
    return joined(parts)
