"""Which rows a frame holds: `window=`, `rows=` or `policy=` as one `Frame`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from pyspark.sql import types as sql

from mta.core.framed import check_one_window
from mta.monoids import Count
from mta.policies import CountWindow, Policy, TimeWindow
from spark_integration.errors import RollingError, UnsupportedColumn

Closed = Literal["both", "right"]

#: the numbers that the values of an order column become
Clock = Literal["whole", "real"]

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "w": "week",
}
#: No two times differ by so much.
LONGEST = 2**63
MOST_DIGITS = 40
_DAY = _MICROSECONDS["day"]
_MICROSECOND = timedelta(microseconds=1)
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")


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
    if isinstance(window, np.timedelta64):
        window = _exact_timedelta(window, argument)
    if isinstance(window, (str, timedelta)):
        length = _from_text(window, argument) if isinstance(window, str) else Fraction(window // _MICROSECOND)
        span = _in_unit(window, length, order, kind, argument)
    elif isinstance(window, Real) and not isinstance(window, bool):
        number = int(window) if isinstance(window, Integral) else float(window)
        if not -LONGEST < number < LONGEST:
            raise RollingError(f"{argument}= must be finite and less than 2 ** 63, got {_shown(window)}")
        span = Fraction(number)
    else:
        raise RollingError(
            f'{argument}= is a text such as "90 days", a timedelta or a number, got {window!r}'
        )
    if span <= 0:
        raise RollingError(f"{argument}= must be longer than 0, got {window!r}")
    if span >= LONGEST:
        raise RollingError(
            f"{argument}={window!r} is 2 ** 63 microseconds or more: give at most 100000000 days"
        )
    if clock_of(order, kind) == "real":
        return float(span)
    # between whole times, the next whole length is the same window
    return math.floor(span) if closed == "both" else math.ceil(span)


def _in_unit(window: Any, length: Fraction, order: str, kind: sql.DataType, argument: str) -> Fraction:
    if isinstance(kind, (sql.TimestampType, sql.TimestampNTZType)):
        if length.denominator != 1:
            raise RollingError(f"{argument}={window!r} is not a whole number of microseconds")
        return length
    if isinstance(kind, sql.DateType):
        if length % _DAY:
            raise RollingError(
                f"{argument}={window!r} is not a whole number of days, and order_by={order!r} is a date"
            )
        return length / _DAY
    raise RollingError(
        f"{argument}={window!r} is a length of time, and order_by={order!r} is of type "
        f"{kind.simpleString()}: give a number in its unit"
    )


def _shown(number: Any) -> str:
    """A number for an error, however many digits it has."""
    try:
        text = repr(number)
    except ValueError:  # Python writes out no more than some thousand
        text = "a number of thousands of digits"
    return text if len(text) <= 40 else f"{text[:40]}…"


def _exact_timedelta(window: np.timedelta64, argument: str) -> timedelta:
    """NumPy's kind of a length as Python's, where that says the same."""
    unit = np.datetime_data(window.dtype)[0]
    if unit not in ("generic", "Y", "M") and not np.isnat(window):
        found = window.astype("timedelta64[us]")
        length = found.item()
        if found == window and isinstance(length, timedelta):
            return length
    raise RollingError(f"{argument}= has no fixed whole number of microseconds, got {window!r}; give days")


def _from_text(window: str, argument: str) -> Fraction:
    text = window.strip().lower()
    text = text.removeprefix("interval").strip()
    total, rest = Fraction(0), text
    while rest:
        match = _PART.match(rest)
        if match is None:
            raise RollingError(
                f'{argument}={window!r} is not a length of time such as "90 days" or "1 hour 30 minutes"'
            )
        number, unit = match.groups()
        if len(number) > MOST_DIGITS:
            raise RollingError(
                f"{argument}= has a number of {len(number)} digits; give at most 100000000 days"
            )
        unit = _SHORT.get(unit) or _SHORT.get(unit.removesuffix("s")) or unit.removesuffix("s")
        if unit in ("month", "quarter", "year"):
            raise RollingError(f"{argument}={window!r}: a {unit} has no fixed length; give days")
        if unit == "m":
            raise RollingError(f"{argument}={window!r}: m may be minutes or months; write min, or give days")
        if unit not in _MICROSECONDS:
            known = ", ".join(f"{name}s" for name in _MICROSECONDS)
            short = ", ".join(_SHORT)
            raise RollingError(f"{argument}={window!r}: unknown unit {match[2]!r} (known: {known}; {short})")
        total += Fraction(number) * _MICROSECONDS[unit]
        rest = rest[match.end() :].strip()
    if not text:
        raise RollingError(f"{argument}={window!r} is empty")
    return total
