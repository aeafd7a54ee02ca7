"""Subtract-on-Evict: figure 2 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from mta.baselines.base import Baseline
from mta.monoids.base import Monoid
from mta.policies import Policy


class SubtractOnEvict(Baseline):
    """Keeps one running aggregate: one combine an insertion, one an eviction, none a query.

    It needs an operator with an inverse: `inverse(state)`, or the `inverse` of the monoid, undoes a state
    from its older side, inverse(a) ⊕ a ⊕ b = b. The paper's figure adds the inverse on the younger side,
    which is the same where ⊕ commutes and wrong where it does not. With floats the rounding of what has
    left stays behind until the window is empty.
    """

    __slots__ = ("_inverse", "agg", "vals")

    def __init__(
        self, monoid: Monoid, policy: Policy | None = None, *, inverse: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(monoid, policy)
        if inverse is None:
            inverse = getattr(monoid, "inverse", None)
        if not callable(inverse):
            raise TypeError(
                f"{monoid!r} is not invertible, so nothing can be subtracted from its aggregates; "
                "give inverse=, a function of a state, or take another algorithm"
            )
        self._inverse = inverse
        self.vals: deque[Any] = deque()
        self.agg = self._identity

    def _aggregate(self) -> Any:
        return self.agg

    def _insert(self, state: Any) -> None:
        self.agg = self._combine(self.agg, state) if self.vals else state
        self.vals.append(state)

    def _evict(self) -> None:
        vals = self.vals
        if len(vals) == 1:
            self.agg = self._identity
        else:
            self.agg = self._combine(self._inverse(vals[0]), self.agg)
        vals.popleft()

    def _head(self) -> Any:
        return self.vals[0]
