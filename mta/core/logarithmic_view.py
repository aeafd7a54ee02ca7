"""The view of Log MTA (Villalba, Berral, Carrera: IEEE TPDS 2019, section 4.1).

There is one binary tree over the window. Some of its levels are entries of pages, which the log stores. The
levels inside a page are made when they are first asked for (`Pyramid`). The paper's algorithms are here:

- Algorithm 1, insertion and aggregation. An element goes into the tail of tier 0. A page that the element
  fills gets its entry in the tier above, and so on up (`insert`, `Log.appended`). The paper recomputes the
  right spine at every insertion, so that the root is the aggregate of the window. Here the root is a value
  beside the tree, `known_total`, and an insertion combines it with the new state (`cheap_sums`): one combine,
  where the spine takes log2(n).
- Algorithm 2, enforcement of a policy with bulk eviction. The search from the roots down is
  `Log.longest_prefix`, which `mta.core.enforcement` asks; for limits on time it is `Log.first_position`.
  `remove_pairs` is `move`, which moves the head and drops the pages before it. The paper recomputes the left
  spine then (lines 21 to 27). Here the root is forgotten, and the next `total` folds the O(log n) nodes that
  cover the window: the left spine up from the head, and the right spine down to the tail.

So a query takes no combine while the window stays as it is or grows, and O(log n) after an eviction.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

from mta.core.log import Fold, Log, Piece
from mta.core.page import Follower
from mta.core.stack import Stack
from mta.core.states import NOTHING, Layout
from mta.core.view import NEAR, Batch, Front, Outcome, Sums, View
from mta.kinds import UNKNOWN, Row, State, Time


class LogarithmicView(View):
    """Insertion, eviction of any number, and the total each take O(log n).

    A state that grows with its elements is not kept: it would be the window, in memory.
    """

    __slots__ = ("_rest",)

    few, more = 30, 40

    def __init__(
        self,
        log: Log,
        *,
        singles: bool = False,
        follower: Follower | None = None,
        layout: Layout | None = None,
    ) -> None:
        super().__init__(log, singles=singles, follower=follower, layout=layout)
        #: a head, an end, and the aggregate of all elements but the oldest of the window between them
        self._rest: tuple[int, int, Any] = (0, 0, NOTHING)

    def total(self) -> Any:
        total = self._total_from(self.head)
        if total is NOTHING:
            return self.layout.monoid.identity
        self.keep_total(total)
        return total

    def unread(self) -> Fold | None:
        known = self.known_total is not UNKNOWN or self.head == self.end
        return None if known else Fold(self.head, self.end, self.layout, True)

    def keep_total(self, total: State) -> None:
        if not self.layout.monoid.grows:
            self.known_total = total

    def _total_from(self, head: int) -> Any:
        """The aggregate from a position on, or NOTHING."""
        if head == self.head and self.known_total is not UNKNOWN:
            return self.known_total
        return self.log.fold_nodes(head, self.end, self.layout)

    def cheap_sums(self, front: Front, state: State) -> Sums:
        if self.layout.monoid.grows:
            return Sums(UNKNOWN, UNKNOWN)
        if front.head == self.end:
            return Sums(UNKNOWN, state)
        known = front.head == self.head and self.known_total is not UNKNOWN
        return Sums(UNKNOWN, self.layout.join(self.known_total, state) if known else UNKNOWN)

    def sums_and_total(self, front: Front, state: State) -> tuple[Sums, Any]:
        total = self.layout.join(self._total_from(front.head), state)
        return Sums(UNKNOWN, UNKNOWN if self.layout.monoid.grows else total), total

    def coming(self, state: State) -> Any:
        """The aggregate of all elements but the oldest, and of the state."""
        head, end, rest = self._rest
        if head != self.head or end != self.end:
            rest = self.log.fold_nodes(self.head + 1, self.end, self.layout)
            if not self.layout.monoid.grows:
                self._rest = (self.head, self.end, rest)
        return self.layout.join(rest, state)

    def whole(self, coming: State) -> Any:
        return self.layout.join(self.oldest_state(), coming)

    def rest(self, k: int, coming: State, state: State) -> Any:
        if k == 1:
            return coming
        return self.layout.join(self.log.fold_nodes(self.head + k, self.end, self.layout), state)

    def rests_ready(self) -> int:
        return min(8, len(self) - 1)

    def step(self, row: Row, state: State, time: Time, coming: State, lower: Any) -> Any:
        steps = self.steps
        oldest, _, first = steps[-1]
        total = coming
        if coming is UNKNOWN:
            total = self.combine(self._total_from(self.head + 1), state)
        kept = UNKNOWN if self.layout.monoid.grows else total
        result = total if lower is None else lower(total)
        log = self.log
        elements = log.tails[0]
        times, entries = elements.times, elements.entries
        # as in `commit`: nothing is called from here on
        del steps[-1]
        times += (time,)
        entries += (row,)
        self.head += 1
        log.tail = self.end = self.end + 1
        log.youngest = time
        self.oldest, self.first = oldest, first
        self.r1, self.known_total = UNKNOWN, kept
        return result

    def grow(self, row: Row, state: State, time: Time, coming: State, total: State, lower: Any) -> Any:
        if total is UNKNOWN:
            if coming is UNKNOWN:
                total = self.combine(self._total_from(self.head), state)
            else:
                total = self.whole(coming)
        rest = self._rest
        if coming is not UNKNOWN and not self.layout.monoid.grows:
            rest = (self.head, self.end + 1, coming)
        kept = UNKNOWN if self.layout.monoid.grows else total
        result = total if lower is None else lower(total)
        log = self.log
        elements = log.tails[0]
        times, entries = elements.times, elements.entries
        # as in `commit`: nothing is called from here on
        times += (time,)
        entries += (row,)
        log.tail = self.end = self.end + 1
        log.youngest = time
        self.r1, self.known_total, self._rest = UNKNOWN, kept, rest
        return result

    def add_one(self, front: Front, row: Row, state: State, time: Time, sums: Sums) -> None:
        kept = UNKNOWN if self.layout.monoid.grows else sums.total
        super().add_one(front, row, state, time, Sums(UNKNOWN, kept))
        self._keep_rest(sums.r1)

    def add_batch(self, front: Front, sums: Sums, batch: Batch) -> None:
        super().add_batch(front, Sums(UNKNOWN, UNKNOWN) if self.layout.monoid.grows else sums, batch)
        if front.stack.boundary == front.head + 1:
            self._keep_rest(sums.r1)

    def _keep_rest(self, rest: State) -> None:
        if rest is not NOTHING and rest is not UNKNOWN and not self.layout.monoid.grows:
            self._rest = (self.head, self.end, rest)

    def _sought(self, head: int) -> Front:
        log = self.log
        log.load_cover(head, self.end)
        if head > self.head + NEAR:
            walked_from, stop = head, head + 1
        else:
            page_end = ((head >> log.shift) + 1) << log.shift
            walked_from, stop = self.walked_from, self.last_step(head, min(page_end, self.end))
        elements = log.read([Piece(0, head, stop)])[0]
        steps = self.make_steps(elements.times[::-1].tolist(), repeat(NOTHING), elements)
        oldest, r0, first = steps.pop()
        return Front(head, oldest, r0, first, steps, len(steps), self.stack, self.r1, walked_from)

    def walker(self) -> tuple[Stack, Any]:
        """The stack of the batch before, as long as the head has not reached its boundary."""
        stack = self.stack
        if stack.boundary <= self.head:
            return Stack(self.log, self.end, self.layout), NOTHING
        r1 = self.r1
        if r1 is UNKNOWN:
            r1 = self.log.fold_nodes(stack.boundary, self.end, self.layout)
        return stack.copy(), r1

    def after(self, outcome: Outcome) -> tuple[Front, Sums]:
        kept = UNKNOWN if self.layout.monoid.grows else outcome.total
        head, stack, r1 = outcome.head, outcome.walker, outcome.r1
        if stack is None:
            stack, r1 = Stack(self.log, head, self.layout), UNKNOWN
        return Front(head, outcome.oldest, NOTHING, UNKNOWN, [], 0, stack, r1, head), Sums(r1, kept)
