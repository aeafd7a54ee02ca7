"""Subtract-on-Evict: figure 2 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import reduce
from typing import Any

from mta.baselines.base import Baseline
from mta.monoids.base import LOST, Monoid
from mta.monoids.columns import is_finite
from mta.policies import Policy


class SubtractOnEvict(Baseline):
    """Keeps one running aggregate: one combine an insertion, one subtraction an eviction, none a query.

    It needs an operator that can be undone: a monoid that is `invertible`, whose `without` takes the oldest
    part off a state, or `inverse(state)`, given here or a method of the monoid, which undoes a state from its
    older side, inverse(a) ⊕ a ⊕ b = b. The paper's figure adds the inverse on the younger side, which is the
    same where ⊕ commutes and wrong where it does not.

    With floats the rounding of what has left stays behind until the window is empty. Where an aggregate does
    not tell what is left (the sum of an infinity, the geometric mean of a zero, a deviation that was nearly
    all that of the element which left), the next query folds the window anew.

    >>> from mta import monoids, policies
    >>> from mta.baselines import SubtractOnEvict
    >>> window = SubtractOnEvict(monoids.Mean(), policies.CountWindow(2))
    >>> [window.push(value) for value in (3, 1, 4)]
    [3.0, 2.0, 2.5]
    >>> SubtractOnEvict(monoids.Max())
    Traceback (most recent call last):
    TypeError: Max() is not invertible, so nothing can be subtracted from its aggregates; ...
    """

    __slots__ = ("_without", "agg", "vals")

    def __init__(
        self, monoid: Monoid, policy: Policy | None = None, *, inverse: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(monoid, policy)
        self._without: Callable[[Any, Any], Any] = monoid.without
        if inverse is not None or not monoid.invertible:
            self._without = _by_inverse(
                monoid, getattr(monoid, "inverse", None) if inverse is None else inverse
            )
        self.vals: deque[Any] = deque()
        self.agg = self._identity

    def _aggregate(self) -> Any:
        if self.agg is LOST:
            self.agg = reduce(self._combine, self.vals)
        return self.agg

    def _insert(self, state: Any) -> None:
        if not self.vals:
            self.agg = state
        elif self.agg is not LOST:
            self.agg = self._combine(self.agg, state)
        self.vals.append(state)

    def _evict(self) -> None:
        vals = self.vals
        if len(vals) == 1:
            self.agg = self._identity
        elif self.agg is not LOST:
            self.agg = self._without(self.agg, vals[0])
        vals.popleft()

    def _head(self) -> Any:
        return self.vals[0]


def _by_inverse(monoid: Monoid, inverse: Any) -> Callable[[Any, Any], Any]:
    """`Monoid.without`, by a function that undoes a state from its older side."""
    if not callable(inverse):
        raise TypeError(
            f"{monoid!r} is not invertible, so nothing can be subtracted from its aggregates; "
            "give inverse=, a function of a state, or take another algorithm"
        )

    def without(state: Any, older: Any) -> Any:
        return monoid.combine(inverse(older), state) if _all_finite(state) else LOST

    return without


def _all_finite(state: Any) -> bool:
    return all(map(_all_finite, state)) if isinstance(state, (tuple, list)) else is_finite(state)
