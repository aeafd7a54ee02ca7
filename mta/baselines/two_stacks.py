"""Two-Stacks: figure 1 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from mta.baselines.base import Baseline
from mta.kinds import State
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.policies import Policy


class TwoStacks(Baseline):
    """A queue of two stacks. Each entry is a value and the aggregate of this and all entries below.

    An insertion pushes on the back stack B, and an eviction pops from the front stack F. If F is empty, B is
    flipped onto it. At most one combine a query and an insertion. An eviction makes n - 1 combines if it
    flips n elements and none otherwise, less than one on average. A stack is two lists, values and
    aggregates, top last.

    >>> from mta import monoids
    >>> from mta.baselines import TwoStacks
    >>> window = TwoStacks(monoids.Max())
    >>> window.extend([3, 1, 2])
    >>> window.evict()
    >>> window.query(), window.front
    (2, [(2, 2), (1, 2)])
    """

    __slots__ = ("_back_aggs", "_back_vals", "_front_aggs", "_front_vals")

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, nulls: Nulls = "refuse") -> None:
        super().__init__(monoid, policy, nulls=nulls)
        self._front_vals: list[State] = []
        self._front_aggs: list[State] = []
        self._back_vals: list[State] = []
        self._back_aggs: list[State] = []

    @property
    def front(self) -> list[tuple[State, State]]:
        """The front stack as (value, aggregate), top last."""
        return list(zip(self._front_vals, self._front_aggs, strict=True))

    @property
    def back(self) -> list[tuple[State, State]]:
        """The back stack as (value, aggregate), top last."""
        return list(zip(self._back_vals, self._back_aggs, strict=True))

    def _aggregate(self) -> State:
        front, back = self._front_aggs, self._back_aggs
        if front:
            return self._combine(front[-1], back[-1]) if back else front[-1]
        return back[-1] if back else self._identity

    def _insert(self, state: State) -> None:
        aggs = self._back_aggs
        aggs.append(self._combine(aggs[-1], state) if aggs else state)
        self._back_vals.append(state)

    def _evict(self) -> None:
        if not self._front_aggs:
            self._flip()
        self._front_vals.pop()
        self._front_aggs.pop()

    def _flip(self) -> None:
        combine = self._combine
        vals = self._back_vals[::-1]
        agg = vals[0]
        aggs = [agg]
        for val in vals[1:]:
            agg = combine(val, agg)
            aggs.append(agg)
        self._front_vals, self._front_aggs = vals, aggs
        self._back_vals, self._back_aggs = [], []

    def _head(self) -> State:
        return self._front_vals[-1] if self._front_vals else self._back_vals[0]
