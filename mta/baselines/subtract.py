"""Subtract-on-Evict: figure 2 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import reduce
from typing import Any

from mta.baselines.base import Baseline
from mta.monoids.base import Monoid
from mta.policies import Policy

#: The aggregate has to be folded anew: nothing can be taken off an infinite one.
_LOST: Any = object()


class SubtractOnEvict(Baseline):
    """Keeps one running aggregate: one combine an insertion, one an eviction, none a query.

    It needs an operator with an inverse: `inverse(state)`, or the `inverse` of the monoid, undoes a state
    from its older side, inverse(a) ⊕ a ⊕ b = b. The paper's figure adds the inverse on the younger side,
    which is the same where ⊕ commutes and wrong where it does not. With floats the rounding of what has
    left stays behind until the window is empty. An infinite aggregate has no inverse (the sum of an infinity,
    the geometric mean of a zero), so while the window's is infinite, a query after an eviction folds it anew.
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
        if self.agg is _LOST:
            self.agg = reduce(self._combine, self.vals)
        return self.agg

    def _insert(self, state: Any) -> None:
        if not self.vals:
            self.agg = state
        elif self.agg is not _LOST:
            self.agg = self._combine(self.agg, state)
        self.vals.append(state)

    def _evict(self) -> None:
        vals = self.vals
        if len(vals) == 1:
            self.agg = self._identity
        elif self.agg is not _LOST:
            self.agg = self._without(vals[0])
        vals.popleft()

    def _without(self, state: Any) -> Any:
        if not _is_finite(self.agg):
            return _LOST
        return self._combine(self._inverse(state), self.agg)

    def _head(self) -> Any:
        return self.vals[0]


def _is_finite(state: Any) -> bool:
    if isinstance(state, (tuple, list)):
        return all(map(_is_finite, state))
    return not isinstance(state, float) or math.isfinite(state)
