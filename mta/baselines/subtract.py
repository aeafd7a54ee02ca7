"""Subtract-on-Evict: figure 2 of Tangwongsan, Hirzel and Schneider (DEBS 2017)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import reduce

from mta.baselines.base import Baseline
from mta.kinds import State
from mta.monoids.base import LOST, Monoid
from mta.monoids.columns import is_finite
from mta.monoids.missing import NO_VALUE
from mta.monoids.nulls import Nulls
from mta.policies import Policy


class SubtractOnEvict(Baseline):
    """Keeps one running aggregate: one combine an insertion, one subtraction an eviction, none a query.

    The monoid has to be `invertible`, or there has to be a function `inverse(state)`, given here or as a
    method of the monoid, with inverse(a) ⊕ a ⊕ b = b. The paper's figure adds the inverse on the younger
    side, which is the same if ⊕ commutes and wrong if it does not. TypeError if there is neither.

    With floats, the rounding errors of evicted elements stay until the window is empty. An aggregate may not
    determine the rest: the sum of an infinity, the geometric mean of a zero, or a deviation that was mostly
    due to the evicted element. Then the next query folds the window, with n - 1 combines.

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
        self,
        monoid: Monoid,
        policy: Policy | None = None,
        *,
        inverse: Callable[[State], State] | None = None,
        nulls: Nulls = "refuse",
    ) -> None:
        super().__init__(monoid, policy, nulls=nulls)
        self._without: Callable[[State, State], State] = self._monoid.without
        if inverse is not None or not self._monoid.invertible:
            self._without = _by_inverse(
                self._monoid, getattr(monoid, "inverse", None) if inverse is None else inverse
            )
        self.vals: deque[State] = deque()
        self.agg = self._identity

    def _aggregate(self) -> State:
        if self.agg is LOST:
            self.agg = reduce(self._combine, self.vals)
        return self.agg

    def _insert(self, state: State) -> None:
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

    def _head(self) -> State:
        return self.vals[0]


def _by_inverse(monoid: Monoid, inverse: object) -> Callable[[State, State], State]:
    """`Monoid.without`, from a function that gives the inverse of a state."""
    if not callable(inverse):
        raise TypeError(
            f"{monoid!r} is not invertible, so nothing can be subtracted from its aggregates; "
            "give inverse=, a function of a state, or take another algorithm"
        )

    def without(state: State, older: State) -> State:
        if older is NO_VALUE:
            return state
        return monoid.combine(inverse(older), state) if _all_finite(state) else LOST

    return without


def _all_finite(state: State) -> bool:
    return all(map(_all_finite, state)) if isinstance(state, (tuple, list)) else is_finite(state)
