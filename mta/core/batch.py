"""`slide`: one result a row for a whole batch, with whole-array operations.

With B the boundary before the batch, a row whose window starts at `lo` < B is suffix(lo) ⊕ prefix(row): one
suffix scan over the pages that the heads cross, one prefix scan over the new rows, and combines over all
rows. Rows whose window lies wholly in the batch are folded there.
"""

from __future__ import annotations

from typing import Any

from mta.core.folds import take, window_folds
from mta.core.forest import Piece
from mta.core.heads import Heads, LimitHeads, PredicateHeads
from mta.core.limits import Limits
from mta.core.outcome import Batch, Outcome
from mta.core.page import Pyramid
from mta.core.stack import Leaves
from mta.core.states import NOTHING, ColumnLayout, Lowered, Run
from mta.core.tree import Tree


def slide(tree: Tree, limits: Limits, batch: Batch) -> Outcome | None:
    """The outcome of a batch that is not empty; the tree is not changed.

    None where a predicate has to be asked row by row.
    """
    layout, base, count = tree.layout, tree.tail, len(batch)
    states = layout.lift(batch.elements)
    heads = _heads(tree, limits, batch, states)
    if heads is None:
        return None
    if layout.monoid.grows:
        return _slide_on_demand(tree, batch, heads, states)
    # rows whose windows still hold what was there before the batch
    seeing = heads.seeing(tree) if len(tree) else 0
    walk = _Walk(tree, heads)
    if seeing:
        walk.go(states, seeing)
        if seeing == count:
            return Outcome(layout.lower_all(walk.answers), walk.head, walk.oldest, walk.stack, walk.younger)
    firsts = heads.in_batch(seeing)
    folds = window_folds(layout, states, firsts, seeing)
    results = layout.lower_all([*walk.answers, layout.lowered(folds)])
    first, last = int(firsts[-1]), layout.length(folds) - 1
    return Outcome(results, base + first, batch.time(first), None, layout.at(folds, last))


def _heads(tree: Tree, limits: Limits, batch: Batch, states: Run) -> Heads | None:
    if not limits.predicates:
        return LimitHeads(limits, batch.times, tree.tail)
    if not limits.in_columns or not isinstance(tree.layout, ColumnLayout):
        return None
    try:
        whole = tree.total() if len(tree) else NOTHING
        heads = PredicateHeads(tree.layout, limits.predicate, whole, states)
    except ArithmeticError:  # of a sum over all rows, where those of the windows may be in bounds
        return None
    return heads if heads.keep_their_rows() else None


def _slide_on_demand(tree: Tree, batch: Batch, heads: Heads, states: Run) -> Outcome:
    """The outcome where states are as large as what they aggregate: each row's is made of nodes of trees."""
    layout, base, head, count = tree.layout, tree.tail, tree.head, len(batch)
    nodes = Pyramid()
    nodes.add(layout, states)
    seeing = heads.seeing(tree) if len(tree) else 0
    firsts = (heads.in_batch(seeing) + base).tolist()
    totals = []
    for row in range(count):
        head = heads.enter(tree.forest, head, row) if row < seeing else firsts[row - seeing]
        total = tree.forest.fold_nodes(head, base) if head < base else NOTHING
        for node in nodes.cover(max(head - base, 0), row + 1):
            total = layout.join(total, node)
        totals.append(total)
    if head < base:
        oldest = tree.forest.read([Piece(0, head, head + 1)])[0].times.tolist()[0]
    else:
        oldest = batch.time(head - base)
    return Outcome(layout.lower(layout.gather(totals)), head, oldest, None, totals[-1])


class _Walk:
    """Rows whose windows start before the batch, page by page of where they start."""

    def __init__(self, tree: Tree, heads: Heads) -> None:
        self._tree, self._heads = tree, heads
        #: the stack, and the aggregate from its boundary to the batch
        self.stack, self._between = tree.walker()
        #: the aggregate of the batch's rows so far
        self._so_far: Any = NOTHING
        self.head = tree.head
        self.oldest = tree.oldest
        self.answers: list[Lowered] = []

    @property
    def younger(self) -> Any:
        """The aggregate from the stack's boundary on, as far as the walk has come."""
        return self._tree.layout.join(self._between, self._so_far)

    def go(self, states: Run, stop: int) -> None:
        layout, row = self._tree.layout, 0
        if self.stack.leaves is None:
            row = self._before_any_leaves(states, stop)
        while row < stop:
            leaves = self._enter(row)
            firsts = self._heads.within(leaves, self.head, row, stop)
            end = row + len(firsts)
            rest = layout.join(leaves.rest, self.younger)
            suffixes = take(layout, leaves.suffixes(layout), firsts, leaves.start)
            self._answer(layout.followed_by(suffixes, rest), layout.cut(states, row, end))
            self.head, row = int(firsts[-1]), end
            self.oldest = leaves.times(self.head, self.head + 1)[0]

    def _answer(self, older: Run, states: Run) -> None:
        """The results of some rows, whose windows hold an older part each and the rows up to them."""
        layout = self._tree.layout
        prefixes = layout.prefixes(states)
        self.answers.append(layout.lowered(layout.combine(older, prefixes)))
        self._so_far = layout.join(self._so_far, layout.at(prefixes, layout.length(prefixes) - 1))

    def _before_any_leaves(self, states: Run, stop: int) -> int:
        """Rows that evict nothing, while there is no stack yet: what is there is one state."""
        idle = self._heads.idle(self._tree, stop)
        if idle:
            layout = self._tree.layout
            self._answer(layout.gather([self._tree.total()]), layout.cut(states, 0, idle))
        return idle

    def _enter(self, row: int) -> Leaves:
        head = self._heads.enter(self._tree.forest, self.head, row)
        boundary = self.stack.boundary
        leaves = self.stack.seek(head)
        if self.stack.boundary != boundary:
            self._between = NOTHING
        self.head = head
        return leaves
