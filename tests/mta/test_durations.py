"""Durations as people write them become the same exact numbers, and what has no fixed length is refused."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mta.times.durations import Duration, check_duration, real_duration, text_of

#: How units are written, and what one of them is.
UNITS = {
    timedelta(weeks=1): ["w", "W", "week", "weeks", "Weeks"],
    timedelta(days=1): ["d", "D", "day", "days", "DAYS"],
    timedelta(hours=1): ["h", "H", "hr", "hours", "Hour"],
    timedelta(minutes=1): ["min", "mins", "minute", "minutes", "Min"],
    timedelta(seconds=1): ["s", "S", "sec", "seconds"],
    timedelta(milliseconds=1): ["ms", "millisecond", "milliseconds"],
    timedelta(microseconds=1): ["us", "µs", "μs", "microsecond", "microseconds"],
}
PARTS = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.sampled_from([(unit, name) for unit, names in UNITS.items() for name in names]),
        st.sampled_from(["", " ", "  "]),
        st.sampled_from([" ", ", ", ""]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(200))
@given(PARTS, st.booleans())
def test_a_text_is_the_sum_of_its_parts(parts: list[Any], minus: bool) -> None:
    text = "".join(f"{count}{space}{name}{between}" for count, (_, name), space, between in parts)
    text = ("-" if minus else "") + text.rstrip(" ,")
    total = sum((count * unit for count, (unit, _), _, _ in parts), timedelta())
    expected = -total if minus else total
    assert real_duration(text, "it") == expected // timedelta(microseconds=1)
    assert check_duration(text, "it") == check_duration(expected, "it")


@settings(max_examples=examples(200))
@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_equal_durations_have_one_text(microseconds: int) -> None:
    text = text_of(microseconds)
    found = check_duration(text, "it")
    assert found == Duration(microseconds, real=True)
    assert repr(found) == repr(text)
    assert real_duration(np.timedelta64(microseconds, "us"), "it") == microseconds
    assert found == check_duration(np.timedelta64(microseconds, "us"), "it")
    assert found != Duration(microseconds, real=False)


@settings(max_examples=examples(200))
@given(st.timedeltas())
def test_a_timedelta_is_exact(duration: timedelta) -> None:
    expected = (duration.days * 86400 + duration.seconds) * 10**6 + duration.microseconds
    if abs(expected) < 2**63:
        assert real_duration(duration, "it") == expected
    else:
        with pytest.raises(ValueError, match="at most"):
            real_duration(duration, "it")


NUMPY = {
    "W": 7 * 86400 * 10**6,
    "D": 86400 * 10**6,
    "h": 3600 * 10**6,
    "m": 60 * 10**6,
    "s": 10**6,
    "ms": 1000,
    "us": 1,
    "ns": Fraction(1, 10**3),
    "ps": Fraction(1, 10**6),
    "fs": Fraction(1, 10**9),
    "as": Fraction(1, 10**12),
}


@settings(max_examples=examples(200))
@given(st.integers(-(10**6), 10**6), st.sampled_from([*NUMPY]), st.sampled_from([1, 3, 10**3, 10**6]))
def test_durations_of_numpy(ticks: int, unit: str, step: int) -> None:
    for value in (np.timedelta64(ticks * step, unit), np.timedelta64(ticks, (unit, step))):
        expected = ticks * step * Fraction(NUMPY[unit])
        if expected.denominator == 1 and abs(expected) < 2**63:
            assert real_duration(value, "it") == expected
        else:
            with pytest.raises(ValueError, match=r"whole microseconds|at most"):
                real_duration(value, "it")


def test_durations_of_pandas() -> None:
    hour = 3600 * 10**6
    assert real_duration(pd.Timedelta("90 min"), "it") == hour * 3 // 2
    assert real_duration(pd.Timedelta(90, unit="min").as_unit("s"), "it") == hour * 3 // 2
    assert real_duration(pd.offsets.Hour(2), "it") == 2 * hour
    with pytest.raises(ValueError, match="whole microseconds"):
        real_duration(pd.Timedelta("1ns"), "it")
    for months in (pd.DateOffset(months=1), pd.offsets.MonthEnd(), pd.offsets.BDay(3)):
        with pytest.raises(TypeError, match="fixed length"):
            real_duration(months, "it")
    with pytest.raises(TypeError, match="a delay takes a number"):
        check_duration(pd.NaT, "a delay")


@pytest.mark.parametrize(
    "value", [3, 2.5, np.int64(3), np.float32(2.5), float("inf"), 10**30, True.__index__()]
)
def test_numbers_have_no_unit(value: Any) -> None:
    assert real_duration(value, "it") is None
    assert check_duration(value, "it") == Duration(value, real=False)
    whole = check_duration(np.float64(3.0), "it").amount
    assert (whole, type(whole)) == (3, int)


def test_fractions_of_units_are_exact() -> None:
    assert real_duration("1.5 hours", "it") == 5400 * 10**6
    assert real_duration("0.1 s 0.2 s", "it") == 300_000
    assert real_duration("1000 ns", "it") == 1
    assert real_duration("0.000001 s", "it") == 1


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        ("1 month", ValueError, r"fixed length, which months, .*\"30 days\", got '1 month'"),
        ("2 Years", ValueError, "fixed length"),
        ("1M", ValueError, "m, which may be minutes or months: write min, or days; got '1M'"),
        ("5m", ValueError, "m, which may be minutes or months"),
        ("1y", ValueError, "fixed length"),
        ("1 day 1 quarter", ValueError, "fixed length"),
        (np.timedelta64(1, "M"), ValueError, "fixed length"),
        (np.timedelta64(1, "Y"), ValueError, "fixed length"),
        (np.timedelta64(3), ValueError, r"with its unit, as in np.timedelta64\(90"),
        (np.timedelta64("NaT"), ValueError, "NaT"),
        ("500 ns", ValueError, "whole microseconds, got '500 ns'"),
        ("0.1us", ValueError, "whole microseconds"),
        ("", ValueError, "numbers, each with its unit; got ''"),
        ("90", ValueError, "numbers, each with its unit; got '90'"),
        ("day", ValueError, "numbers, each with its unit"),
        ("1 day 3", ValueError, "numbers, each with its unit"),
        ("1 day,", ValueError, "numbers, each with its unit"),
        ("1 day - 1 hour", ValueError, "numbers, each with its unit"),
        ("--1 day", ValueError, "numbers, each with its unit"),
        ("1,5 days", ValueError, "numbers, each with its unit"),
        ("\u0661 day", ValueError, "numbers, each with its unit"),
        ("3 bananas", ValueError, "no 'bananas': got '3 bananas'"),
        ("1 qs", ValueError, "no 'qs'"),
        ("20000000000 days", ValueError, "at most"),
        ("9" * 5000 + " days", ValueError, "it takes a duration .*, got a text of 5,005 characters$"),
        (True, TypeError, "it takes a number in the unit of the window's times, a timedelta, .* got True"),
        (None, TypeError, "of type NoneType"),
        (b"1 day", TypeError, "of type bytes"),
        ([1], TypeError, "of type list"),
        (float("nan"), ValueError, "nan"),
    ],
)
def test_what_is_no_duration(value: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        check_duration(value, "it")
