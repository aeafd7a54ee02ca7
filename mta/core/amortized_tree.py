"""The tree of Amortized MTA (Villalba, Berral, Carrera: IEEE TPDS 2019, section 4.2).

An entry has a parent only once its page is full, so there is a forest, and an insertion costs amortised O(1).
The Result Pair ⟨R0, R1⟩ is `r0`, the aggregate of the window's older part up to the Stack's boundary, and
`younger`, that of the rest: the total is one combine of them. The paper's algorithms are found here:

- Algorithm 3, insertion: `insert`. The state goes into R1 (`behind`), the element into the last leaves, and a
  page that it fills gets its entry in the tier above (`Forest.with_one`).
- Algorithm 4, R0 and the Stack from the left spine: `Stack.seek`. It makes the coming values of R0 for a page
  of leaves at a time; `ahead` has the next of them, to be popped.
- Algorithm 5, R1 from the trees right of the leftmost, is not needed. The paper ends R0 with the leftmost
  tree and recomputes the pair when trees merge. Here R0 ends at whatever was the tail when the pair was last
  made (`flip`), so that R1 is what came since. The pair is made anew when the head comes to that boundary:
  the same cost, amortised, and none at insertion.
- Algorithm 6, eviction of one element: `pop`, and `move` where a page of leaves ends.
- Algorithm 7, the update of the Stack: the frames that `Stack.seek` makes when the head enters a page.
- Algorithm 2, bulk eviction, is as in `LogTree`, and `move` rebuilds the Stack from the path to the new head:
  the left spine of lines 21 to 27.
"""

from __future__ import annotations

from typing import Any

from mta.core.outcome import Outcome
from mta.core.stack import Stack
from mta.core.states import NOTHING
from mta.core.tree import NEAR, UNKNOWN, Front, Sums, Tree


class AmortizedTree(Tree):
    """Insertion, eviction of one and the total take amortised O(1), eviction of any number O(log n)."""

    __slots__ = ()

    few, more = 40, 160

    def insert(self, row: Any, state: Any, time: Any) -> None:
        if self.head == self.tail or not (self.tail + 1) & self.mask:
            super().insert(row, state, time)
            return
        younger = self.younger
        younger = state if younger is NOTHING else self.combine(younger, state)
        leaves = self.forest.tails[0]
        times, entries = leaves.times, leaves.entries
        # as in `commit`: nothing is called from here on
        times += (time,)
        entries += (row,)
        self.tail += 1
        self.youngest, self.younger, self.kept = time, younger, UNKNOWN

    def total(self) -> Any:
        if self.kept is UNKNOWN:
            if self.r0 is UNKNOWN:
                self._read_r0()
            r0, younger = self.r0, self.younger
            if r0 is NOTHING or younger is NOTHING:
                total = younger if r0 is NOTHING else r0
                self.kept = self.layout.monoid.identity if total is NOTHING else total
            else:
                self.kept = self.combine(r0, younger)
        return self.kept

    def flip(self) -> None:
        """Makes the Result Pair anew: R0 is the aggregate of all, R1 of nothing."""
        if self.head < self.tail:
            self._become(self._at(Stack(self.forest, self.tail), self.head))

    def _read_r0(self) -> None:
        """Reads R0 off the leaves where a batch has moved the head."""
        if self.r0 is UNKNOWN:
            self._become(self._sought(self.head))

    def front(self, head: int) -> Front:
        if head == self.head:
            self._read_r0()
        return super().front(head)

    def behind(self, front: Front, state: Any) -> Sums:
        return Sums(self.layout.join(front.younger, state), UNKNOWN)

    def followed(self, front: Front, state: Any) -> tuple[Sums, Any]:
        younger = self.layout.join(front.younger, state)
        total = self.layout.join(front.r0, younger)
        return Sums(younger, total), total

    def coming(self, state: Any) -> Any:
        if self.r0 is UNKNOWN:
            self._read_r0()
        elif self.r0 is NOTHING:  # all is in R1, which would go on to grow
            stack = Stack(self.forest, self.tail)
            # nothing is called from here on
            self.r0, self.younger, self.stack = self.younger, NOTHING, stack
        return self.layout.join(self.younger, state)

    def whole(self, coming: Any) -> Any:
        return self.layout.join(self.r0, coming)

    def rest(self, k: int, coming: Any, state: Any) -> Any:
        head = self.head + k
        if k <= len(self.ahead):
            return self.layout.join(self.ahead[-k][1], coming)
        if head == self.stack.boundary:
            return coming
        if self.stack.leaves is None:
            self._become(self._sought(self.head))
            return self.rest(k, coming, state)
        leaves = self.stack.leaves
        older = leaves.rest if head == leaves.stop else leaves.total(self.layout, head)
        return self.layout.join(older, coming)

    def rests_ready(self) -> int:
        leaves = self.stack.leaves
        return 0 if leaves is None else leaves.stop - self.head

    def step(self, row: Any, state: Any, time: Any, coming: Any, lower: Any) -> Any:
        younger, ahead = self.younger, self.ahead
        if coming is not UNKNOWN:
            younger = coming
        else:
            younger = state if younger is NOTHING else self.combine(younger, state)
        oldest, r0, first = ahead[-1]
        total = self.combine(r0, younger)
        result = total if lower is None else lower(total)
        leaves = self.forest.tails[0]
        times, entries = leaves.times, leaves.entries
        # as in `commit`: nothing is called from here on
        del ahead[-1]
        times += (time,)
        entries += (row,)
        self.head += 1
        self.tail += 1
        self.oldest, self.r0, self.first, self.youngest = oldest, r0, first, time
        self.younger, self.kept = younger, total
        return result

    def grow(self, row: Any, state: Any, time: Any, coming: Any, total: Any, lower: Any) -> Any:
        if self.r0 is UNKNOWN:
            self._read_r0()
        r0, younger = self.r0, self.younger
        if coming is not UNKNOWN:
            younger = coming
        elif r0 is NOTHING and total is not UNKNOWN:
            younger = total  # all of the window is behind the boundary
        else:
            younger = state if younger is NOTHING else self.combine(younger, state)
        if total is UNKNOWN:
            total = self.layout.join(r0, younger)
        result = total if lower is None else lower(total)
        leaves = self.forest.tails[0]
        times, entries = leaves.times, leaves.entries
        # as in `commit`: nothing is called from here on
        times += (time,)
        entries += (row,)
        self.tail += 1
        self.youngest, self.younger, self.kept = time, younger, total
        return result

    def _sought(self, head: int) -> Front:
        return self._at(self.stack.copy(), head)

    def _at(self, stack: Stack, head: int) -> Front:
        """The front that a stack leads to."""
        layout = self.layout
        leaves = stack.seek(head)
        younger = self.younger if stack.boundary == self.stack.boundary else NOTHING
        if head > self.head + NEAR:
            (oldest,) = leaves.times(head, head + 1)
            return Front(head, oldest, leaves.total(layout, head), UNKNOWN, [], 0, stack, younger, head)
        stop = self.last_step(head, leaves.stop)
        r0s, part = leaves.stack(layout, head, stop), leaves.part(layout, head, stop)
        ahead = self.steps(leaves.times(head, stop), r0s, part)
        oldest, r0, first = ahead.pop()
        return Front(head, oldest, r0, first, ahead, len(ahead), stack, younger, self.since)

    def walker(self) -> tuple[Stack, Any]:
        if self.stack.leaves is None:
            self._read_r0()
        return self.stack.copy(), self.younger

    def after(self, outcome: Outcome) -> tuple[Front, Sums]:
        head, stack, younger = outcome.head, outcome.walker, outcome.younger
        if stack is None:
            r0, stack = NOTHING, Stack(self.forest, head)
        else:
            r0 = self.r0 if stack.leaves is None else UNKNOWN
        front = Front(head, outcome.oldest, r0, UNKNOWN, [], 0, stack, younger, head)
        return front, Sums(younger, outcome.total)
