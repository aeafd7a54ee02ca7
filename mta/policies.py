"""Window slide policies: they decide how many of the oldest elements leave a window after an insertion.

All policies are monotone: if a policy evicts a prefix of the window, it evicts every shorter one. `a | b`
evicts each element that `a` or `b` evicts. `Limits` is the common form of all policies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mta.frames.limits import Limits, OfRest, Predicate
from mta.frames.policies import CountWindow, Policy, TimeWindow, Union
from mta.functions import described
from mta.kinds import State
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.monoids.fields import Fields
from mta.monoids.runs import LongestIncreasingRun
from mta.options import check_name
from mta.owned import guarded

__all__ = [
    "CountWindow",
    "Limits",
    "OfRest",
    "OlderThanLongestRun",
    "OlderThanMaximum",
    "Policy",
    "SumWindow",
    "TimeWindow",
    "Union",
    "While",
]


@dataclass(frozen=True, eq=False)
class _Guarded:
    """A user's predicate that gets copies and read-only views, so that it cannot change a state.

    Equal to the predicate itself, because unions compare predicates.
    """

    function: Predicate

    def __eq__(self, other: object) -> bool:
        return bool(self.function == (other.function if isinstance(other, _Guarded) else other))

    def __hash__(self) -> int:
        return hash(self.function)

    def __call__(self, total: State, old: State) -> Any:
        """A bool, or for columns an array of them. Raises TypeError for other results."""
        answer = self.function(guarded(total), guarded(old))
        if answer is True or answer is False:
            return answer
        if answer is None or isinstance(answer, (str, bytes)):  # None comes of a function without a return
            raise TypeError(
                f"a predicate of While says True or False, but {self.function!r} gave {answer!r} "
                f"for total={total!r}, old={old!r}"
            )
        return answer


class While(Policy):
    """Evicts the longest prefix for which `predicate(total, old)` is true: the paper's `wsp`.

    `total` is the aggregate of the window after the last insertion, and `old` the aggregate of the prefix.
    Both are states of the monoid, not lowered; for `Fields`, mappings of states. The predicate must be
    monotone: if it is true for a prefix, it is true for every shorter one. It cannot change the window, even
    if it changes its arguments. An insertion asks it O(log n) times, with at most one combine each time.

    `name` stands for the predicate in a checkpoint, which only a policy of the same name can restore. Without
    a name, the name of its definition and its code stand for it, and another version of Python compiles
    other code.

    Raises TypeError if the predicate is no function or an argument has a wrong type, and ValueError for a
    name with "(", ")" or "|".

    >>> from mta import AmortizedMTA, monoids, policies
    >>> at_least_10 = policies.While(lambda total, old: total - old >= 10, name="at least 10", columns=True)
    >>> window = AmortizedMTA(monoids.Sum(), at_least_10)
    >>> window.slide([2, 2, 3, 3, 4])
    array([ 2,  4,  7, 10, 10])

    With `columns=True`, `slide` asks the predicate for all rows of a batch at once. The caller promises two
    properties:

    - The predicate takes columns, if the monoid is columnar. Then an array stands for each number of a
      state, and the predicate returns an array of bools. The arrays have the same length or length 1. They
      are arrays of Python's ints if a difference of whole numbers may leave 64 bits. A predicate that raises
      for such arrays is asked row by row.
    - Elements that were evicted do not matter: the answer is the same if they are put before both `total` and
      `old`. Differences of sums, counts or times have this property, and maxima.

    Sums of floats are rounded, and the error of `total` has the size of the largest element in the window. So
    the difference of two sums is useless if it is small in comparison: an element of 1e300 would stay until
    the sum of the others is as large. `SumWindow` adds up the elements that stay instead.
    """

    def __init__(self, predicate: Predicate, *, name: str | None = None, columns: bool = False) -> None:
        if not callable(predicate):
            raise TypeError(f"While takes a function of (total, old), got {predicate!r}")
        if not isinstance(columns, bool):
            raise TypeError(f"While(columns=...) is True or False, got {columns!r}")
        check_name("While", name)
        if name is not None and not set(name).isdisjoint("()|"):
            raise ValueError(
                f"While(name=...) has no brackets and bars, as unions of policies have, got {name!r}"
            )
        self.predicate = predicate
        self.columns = columns
        self._text = f"While({described(predicate) if name is None else name})"

    def limits(self) -> Limits:
        return Limits(predicates=(_Guarded(self.predicate),), in_columns=self.columns)

    def fingerprint(self) -> str:
        return self._text


class _FieldPolicy(Policy):
    """A policy that reads the states of the field `field` of Fields, or of a monoid without fields."""

    def __init__(self, field: str | None = None) -> None:
        if field is not None and not isinstance(field, str):
            owner = type(self).__name__
            raise TypeError(f"{owner} takes the name of a field of Fields or none, got {field!r}")
        self.field = field

    def check(self, monoid: Monoid) -> None:
        field = self.field
        if isinstance(monoid, Fields):
            names = list(monoid.monoids)
            if field is None:
                raise ValueError(
                    f"{self!r} does not say which field of {monoid!r} it reads: name one of {names}"
                )
            if field not in names:
                raise ValueError(f"{self!r} reads the field {field!r}, but {monoid!r} has only {names}")
        elif field is not None and not isinstance(monoid.identity, Mapping):
            raise ValueError(
                f"{self!r} reads the field {field!r}, but {monoid!r} has no fields: leave the name out, or "
                f"put the monoid into Fields({field}=...)"
            )

    def _of_field(self, predicate: Predicate) -> Predicate:
        return predicate if self.field is None else _OfField(self.field, predicate)

    def fingerprint(self) -> str:
        return f"{type(self).__name__}({'' if self.field is None else repr(self.field)})"


@dataclass(frozen=True)
class _OfField:
    """A predicate that reads the states of one field of Fields."""

    field: str
    predicate: Predicate

    def __call__(self, total: State, old: State) -> bool:
        return self.predicate(total[self.field], old[self.field])


@dataclass(frozen=True)
class _RestIsAtLeast(OfRest):
    """Whether the sum of the elements that stay is at least `n`."""

    n: float
    field: str | None

    def enough(self, rest: State) -> Any:
        return self._sum(rest) >= self.n

    def __call__(self, total: State, old: State) -> Any:
        return self._sum(total) - self._sum(old) >= self.n

    def _sum(self, state: State) -> State:
        if self.field is not None:
            state = state[self.field]
        return state[0] if isinstance(state, tuple) else state


def _before_maximum(total: State, old: State) -> bool:
    """Whether the maximum of the window is after the prefix."""
    if isinstance(total, tuple):
        total, old = total[0], old[0]
    return total > old  # type: ignore[no-any-return]


class SumWindow(_FieldPolicy):
    """Keeps the smallest number of youngest elements whose sum is at least `n`, or all if their sum is less.

    For windows of Sum over numbers that are not negative, or of Fields with such a Sum under the name
    `field`. Listing 3 of the paper is the same over a count. For floats the sum of the elements that stay is
    rounded, so one element more or less may stay if the sum is that close to `n`. Evicted elements add no
    error, however large they were. An insertion compares O(log n) sums, with at most one combine each time.

    Raises TypeError unless `n` is a number and `field` a text or None, and ValueError unless `n` is finite
    and above 0. A window raises ValueError if its monoid has no such field.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> both = monoids.Fields(traded=monoids.Sum(), top=monoids.Max())
    >>> window = AmortizedMTA(both, policies.SumWindow(10, "traded"))
    >>> [window.push(volume)["traded"] for volume in (2, 2, 3, 3, 4)]
    [2, 4, 7, 10, 10]
    """

    def __init__(self, n: float, field: str | None = None) -> None:
        if isinstance(n, bool) or not isinstance(n, (int, float, np.integer, np.floating)):
            raise TypeError(f"SumWindow takes a number, got {n!r}")
        if not 0 < n < math.inf:
            raise ValueError(f"SumWindow takes a finite number above 0, got {n!r}")
        self.n: float = n.item() if isinstance(n, np.generic) else n
        super().__init__(field)

    def limits(self) -> Limits:
        return Limits(predicates=(_RestIsAtLeast(self.n, self.field),), in_columns=True)

    def fingerprint(self) -> str:
        return f"SumWindow({self.n}{'' if self.field is None else f', {self.field!r}'})"


class OlderThanMaximum(_FieldPolicy):
    """Evicts the elements before the first occurrence of the maximum, which can never be a result again.

    For windows of Max, ArgMax or MaxCount, or of Fields with one of them under the name `field`. An
    insertion compares O(log n) states, with at most one combine each time.

    Raises TypeError unless `field` is a text or None. A window raises ValueError if its monoid has no such
    field.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Max(), policies.OlderThanMaximum())
    >>> [(window.push(value), len(window)) for value in (3, 1, 2, 5, 4)]
    [(3, 1), (3, 2), (3, 3), (5, 1), (5, 2)]
    """

    def limits(self) -> Limits:
        return Limits(predicates=(self._of_field(_before_maximum),), in_columns=True)


class OlderThanLongestRun(_FieldPolicy):
    """Evicts the elements before the longest increasing run, which can never be part of a result again.

    For windows of LongestIncreasingRun, or of Fields with one under the name `field`. An insertion
    compares O(log n) states, with at most one combine each time.

    Raises TypeError unless `field` is a text or None. A window raises ValueError if its monoid has no such
    field, or if the field is of a columnar monoid.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.LongestIncreasingRun(), policies.OlderThanLongestRun())
    >>> [window.push(value).count for value in (1, 2, 1, 5, 6, 0)], len(window)
    ([1, 2, 2, 2, 3, 3], 4)
    """

    def limits(self) -> Limits:
        return Limits(predicates=(self._of_field(LongestIncreasingRun.starts_after),))

    def check(self, monoid: Monoid) -> None:
        super().check(monoid)
        read = monoid.monoids[self.field] if isinstance(monoid, Fields) and self.field else monoid
        if isinstance(read, ColumnarMonoid):
            raise ValueError(f"{self!r} reads states of LongestIncreasingRun, not of {read!r}")
