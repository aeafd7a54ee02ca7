"""What a checkpoint tells, looked at: times, numbers of tuples, spans. Anybody may have written it."""

from __future__ import annotations

import math
from typing import Any

from mta.encoding.untrusted import LARGEST, Malformed, fields, real, shown, whole
from mta.slicing.windows import Span, Time


def a_time(value: Any, what: str = "a time") -> Time:
    """A time, or an edge of a window that holds the last times there are; infinite where there is none."""
    if type(value) is int and abs(value) <= 4 * LARGEST:
        return value
    time = real(value, what)
    if 4 * LARGEST < abs(time) < math.inf:
        raise Malformed(f"{what} is {shown(time)}, beyond all times")
    return time


def a_watermark(value: Any) -> Time:
    """A watermark that was given, infinite before the first and after the last."""
    time = a_time(value, "the watermark")
    if LARGEST < abs(time) < math.inf:
        raise Malformed(f"the watermark is {shown(time)}, beyond all times")
    return time


def a_moment(value: Any, what: str = "a time") -> Time:
    """A time of a tuple, or an edge, that there is."""
    time = a_time(value, what)
    if abs(time) == math.inf:
        raise Malformed(f"{what} is {shown(time)}")
    return time


def a_number(value: Any, what: str = "a number of tuples") -> int:
    return whole(value, what, 0, 1 << 127)


def a_span(value: Any, what: str = "a window") -> Span:
    start, end = some(value, what, 2)
    if a_moment(start) > a_moment(end):
        raise Malformed(f"{what} is from {shown(start)} to {shown(end)}")
    return start, end


def a_window(value: Any) -> Span:
    """A span, or the last window by content, which the end of the stream has closed."""
    start, end = some(value, "a window", 2)
    return (a_moment(start), end) if end == math.inf else a_span(value)


def some(value: Any, what: str, count: int | None = None) -> list[Any]:
    """A list or a tuple, of so many."""
    return fields(list(value) if type(value) is tuple else value, what, count)


def yes_or_no(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise Malformed(f"{what} is {shown(value)}, not true or false")
    return value
