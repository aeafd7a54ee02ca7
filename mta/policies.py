"""Window slide policies: which of the oldest elements leave after an insertion.

A policy says which prefix of the window has to go. All of them are monotone: when a prefix has to go, so
has every shorter one. `a | b` evicts what either would, so any policy is a union of three kinds of limit,
which `Limits` holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mta.cuts import Side, cut, cuts
from mta.functions import check_name, described
from mta.monoids.base import Array

#: wsp(total, old) of the paper: whether a prefix with the aggregate `old` has to leave a window with the
#: aggregate `total`; both are states of the window's monoid, before `lower`.
Predicate: TypeAlias = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Limits:
    """What a policy comes down to."""

    count: int | None = None
    #: an element leaves when its time <= youngest - open_span …
    open_span: float | None = None
    #: … or < youngest - closed_span
    closed_span: float | None = None
    predicates: tuple[Predicate, ...] = ()

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
        return any(predicate(total, old) for predicate in self.predicates)

    def __or__(self, other: Limits) -> Limits:
        return Limits(
            _least(self.count, other.count),
            _least(self.open_span, other.open_span),
            _least(self.closed_span, other.closed_span),
            self.predicates + other.predicates,
        )


class Policy(ABC):
    """A rule for what leaves a window. Policies are values: compare them, share them, unite them with |."""

    @abstractmethod
    def limits(self) -> Limits: ...

    @abstractmethod
    def fingerprint(self) -> str:
        """What a checkpoint remembers of the policy."""

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
    """Keeps the last `n` elements."""

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not hasattr(n, "__index__"):
            raise TypeError(f"CountWindow takes a whole number of elements, got {n!r}")
        if n < 1:
            raise ValueError(f"CountWindow must keep at least 1 element, got {n}")
        self.n = int(n.__index__())

    def limits(self) -> Limits:
        return Limits(count=self.n)

    def fingerprint(self) -> str:
        return f"CountWindow({self.n})"


class TimeWindow(Policy):
    """Keeps times in (youngest - d, youngest], or in [youngest - d, youngest] with closed="both"."""

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


class While(Policy):
    """Evicts the longest prefix for which `predicate(total, old)` is true: the paper's `wsp`.

    `total` is the aggregate of the window after the last insertion, `old` that of the prefix; both are
    states of the monoid, not lowered (for `Fields`, a mapping of states). The predicate must be monotone:
    where it is true of a prefix, it is true of every shorter one. `name` stands for it in a checkpoint, which
    is restored with the same name only; without one it is told by where it is defined and by its code, which
    another version of Python compiles otherwise.
    """

    def __init__(self, predicate: Predicate, *, name: str | None = None) -> None:
        if not callable(predicate):
            raise TypeError(f"While takes a function of (total, old), got {predicate!r}")
        check_name("While", name)
        if name is not None and not set(name).isdisjoint("()|"):
            raise ValueError(
                f"While(name=...) has no brackets and bars, as unions of policies have, got {name!r}"
            )
        self.predicate = predicate
        self._text = f"While({described(predicate) if name is None else name})"

    def limits(self) -> Limits:
        return Limits(predicates=(self.predicate,))

    def fingerprint(self) -> str:
        return self._text


class Union(Policy):
    """Evicts what either of two policies would."""

    def __init__(self, first: Policy, second: Policy) -> None:
        self.first, self.second = first, second

    def limits(self) -> Limits:
        return self.first.limits() | self.second.limits()

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


@dataclass(frozen=True)
class _BeforeMaximum:
    field: str | None

    def __call__(self, total: Any, old: Any) -> bool:
        return bool(_leading(total, self.field) > _leading(old, self.field))


@dataclass(frozen=True)
class _BeforeLongestRun:
    field: str | None

    def __call__(self, total: Any, old: Any) -> bool:
        from mta.monoids.runs import LongestIncreasingRun

        if self.field is not None:
            total, old = total[self.field], old[self.field]
        return LongestIncreasingRun.starts_after(total, old)


class OlderThanMaximum(Policy):
    """Evicts all that is older than the first occurrence of the maximum: it can never be a result again.

    For windows of Max, ArgMax or MaxCount, or of Fields with one of them under the name `field`.
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = field

    def limits(self) -> Limits:
        return Limits(predicates=(_BeforeMaximum(self.field),))

    def fingerprint(self) -> str:
        return f"OlderThanMaximum({'' if self.field is None else repr(self.field)})"


class OlderThanLongestRun(Policy):
    """Evicts all that is older than the longest increasing run: it can never be part of a result again.

    For windows of LongestIncreasingRun, or of Fields with one under the name `field`.
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = field

    def limits(self) -> Limits:
        return Limits(predicates=(_BeforeLongestRun(self.field),))

    def fingerprint(self) -> str:
        return f"OlderThanLongestRun({'' if self.field is None else repr(self.field)})"


def _leading(state: Any, field: str | None) -> Any:
    state = state if field is None else state[field]
    return state[0] if isinstance(state, tuple) else state


def _least(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else min(a, b)
