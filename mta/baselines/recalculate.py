"""Recalculate-from-Scratch: figure 3 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from collections import deque
from functools import reduce
from typing import Any

from mta.baselines.base import Baseline
from mta.monoids.base import Monoid
from mta.policies import Policy


class Recalculate(Baseline):
    """Keeps the states and folds them all when asked: n - 1 combines a query of a window that has changed.

    >>> from mta import monoids, policies
    >>> from mta.baselines import Recalculate
    >>> window = Recalculate(monoids.Sum(), policies.CountWindow(2))
    >>> [window.push(value) for value in (3, 1, 2)]
    [3, 4, 3]
    """

    __slots__ = ("vals",)

    def __init__(self, monoid: Monoid, policy: Policy | None = None) -> None:
        super().__init__(monoid, policy)
        self.vals: deque[Any] = deque()

    def _aggregate(self) -> Any:
        return reduce(self._combine, self.vals) if self.vals else self._identity

    def _insert(self, state: Any) -> None:
        self.vals.append(state)

    def _evict(self) -> None:
        self.vals.popleft()

    def _head(self) -> Any:
        return self.vals[0]
