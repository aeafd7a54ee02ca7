"""Policies over counts and times, and unions of policies: what a frame can be.

All policies are monotone: if a policy evicts a prefix of the window, it evicts every shorter one. `a | b`
evicts each element that `a` or `b` evicts. `Limits` is the common form of all policies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal, TypeAlias

from mta.frames.limits import Limits
from mta.options import whole_number
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

    def check(self, monoid: Any) -> None:  # noqa: B027  most policies read no state
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

    A window of fewer than `min_count` elements has the result None.

    Raises TypeError unless `n` and `min_count` are whole numbers, and ValueError if `n` is below 1 or
    `min_count` below 0.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Max(), policies.CountWindow(2))
    >>> [window.push(value) for value in (3, 1, 2)]
    [3, 3, 2]
    """

    in_microseconds = None

    def __init__(self, n: int, *, min_count: int = 0) -> None:
        self.n = whole_number(n, "CountWindow takes a whole number of elements")
        if self.n < 1:
            raise ValueError(f"CountWindow must keep at least 1 element, got {n}")
        self.min_count = _least_count("CountWindow", min_count)

    def limits(self) -> Limits:
        return Limits(count=self.n, min_count=self.min_count)

    def fingerprint(self) -> str:
        return f"CountWindow({self.n}{f', min_count={self.min_count}' if self.min_count else ''})"


#: How the old and the young end of a frame are: whether an element with exactly that time is in.
Closed: TypeAlias = Literal["right", "both", "left", "neither"]


class TimeWindow(Policy):
    """Keeps times in (youngest - d, youngest]; `closed` says which ends belong to the frame.

    `d` is a `timedelta`, a `np.timedelta64` or a text such as "90 days" or "1 hour 30 minutes", and then the
    times of the window are dates: `datetime`, `np.datetime64` or columns of them. Or `d` is a number in the
    unit of the window's times, and then these are numbers.

    `closed` is as in pandas: "right", "both", "left" for [youngest - d, youngest), or "neither". Without its
    young end, a window leaves out the element that was pushed last, and all elements of the same time. A
    `delay` moves the frame into the past: with "right" it is (youngest - delay - d, youngest - delay]. A
    window of fewer than `min_count` elements has the result None.

    To find the elements to evict costs O(log n) comparisons and no combine.

    Raises TypeError if `d` or `delay` is no duration or only one of them has a unit, and if `min_count` is no
    whole number. Raises ValueError for another `closed`, if `d` is below 0, or 0 without closed="both", or
    has no fixed length, such as a month, and if `delay` or `min_count` is below 0.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Sum(), policies.TimeWindow(60) | policies.CountWindow(100))
    >>> [window.push(1, time=time) for time in (0, 30, 60, 61)]
    [1, 2, 2, 3]
    >>> before = AmortizedMTA(monoids.Sum(), policies.TimeWindow(60, closed="left", min_count=1))
    >>> [before.push(1, time=time) for time in (0, 30, 60, 61)]
    [None, 1, 2, 2]
    >>> from datetime import datetime
    >>> window = AmortizedMTA(monoids.Count(), policies.TimeWindow("90 days"))
    >>> [window.push(None, time=datetime(2024, month, 1)) for month in (1, 2, 3, 4)]
    [1, 2, 3, 3]
    """

    def __init__(self, d: Any, closed: Closed = "right", *, delay: Any = 0, min_count: int = 0) -> None:
        if closed not in ("right", "both", "left", "neither"):
            raise ValueError(
                f'TimeWindow(closed=...) is "right", "both", "left" or "neither", got {closed!r}'
            )
        duration, lag = check_duration(d, "TimeWindow"), check_duration(delay, "TimeWindow(delay=...)")
        if not (duration.amount > 0 or (duration.amount == 0 and closed == "both")):
            raise ValueError(f"TimeWindow must be longer than 0, got {d!r}")
        if not 0 <= lag.amount < math.inf:
            raise ValueError(
                f"TimeWindow(delay=...) moves the frame into the past, by 0 or more, got {delay!r}: the "
                "elements that a frame in the future would hold have not come yet"
            )
        if lag.amount and lag.real is not duration.real:
            raise TypeError(
                "d and delay of a TimeWindow both have a unit, or are both numbers in the unit of the "
                f"window's times, got {d!r} and {delay!r}"
            )
        try:
            duration.amount + lag.amount
        except OverflowError:
            raise ValueError(
                f"TimeWindow is too long for a delay that is no whole number, got {d!r}"
            ) from None
        self._duration, self._lag = duration, lag
        #: the durations in microseconds, or as numbers in the unit of the window's times
        self.d: float = duration.amount
        self.delay: float = lag.amount
        self.closed = closed
        self.min_count = _least_count("TimeWindow", min_count)

    def limits(self) -> Limits:
        span = self.d + self.delay
        old_end: Any = {"closed_span": span} if self.closed in ("both", "left") else {"open_span": span}
        young_end: Any = {}
        if self.closed in ("left", "neither"):
            young_end = {"open_lag": self.delay}
        elif self.delay:
            young_end = {"closed_lag": self.delay}
        return Limits(**old_end, **young_end, min_count=self.min_count)

    def fingerprint(self) -> str:
        delay = f", delay={self._lag!r}" if self.delay else ""
        least = f", min_count={self.min_count}" if self.min_count else ""
        return f"TimeWindow({self._duration!r}, closed={self.closed!r}{delay}{least})"

    @property
    def in_microseconds(self) -> bool:
        return self._duration.real

    def asking_for(self, min_count: int) -> TimeWindow:
        """The same frame with another `min_count`."""
        return TimeWindow(self._duration, self.closed, delay=self._lag, min_count=min_count)


def _least_count(owner: str, min_count: Any) -> int:
    count = whole_number(min_count, f"{owner}(min_count=...) is a whole number of elements")
    if count < 0:
        raise ValueError(f"{owner}(min_count=...) is 0 or more elements, got {count}")
    return count


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

    def check(self, monoid: Any) -> None:
        self.first.check(monoid)
        self.second.check(monoid)

    def fingerprint(self) -> str:
        """The same text for all unions that have the same limits."""
        limits, parts = self.limits(), self._parts()
        least = limits.min_count
        timed = [part for part in parts if isinstance(part, TimeWindow)]
        others = (part for part in parts if not isinstance(part, (CountWindow, TimeWindow)))
        tightest: list[Policy] = []
        if limits.count is not None:
            tightest.append(CountWindow(limits.count, min_count=least))
        if limits.lags():
            # of several frames with delays, each one may be the tighter one at one of its ends
            tightest += sorted({part.asking_for(least) for part in timed}, key=repr)
        else:
            if limits.open_span is not None:
                tightest.append(TimeWindow(self._duration(limits.open_span), min_count=least))
            if limits.closed_span is not None:
                span = self._duration(limits.closed_span)
                tightest.append(TimeWindow(span, closed="both", min_count=least))
        texts = [part.fingerprint() for part in tightest]
        return " | ".join(texts + sorted({part.fingerprint() for part in others}))

    @property
    def in_microseconds(self) -> bool | None:
        return self._in_microseconds

    def _duration(self, span: float) -> Duration:
        return Duration(span, real=bool(self._in_microseconds))

    def _parts(self) -> list[Policy]:
        both = (self.first, self.second)
        return [part for one in both for part in (one._parts() if isinstance(one, Union) else [one])]
