"""Window slide policies: which of the oldest elements leave after an insertion.

A policy says which prefix of the window has to go. All of them are monotone: when a prefix has to go, so
has every shorter one. `a | b` evicts what either would, so any policy is a union of three kinds of limit,
which `Limits` holds.
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
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.monoids.fields import Fields
from mta.monoids.runs import LongestIncreasingRun
from mta.options import check_name, whole_number
from mta.owned import shown


class Policy(ABC):
    """A rule for what leaves a window. Policies are values: compare them, share them, unite them with |."""

    @abstractmethod
    def limits(self) -> Limits: ...

    @abstractmethod
    def fingerprint(self) -> str:
        """What a checkpoint remembers of the policy."""

    def check(self, monoid: Monoid) -> None:  # noqa: B027  most policies look at no state
        """Refuses a monoid whose states this policy cannot read."""

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
    """Keeps the last `n` elements.

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

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Sum(), policies.TimeWindow(60) | policies.CountWindow(100))
    >>> [window.push(1, time=time) for time in (0, 30, 60, 61)]
    [1, 2, 2, 3]
    """

    def __init__(self, d: float, closed: Literal["right", "both"] = "right") -> None:
        if closed not in ("right", "both"):
            raise ValueError(f'TimeWindow(closed=...) is "right" or "both", got {closed!r}')
        number = isinstance(d, (int, float)) or hasattr(d, "__index__") or hasattr(d, "dtype")
        if isinstance(d, bool) or not number or getattr(getattr(d, "dtype", None), "kind", "i") not in "iuf":
            raise TypeError(f"TimeWindow takes a number in the unit of the window's times, got {d!r}")
        if not (d > 0 or (d == 0 and closed == "both")):
            raise ValueError(f"TimeWindow must be longer than 0, got {d!r}")
        self.d: float = int(d.__index__()) if hasattr(d, "__index__") else float(d)
        if isinstance(self.d, float) and self.d.is_integer():
            self.d = int(self.d)
        self.closed = closed

    def limits(self) -> Limits:
        return Limits(open_span=self.d) if self.closed == "right" else Limits(closed_span=self.d)

    def fingerprint(self) -> str:
        return f"TimeWindow({self.d}, closed={self.closed!r})"


@dataclass(frozen=True, eq=False)
class _Asked:
    """A function of the user's, which cannot change what it is shown; equal to the function itself."""

    function: Predicate

    def __eq__(self, other: object) -> bool:
        return bool(self.function == (other.function if isinstance(other, _Asked) else other))

    def __hash__(self) -> int:
        return hash(self.function)

    def __call__(self, total: Any, old: Any) -> Any:
        answer = self.function(shown(total), shown(old))
        if answer is True or answer is False:
            return answer
        if answer is None or isinstance(answer, (str, bytes)):  # such as of a function without a return
            raise TypeError(
                f"a predicate of While says True or False, but {self.function!r} gave {answer!r} "
                f"for total={total!r}, old={old!r}"
            )
        return answer


class While(Policy):
    """Evicts the longest prefix for which `predicate(total, old)` is true: the paper's `wsp`.

    `total` is the aggregate of the window after the last insertion, `old` that of the prefix; both are
    states of the monoid, not lowered (for `Fields`, a mapping of states). The predicate must be monotone:
    where it is true of a prefix, it is true of every shorter one. `name` stands for it in a checkpoint, which
    is restored with the same name only; without one it is told by where it is defined and by its code, which
    another version of Python compiles otherwise.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> at_least_10 = policies.While(lambda total, old: total - old >= 10, name="at least 10", columns=True)
    >>> window = AmortizedMTA(monoids.Sum(), at_least_10)
    >>> window.slide([2, 2, 3, 3, 4])
    array([ 2,  4,  7, 10, 10])

    `columns=True` says two things more, so that `slide` asks for all rows of a batch at once. The predicate
    also takes whole columns, where the monoid has any: arrays in place of the numbers of a state, of one
    length or of length 1, for which it gives an array of booleans. They are arrays of Python's numbers where
    a difference of whole ones may leave 64 bits; if it cannot take those, it is asked row by row. And what it
    has let go changes nothing that comes: put in front of both arguments, it leaves the answer as it is. So
    it is where sums, counts or times are subtracted, and for maxima.

    Sums of real numbers are rounded, `total` a few times at the size of the largest element in the window. A
    difference of the two cannot tell what is smaller: it keeps one of 1e300 until the rest is as large.
    `SumWindow` adds up what stays instead. Whatever the predicate changes in its arguments changes no window.
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
        return Limits(predicates=(_Asked(self.predicate),), in_columns=self.columns)

    def fingerprint(self) -> str:
        return self._text


class Union(Policy):
    """Evicts what either of two policies would."""

    def __init__(self, first: Policy, second: Policy) -> None:
        self.first, self.second = first, second

    def limits(self) -> Limits:
        return self.first.limits() | self.second.limits()

    def check(self, monoid: Monoid) -> None:
        self.first.check(monoid)
        self.second.check(monoid)

    def fingerprint(self) -> str:
        """The same for all unions that come down to the same."""
        limits = self.limits()
        texts = [] if limits.count is None else [CountWindow(limits.count).fingerprint()]
        if limits.open_span is not None:
            texts.append(TimeWindow(limits.open_span).fingerprint())
        if limits.closed_span is not None:
            texts.append(TimeWindow(limits.closed_span, closed="both").fingerprint())
        others = (part for part in self._parts() if not isinstance(part, (CountWindow, TimeWindow)))
        return " | ".join(texts + sorted({part.fingerprint() for part in others}))

    def _parts(self) -> list[Policy]:
        both = (self.first, self.second)
        return [part for one in both for part in (one._parts() if isinstance(one, Union) else [one])]


def _checked_field(owner: str, field: Any) -> str | None:
    if field is not None and not isinstance(field, str):
        raise TypeError(f"{owner} takes the name of a field of Fields or none, got {field!r}")
    return field


def _check_field(policy: Policy, field: str | None, monoid: Monoid) -> None:
    """Refuses a monoid that has no such field, or several where none is named."""
    if isinstance(monoid, Fields):
        names = list(monoid.monoids)
        if field is None:
            raise ValueError(
                f"{policy!r} does not say which field of {monoid!r} it reads: name one of {names}"
            )
        if field not in names:
            raise ValueError(f"{policy!r} reads the field {field!r}, but {monoid!r} has only {names}")
    elif field is not None and not isinstance(monoid.identity, Mapping):
        raise ValueError(
            f"{policy!r} reads the field {field!r}, but {monoid!r} has no fields: leave the name out, or put "
            f"the monoid into Fields({field}=...)"
        )


@dataclass(frozen=True)
class _OfField:
    """A predicate of one field's states."""

    field: str
    predicate: Predicate

    def __call__(self, total: Any, old: Any) -> bool:
        return self.predicate(total[self.field], old[self.field])


def _of_field(field: str | None, predicate: Predicate) -> Predicate:
    return predicate if field is None else _OfField(field, predicate)


@dataclass(frozen=True)
class _RestComesTo(OfRest):
    n: float
    field: str | None

    def enough(self, rest: Any) -> Any:
        return self._sum(rest) >= self.n

    def __call__(self, total: Any, old: Any) -> Any:
        return self._sum(total) - self._sum(old) >= self.n

    def _sum(self, state: Any) -> Any:
        if self.field is not None:
            state = state[self.field]
        return state[0] if isinstance(state, tuple) else state


def _before_maximum(total: Any, old: Any) -> bool:
    if isinstance(total, tuple):
        total, old = total[0], old[0]
    return total > old  # type: ignore[no-any-return]


class SumWindow(Policy):
    """Keeps the fewest of the youngest elements whose sum comes to `n`; all of them while it does not.

    For windows of Sum over numbers that are not negative, or of Fields with one under the name `field`. The
    paper's listing 3 is this over a count. Of real numbers the sum of what stays is rounded, and nothing that
    has left takes part in it, however large it was: only where that sum is as near to `n` as rounding may an
    element more or less stay.

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
        self.field = _checked_field("SumWindow", field)

    def limits(self) -> Limits:
        return Limits(predicates=(_RestComesTo(self.n, self.field),), in_columns=True)

    def check(self, monoid: Monoid) -> None:
        _check_field(self, self.field, monoid)

    def fingerprint(self) -> str:
        return f"SumWindow({self.n}{'' if self.field is None else f', {self.field!r}'})"


class OlderThanMaximum(Policy):
    """Evicts all that is older than the first occurrence of the maximum: it can never be a result again.

    For windows of Max, ArgMax or MaxCount, or of Fields with one of them under the name `field`.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Max(), policies.OlderThanMaximum())
    >>> [(window.push(value), len(window)) for value in (3, 1, 2, 5, 4)]
    [(3, 1), (3, 2), (3, 3), (5, 1), (5, 2)]
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = _checked_field("OlderThanMaximum", field)

    def limits(self) -> Limits:
        return Limits(predicates=(_of_field(self.field, _before_maximum),), in_columns=True)

    def check(self, monoid: Monoid) -> None:
        _check_field(self, self.field, monoid)

    def fingerprint(self) -> str:
        return f"OlderThanMaximum({'' if self.field is None else repr(self.field)})"


class OlderThanLongestRun(Policy):
    """Evicts all that is older than the longest increasing run: it can never be part of a result again.

    For windows of LongestIncreasingRun, or of Fields with one under the name `field`.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.LongestIncreasingRun(), policies.OlderThanLongestRun())
    >>> [window.push(value).count for value in (1, 2, 1, 5, 6, 0)], len(window)
    ([1, 2, 2, 2, 3, 3], 4)
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = _checked_field("OlderThanLongestRun", field)

    def limits(self) -> Limits:
        return Limits(predicates=(_of_field(self.field, LongestIncreasingRun.starts_after),))

    def check(self, monoid: Monoid) -> None:
        _check_field(self, self.field, monoid)
        read = monoid.monoids[self.field] if isinstance(monoid, Fields) and self.field else monoid
        if isinstance(read, ColumnarMonoid):
            raise ValueError(f"{self!r} reads states of LongestIncreasingRun, and not those of {read!r}")

    def fingerprint(self) -> str:
        return f"OlderThanLongestRun({'' if self.field is None else repr(self.field)})"
