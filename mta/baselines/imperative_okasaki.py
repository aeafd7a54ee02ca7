"""Imperative Okasaki Aggregator: section 3.2 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from mta.baselines.base import Baseline
from mta.kinds import State, Value
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.policies import Policy


class Cell:
    """A cell of a list: a value, an aggregate and the tail, or a delayed `rot` that will compute them.

    A delayed cell has the parameters L, R and A of `rot` in its three fields. The empty list is None.
    """

    __slots__ = ("agg", "delayed", "tail", "value")

    def __init__(self, value: Value, agg: State, tail: Cell | None, delayed: bool = False) -> None:
        self.value = value
        self.agg = agg
        self.tail = tail
        self.delayed = delayed


class ImperativeOkasaki(Baseline):
    """IOA: the algorithm of FOA with mutable cells, and with the lazy `rot` as a delayed cell.

    At most 1 combine a query, 4 an insertion, 3 an eviction.

    >>> from mta import monoids, policies
    >>> from mta.baselines import ImperativeOkasaki
    >>> window = ImperativeOkasaki(monoids.Max(), policies.CountWindow(2))
    >>> [window.push(value) for value in (3, 1, 2)]
    [3, 3, 2]
    """

    __slots__ = ("back", "front", "next")

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, nulls: Nulls = "refuse") -> None:
        super().__init__(monoid, policy, nulls=nulls)
        self.front: Cell | None = None
        self.next: Cell | None = None
        self.back: Cell | None = None

    def _aggregate(self) -> State:
        front, back = self.front, self.back
        if front is None:
            return self._identity
        return front.agg if back is None else self._combine(front.agg, back.agg)

    def _insert(self, state: State) -> None:
        back = self.back
        agg = state if back is None else self._combine(back.agg, state)
        self._makeq(self.front, Cell(state, agg, back))

    def _evict(self) -> None:
        front = self.front
        assert front is not None
        self._makeq(self._tail(front), self.back)

    def _makeq(self, front: Cell | None, back: Cell | None) -> None:
        if self.next is None:
            self.front = self.next = self._rot(front, back, None)
            self.back = None
        else:
            self.next = self._tail(self.next)
            self.front = front
            self.back = back

    def _tail(self, cell: Cell) -> Cell | None:
        tail = cell.tail
        if tail is not None and tail.delayed:
            forced = self._rot(tail.value, tail.agg, tail.tail)
            tail.value, tail.agg, tail.tail, tail.delayed = forced.value, forced.agg, forced.tail, False
        return tail

    def _rot(self, left: Cell | None, right: Cell | None, rotated: Cell | None) -> Cell:
        """`left`, then `right` reversed, then `rotated`; `right` has one element more than `left`."""
        assert right is not None
        combine = self._combine
        head = right.value
        longer = Cell(head, head if rotated is None else combine(head, rotated.agg), rotated)
        if left is None:
            return longer
        agg = combine(left.agg, right.agg)
        if rotated is not None:
            agg = combine(agg, rotated.agg)
        # The tails of `left` and `right` were forced before: only one rotation is delayed at a time.
        return Cell(left.value, agg, Cell(left.tail, right.tail, longer, delayed=True))

    def _head(self) -> State:
        assert self.front is not None
        return self.front.value
