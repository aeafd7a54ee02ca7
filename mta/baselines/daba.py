"""De-Amortized Banker's Aggregator: figures 9 and 10 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from collections.abc import Iterator

from mta.baselines.base import Baseline
from mta.kinds import State, Value
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.policies import Policy

#: The low bits of a pointer are the index in a chunk, the high bits the number of the chunk.
BITS = 8
CHUNK = 1 << BITS
MASK = CHUNK - 1


class ChunkedArrayQueue:
    """The chunked-array queue of section 4.1: a queue in chunks of fixed size, with pointers into it.

    In the paper a pointer is the address of a chunk and an index in it. Here it is an integer, so that p + 1,
    p - 1 and p == q need no method, and a pointer stays valid while the queue grows and shrinks. `begin`
    points to the first element, `end` behind the last one. A push creates the chunk that it needs, and the
    pop that empties a chunk frees it. Every operation takes constant time. The directory of the chunks is a
    dict with an entry for each 256 elements.
    """

    __slots__ = ("begin", "chunks", "end", "last")

    def __init__(self) -> None:
        self.begin = 0
        self.end = 0
        self.chunks: dict[int, list[State]] = {}
        #: the chunk of the last element
        self.last: list[State] = []

    def push_back(self, value: Value) -> None:
        end = self.end
        if end & MASK:
            self.last.append(value)
        else:
            self.chunks[end >> BITS] = self.last = [value]
        self.end = end + 1

    def pop_front(self) -> None:
        begin = self.begin
        if begin == self.end:
            raise IndexError("pop_front of an empty queue")
        # The element is freed at once, its chunk with the last element of the chunk.
        self.chunks[begin >> BITS][begin & MASK] = None
        begin += 1
        self.begin = begin
        if not begin & MASK:
            del self.chunks[(begin >> BITS) - 1]

    def pop_back(self) -> None:
        """Undoes the last push."""
        if self.begin == self.end:
            raise IndexError("pop_back of an empty queue")
        self.last.pop()
        self.end -= 1
        if not self.end & MASK:
            del self.chunks[self.end >> BITS]
            self.last = self.chunks.get((self.end >> BITS) - 1, [])

    def __getitem__(self, pointer: int) -> State:
        self._check(pointer)
        return self.chunks[pointer >> BITS][pointer & MASK]

    def __setitem__(self, pointer: int, value: Value) -> None:
        self._check(pointer)
        self.chunks[pointer >> BITS][pointer & MASK] = value

    def _check(self, pointer: int) -> None:
        if not self.begin <= pointer < self.end:
            raise IndexError(f"pointer {pointer} is not in [{self.begin}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[State]:
        return (self[pointer] for pointer in range(self.begin, self.end))


class DABA(Baseline):
    """At most 1 combine a query, 4 an insertion, 3 an eviction; at most 2.5 and 1.5 on average.

    Two queues, of values and of partial aggregates, and six pointers F <= L <= R <= A <= B <= E into both.
    The front list is from F to B - 1, and its aggregates end at its end. The back list is from B to E - 1,
    and its aggregates begin at its start. A flip makes the back list a part of the front list, whose
    aggregates are then turned around one step at a time:

        F..L-1: vals[p] ⊕ … ⊕ vals[B-1]     L..R-1: vals[p] ⊕ … ⊕ vals[R-1]     R..A-1: vals[R] ⊕ … ⊕ vals[p]
        A..B-1: vals[p] ⊕ … ⊕ vals[B-1]     B..E-1: vals[B] ⊕ … ⊕ vals[p]

    `DABA(monoid, policy, cached=True)` is the cached variant: at most 1, 3 and 2 combines, at most 2 and 1
    on average.

    Pointers move by one, so a chunk in an attribute serves 256 steps. So this class reads and writes the
    chunks itself, not by the methods of the queues.

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

    def __new__(cls, *_args: object, cached: bool = False, **_kwargs: object) -> DABA:
        return super().__new__(CachedDABA if cached else cls)

    def __init__(
        self,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        cached: bool = False,  # noqa: ARG002  __new__ has read it
        nulls: Nulls = "refuse",
    ) -> None:
        super().__init__(monoid, policy, nulls=nulls)
        self._vals = ChunkedArrayQueue()
        self._aggs = ChunkedArrayQueue()
        self.F = self.L = self.R = self.A = self.B = self.E = 0
        #: the chunks with the element at F
        self._front_vals: list[State] = []
        self._front_aggs: list[State] = []
        #: while shrinking, the chunk of aggs with the element at L, and the chunks with the element before A
        self._left: list[State] = []
        self._last_vals: list[State] = []
        self._last_aggs: list[State] = []

    def _aggregate(self) -> State:
        front, back = self.F, self.B
        if front == back:
            return self._identity
        agg = self._front_aggs[front & MASK]
        return agg if back == self.E else self._combine(agg, self._aggs.last[-1])

    def _insert(self, state: State) -> None:
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
                self._next_chunks()
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
                    self._next_chunks()

    def _next_chunks(self) -> None:
        """Finds the chunks of L and A - 1."""
        last = (self.A - 1) >> BITS
        self._left = self._aggs.chunks[self.L >> BITS]
        self._last_vals, self._last_aggs = self._vals.chunks[last], self._aggs.chunks[last]

    def _new_chunks(self, val: State, agg: State) -> None:
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
        """Undoes the flip of a fixup whose operator raised. Only right after a flip l_A is empty."""
        if self.A == self.B and self.L != self.R:
            self.L = self.A = self.B = self.R

    def _undo_insert(self) -> None:
        self._undo_flip()
        self.vals.pop_back()
        self.aggs.pop_back()
        self.E -= 1

    def _head(self) -> State:
        return self._front_vals[self.F & MASK]

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
    """DABA that caches the aggregates it would read or combine again.

    R and B do not move during the shrinks after a flip. So the aggregate of l_R and l_A together stays the
    same: it is the aggregate of the back list before the flip.
    """

    __slots__ = ("_accumulated", "_back", "_middle")

    def __init__(
        self,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        cached: bool = True,
        nulls: Nulls = "refuse",
    ) -> None:
        super().__init__(monoid, policy, cached=cached, nulls=nulls)
        #: the aggregates of l_B, of l_A, and of l_R and l_A together; each is stale while its list is empty
        self._back: State = None
        self._accumulated: State = None
        self._middle: State = None

    def _aggregate(self) -> State:
        front, back = self.F, self.B
        if front == back:
            return self._identity
        agg = self._front_aggs[front & MASK]
        return agg if back == self.E else self._combine(agg, self._back)

    def _insert(self, state: State) -> None:
        end, back = self.E, self._back
        agg = state if end == self.B else self._combine(back, state)
        if end & MASK:
            self._vals.last.append(state)
            self._aggs.last.append(agg)
        else:
            self._new_chunks(state, agg)
        self.E = end + 1
        # A flip makes it the aggregate of the right list. The singleton case drops it.
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
                self._next_chunks()
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
                    self._next_chunks()
