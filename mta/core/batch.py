"""`slide`: one result for each row of a batch, with whole-array operations.

Let B be the boundary before the batch. A row whose window starts at `lo` < B has the result suffix(lo) ⊕ R1 ⊕
prefix(row): suffix(lo) is the aggregate from `lo` to B, R1 from B to the batch, prefix(row) from there to the
row. So `slide` takes one suffix scan over the pages that the heads cross, one prefix scan over the new rows,
and two combines for each row. Windows that lie wholly in the batch are folded there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mta.core.folds import take, window_folds
from mta.core.heads import Heads, KnownHeads, LimitHeads, RestHeads
from mta.core.log import Piece
from mta.core.page import Pyramid
from mta.core.predicates import NotInColumns, RowStarts
from mta.core.stack import HeadPage
from mta.core.states import NOTHING, ColumnLayout, Lowered, Run, join_results, result_array
from mta.core.view import Batch, Outcome, View
from mta.frames.limits import Limits, OfRest
from mta.inputs import lift_of
from mta.kinds import State

#: Under a predicate that takes columns, at most this many rows are taken at once.
MOST_AT_ONCE = 1 << 14

#: Pushes a row, its state and its time into a view, and gives the result.
Push: TypeAlias = Callable[[View, Any, Any, Any], Any]


def slide_in_parts(view: View, limits: Limits, batch: Batch, push: Push) -> Any:
    """Appends a batch, which is not empty, under a predicate; returns its results.

    As many rows at once as the predicate takes in columns, and the others one by one. After rows that the
    predicate does not take fewer are tried, so that the attempts in vain do not cost more than the pushes.
    """
    layout, results, done = view.layout, [], 0
    few = most = len(batch)
    if limits.in_columns and isinstance(layout, ColumnLayout):
        few, most = view.few + view.more // layout.monoid.width, MOST_AT_ONCE
    while done < len(batch):
        part, taken = batch.part(layout, done, done + most), 0
        if len(part) > few:
            outcome = _in_columns(view, limits, part)
            if outcome is not None:
                part, after = outcome
                view.add_batch(*view.after(after), part)
                results.append(after.results)
                taken = len(part)
                done += taken
            most = min(MOST_AT_ONCE, 2 * max(taken, few))
        if taken < few and done < len(batch):
            part = batch.part(layout, done, done + few)
            results.append(_pushed(view, part, push))
            done += len(part)
    return join_results(results)


def _in_columns(view: View, limits: Limits, batch: Batch) -> tuple[Batch, Outcome] | None:
    """The first rows of a batch that a predicate takes in columns, and their outcome."""
    layout = view.layout
    assert isinstance(layout, ColumnLayout)
    (predicate,) = limits.predicates
    states = layout.lift(batch.elements)
    try:
        if isinstance(predicate, OfRest):
            return batch, _outcome(view, RestHeads(layout, predicate, states), batch, states)
        firsts = RowStarts(view, predicate, states).find()
        if not len(firsts):
            return None
        batch, states = batch.part(layout, 0, len(firsts)), layout.cut(states, 0, len(firsts))
        return batch, _outcome(view, KnownHeads(firsts, view.end), batch, states)
    except (NotInColumns, ArithmeticError):
        return None


def _pushed(view: View, batch: Batch, push: Push) -> Any:
    lift = lift_of(view.layout.monoid)
    rows, times = view.layout.row_list(batch.elements), batch.times.tolist()
    states = rows if lift is None else map(lift, rows)
    return result_array([push(view, *each) for each in zip(rows, states, times, strict=True)])


def slide(view: View, limits: Limits, batch: Batch) -> Outcome:
    """The outcome of a batch, which is not empty, under limits on count and time; changes nothing."""
    heads = LimitHeads(limits, batch.times, view.end)
    return _outcome(view, heads, batch, view.layout.lift(batch.elements))


def _outcome(view: View, heads: Heads, batch: Batch, states: Run) -> Outcome:
    layout, base, count = view.layout, view.end, len(batch)
    if layout.monoid.grows:
        return _slide_on_demand(view, batch, heads, states)
    # rows whose windows still see elements older than the batch
    seeing = heads.seeing(view) if len(view) else 0
    walk = _Walk(view, heads)
    if seeing:
        walk.go(states, seeing)
        if seeing == count:
            results = layout.lower_all(walk.answers)
            return Outcome(results, walk.head, walk.oldest, walk.stack, walk.r1, walk.total)
    firsts = heads.in_batch(seeing)
    folds = window_folds(layout, states, firsts, range(seeing, count))
    results = layout.lower_all([*walk.answers, layout.lowered(folds)])
    first, last = int(firsts[-1]), layout.length(folds) - 1
    total = layout.at(folds, last)
    return Outcome(results, base + first, batch.time(first), None, total, total)


def _slide_on_demand(view: View, batch: Batch, heads: Heads, states: Run) -> Outcome:
    """The outcome where states are as large as their elements: each result is folded of nodes of trees."""
    layout, base, head, count = view.layout, view.end, view.head, len(batch)
    nodes = Pyramid(layout)
    nodes.add(states)
    seeing = heads.seeing(view) if len(view) else 0
    firsts = (heads.in_batch(seeing) + base).tolist()
    totals = []
    for row in range(count):
        head = heads.enter(view.log, head, row) if row < seeing else firsts[row - seeing]
        total = view.log.fold_nodes(head, base, layout) if head < base else NOTHING
        for node in nodes.cover(max(head - base, 0), row + 1):
            total = layout.join(total, node)
        totals.append(total)
    if head < base:
        oldest = view.log.read([Piece(0, head, head + 1)])[0].times.tolist()[0]
    else:
        oldest = batch.time(head - base)
    return Outcome(layout.lower(layout.gather(totals)), head, oldest, None, totals[-1], totals[-1])


class _Walk:
    """Walks over the rows whose windows start before the batch, page by page of the heads."""

    def __init__(self, view: View, heads: Heads) -> None:
        self._view, self._heads = view, heads
        #: the stack, and the aggregate from its boundary to the batch
        self.stack, self._between = view.walker()
        #: the aggregate of the batch's rows so far
        self._so_far: Any = NOTHING
        self.head = view.head
        self.oldest = view.oldest
        self.answers: list[Lowered] = []
        #: the aggregate of the window of the last row so far
        self.total: State = NOTHING

    @property
    def r1(self) -> Any:
        """The aggregate from the stack's boundary to the last row so far."""
        return self._view.layout.join(self._between, self._so_far)

    def go(self, states: Run, stop: int) -> None:
        layout, row = self._view.layout, 0
        if self.stack.head_page is None:
            row = self._before_any_page(states, stop)
        while row < stop:
            page = self._enter(row)
            firsts = self._heads.within(page, self._between, self.head, row, stop)
            end = row + len(firsts)
            suffixes = take(layout, page.suffixes(layout), firsts, page.start)
            self._answer(layout.followed_by(suffixes, self.r1), layout.cut(states, row, end))
            self.head, row = int(firsts[-1]), end
            self.oldest = page.times(self.head, self.head + 1)[0]

    def _answer(self, older: Run, states: Run) -> None:
        """Adds the results of some rows: each window is an older part and the rows up to the row."""
        layout = self._view.layout
        prefixes = layout.prefixes(states)
        totals, last = layout.combine(older, prefixes), layout.length(prefixes) - 1
        self.answers.append(layout.lowered(totals))
        self.total = layout.at(totals, last)
        self._so_far = layout.join(self._so_far, layout.at(prefixes, last))

    def _before_any_page(self, states: Run, stop: int) -> int:
        """Adds the results of rows that evict nothing, while the stack has no page: the window is a state."""
        idle = self._heads.idle(self._view, stop)
        if idle:
            layout = self._view.layout
            self._answer(layout.gather([self._view.total()]), layout.cut(states, 0, idle))
        return idle

    def _enter(self, row: int) -> HeadPage:
        page = self.stack.head_page
        inside = page is not None and page.start <= self.head < page.stop
        if page is not None and inside and self._heads.stays(page, self._between, row):
            return page
        head = self._heads.enter(self._view.log, self.head, row)
        boundary = self.stack.boundary
        page = self.stack.seek(head, self._view.end)
        self._view.follower.head_at(head >> self._view.log.shift)
        if self.stack.boundary != boundary:
            self._between = NOTHING
        self.head = head
        return page
