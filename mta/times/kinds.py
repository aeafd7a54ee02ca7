"""The kinds of times that a window may have, and people's times as the numbers that a window keeps.

A window has times of one kind: numbers, instants, or local times without a zone. Instants and local times are
kept as whole microseconds since 1970, in UTC or by the local clock. A time may be a `datetime`, a
`np.datetime64`, a `date` or a pandas `Timestamp`, and a column one of these in a list, or one of NumPy,
pandas, Arrow or polars. Types of other libraries are recognized by their methods, so that no library has to
be imported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from mta.kinds import Array, Time
from mta.times.durations import MICROSECONDS, Duration


class TimeKind(Enum):
    """The kind of the times of a window. The value is what an error calls them."""

    NUMBERS = "numbers"
    INSTANTS = "instants in UTC"
    LOCAL = "local times without a zone"


NUMBERS, INSTANTS, LOCAL = TimeKind

#: Kinds of times that go together with something: a number without a unit, a duration with one, or neither.
PLAIN, DATES, ANY = frozenset([NUMBERS]), frozenset([INSTANTS, LOCAL]), frozenset(TimeKind)

_SINCE = datetime(1970, 1, 1, tzinfo=UTC)
_SINCE_LOCAL = datetime(1970, 1, 1)
_DAY = 86_400_000_000

#: The times of a `datetime`, from the year 1 to 9999, as microseconds since 1970.
FIRST = -62_135_596_800_000_000
LAST = 253_402_300_799_999_999

#: NumPy's "not a time", as an integer.
_NOT_A_TIME = -(2**63)


def is_date(time: object) -> bool:
    """Whether it is a time of a calendar, and no number."""
    return isinstance(time, (date, np.datetime64))


def number_of(time: Any) -> tuple[int, TimeKind]:
    """A time of a calendar, for which `is_date` holds, as microseconds, and its kind.

    Raises ValueError for a time that is missing, has parts of a microsecond, or is not in the years 1 to
    9999.
    """
    if type(time) is not datetime:
        return _of_other(time)
    if time.tzinfo is None:
        since = time - _SINCE_LOCAL
        return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds, LOCAL
    try:
        since = time - _SINCE
    except TypeError:
        if time.utcoffset() is None:  # then it is local, to Python too
            return number_of(time.replace(tzinfo=None))
        raise
    number = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    if not FIRST <= number <= LAST:
        raise _out_of_range(time)
    return number, INSTANTS


def _of_other(time: Any) -> tuple[int, TimeKind]:
    if isinstance(time, np.datetime64):
        return _of_numpy(time, time), LOCAL
    if not isinstance(time, datetime):
        return (time.toordinal() - 719_163) * _DAY, LOCAL
    if time != time:
        raise _missing(time)
    if hasattr(time, "to_datetime64"):  # of pandas, which may have nanoseconds
        return _of_numpy(time.to_datetime64(), time), LOCAL if time.tzinfo is None else INSTANTS
    return number_of(datetime.combine(datetime.date(time), datetime.timetz(time)))


def _of_numpy(moment: Any, time: object) -> int:
    """The microseconds of a `np.datetime64`, which stands for `time`."""
    unit, count = np.datetime_data(moment.dtype)
    ticks = int(moment.view(np.int64))
    if ticks == _NOT_A_TIME:
        raise _missing(time)
    low, high, length, parts = _scale(unit, count)
    if not low <= ticks <= high:
        raise _out_of_range(time)
    if unit in _OF_CALENDAR:
        return int(moment.astype("M8[D]").view(np.int64)) * _DAY
    if ticks % parts:
        raise _too_fine(time)
    return ticks // parts * length


def column_of_dates(times: Any) -> tuple[Array, TimeKind] | None:
    """A column of times of a calendar as a new column of microseconds, and their kind.

    None for what is no such column. Raises the errors of `number_of`, and TypeError for times of two kinds;
    the errors name the row.
    """
    if isinstance(times, (list, tuple)):
        return _of_list(times) if len(times) and is_date(times[0]) else None
    found = _of_library(times)
    if found is None:
        return None
    column, kind = found
    if column.ndim != 1:
        return None
    if column.dtype.kind == "O":
        values = column.tolist()
        return _of_list(values) if values and is_date(values[0]) else None
    return _microseconds(column), kind


def _of_library(times: Any) -> tuple[Array, TimeKind] | None:
    """A column as an array of NumPy's dates, in UTC if they are instants, or as an array of objects."""
    dtype = getattr(times, "dtype", None)
    if isinstance(dtype, np.dtype):
        if dtype.kind not in "MO":
            return None
        if isinstance(times, np.ma.MaskedArray):
            _refuse_masked(times)
        return np.asarray(times), LOCAL
    if hasattr(dtype, "pyarrow_dtype"):  # a column of pandas that Arrow keeps
        times = getattr(times, "array", times).__arrow_array__()
    elif hasattr(dtype, "unit") and hasattr(dtype, "tz"):  # pandas, with a zone
        return np.asarray(times, dtype=f"M8[{dtype.unit}]"), INSTANTS  # type: ignore[union-attr]
    elif hasattr(dtype, "time_zone") or str(dtype) == "Date":  # polars
        zone = getattr(dtype, "time_zone", None)
        return times.to_numpy(), LOCAL if zone is None else INSTANTS
    if str(getattr(times, "type", "")).startswith(("timestamp[", "date")):  # Arrow
        return np.asarray(times), LOCAL if getattr(times.type, "tz", None) is None else INSTANTS
    _refuse_encoded(times)
    return None


def _refuse_encoded(times: Any) -> None:
    """Raises TypeError for dates in a column whose type hides what they are."""
    kind = getattr(times, "dtype", getattr(times, "type", None))
    for name, change in _ENCODED.items():
        if str(kind).startswith(name):
            values = np.asarray(times)
            if values.dtype.kind == "M" or any(map(is_date, values.tolist())):
                raise TypeError(f"times are in a column of type {kind}; make it one of dates: {change}")


#: Types of columns that may hide dates, by how their names begin, and how to get these out.
_ENCODED = {
    "category": "times.astype(times.dtype.categories.dtype)",  # pandas
    "dictionary<": "times.cast(times.type.value_type)",  # Arrow
    "Object": "pl.Series(times.to_list())",  # polars
}


def _refuse_masked(times: Any) -> None:
    """Raises ValueError for a masked entry in a column of dates."""
    masked = np.flatnonzero(np.ma.getmaskarray(times))
    if times.ndim == 1 and len(masked) and (times.dtype.kind == "M" or any(map(is_date, times.data))):
        row = int(masked[0])
        raise ValueError(f"row {row}: {_missing(times[row])}")


def _of_list(times: Sequence[Any]) -> tuple[Array, TimeKind]:
    numbers, kind = [], None
    for row, time in enumerate(times):
        if not is_date(time):
            raise TypeError(f"row {row}: {other_kind(kind or LOCAL, time)}")
        try:
            number, its_kind = number_of(time)
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from error
        if its_kind is not kind:
            if kind is not None:
                raise TypeError(f"row {row}: {other_kind(kind, time)}")
            kind = its_kind
        numbers.append(number)
    assert kind is not None
    return np.array(numbers, dtype=np.int64), kind


def _microseconds(column: Array) -> Array:
    """A column of NumPy's dates as a new column of microseconds."""
    unit, count = np.datetime_data(column.dtype)
    ticks = column.astype(column.dtype.newbyteorder("=")).view(np.int64)
    if not len(ticks):
        return ticks
    if (ticks == _NOT_A_TIME).any():
        row = int((ticks == _NOT_A_TIME).argmax())
        raise ValueError(f"row {row}: {_missing(column[row])}")
    low, high, length, parts = _scale(unit, count)
    if not (low <= int(ticks.min()) and int(ticks.max()) <= high):
        row = int(((ticks < max(low, _NOT_A_TIME)) | (ticks > min(high, 2**63 - 1))).argmax())
        raise ValueError(f"row {row}: {_out_of_range(column[row])}")
    if unit in _OF_CALENDAR:
        return column.astype("M8[D]").view(np.int64) * _DAY
    if parts > 1:
        whole = ticks // parts
        lost = whole * parts != ticks
        if lost.any():
            row = int(lost.argmax())
            raise ValueError(f"row {row}: {_too_fine(column[row])}")
        ticks = whole
    return ticks if length == 1 else ticks * length


#: NumPy's units that have no fixed length.
_OF_CALENDAR = ("Y", "M")


@lru_cache
def _scale(unit: str, count: int) -> tuple[int, int, int, int]:
    """The first and the last tick of NumPy's unit that is a time, and a tick's microseconds as a fraction."""
    if unit in _OF_CALENDAR:
        years = count if unit == "Y" else Fraction(count, 12)
        return math.ceil((1 - 1970) / years), math.ceil((10_000 - 1970) / years) - 1, 0, 1
    if unit == "generic":
        raise TypeError("a np.datetime64 needs a unit to be a time")
    tick = count * MICROSECONDS[unit]
    return math.ceil(FIRST / tick), math.floor(LAST / tick), tick.numerator, tick.denominator


def kinds_with(duration: Duration) -> frozenset[TimeKind]:
    """The kinds of times that a duration goes with: 0 goes with all."""
    return DATES if duration.real else PLAIN if duration.amount else ANY


def as_people_have_it(number: Time, kind: TimeKind) -> Any:
    """A time that a window keeps, as users get it: a number, a datetime in UTC, or a datetime without a zone.

    >>> as_people_have_it(0, INSTANTS), as_people_have_it(0.5, NUMBERS)
    (datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc), 0.5)
    """
    if kind is NUMBERS:
        return number
    return (_SINCE if kind is INSTANTS else _SINCE_LOCAL) + timedelta(microseconds=number)


def other_kind(kind: TimeKind, time: object) -> str:
    """The message for a time that is not of a window's kind."""
    given = is_date(time)
    if kind is NUMBERS:
        hint = "give numbers, or dates from the first element on"
    elif not given:
        hint = f"give {_EXAMPLES[kind]}"
    elif kind is INSTANTS:
        hint = "give it its zone, as in time.replace(tzinfo=...)"
        if not isinstance(time, datetime):  # no other type has a zone
            hint = f"it can have no zone: give {_EXAMPLES[kind]}"
    else:
        hint = "give it without its zone"
    return f"the times of this window are {kind.value}, got {time!r} of type {type(time).__name__}; {hint}"


_EXAMPLES = {
    INSTANTS: "a datetime with its zone, as datetime.now(timezone.utc)",
    LOCAL: "a datetime without a zone",
}


def _missing(time: object) -> ValueError:
    return ValueError(f"a time is missing, got {time!r}; drop or replace it")


def _out_of_range(time: object) -> ValueError:
    return ValueError(f"a time is in the years 1 to 9999, got {time!r}")


def _too_fine(time: object) -> ValueError:
    return ValueError(
        f"times are kept as whole microseconds, and {time!r} has nanoseconds that would be lost; round it, "
        'as with .astype("datetime64[us]")'
    )
