"""Recalculate-from-Scratch: figure 3 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from collections import deque
from functools import reduce

from mta.baselines.base import Baseline
from mta.kinds import State
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.policies import Policy


class Recalculate(Baseline):
    """Folds all states in a query: n - 1 combines if the window has changed since the last query.

    >>> from mta import monoids, policies
    >>> from mta.baselines import Recalculate
    >>> window = Recalculate(monoids.Sum(), policies.CountWindow(2))
    >>> [window.push(value) for value in (3, 1, 2)]
    [3, 4, 3]
    """

    __slots__ = ("vals",)

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, nulls: Nulls = "refuse") -> None:
        super().__init__(monoid, policy, nulls=nulls)
        self.vals: deque[State] = deque()

    def _aggregate(self) -> State:
        return reduce(self._combine, self.vals) if self.vals else self._identity

    def _insert(self, state: State) -> None:
        self.vals.append(state)

    def _evict(self) -> None:
        self.vals.popleft()

    def _head(self) -> State:
        return self.vals[0]
