"""Functional Okasaki Aggregator: figure 5 of Tangwongsan, Hirzel and Schneider (DEBS 2017).

Lists are chains of cells that never change, the empty list is None, and the queue is a triple that every
operation makes anew. The one lazy argument, the tail that `rot` gives to `cons`, is a Suspension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from mta.baselines.base import Baseline
from mta.monoids.base import Monoid
from mta.policies import Policy

List: TypeAlias = "Cell | None"


class Suspension:
    """A list that is made when it is first looked at, and then remembered: call by need."""

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


class Cell(NamedTuple):
    """cons(value, agg, tail)"""

    value: Any
    agg: Any
    rest: Cell | Suspension | None


class Queue(NamedTuple):
    """⟨F, N, B⟩: oldest first; the next to rotate, a sublist of F; youngest first."""

    front: List
    next: List
    back: List


def tail(cell: Cell) -> List:
    rest = cell[2]
    return rest.force() if type(rest) is Suspension else rest  # type: ignore[return-value]


class FunctionalOkasaki(Baseline):
    """FOA: Okasaki's real-time queue with aggregates, in the functional manner.

    At most 1 combine a query, 4 an insertion (1 for the back list, 3 in the one `rot` that may be forced),
    3 an eviction.
    """

    __slots__ = ("queue",)

    def __init__(self, monoid: Monoid, policy: Policy | None = None) -> None:
        super().__init__(monoid, policy)
        self.queue = Queue(None, None, None)

    def _aggregate(self) -> Any:
        front, _, back = self.queue
        if front is None:
            return self._identity
        return front.agg if back is None else self._combine(front.agg, back.agg)

    def _insert(self, state: Any) -> None:
        front, waiting, back = self.queue
        agg = state if back is None else self._combine(back.agg, state)
        self.queue = self.makeq(front, waiting, Cell(state, agg, back))

    def _evict(self) -> None:
        front, waiting, back = self.queue
        assert front is not None
        self.queue = self.makeq(tail(front), waiting, back)

    def makeq(self, front: List, waiting: List, back: List) -> Queue:
        if waiting is None:
            rotated = self.rot(front, back, None)
            return Queue(rotated, rotated, None)
        return Queue(front, tail(waiting), back)

    def rot(self, left: List, right: List, rotated: List) -> Cell:
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
        return Cell(left.value, agg, Suspension(lambda: self.rot(tail(left), tail(right), longer)))

    def _head(self) -> Any:
        front = self.queue.front
        assert front is not None
        return front.value
