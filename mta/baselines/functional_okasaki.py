"""Functional Okasaki Aggregator: figure 5 of Tangwongsan, Hirzel and Schneider (DEBS 2017).

All data are immutable tuples. A list is None or a cell (value, agg, tail), and the queue is three lists (F,
N, B), which every operation creates anew. The tail that `rot` gives to `cons` is lazy: it is a Suspension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mta.baselines.base import Baseline
from mta.kinds import State
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.policies import Policy

#: cons(value, agg, tail)
Cell: TypeAlias = "tuple[State, State, Cell | Suspension | None]"
List: TypeAlias = "Cell | None"

#: (F, N, B): oldest first; the next to rotate, a sublist of F; youngest first
Queue: TypeAlias = tuple[List, List, List]


class Suspension:
    """A list that the first `force` makes and keeps: call by need."""

    __slots__ = ("_list", "_make")

    def __init__(self, make: Callable[[], Cell]) -> None:
        self._make: Callable[[], Cell] | None = make
        self._list: List = None

    def force(self) -> List:
        if self._make is not None:
            self._list = self._make()
            self._make = None
        return self._list

    @property
    def forced(self) -> bool:
        return self._make is None


def tail(cell: Cell) -> List:
    rest = cell[2]
    return rest.force() if isinstance(rest, Suspension) else rest


class FunctionalOkasaki(Baseline):
    """FOA: Okasaki's real-time queue with aggregates, in functional style.

    At most 1 combine a query, 4 an insertion (1 for the back list, 3 for the `rot` that it may force), and 3
    an eviction.

    >>> from mta import monoids, policies
    >>> from mta.baselines import FunctionalOkasaki
    >>> window = FunctionalOkasaki(monoids.Max(), policies.CountWindow(2))
    >>> [window.push(value) for value in (3, 1, 2)]
    [3, 3, 2]
    """

    __slots__ = ("queue",)

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, nulls: Nulls = "refuse") -> None:
        super().__init__(monoid, policy, nulls=nulls)
        self.queue: Queue = (None, None, None)

    def _aggregate(self) -> State:
        front, _, back = self.queue
        if front is None:
            return self._identity
        return front[1] if back is None else self._combine(front[1], back[1])

    def _insert(self, state: State) -> None:
        front, waiting, back = self.queue
        agg = state if back is None else self._combine(back[1], state)
        self.queue = self.makeq(front, waiting, (state, agg, back))

    def _evict(self) -> None:
        front, waiting, back = self.queue
        assert front is not None
        self.queue = self.makeq(tail(front), waiting, back)

    def makeq(self, front: List, waiting: List, back: List) -> Queue:
        if waiting is None:
            rotated = self.rot(front, back, None)
            return rotated, rotated, None
        return front, tail(waiting), back

    def rot(self, left: List, right: List, rotated: List) -> Cell:
        """`left`, then `right` reversed, then `rotated`; `right` has one element more than `left`."""
        assert right is not None
        combine = self._combine
        head = right[0]
        longer = (head, head if rotated is None else combine(head, rotated[1]), rotated)
        if left is None:
            return longer
        agg = combine(left[1], right[1])
        if rotated is not None:
            agg = combine(agg, rotated[1])
        return left[0], agg, Suspension(lambda: self.rot(tail(left), tail(right), longer))

    def _head(self) -> State:
        front = self.queue[0]
        assert front is not None
        return front[0]
