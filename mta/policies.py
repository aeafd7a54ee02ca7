"""Window slide policies: they decide how many of the oldest elements leave a window after an insertion.

All policies are monotone: if a policy evicts a prefix of the window, it evicts every shorter one. `a | b`
evicts each element that `a` or `b` evicts. `Limits` is the common form of all policies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mta.core.limits import Limits, OfRest, Predicate
from mta.functions import described
from mta.kinds import State
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.monoids.fields import Fields
from mta.monoids.runs import LongestIncreasingRun
from mta.options import check_name, whole_number
from mta.owned import guarded
from mta.times.durations import Duration, check_duration


class Policy(ABC):
    """A rule that evicts elements. Policies are values: they can be compared, shared, and united with |."""

    @abstractmethod
    def limits(self) -> Limits:
        """The policy in the form that all windows understand."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that a checkpoint stores. `restore` refuses a policy with another one."""

    @property
    def in_microseconds(self) -> bool | None:
        """Whether the durations of the policy have a unit, and its limits are in microseconds.

        False for durations that are numbers, in the unit of the window's times; None without durations.
        """
        return False if self.limits().spans() else None

    def check(self, monoid: Monoid) -> None:  # noqa: B027  most policies read no state
        """Raises ValueError if the policy cannot read the states of the monoid."""

    def __or__(self, other: Policy) -> Policy:
        if not isinstance(other, Policy):
            raise TypeError(f"a policy can be united with a policy only, got {other!r}")
        return Union(self, other)

    def __repr__(self) -> str:
        return self.fingerprint()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Policy) or self.fingerprint() != other.fingerprint():
            return False
        mine, others = self.limits().predicates, other.limits().predicates
        return all(each in others for each in mine) and all(each in mine for each in others)

    def __hash__(self) -> int:
        return hash(self.fingerprint())


class CountWindow(Policy):
    """Keeps the last `n` elements. To find the elements to evict costs no combine.

    Raises TypeError unless `n` is a whole number, and ValueError if it is below 1.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Max(), policies.CountWindow(2))
    >>> [window.push(value) for value in (3, 1, 2)]
    [3, 3, 2]
    """

    def __init__(self, n: int) -> None:
        self.n = whole_number(n, "CountWindow takes a whole number of elements")
        if self.n < 1:
            raise ValueError(f"CountWindow must keep at least 1 element, got {n}")

    def limits(self) -> Limits:
        return Limits(count=self.n)

    def fingerprint(self) -> str:
        return f"CountWindow({self.n})"


class TimeWindow(Policy):
    """Keeps times in (youngest - d, youngest], or in [youngest - d, youngest] with closed="both".

    `d` is a `timedelta`, a `np.timedelta64` or a text such as "90 days" or "1 hour 30 minutes", and then the
    times of the window are dates: `datetime`, `np.datetime64` or columns of them. Or `d` is a number in the
    unit of the window's times, and then these are numbers. To find the elements to evict costs O(log n)
    comparisons and no combine.

    Raises TypeError if `d` is no duration. Raises ValueError for another `closed`, and if `d` is below 0, or
    0 without closed="both", or has no fixed length, such as a month.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Sum(), policies.TimeWindow(60) | policies.CountWindow(100))
    >>> [window.push(1, time=time) for time in (0, 30, 60, 61)]
    [1, 2, 2, 3]
    >>> from datetime import datetime
    >>> window = AmortizedMTA(monoids.Count(), policies.TimeWindow("90 days"))
    >>> [window.push(None, time=datetime(2024, month, 1)) for month in (1, 2, 3, 4)]
    [1, 2, 3, 3]
    """

    def __init__(self, d: Any, closed: Literal["right", "both"] = "right") -> None:
        if closed not in ("right", "both"):
            raise ValueError(f'TimeWindow(closed=...) is "right" or "both", got {closed!r}')
        duration = check_duration(d, "TimeWindow")
        if not (duration.amount > 0 or (duration.amount == 0 and closed == "both")):
            raise ValueError(f"TimeWindow must be longer than 0, got {d!r}")
        self._duration = duration
        #: the duration in microseconds, or as a number in the unit of the window's times
        self.d: float = duration.amount
        self.closed = closed

    def limits(self) -> Limits:
        return Limits(open_span=self.d) if self.closed == "right" else Limits(closed_span=self.d)

    def fingerprint(self) -> str:
        return f"TimeWindow({self._duration!r}, closed={self.closed!r})"

    @property
    def in_microseconds(self) -> bool:
        return self._duration.real


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


class Union(Policy):
    """Evicts each element that one of two policies evicts. `a | b` makes it.

    >>> from mta import policies
    >>> policies.CountWindow(5) | policies.CountWindow(3) == policies.CountWindow(3)
    True
    """

    def __init__(self, first: Policy, second: Policy) -> None:
        units = {first.in_microseconds, second.in_microseconds} - {None}
        if len(units) > 1:
            raise TypeError(
                "durations of a union all have a unit, or are all numbers in the unit of the window's times, "
                f"got {first!r} and {second!r}"
            )
        self.first, self.second = first, second
        self._in_microseconds = units.pop() if units else None

    def limits(self) -> Limits:
        return self.first.limits() | self.second.limits()

    def check(self, monoid: Monoid) -> None:
        self.first.check(monoid)
        self.second.check(monoid)

    def fingerprint(self) -> str:
        """The same text for all unions that have the same limits."""
        limits = self.limits()
        texts = [] if limits.count is None else [CountWindow(limits.count).fingerprint()]
        if limits.open_span is not None:
            texts.append(TimeWindow(self._duration(limits.open_span)).fingerprint())
        if limits.closed_span is not None:
            texts.append(TimeWindow(self._duration(limits.closed_span), closed="both").fingerprint())
        others = (part for part in self._parts() if not isinstance(part, (CountWindow, TimeWindow)))
        return " | ".join(texts + sorted({part.fingerprint() for part in others}))

    @property
    def in_microseconds(self) -> bool | None:
        return self._in_microseconds

    def _duration(self, span: float) -> Duration:
        return Duration(span, real=bool(self._in_microseconds))

    def _parts(self) -> list[Policy]:
        both = (self.first, self.second)
        return [part for one in both for part in (one._parts() if isinstance(one, Union) else [one])]


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
