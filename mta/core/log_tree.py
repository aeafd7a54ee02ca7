"""The tree of Log MTA (Villalba, Berral, Carrera: IEEE TPDS 2019, section 4.1).

It is one binary tree over the window, of which the store has the levels that are pages' entries, and a page
the levels inside it, made when they are first asked for (`Pyramid`). The paper's algorithms are found here:

- Algorithm 1, insertion and aggregation. A leaf goes into the last page; a page that it fills gets its entry
  in the tier above, and so on up (`insert`, `Forest.with_one`). The paper recomputes the right spine at every
  insertion, so that the root is the aggregate of the window. Here the root is a value beside the tree,
  `kept`, which an insertion combines with the new state (`behind`): one combine, where the spine takes
  log2(n).
- Algorithm 2, enforcement of a policy with bulk eviction. The search from the roots down is
  `Forest.longest_prefix`, asked by `mta.core.enforcement`; for limits on time it is `Forest.first_leaf`.
  `remove_pairs` is `move`, which moves the head and lets go of the pages before it. The paper recomputes the
  left spine then (lines 21 to 27). Here the root is forgotten, and `total` folds the O(log n) nodes that
  cover the window when it is next asked for: those of the left spine up from the head, and those of the right
  spine down to the tail.

So a query of a window that has not changed takes no combine, one of a window that has grown since takes none
either, and one after an eviction O(log n).
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

from mta.core.forest import Piece
from mta.core.outcome import Batch, Outcome
from mta.core.page import PageSource
from mta.core.stack import Stack
from mta.core.states import NOTHING, Layout
from mta.core.tree import NEAR, UNKNOWN, Front, Sums, Tree


class LogTree(Tree):
    """Insertion, eviction of any number, and the total each take O(log n).

    A state as large as what it aggregates is not kept: it would be the window, in memory.
    """

    __slots__ = ("_rest",)

    few, more = 30, 40

    def __init__(self, layout: Layout, pages: PageSource, page_size: int, *, singles: bool = False) -> None:
        super().__init__(layout, pages, page_size, singles=singles)
        #: the aggregate of all elements but the oldest of a window with this head and this tail
        self._rest: tuple[int, int, Any] = (0, 0, NOTHING)

    def total(self) -> Any:
        total = self._total_from(self.head)
        if total is NOTHING:
            return self.layout.monoid.identity
        if not self.layout.monoid.grows:
            self.kept = total
        return total

    def _total_from(self, head: int) -> Any:
        """The aggregate from a leaf on, or NOTHING."""
        if head == self.head and self.kept is not UNKNOWN:
            return self.kept
        return self.forest.fold_nodes(head, self.tail)

    def behind(self, front: Front, state: Any) -> Sums:
        if self.layout.monoid.grows:
            return Sums(UNKNOWN, UNKNOWN)
        if front.head == self.tail:
            return Sums(UNKNOWN, state)
        known = front.head == self.head and self.kept is not UNKNOWN
        return Sums(UNKNOWN, self.combine(self.kept, state) if known else UNKNOWN)

    def followed(self, front: Front, state: Any) -> tuple[Sums, Any]:
        total = self.layout.join(self._total_from(front.head), state)
        return Sums(UNKNOWN, UNKNOWN if self.layout.monoid.grows else total), total

    def coming(self, state: Any) -> Any:
        """The aggregate of all but the oldest, with the state."""
        head, tail, rest = self._rest
        if head != self.head or tail != self.tail:
            rest = self.forest.fold_nodes(self.head + 1, self.tail)
            if not self.layout.monoid.grows:
                self._rest = (self.head, self.tail, rest)
        return self.layout.join(rest, state)

    def whole(self, coming: Any) -> Any:
        return self.layout.join(self.oldest_state(), coming)

    def rest(self, k: int, coming: Any, state: Any) -> Any:
        if k == 1:
            return coming
        return self.layout.join(self.forest.fold_nodes(self.head + k, self.tail), state)

    def rests_ready(self) -> int:
        return min(8, len(self) - 1)

    def step(self, row: Any, state: Any, time: Any, coming: Any, lower: Any) -> Any:
        ahead = self.ahead
        oldest, _, first = ahead[-1]
        total = coming
        if coming is UNKNOWN:
            total = self.combine(self._total_from(self.head + 1), state)
        kept = UNKNOWN if self.layout.monoid.grows else total
        result = total if lower is None else lower(total)
        leaves = self.forest.tails[0]
        times, entries = leaves.times, leaves.entries
        # as in `commit`: nothing is called from here on
        del ahead[-1]
        times += (time,)
        entries += (row,)
        self.head += 1
        self.tail += 1
        self.oldest, self.first, self.youngest = oldest, first, time
        self.younger, self.kept = UNKNOWN, kept
        return result

    def grow(self, row: Any, state: Any, time: Any, coming: Any, total: Any, lower: Any) -> Any:
        if total is UNKNOWN:
            if coming is UNKNOWN:
                total = self.combine(self._total_from(self.head), state)
            else:
                total = self.whole(coming)
        rest = self._rest
        if coming is not UNKNOWN and not self.layout.monoid.grows:
            rest = (self.head, self.tail + 1, coming)
        kept = UNKNOWN if self.layout.monoid.grows else total
        result = total if lower is None else lower(total)
        leaves = self.forest.tails[0]
        times, entries = leaves.times, leaves.entries
        # as in `commit`: nothing is called from here on
        times += (time,)
        entries += (row,)
        self.tail += 1
        self.youngest, self.younger, self.kept, self._rest = time, UNKNOWN, kept, rest
        return result

    def add_one(self, front: Front, row: Any, state: Any, time: Any, sums: Sums) -> None:
        kept = UNKNOWN if self.layout.monoid.grows else sums.kept
        super().add_one(front, row, state, time, Sums(UNKNOWN, kept))
        self._keep_rest(sums.younger)

    def add_batch(self, front: Front, sums: Sums, batch: Batch) -> None:
        super().add_batch(front, Sums(UNKNOWN, UNKNOWN) if self.layout.monoid.grows else sums, batch)
        if front.stack.boundary == front.head + 1:
            self._keep_rest(sums.younger)

    def _keep_rest(self, rest: Any) -> None:
        if rest is not NOTHING and rest is not UNKNOWN and not self.layout.monoid.grows:
            self._rest = (self.head, self.tail, rest)

    def _sought(self, head: int) -> Front:
        forest = self.forest
        forest.load_cover(head, self.tail)
        if head > self.head + NEAR:
            since, stop = head, head + 1
        else:
            page_end = ((head >> forest.shift) + 1) << forest.shift
            since, stop = self.since, self.last_step(head, min(page_end, self.tail))
        leaves = forest.read([Piece(0, head, stop)])[0]
        ahead = self.steps(leaves.times[::-1].tolist(), repeat(NOTHING), leaves)
        oldest, r0, first = ahead.pop()
        return Front(head, oldest, r0, first, ahead, len(ahead), self.stack, self.younger, since)

    def walker(self) -> tuple[Stack, Any]:
        """That of the batch before, as long as the head has not come to its boundary."""
        stack = self.stack
        if stack.boundary <= self.head:
            return Stack(self.forest, self.tail), NOTHING
        younger = self.younger
        if younger is UNKNOWN:
            younger = self.forest.fold_nodes(stack.boundary, self.tail)
        return stack.copy(), younger

    def after(self, outcome: Outcome) -> tuple[Front, Sums]:
        kept = UNKNOWN if self.layout.monoid.grows else outcome.total
        head, stack, younger = outcome.head, outcome.walker, outcome.younger
        if stack is None:
            stack, younger = Stack(self.forest, head), UNKNOWN
        return Front(head, outcome.oldest, NOTHING, UNKNOWN, [], 0, stack, younger, head), Sums(younger, kept)
