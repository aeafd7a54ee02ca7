"""The common form of all policies: limits on the count, on times, and on aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from mta.kinds import Array, State
from mta.times.cuts import Side, cut, cuts

#: The paper's wsp(total, old): whether a prefix with the state `old` has to leave a window with the state
#: `total`.
Predicate: TypeAlias = Callable[[State, State], bool]


class OfRest(ABC):
    """A predicate over the aggregate of the elements that would stay, the rest.

    It needs no difference of two sums, which keeps few digits if both sums are much larger floats.
    """

    @abstractmethod
    def enough(self, rest: State) -> Any:
        """Whether all elements before the rest may leave. Columns of states give an array of bools."""

    @abstractmethod
    def __call__(self, total: State, old: State) -> Any:
        """The same by subtraction, for algorithms that do not know the aggregate of the rest."""


@dataclass(frozen=True)
class Limits:
    """An element leaves a window if one of these limits evicts it."""

    #: the most elements that stay
    count: int | None = None
    #: an element leaves if its time <= youngest - open_span …
    open_span: float | None = None
    #: … or < youngest - closed_span
    closed_span: float | None = None
    #: an element is not in yet if its time > youngest - closed_lag …
    closed_lag: float | None = None
    #: … or >= youngest - open_lag
    open_lag: float | None = None
    #: a window of fewer elements has no result
    min_count: int = 0
    predicates: tuple[Predicate, ...] = ()
    #: whether one predicate is the only limit, takes columns, and does not depend on evicted elements
    in_columns: bool = False

    def first_kept(self, tail: int) -> int:
        """The first position that the limit on the count keeps in a window that ends before `tail`."""
        return 0 if self.count is None else max(0, tail - self.count)

    def expired(self, time: float, youngest: float) -> bool:
        return any(time < cut or (side == "right" and time == cut) for cut, side in self.cuts(youngest))

    def spans(self) -> list[tuple[float, Side]]:
        """The limits on times. The side says whether a time at the cut leaves (right) or stays (left)."""
        spans: list[tuple[float | None, Side]] = [(self.open_span, "right"), (self.closed_span, "left")]
        return [(span, side) for span, side in spans if span is not None]

    def lags(self) -> list[tuple[float, Side]]:
        """How far the young end is behind. The side says whether a time at the cut is in (right) or not."""
        lags: list[tuple[float | None, Side]] = [(self.closed_lag, "right"), (self.open_lag, "left")]
        return [(lag, side) for lag, side in lags if lag is not None]

    def cuts(self, youngest: float) -> list[tuple[float, Side]]:
        """The cuts that times are compared with: a time stays if it is > (right) or >= (left) the cut."""
        return [(cut(youngest, span, side), side) for span, side in self.spans()]

    def cut_columns(self, times: Array) -> list[tuple[Array, Side]]:
        """`cuts`, for each entry of a column of times that never go backwards."""
        return [(cuts(times, span, side), side) for span, side in self.spans()]

    def lag_columns(self, times: Array) -> list[tuple[Array, Side]]:
        """The cuts that close the young end, for each entry of a column of times that never go backwards.

        A time is in if it is <= (right) or < (left) the cut.
        """
        return [(cuts(times, lag, side), side) for lag, side in self.lags()]

    def rejects(self, total: State, old: State) -> bool:
        """Whether a predicate evicts a prefix with the state `old`."""
        for predicate in self.predicates:  # noqa: SIM110  a generator would cost as much as a predicate
            if predicate(total, old):
                return True
        return False

    @property
    def of_rest(self) -> tuple[OfRest, ...]:
        """The predicates over the rest."""
        return tuple(each for each in self.predicates if isinstance(each, OfRest))

    @property
    def of_total(self) -> Predicate | None:
        """All other predicates as one."""
        others = tuple(each for each in self.predicates if not isinstance(each, OfRest))
        if len(others) < 2:
            return others[0] if others else None
        return Limits(predicates=others).rejects

    def __or__(self, other: Limits) -> Limits:
        return Limits(
            _least(self.count, other.count),
            _least(self.open_span, other.open_span),
            _least(self.closed_span, other.closed_span),
            _greatest(self.closed_lag, other.closed_lag),
            _greatest(self.open_lag, other.open_lag),
            max(self.min_count, other.min_count),
            self.predicates + other.predicates,
        )


def _least(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)


def _greatest(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else max(a, b)
