"""What any policy comes down to: limits on count and time, and predicates over aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from mta.monoids.base import Array
from mta.times.cuts import Side, cut, cuts

#: wsp(total, old) of the paper: whether a prefix with the aggregate `old` has to leave a window with the
#: aggregate `total`; both are states of the window's monoid, before `lower`.
Predicate: TypeAlias = Callable[[Any, Any], bool]


class OfRest(ABC):
    """A predicate that looks at the rest alone, the aggregate of what would stay: is it enough without more?

    So no sum has to be taken off another one, which of real numbers leaves little where what goes is large.
    """

    @abstractmethod
    def enough(self, rest: Any) -> Any:
        """Whether all before a rest may go: of a state, or of columns of states, in the shape of one."""

    @abstractmethod
    def __call__(self, total: Any, old: Any) -> Any:
        """The same, for algorithms that have only these two."""


@dataclass(frozen=True)
class Limits:
    """What a policy comes down to."""

    count: int | None = None
    #: an element leaves when its time <= youngest - open_span …
    open_span: float | None = None
    #: … or < youngest - closed_span
    closed_span: float | None = None
    predicates: tuple[Predicate, ...] = ()
    #: whether there is nothing but one predicate, which takes whole columns too, and for which elements that
    #: it has let go may as well be still there
    in_columns: bool = False

    def first_kept(self, tail: int) -> int:
        """The first element that a limit on the count leaves in a window that ends before `tail`."""
        return 0 if self.count is None else max(0, tail - self.count)

    def expired(self, time: float, youngest: float) -> bool:
        return any(time < cut or (side == "right" and time == cut) for cut, side in self.cuts(youngest))

    def spans(self) -> list[tuple[float, Side]]:
        """The limits on time, each with the side of its cut that a time at the cut is on."""
        spans: list[tuple[float | None, Side]] = [(self.open_span, "right"), (self.closed_span, "left")]
        return [(span, side) for span, side in spans if span is not None]

    def cuts(self, youngest: float) -> list[tuple[float, Side]]:
        """What a time is compared with: it is kept if it is > (right) or >= (left) than the cut."""
        return [(cut(youngest, span, side), side) for span, side in self.spans()]

    def cut_columns(self, times: Array) -> list[tuple[Array, Side]]:
        """`cuts`, of each of some times that never go backwards."""
        return [(cuts(times, span, side), side) for span, side in self.spans()]

    def rejects(self, total: Any, old: Any) -> bool:
        for predicate in self.predicates:  # noqa: SIM110  a generator would cost as much as a predicate
            if predicate(total, old):
                return True
        return False

    @property
    def of_rest(self) -> tuple[OfRest, ...]:
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
            self.predicates + other.predicates,
        )


def _least(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)
