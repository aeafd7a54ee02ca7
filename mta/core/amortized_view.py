"""The view of Amortized MTA (Villalba, Berral, Carrera: IEEE TPDS 2019, section 4.2).

An entry has a parent only once its page is full, so there is a forest, and an insertion costs amortised O(1).
The Result Pair is ⟨`r0`, `r1`⟩: R0 aggregates the window's older part up to the Stack's boundary, and R1 the
rest. The total is one combine of both. The paper's algorithms are found here:

- Algorithm 3, insertion: `insert`. The state goes into R1 (`cheap_sums`), the element into the tail of tier
  0. A page that the element fills gets its entry in the tier above (`Log.appended`).
- Algorithm 4, R0 and the Stack from the left spine: `Stack.seek`. It makes the coming values of R0 for a page
  of elements at a time; `steps` holds the next of them.
- Algorithm 5, R1 from the trees right of the leftmost, is not needed. The paper ends R0 with the leftmost
  tree and recomputes the pair when trees merge. Here R0 ends at the boundary, the end that the view had when
  the pair was last made, and R1 aggregates the elements since. `Stack.seek` makes the pair anew when the head
  reaches the boundary: the same cost, amortised, and none at insertion. `flip` does so at once.
- Algorithm 6, eviction of one element: `pop`, and `move` where a page of elements ends.
- Algorithm 7, the update of the Stack: the frames that `Stack.seek` makes when the head enters a page.
- Algorithm 2, bulk eviction, is as in `LogarithmicView`. `move` rebuilds the Stack from the path to the new
  head: the left spine of lines 21 to 27.
"""

from __future__ import annotations

from typing import Any

from mta.core.stack import Stack
from mta.core.states import NOTHING
from mta.core.view import NEAR, Front, Outcome, Sums, View
from mta.kinds import UNKNOWN, Row, State, Time


class AmortizedView(View):
    """Insertion, eviction of one and the total take amortised O(1), eviction of any number O(log n)."""

    __slots__ = ()

    few, more = 40, 160

    def insert(self, row: Row, state: State, time: Time) -> None:
        if self.head == self.end or not (self.end + 1) & self.mask:
            super().insert(row, state, time)
            return
        r1 = self.r1
        r1 = state if r1 is NOTHING else self.combine(r1, state)
        log = self.log
        elements = log.tails[0]
        times, entries = elements.times, elements.entries
        # as in `commit`: nothing is called from here on
        times += (time,)
        entries += (row,)
        log.tail = self.end = self.end + 1
        log.youngest = time
        self.r1, self.known_total = r1, UNKNOWN

    def total(self) -> Any:
        if self.known_total is UNKNOWN:
            if self.r0 is UNKNOWN:
                self._read_r0()
            r0, r1 = self.r0, self.r1
            if r0 is NOTHING or r1 is NOTHING:
                total = r1 if r0 is NOTHING else r0
                self.known_total = self.layout.monoid.identity if total is NOTHING else total
            else:
                self.known_total = self.combine(r0, r1)
        return self.known_total

    def flip(self) -> None:
        """Makes the Result Pair anew: R0 is the aggregate of all, R1 of nothing."""
        if self.head < self.end:
            self._become(self._at(Stack(self.log, self.end, self.layout), self.head))

    def _read_r0(self) -> None:
        """Reads R0 off the head's page, where a batch or a restore has moved the head."""
        if self.r0 is UNKNOWN:
            self._become(self._sought(self.head))

    def front(self, head: int) -> Front:
        if head == self.head:
            self._read_r0()
        return super().front(head)

    def cheap_sums(self, front: Front, state: State) -> Sums:
        return Sums(self.layout.join(front.r1, state), UNKNOWN)

    def sums_and_total(self, front: Front, state: State) -> tuple[Sums, Any]:
        r1 = self.layout.join(front.r1, state)
        total = self.layout.join(front.r0, r1)
        return Sums(r1, total), total

    def coming(self, state: State) -> Any:
        if self.r0 is UNKNOWN:
            self._read_r0()
        elif self.r0 is NOTHING:  # R1 is the whole window, and would go on to grow
            stack = Stack(self.log, self.end, self.layout)
            # nothing is called from here on
            self.r0, self.r1, self.stack = self.r1, NOTHING, stack
        return self.layout.join(self.r1, state)

    def whole(self, coming: State) -> Any:
        return self.layout.join(self.r0, coming)

    def rest(self, k: int, coming: State, state: State) -> Any:
        head = self.head + k
        if k <= len(self.steps):
            return self.layout.join(self.steps[-k][1], coming)
        if head == self.stack.boundary:
            return coming
        if self.stack.head_page is None:
            self._become(self._sought(self.head))
            return self.rest(k, coming, state)
        page = self.stack.head_page
        older = page.rest if head == page.stop else page.total(self.layout, head)
        return self.layout.join(older, coming)

    def rests_ready(self) -> int:
        page = self.stack.head_page
        return 0 if page is None else page.stop - self.head

    def step(self, row: Row, state: State, time: Time, coming: State, lower: Any) -> Any:
        r1, steps = self.r1, self.steps
        if coming is not UNKNOWN:
            r1 = coming
        elif r1 is NOTHING:
            r1 = state
        else:
            r1 = self.combine(r1, state)
        oldest, r0, first = steps[-1]
        total = self.combine(r0, r1)
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
        self.oldest, self.r0, self.first = oldest, r0, first
        self.r1, self.known_total = r1, total
        return result

    def grow(self, row: Row, state: State, time: Time, coming: State, total: State, lower: Any) -> Any:
        if self.r0 is UNKNOWN:
            self._read_r0()
        r0, r1 = self.r0, self.r1
        if coming is not UNKNOWN:
            r1 = coming
        elif r0 is NOTHING and total is not UNKNOWN:
            r1 = total  # R1 is the whole window
        else:
            r1 = state if r1 is NOTHING else self.combine(r1, state)
        if total is UNKNOWN:
            total = self.layout.join(r0, r1)
        result = total if lower is None else lower(total)
        log = self.log
        elements = log.tails[0]
        times, entries = elements.times, elements.entries
        # as in `commit`: nothing is called from here on
        times += (time,)
        entries += (row,)
        log.tail = self.end = self.end + 1
        log.youngest = time
        self.r1, self.known_total = r1, total
        return result

    def _sought(self, head: int) -> Front:
        return self._at(self.stack.copy(), head)

    def _at(self, stack: Stack, head: int) -> Front:
        """The front at a position, by a stack that seeks it."""
        layout = self.layout
        page = stack.seek(head, self.end)
        self.follower.head_at(head >> self.log.shift)
        r1 = self.r1 if stack.boundary == self.stack.boundary else NOTHING
        if head > self.head + NEAR:
            (oldest,) = page.times(head, head + 1)
            return Front(head, oldest, page.total(layout, head), UNKNOWN, [], 0, stack, r1, head)
        stop = self.last_step(head, page.stop)
        r0s, part = page.stack(layout, head, stop), page.part(layout, head, stop)
        steps = self.make_steps(page.times(head, stop), r0s, part)
        oldest, r0, first = steps.pop()
        return Front(head, oldest, r0, first, steps, len(steps), stack, r1, self.walked_from)

    def walker(self) -> tuple[Stack, Any]:
        if self.stack.head_page is None:
            self._read_r0()
        return self.stack.copy(), self.r1

    def after(self, outcome: Outcome) -> tuple[Front, Sums]:
        head, stack, r1 = outcome.head, outcome.walker, outcome.r1
        if stack is None:
            r0, stack = NOTHING, Stack(self.log, head, self.layout)
        else:
            r0 = self.r0 if stack.head_page is None else UNKNOWN
        front = Front(head, outcome.oldest, r0, UNKNOWN, [], 0, stack, r1, head)
        return front, Sums(r1, outcome.total)
