"""Amortized MTA (Villalba, Berral, Carrera: IEEE TPDS 2019, section 4.2).

A pair of entries has a parent only once it is complete, so an insertion costs amortised O(1). The Result
Pair ⟨R0, R1⟩ holds the aggregate of the window's older part, up to the Stack's boundary, and of the rest:
an insertion goes into R1, a single eviction pops R0's next value off the Stack, and a bulk eviction rebuilds
the Stack from one path of the forest.

The paper ends R0 with the leftmost tree, and recomputes the pair when trees merge. Here R0 ends at whatever
was the tail when the pair was last recomputed: the same cost, amortised, and no recomputation on insertion.
"""

from __future__ import annotations

from typing import Any

from mta.batch import Outcome
from mta.enforcement import NEAR
from mta.manifest import Version
from mta.policies import Limits
from mta.stack import Stack
from mta.states import NOTHING
from mta.window import MonoidTreeAggregator

#: R0 has to be read off the stack's leaves: a batch has moved the head.
_STALE: Any = object()


class AmortizedMTA(MonoidTreeAggregator):
    """A sliding window with amortised O(1) insertion and eviction, and bulk eviction in O(log n)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stack = Stack(self._forest)
        self._r0: Any = NOTHING
        self._r1: Any = NOTHING
        #: what R0 becomes after each eviction from the head's page, to be popped in that order
        self._coming: list[Any] = []
        limits = self._limits
        #: the one limit of the two usual policies
        whole = isinstance(limits.open_span, int) and limits == Limits(open_span=limits.open_span)
        self._only_span = limits.open_span if whole else None
        self._only_count = limits.count if limits == Limits(count=limits.count) else None

    def push(self, value: Any, time: float | None = None) -> Any:
        row, state, time = self._admit(value, time)
        ahead = self._ahead
        if not ahead or not self._leaves_alone(ahead[-1], time):
            return self._push(row, state, time)
        # what happens nearly always: one element goes, and the Stack has what R0 is then
        self._oldest = ahead.pop()
        self._r0 = r0 = self._coming.pop()
        self._head += 1
        self._insert(row, state, time)
        return self._lower(self._combine(r0, self._r1))

    def _leaves_alone(self, second: Any, time: Any) -> bool:
        """Whether the oldest element, and not the second oldest, goes when one with this time comes."""
        span, count = self._only_span, self._only_count
        if span is not None:
            cut = time - span
            return self._oldest <= cut < second  # type: ignore[no-any-return]
        return count is not None and self._tail + 1 - self._head - count == 1

    def _total(self) -> Any:
        r0, r1 = self._r0, self._r1
        if r0 is _STALE:
            self._ahead = self._seek(self._head)
            self._ahead.pop()
            r0, r1 = self._r0, self._r1
        if r0 is NOTHING:
            return self.monoid.identity if r1 is NOTHING else r1
        return r0 if r1 is NOTHING else self._combine(r0, r1)

    def _insert(self, row: Any, state: Any, time: Any) -> None:
        r1 = self._r1
        r1 = state if r1 is NOTHING else self._combine(r1, state)
        self._forest.append(time, row)
        self._r1 = r1
        if self._tail == self._head:
            self._oldest = time
        self._tail += 1
        self._youngest = time

    def _older(self, head: int) -> Any:
        if self._r0 is _STALE and head == self._head:
            self._total()

    def _insert_and_answer(self, row: Any, state: Any, time: Any, older: Any) -> Any:  # noqa: ARG002
        self._insert(row, state, time)
        return self._total()

    def _extended(self, younger: Any) -> None:
        self._r1 = younger

    def _step(self, k: int) -> None:
        coming = self._coming
        del coming[len(coming) - k + 1 :]
        self._r0 = coming.pop()

    def _seek(self, head: int) -> list[Any]:
        stack = self._stack.copy()
        leaves = stack.seek(head)
        coming: list[Any] = []
        if head > self._head + NEAR:
            r0, stop = leaves.total(self._layout, head), head + 1
        else:
            coming = leaves.stack(self._layout, head)
            r0, stop = coming.pop(), leaves.stop
        if stack.boundary != self._stack.boundary:
            self._r1 = NOTHING
        self._stack, self._r0, self._coming = stack, r0, coming
        return leaves.times(head, stop)

    def _clear(self) -> None:
        self._stack = Stack(self._forest)
        self._r0 = self._r1 = NOTHING
        self._coming = []

    def _load(self, version: Version) -> None:
        super()._load(version)
        self._stack = Stack(self._forest)
        if version.head < version.tail:
            self._r0 = _STALE

    def _walker(self) -> Stack:
        if self._r0 is _STALE and self._stack.leaves is None:
            self._total()
        return self._stack.copy()

    def _younger(self) -> Any:
        return self._r1

    def _adopt(self, outcome: Outcome) -> None:
        self._coming = []
        self._r1 = outcome.younger
        if outcome.walker is None:
            self._stack = Stack(self._forest)
            self._stack.boundary = outcome.head
            self._r0 = NOTHING
        else:
            self._stack = outcome.walker
            if outcome.walker.leaves is not None:
                self._r0 = _STALE
