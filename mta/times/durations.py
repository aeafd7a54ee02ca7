"""Durations as people write them: numbers, `timedelta`, `np.timedelta64`, and texts such as "90 days".

A duration with a unit is exact: whole microseconds, as an int. A number has no unit but that of the window's
times. Types of other libraries are recognized by their methods, so that no library has to be imported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

#: The microseconds of each unit, which has its name from NumPy. Months and years have no fixed length.
MICROSECONDS = {
    "W": Fraction(604_800_000_000),
    "D": Fraction(86_400_000_000),
    "h": Fraction(3_600_000_000),
    "m": Fraction(60_000_000),
    "s": Fraction(1_000_000),
    "ms": Fraction(1000),
    "us": Fraction(1),
    "ns": Fraction(1, 10**3),
    "ps": Fraction(1, 10**6),
    "fs": Fraction(1, 10**9),
    "as": Fraction(1, 10**12),
}

#: How a text may write each unit, in small letters or capitals.
_WRITTEN = {
    "W": "w week weeks",
    "D": "d day days",
    "h": "h hr hrs hour hours",
    "m": "min mins minute minutes",
    "s": "s sec secs second seconds",
    "ms": "ms millisecond milliseconds",
    "us": "us µs μs microsecond microseconds",
    "ns": "ns nanosecond nanoseconds",
}
_UNITS = {name: unit for unit, names in _WRITTEN.items() for name in names.split()}

#: Units whose length depends on where in the calendar they begin.
_OF_CALENDAR = ("mo", "mon", "month", "months", "q", "quarter", "quarters", "y", "yr", "yrs", "year", "years")

_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([^\W\d_]+)\s*,?")

_LONGEST = 2**63 - 1
_MOST_CHARACTERS = 200

#: The units in which a duration is shown, with their microseconds.
_SHOWN = (
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("minute", 60_000_000),
    ("second", 1_000_000),
    ("millisecond", 1000),
    ("microsecond", 1),
)

#: What takes a duration, for an error.
_FORMS = 'a timedelta, np.timedelta64 or text such as "90 days"'

Amount: TypeAlias = int | float


@dataclass(frozen=True)
class Duration:
    """A duration: a number in the unit of a window's times, or whole microseconds.

    Equal durations are equal, however they were written.

    >>> check_duration("1 day 30 minutes", "a delay") == check_duration(timedelta(hours=24.5), "a delay")
    True
    """

    #: the number, or whole microseconds
    amount: Amount
    #: whether it is real time, in microseconds, and no number without a unit
    real: bool

    def __repr__(self) -> str:
        """As a user may write it."""
        return repr(text_of(int(self.amount))) if self.real else repr(self.amount)


def check_duration(value: object, what: str) -> Duration:
    """The duration that a user gave to `what`. It may be 0 or negative, which the caller may refuse.

    Raises TypeError if it is none, and ValueError if it is NaN, no whole number of microseconds, has no fixed
    length, such as a month, or cannot be read.
    """
    if isinstance(value, Duration):
        return value
    microseconds = real_duration(value, what)
    if microseconds is not None:
        return Duration(microseconds, real=True)
    d: Any = value
    number = isinstance(d, (int, float)) or hasattr(d, "__index__") or hasattr(d, "dtype")
    if isinstance(d, bool) or not number or getattr(getattr(d, "dtype", None), "kind", "i") not in "iuf":
        raise TypeError(
            f"{what} takes a number in the unit of the window's times, {_FORMS}, "
            f"got {d!r} of type {type(d).__name__}"
        )
    amount = int(d.__index__()) if hasattr(d, "__index__") else float(d)
    if amount != amount:
        raise ValueError(f"{what} takes a duration, got {value!r}")
    return Duration(int(amount) if isinstance(amount, float) and amount.is_integer() else amount, real=False)


def real_duration(value: object, what: str) -> int | None:
    """The whole microseconds of a duration with a unit; None for what is no such duration, as a number.

    Raises the ValueError of `check_duration`, and TypeError for an offset of pandas of no fixed length.
    """
    if isinstance(value, str):
        found: Fraction | int = _of_text(value, what)
    elif isinstance(value, np.timedelta64):
        found = _of_numpy(value, what)
    elif isinstance(value, timedelta):
        if hasattr(value, "to_timedelta64"):  # of pandas, which may have nanoseconds
            found = _of_numpy(value.to_timedelta64(), what)
        else:
            found = value // timedelta(microseconds=1)
    elif hasattr(type(value), "is_on_offset"):  # an offset of pandas
        try:
            found = Fraction(value.nanos, 1000)  # type: ignore[attr-defined]
        except ValueError:
            raise TypeError(_no_fixed_length(what, value)) from None
    else:
        return None
    if found.denominator != 1:
        raise ValueError(f"{what} takes a duration of whole microseconds, got {value!r}")
    if not -_LONGEST <= found <= _LONGEST:
        raise ValueError(f"{what} takes a duration of at most 2^63 - 1 microseconds, got {value!r}")
    return int(found)


def text_of(microseconds: int) -> str:
    """The text of a duration with a unit. Equal durations have the same text, which `check_duration` reads.

    >>> text_of(5_400_000_000), text_of(-250_000), text_of(0)
    ('1 hour 30 minutes', '-250 milliseconds', '0 seconds')
    """
    if not microseconds:
        return "0 seconds"
    parts, left = [], abs(microseconds)
    for name, length in _SHOWN:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {name}{'' if count == 1 else 's'}")
    return ("-" if microseconds < 0 else "") + " ".join(parts)


def _of_text(text: str, what: str) -> Fraction:
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f'{what} takes a duration such as "90 days", got a text of {len(text):,} characters')
    body, sign = text.strip(), 1
    if body.startswith("-"):
        body, sign = body[1:], -1
    total, at = Fraction(0), 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            break
        number, name = part.groups()
        total += Fraction(number) * MICROSECONDS[_unit(name, text, what)]
        at = part.end()
    if not body or at < len(body) or body.endswith(","):
        raise ValueError(
            f'{what} takes a duration such as "90 days", "7d", "1 hour 30 minutes" or "250ms": numbers, each '
            f"with its unit; got {text!r}"
        )
    return sign * total


def _unit(name: str, text: str, what: str) -> str:
    unit = _UNITS.get(name.lower())
    if unit is not None:
        return unit
    if name.lower() in _OF_CALENDAR:
        raise ValueError(_no_fixed_length(what, text))
    if name.lower() == "m":
        raise ValueError(
            f"{what} takes no m, which may be minutes or months: write min, or days; got {text!r}"
        )
    raise ValueError(
        f"{what} takes weeks, days, hours, minutes, seconds, ms and us, and no {name!r}: got {text!r}"
    )


def _of_numpy(value: Any, what: str) -> Fraction:
    if np.isnat(value):
        raise ValueError(f"{what} takes a duration, got {value!r}")
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        raise ValueError(_no_fixed_length(what, value))
    if unit == "generic":
        raise ValueError(
            f'{what} takes a duration with its unit, as in np.timedelta64(90, "D"), got {value!r}'
        )
    return int(value.astype(np.int64)) * count * MICROSECONDS[unit]


def _no_fixed_length(what: str, value: object) -> str:
    return (
        f"{what} takes a duration of a fixed length, which months, quarters and years do not have; say how "
        f'many days, as in "30 days", got {value!r}'
    )
