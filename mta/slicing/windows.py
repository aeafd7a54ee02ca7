"""Kinds of windows whose edges are known before any tuple comes: Tumbling, Sliding, and those of a user.

All are half open: a window [start, end) has the tuples with start <= time < end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import numpy as np

from mta.checks import MAX_TIME

Time: TypeAlias = Any
Span: TypeAlias = tuple[Time, Time]


class Window(ABC):
    """A kind of windows, which a query asks for. Kinds are values: compare them, share them."""

    @abstractmethod
    def fingerprint(self) -> str:
        """What a checkpoint remembers of it."""

    def __repr__(self) -> str:
        return self.fingerprint()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())


class EdgeWindow(Window):
    """Windows in event time that do not depend on the tuples. Subclass it for windows of your own.

    Answer `edge_after` and `holding`, and `fingerprint`, the same in every process. Windows may overlap and
    leave times out; a time is in finitely many of them.
    """

    @abstractmethod
    def edge_after(self, time: Time) -> Time | None:
        """The first time after `time` at which a window starts or ends; None if none does."""

    @abstractmethod
    def holding(self, time: Time) -> Iterable[Span]:
        """The windows [start, end) with start <= time < end."""

    def start_after(self, time: Time) -> Time | None:
        """The first time after `time` at which a window starts."""
        edge = self.edge_after(time)
        while edge is not None and all(start != edge for start, _ in self.holding(edge)):
            edge = self.edge_after(edge)
        return edge

    def ending(self, time: Time, edge: Time) -> Iterable[Span]:
        """The windows that hold `time` and end at `edge`, which is the first edge after it."""
        return [span for span in self.holding(time) if span[1] == edge]

    def reach(self, time: Time) -> Time:
        """The earliest start of a window that holds `time`; `time` itself if none does."""
        return min((start for start, _ in self.holding(time)), default=time)

    def last_end(self, time: Time) -> Time:
        """The latest end of a window that holds `time`; `time` itself if none does."""
        return max((end for _, end in self.holding(time)), default=time)


class Sliding(EdgeWindow):
    """Windows of `length`, one of which starts every `slide`, at `offset` and whole slides from there.

    With measure="count" length and slide are numbers of tuples, in the order of their times.
    """

    def __init__(
        self,
        length: float,
        slide: float,
        *,
        offset: float = 0,
        measure: Literal["time", "count"] = "time",
    ) -> None:
        if measure not in ("time", "count"):
            raise ValueError(f'measure is "time" or "count", got {measure!r}')
        kind = type(self).__name__
        check = positive if measure == "time" else positive_count
        self.length, self.slide = check(kind, "length", length), check(kind, "slide", slide)
        self.measure = measure
        self.offset = number(kind, "offset", offset)
        if measure == "count" and offset != 0:
            raise ValueError(f'{kind}(offset=...) goes with measure="time" only, got {offset!r}')
        #: how many slides a window is long, where that is a whole number of them
        whole = round(self.length / self.slide) if self.length / self.slide < 2**53 else 0
        self._slides = whole if whole and whole * self.slide == self.length else None

    def fingerprint(self) -> str:
        parts = [f"length={self.length}", f"slide={self.slide}"]
        return f"Sliding({', '.join(parts + self._options())})"

    def _options(self) -> list[str]:
        options = [] if not self.offset else [f"offset={self.offset}"]
        return options if self.measure == "time" else [*options, 'measure="count"']

    def edge_after(self, time: Time) -> Time:
        start = self.start_after(time)
        return start if self._slides is not None else min(start, self._end(self._ended(time) + 1))

    def start_after(self, time: Time) -> Time:
        return self._start(self._started(time) + 1)

    def holding(self, time: Time) -> list[Span]:
        first, last = self._ended(time) + 1, self._started(time)
        return [(self._start(number), self._end(number)) for number in range(first, last + 1)]

    def ending(self, time: Time, edge: Time) -> list[Span]:
        number = self._ended(edge)
        start = self._start(number)
        return [(start, edge)] if self._end(number) == edge and start <= time else []

    def reach(self, time: Time) -> Time:
        return min(self._start(self._ended(time) + 1), time)

    def last_end(self, time: Time) -> Time:
        return max(self._end(self._started(time)), time)

    def _start(self, number: int) -> Time:
        return self.offset + number * self.slide

    def _end(self, number: int) -> Time:
        if self._slides is not None:
            return self._start(number + self._slides)
        return self._start(number) + self.length

    def _started(self, time: Time) -> int:
        """The number of the last window that starts at or before `time`."""
        return self._last(self._start, self.offset, time)

    def _ended(self, time: Time) -> int:
        """The number of the last window that ends at or before `time`."""
        if self._slides is not None:
            return self._started(time) - self._slides
        return self._last(self._end, self.offset + self.length, time)

    def _last(self, edge: Callable[[int], Time], first: Time, time: Time) -> int:
        """The last window with its edge at or before `time`, where window 0 has its edge at `first`."""
        slide = self.slide
        if isinstance(first, int) and isinstance(slide, int):
            # whole edges are at or before what is whole of the time
            return int(((time if isinstance(time, int) else math.floor(time)) - first) // slide)
        slides = (time - first) / slide
        last = math.floor(slides) if abs(slides) <= 2**52 else 0
        if not abs(slides) <= 2**52 or not edge(last - 1) < edge(last) < edge(last + 1):
            raise ValueError(f"{self!r} has too many windows up to the time {time!r} to tell them apart")
        # at most a few, as floats round
        while edge(last) > time:
            last -= 1
        while edge(last + 1) <= time:
            last += 1
        return last


class Tumbling(Sliding):
    """Windows of `length` end to end; with measure="count", of so many tuples."""

    def __init__(
        self, length: float, *, offset: float = 0, measure: Literal["time", "count"] = "time"
    ) -> None:
        super().__init__(length, length, offset=offset, measure=measure)

    def fingerprint(self) -> str:
        return f"Tumbling({', '.join([str(self.length), *self._options()])})"


class FixedBand(EdgeWindow):
    """One window, [start, start + length)."""

    def __init__(self, start: float, length: float) -> None:
        self.start, self.length = number("FixedBand", "start", start), positive("FixedBand", "length", length)
        self.end = self.start + self.length

    def fingerprint(self) -> str:
        return f"FixedBand(start={self.start}, length={self.length})"

    def edge_after(self, time: Time) -> Time | None:
        return next((edge for edge in (self.start, self.end) if edge > time), None)

    def holding(self, time: Time) -> list[Span]:
        return [(self.start, self.end)] if self.start <= time < self.end else []


def is_counted(kind: Window) -> bool:
    """Whether its windows are so many tuples, and have no edges in time."""
    return isinstance(kind, Sliding) and kind.measure == "count"


class Session(Window):
    """Tuples that follow each other within `gap`; a tuple exactly `gap` after the last one still joins.

    A session ends `gap` after its last tuple.
    """

    def __init__(self, gap: float) -> None:
        self.gap = positive("Session", "gap", gap)

    def fingerprint(self) -> str:
        return f"Session(gap={self.gap})"


def number(kind: str, name: str, value: Any) -> Any:
    """A finite number, plain."""
    value = value.item() if isinstance(value, np.generic) or getattr(value, "ndim", 1) == 0 else value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{kind}({name}=...) is a number in the unit of the times, got {value!r}")
    if not abs(value) <= MAX_TIME:
        raise ValueError(f"{kind}({name}=...) is finite and fits in 64 bits, got {value!r}")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def positive(kind: str, name: str, value: Any) -> Any:
    value = number(kind, name, value)
    if value <= 0:
        raise ValueError(f"{kind}({name}=...) is greater than 0, got {value!r}")
    return value


def positive_count(kind: str, name: str, value: Any) -> int:
    """How many tuples."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or (not isinstance(plain, int) and not _is_whole(plain)):
        raise TypeError(f"{kind}({name}=...) is a whole number of tuples, got {value!r}")
    return int(positive(kind, name, plain))


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def after(time: Time) -> Time:
    """The least time that is greater, between numbers that are whole or real; none is beyond infinity."""
    if abs(time) == math.inf:
        return time
    return math.nextafter(time, math.inf) if -(2**53) <= time < 2**53 else math.floor(time) + 1


def before(time: Time) -> Time:
    return -after(-time)
