"""De-Amortized Banker's Aggregator: figures 9 and 10 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from typing import Any

from mta.baselines.base import Baseline
from mta.baselines.chunked import BITS, MASK, ChunkedArrayQueue
from mta.monoids.base import Monoid
from mta.policies import Policy


class DABA(Baseline):
    """At most 1 combine a query, 4 an insertion, 3 an eviction; at most 2.5 and 1.5 on average.

    Two queues, the values and partial aggregates of them, and the pointers F <= L <= R <= A <= B <= E into
    both. From F to B - 1 is the front list, whose aggs look to its end, from B to E - 1 the back list, whose
    aggs look to its start; between them the back list of the last flip is turned round one step at a time:

        F..L-1: vals[p] ⊕ … ⊕ vals[B-1]     L..R-1: vals[p] ⊕ … ⊕ vals[R-1]     R..A-1: vals[R] ⊕ … ⊕ vals[p]
        A..B-1: vals[p] ⊕ … ⊕ vals[B-1]     B..E-1: vals[B] ⊕ … ⊕ vals[p]

    `DABA(monoid, policy, cached=True)` is the cached variant: at most 1, 3 and 2 combines, at most 2 and 1
    on average.

    The queues' chunks are read and written here and not through the queues' methods: pointers move by one, so
    that a chunk at hand, in an attribute, serves 256 steps.

    >>> from mta import monoids, policies
    >>> from mta.baselines import DABA
    >>> window = DABA(monoids.Max(), policies.TimeWindow(10), cached=True)
    >>> [window.push(value, time) for value, time in ((3, 0), (1, 9), (2, 10), (0, 19))]
    [3, 3, 2, 2]
    """

    __slots__ = (
        "A",
        "B",
        "E",
        "F",
        "L",
        "R",
        "_aggs",
        "_front_aggs",
        "_front_vals",
        "_last_aggs",
        "_last_vals",
        "_left",
        "_vals",
    )

    def __new__(cls, *_args: Any, cached: bool = False, **_kwargs: Any) -> DABA:
        return super().__new__(CachedDABA if cached else cls)

    def __init__(
        self,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        cached: bool = False,  # noqa: ARG002  __new__ has read it
    ) -> None:
        super().__init__(monoid, policy)
        self._vals = ChunkedArrayQueue()
        self._aggs = ChunkedArrayQueue()
        self.F = self.L = self.R = self.A = self.B = self.E = 0
        #: the chunks that F points into
        self._front_vals: list[Any] = []
        self._front_aggs: list[Any] = []
        #: while shrinking, the chunk of aggs that L points into, and the chunks of the element before A
        self._left: list[Any] = []
        self._last_vals: list[Any] = []
        self._last_aggs: list[Any] = []

    def _aggregate(self) -> Any:
        front, back = self.F, self.B
        if front == back:
            return self._identity
        agg = self._front_aggs[front & MASK]
        return agg if back == self.E else self._combine(agg, self._aggs.last[-1])

    def _insert(self, state: Any) -> None:
        vals, aggs, end = self._vals, self._aggs, self.E
        agg = state if end == self.B else self._combine(aggs.last[-1], state)
        if end & MASK:
            vals.last.append(state)
            aggs.last.append(agg)
        else:
            self._new_chunks(state, agg)
        self.E = end + 1
        try:
            self._fixup()
        except BaseException:
            self._undo_insert()
            raise

    def _evict(self) -> None:
        front = self.F
        self.F = front + 1
        try:
            self._fixup()
        except BaseException:
            self._undo_flip()
            self.F = front
            raise
        index = front & MASK
        self._front_vals[index] = self._front_aggs[index] = None
        if index == MASK:
            self._free_chunks()

    def _fixup(self) -> None:
        left = self.L
        if self.F == self.B:  # singleton
            self.B = self.A = self.R = self.L = self.E
        else:
            if left == self.B:  # flip
                left = self.L = self.F
                self.A = self.B = self.E
                self._left = self._aggs.chunks[left >> BITS]
                self._last_vals, self._last_aggs = self._vals.last, self._aggs.last
            if left == self.R:  # shift
                self.A += 1
                self.R = self.L = left + 1
            else:  # shrink
                combine, accumulated = self._combine, self.A
                last = accumulated - 1
                index, last_index = left & MASK, last & MASK
                agg = combine(self._left[index], self._last_aggs[last_index])
                val = self._last_vals[last_index]
                if accumulated != self.B:
                    rest = self._aggs.chunks[accumulated >> BITS][accumulated & MASK]
                    agg, val = combine(agg, rest), combine(val, rest)
                self._left[index] = agg
                self.L = left + 1
                self._last_aggs[last_index] = val
                self.A = last
                if index == MASK or last_index == 0:
                    self._turn_page()

    def _turn_page(self) -> None:
        """The next chunk for L, the one before for A - 1."""
        last = (self.A - 1) >> BITS
        self._left = self._aggs.chunks[self.L >> BITS]
        self._last_vals, self._last_aggs = self._vals.chunks[last], self._aggs.chunks[last]

    def _new_chunks(self, val: Any, agg: Any) -> None:
        end = self.E
        self.vals.push_back(val)
        self.aggs.push_back(agg)
        if end == self.F:
            self._front_vals, self._front_aggs = self._vals.last, self._aggs.last

    def _free_chunks(self) -> None:
        number = self.F >> BITS
        del self._vals.chunks[number - 1], self._aggs.chunks[number - 1]
        if self.F != self.E:
            self._front_vals, self._front_aggs = self._vals.chunks[number], self._aggs.chunks[number]

    def _undo_flip(self) -> None:
        """Takes back the flip of a fixup whose operator raised; l_A is empty right after a flip only."""
        if self.A == self.B and self.L != self.R:
            self.L = self.A = self.B = self.R

    def _undo_insert(self) -> None:
        self._undo_flip()
        self.vals.pop_back()
        self.aggs.pop_back()
        self.E -= 1

    def _head(self) -> Any:
        return self._front_vals[self.F & MASK]

    # -- to look at ---------------------------------------------------------------------------------------

    @property
    def vals(self) -> ChunkedArrayQueue:
        self._vals.begin, self._vals.end = self.F, self.E
        return self._vals

    @property
    def aggs(self) -> ChunkedArrayQueue:
        self._aggs.begin, self._aggs.end = self.F, self.E
        return self._aggs

    @property
    def pointers(self) -> dict[str, int]:
        """F, L, R, A, B and E as distances from F."""
        return {name: getattr(self, name) - self.F for name in "FLRABE"}


class CachedDABA(DABA):
    """DABA that keeps the aggregates it would read or combine again.

    Through all shrinks after a flip R and B stand still, so that the aggregate of l_R and l_A together is
    the same: the back list's of before the flip.
    """

    __slots__ = ("_accumulated", "_back", "_middle")

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, cached: bool = True) -> None:
        super().__init__(monoid, policy, cached=cached)
        #: aggregates of l_B, of l_A, and of l_R and l_A together; each is stale where its list is empty
        self._back: Any = None
        self._accumulated: Any = None
        self._middle: Any = None

    def _aggregate(self) -> Any:
        front, back = self.F, self.B
        if front == back:
            return self._identity
        agg = self._front_aggs[front & MASK]
        return agg if back == self.E else self._combine(agg, self._back)

    def _insert(self, state: Any) -> None:
        end, back = self.E, self._back
        agg = state if end == self.B else self._combine(back, state)
        if end & MASK:
            self._vals.last.append(state)
            self._aggs.last.append(agg)
        else:
            self._new_chunks(state, agg)
        self.E = end + 1
        # A flip takes what is cached of the back list for the right list; the singleton case drops it.
        self._back = agg
        try:
            self._fixup()
        except BaseException:
            self._undo_insert()
            self._back = back
            raise

    def _fixup(self) -> None:
        left = self.L
        if self.F == self.B:  # singleton
            self.B = self.A = self.R = self.L = self.E
        else:
            if left == self.B:  # flip
                left = self.L = self.F
                self.A = self.B = self.E
                self._middle = self._back
                self._left = self._aggs.chunks[left >> BITS]
                self._last_vals, self._last_aggs = self._vals.last, self._aggs.last
            if left == self.R:  # shift
                self.A += 1
                self.R = self.L = left + 1
            else:  # shrink
                index, chunk = left & MASK, self._left
                agg = self._combine(chunk[index], self._middle)
                last = self.A - 1
                last_index = last & MASK
                val = self._last_vals[last_index]
                if self.A != self.B:
                    val = self._combine(val, self._accumulated)
                chunk[index] = agg
                self.L = left + 1
                self._last_aggs[last_index] = self._accumulated = val
                self.A = last
                if index == MASK or last_index == 0:
                    self._turn_page()
