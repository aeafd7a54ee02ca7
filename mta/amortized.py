"""Amortized MTA (Villalba, Berral, Carrera: IEEE TPDS 2019, section 4.2).

A pair of entries has a parent only once it is complete, so an insertion costs amortised O(1). The Result
Pair ⟨R0, R1⟩ holds the aggregate of the window's older part, up to the Stack's boundary, and of the rest:
an insertion goes into R1, a single eviction pops R0's next value off the Stack, and a bulk eviction rebuilds
the Stack from one path of the forest.

The paper ends R0 with the leftmost tree, and recomputes the pair when trees merge. Here R0 ends at whatever
was the tail when the pair was last recomputed: the same cost, amortised, and no recomputation on insertion.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mta.batch import Outcome
from mta.cuts import cut
from mta.enforcement import NEAR
from mta.log import LogMTA
from mta.manifest import Version
from mta.policies import Limits
from mta.stack import Stack
from mta.states import NOTHING
from mta.turns import in_use
from mta.window import Added, Front, MonoidTreeAggregator

#: R0 has to be read off the stack's leaves: a batch has moved the head.
_STALE: Any = object()


class Ready(NamedTuple):
    """What is ready at a front: Stack, R0, and what R0 becomes after each eviction from the head's page."""

    stack: Stack
    r0: Any
    coming: list[Any]
    #: how many of `coming` are left
    left: int


class AmortizedMTA(MonoidTreeAggregator):
    """A sliding window with amortised O(1) insertion and eviction, and bulk eviction in O(log n).

    States that grow with the window are not kept for every coming eviction, but folded as LogMTA folds them.
    """

    def _begin(self) -> None:
        if type(self) is AmortizedMTA and self._monoid.grows:
            self.__class__ = _FoldedOnDemand
        super()._begin()
        self._stack = Stack(self._forest, 0)
        self._r0: Any = NOTHING
        #: what R0 becomes after each eviction from the head's page, to be popped in that order
        self._coming: list[Any] = []
        limits = self._limits
        #: the one limit of the two usual policies
        whole = isinstance(limits.open_span, int) and limits == Limits(open_span=limits.open_span)
        self._only_span = limits.open_span if whole else None
        self._only_count = limits.count if limits == Limits(count=limits.count) else None

    def push(self, value: Any, time: float | None = None) -> Any:
        if self._busy:
            raise in_use(self)
        self._busy = True
        try:
            return self._push_one(value, time)
        finally:
            self._busy = False

    def _push_one(self, value: Any, time: Any) -> Any:
        head, tail = self._head, self._tail
        row, state, time = self._admit(value, time)
        ahead = self._ahead
        if not ahead or not self._leaves_alone(ahead[-1], time) or not (tail + 1) & self._mask:
            return self._push((head, tail), row, state, time)
        # what happens nearly always: one element goes, and the Stack has what R0 is then
        coming, younger = self._coming, self._younger
        younger = state if younger is NOTHING else self._combine(younger, state)
        oldest, r0 = ahead[-1], coming[-1]
        result = self._lower(self._combine(r0, younger))
        leaves = self._forest.tails[0]
        times, entries = leaves.times, leaves.entries
        # as in `_commit`: nothing is called from here on
        del ahead[-1]
        del coming[-1]
        times += (time,)
        entries += (row,)
        self._head, self._oldest, self._r0 = head + 1, oldest, r0
        self._tail, self._youngest, self._younger = tail + 1, time, younger
        return result

    def evict(self, k: int = 1) -> None:
        if type(k) is int and k == 1 and self._ahead and not (self._closed or self._busy):
            # as in `_commit`: nothing is called from here on
            ahead, coming = self._ahead, self._coming
            self._oldest, self._r0 = ahead[-1], coming[-1]
            del ahead[-1]
            del coming[-1]
            self._head += 1
        else:
            super().evict(k)

    def _leaves_alone(self, second: Any, time: Any) -> bool:
        """Whether the oldest element, and not the second oldest, goes when one with this time comes."""
        span, count = self._only_span, self._only_count
        if span is not None:
            start = time - span if type(time) is int else cut(time, span, "right")
            return self._oldest <= start < second  # type: ignore[no-any-return]
        return count is not None and self._tail + 1 - self._head - count == 1

    def _total(self) -> Any:
        self._make_ready()
        total = self._layout.join(self._r0, self._younger)
        return self.monoid.identity if total is NOTHING else total

    def _make_ready(self) -> None:
        """Reads R0 off the leaves where a batch has moved the head."""
        if self._r0 is _STALE:
            ahead, ready = self._sought(self._head)
            front = Front(self._head, ahead[-1], ahead, len(ahead) - 1, ready)
            younger = self._kept_younger(front)
            self._commit(front, Added(self._forest.tails, (), (), self._tail, self._youngest, younger))

    def _ready(self) -> Any:
        self._make_ready()
        return Ready(self._stack, self._r0, self._coming, len(self._coming))

    def _stepped(self, k: int) -> Any:
        left = len(self._coming) - k
        return Ready(self._stack, self._coming[left], self._coming, left)

    def _sought(self, head: int) -> tuple[list[Any], Any]:
        stack = self._stack.copy()
        leaves = stack.seek(head)
        if head > self._head + NEAR:
            return leaves.times(head, head + 1), Ready(stack, leaves.total(self._layout, head), [], 0)
        coming = leaves.stack(self._layout, head)
        return leaves.times(head, leaves.stop), Ready(stack, coming[-1], coming, len(coming) - 1)

    def _nothing_ready(self, head: int) -> Any:
        return Ready(Stack(self._forest, head), NOTHING, [], 0)

    def _ready_after(self, outcome: Outcome) -> Any:
        walker = outcome.walker
        if walker is None:
            return self._nothing_ready(outcome.head)
        return Ready(walker, self._r0 if walker.leaves is None else _STALE, [], 0)

    def _with_state(self, front: Front, state: Any) -> tuple[Any, Any]:
        younger = self._followed_by(self._kept_younger(front), state)
        return younger, self._layout.join(front.ready.r0, younger)

    def _walker(self) -> Stack:
        if self._stack.leaves is None:
            self._make_ready()
        return self._stack.copy()

    def _kept_younger(self, front: Front) -> Any:
        return self._younger if front.ready.stack.boundary == self._stack.boundary else NOTHING

    def _followed_by(self, younger: Any, state: Any) -> Any:
        return state if younger is NOTHING else self._combine(younger, state)

    def _commit(self, front: Front, added: Added) -> None:
        head, oldest, ahead, left, (stack, r0, coming, coming_left) = front
        tails, times, entries, tail, youngest, younger = added
        forest, leaves = self._forest, tails[0]
        leaf_times, leaf_entries = leaves.times, leaves.entries
        # nothing is called from here on
        del ahead[left:]
        del coming[coming_left:]
        leaf_times += times
        leaf_entries += entries
        forest.tails = tails
        self._head, self._oldest, self._ahead = head, oldest, ahead
        self._stack, self._r0, self._coming = stack, r0, coming
        self._tail, self._youngest, self._younger = tail, youngest, younger

    def _load(self, version: Version) -> None:
        super()._load(version)
        self._stack = Stack(self._forest, version.tail)
        if version.head < version.tail:
            self._r0 = _STALE


class _FoldedOnDemand(LogMTA, AmortizedMTA):
    """Amortized MTA without Stack and Result Pair, for states as large as what they aggregate."""

    push = MonoidTreeAggregator.push
    evict = MonoidTreeAggregator.evict


_FoldedOnDemand.__name__ = _FoldedOnDemand.__qualname__ = AmortizedMTA.__name__
