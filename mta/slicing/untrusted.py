"""Checks of the values in a dump or a checkpoint, which anybody may have written: times, counts, windows.

Each function returns the value, or raises Malformed.
"""

from __future__ import annotations

import math
from typing import Any

from mta.encoding.untrusted import LARGEST, Malformed, fields, real, shown, whole
from mta.kinds import Time
from mta.slicing.windows import Span


def checked_time(value: Any, what: str = "a time") -> Time:
    """A time, an edge of a window that holds the greatest times, or an infinity that stands for no time."""
    if type(value) is int and abs(value) <= 4 * LARGEST:
        return value
    time = real(value, what)
    if 4 * LARGEST < abs(time) < math.inf:
        raise Malformed(f"{what} is {shown(time)}, beyond all times")
    return time


def checked_watermark(value: Any) -> Time:
    """A watermark: minus infinity before the first one, infinity after the last one."""
    time = checked_time(value, "the watermark")
    if LARGEST < abs(time) < math.inf:
        raise Malformed(f"the watermark is {shown(time)}, beyond all times")
    return time


def checked_finite_time(value: Any, what: str = "a time") -> Time:
    """A time of a tuple, or an edge."""
    time = checked_time(value, what)
    if abs(time) == math.inf:
        raise Malformed(f"{what} is {shown(time)}")
    return time


def checked_count(value: Any, what: str = "a number of tuples") -> int:
    return whole(value, what, 0, 1 << 127)


def checked_span(value: Any, what: str = "a window") -> Span:
    start, end = checked_list(value, what, 2)
    if checked_finite_time(start) > checked_finite_time(end):
        raise Malformed(f"{what} is from {shown(start)} to {shown(end)}")
    return start, end


def checked_window(value: Any) -> Span:
    """A span, or the last window by content: it ends at infinity, where the end of the stream closed it."""
    start, end = checked_list(value, "a window", 2)
    return (checked_finite_time(start), end) if end == math.inf else checked_span(value)


def checked_list(value: Any, what: str, count: int | None = None) -> list[Any]:
    """A list or a tuple, with `count` items if that is given."""
    return fields(list(value) if type(value) is tuple else value, what, count)
