"""Which rows a frame holds: `window=`, `rows=` or `policy=` as one `Frame`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal

from pyspark.sql import types as sql

from mta.core.frame import check_one_window
from mta.monoids import Count
from mta.policies import CountWindow, Policy, TimeWindow, Union
from mta.times.durations import real_duration
from spark_integration.errors import RollingError, UnsupportedColumn

Closed = Literal["both", "right"]

#: the numbers that the values of an order column become
Clock = Literal["whole", "real"]

#: No two times differ by so much.
LONGEST = 2**63
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Frame:
    """A policy, and the times of rows that it gets."""

    policy: Policy
    #: how the order column becomes times; None where only the order of rows counts
    clock: Clock | None
    #: rows with equal times see each other, as in SQL's RANGE
    peers: bool

    @property
    def by_predicate(self) -> bool:
        return bool(self.policy.limits().predicates)


def frame_of(window: Any, rows: Any, policy: Any, closed: Any, order: str, order_type: sql.DataType) -> Frame:
    """The frame that exactly one of `window`, `rows` and `policy` describes."""
    given = [
        name for name, value in (("window", window), ("rows", rows), ("policy", policy)) if value is not None
    ]
    if len(given) != 1:
        got = "none of them" if not given else " and ".join(given)
        raise RollingError(f"rolling takes exactly one of window=, rows= and policy=, got {got}")
    if closed not in ("both", "right"):
        raise RollingError(f'closed= is "both" or "right", got {closed!r}')
    if window is not None:
        clock = _clock_of_differences(order, order_type)
        span = span_of(window, closed, order, order_type)
        return Frame(TimeWindow(span, closed=closed), clock, peers=True)
    if closed != "both":
        raise RollingError("closed= goes with window= only")
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, Integral):
            raise RollingError(f"rows= is a whole number of rows, got {rows!r}")
        if rows < 1:
            raise RollingError(f"rows= must be at least 1, the current row, got {rows}")
        return Frame(CountWindow(int(rows)), None, peers=False)
    if not isinstance(policy, Policy):
        raise RollingError(f"policy= is one of mta.policies, got {policy!r}")
    try:
        check_one_window("policy=", Count(), policy)
    except ValueError as error:
        raise RollingError(str(error)) from None
    policy = _in_unit_of(order, order_type, policy)
    limits = policy.limits()
    timed = limits.open_span is not None or limits.closed_span is not None
    return Frame(policy, _clock_of_differences(order, order_type) if timed else None, peers=False)


def _clock_of_differences(order: str, kind: sql.DataType) -> Clock:
    """`clock_of` a column whose values are subtracted from each other."""
    if isinstance(kind, sql.FloatType):
        raise UnsupportedColumn(
            f"order_by={order!r} is of type float, whose differences SQL rounds to 32 bits and a window in "
            "time does not: cast it to double"
        )
    return clock_of(order, kind)


def clock_of(order: str, kind: sql.DataType, whose: str = "a window in time") -> Clock:
    """How a column becomes times; `whose` they are is for the error."""
    if isinstance(kind, (sql.TimestampType, sql.TimestampNTZType, sql.DateType, sql.IntegralType)):
        return "whole"
    if isinstance(kind, (sql.DoubleType, sql.FloatType)):
        return "real"
    hint = "; cast it to double or bigint" if isinstance(kind, sql.DecimalType) else ""
    raise UnsupportedColumn(
        f"order_by={order!r} is of type {kind.simpleString()}, and {whose} takes timestamp, "
        f"timestamp_ntz, date, a whole number or double{hint}"
    )


def span_of(window: Any, closed: Closed, order: str, kind: sql.DataType, argument: str = "window") -> float:
    """The length of a window in the unit of the order column: microseconds, days, or its own.

    `argument` is what has it, for errors.
    """
    length = _microseconds(window, argument)
    if length is not None:
        span = _in_unit(window, length, order, kind, argument)
    elif isinstance(window, Real) and not isinstance(window, bool):
        number = int(window) if isinstance(window, Integral) else float(window)
        if not -LONGEST < number < LONGEST:
            raise RollingError(f"{argument}= must be finite and less than 2 ** 63, got {_shown(window)}")
        span = Fraction(number)
    else:
        raise RollingError(
            f'{argument}= is a text such as "90 days", a timedelta, timedelta64 or a number, got {window!r}'
        )
    if span <= 0:
        raise RollingError(f"{argument}= must be longer than 0, got {window!r}")
    if clock_of(order, kind) == "real":
        return float(span)
    # between whole times, the next whole length is the same window
    return math.floor(span) if closed == "both" else math.ceil(span)


def _microseconds(window: Any, argument: str) -> int | None:
    """A duration with its unit; None for a number. SQL's texts may begin with "interval"."""
    if isinstance(window, str):
        window = re.sub(r"^\s*interval\b", "", window, flags=re.IGNORECASE)
    try:
        return real_duration(window, f"{argument}=")
    except (TypeError, ValueError) as error:
        raise RollingError(str(error)) from error


def _in_unit(window: Any, length: int, order: str, kind: sql.DataType, argument: str) -> Fraction:
    if isinstance(kind, (sql.TimestampType, sql.TimestampNTZType)):
        return Fraction(length)
    if isinstance(kind, sql.DateType):
        if length % _DAY:
            raise RollingError(
                f"{argument}={window!r} is not a whole number of days, and order_by={order!r} is a date"
            )
        return Fraction(length, _DAY)
    raise RollingError(
        f"{argument}={window!r} is a length of time, and order_by={order!r} is of type "
        f"{kind.simpleString()}: give a number in its unit"
    )


def _in_unit_of(order: str, kind: sql.DataType, policy: Policy) -> Policy:
    """A policy whose durations are numbers in the unit of the order column."""
    if not policy.in_microseconds:
        return policy
    if isinstance(policy, Union):
        return _in_unit_of(order, kind, policy.first) | _in_unit_of(order, kind, policy.second)
    if not isinstance(policy, TimeWindow):
        raise RollingError(
            f"policy={policy!r} is of a unit that order_by={order!r} may not have: give numbers"
        )
    duration = timedelta(microseconds=policy.d)
    span = _in_unit(duration, int(policy.d), order, kind, "policy")
    return TimeWindow(int(span), closed=policy.closed)


def _shown(number: Any) -> str:
    """A number for an error, however many digits it has."""
    try:
        text = repr(number)
    except ValueError:  # Python writes out no more than some thousand
        text = "a number of thousands of digits"
    return text if len(text) <= 40 else f"{text[:40]}…"
