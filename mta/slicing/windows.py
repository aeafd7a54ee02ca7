"""Kinds of windows whose edges are known before any tuple comes: Tumbling, Sliding, and those of a user.

All are half open: a window [start, end) has the tuples with start <= time < end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
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
        if self._slides is not None:
            return start
        last = self._number(time)
        ends = (self._end(k) for k in range(last - math.ceil(self.length / self.slide) - 1, last + 2))
        return min(start, min((end for end in ends if end > time), default=start))

    def start_after(self, time: Time) -> Time:
        return self._start(self._number(time) + 1)

    def holding(self, time: Time) -> list[Span]:
        number = self._number(time)
        spans: list[Span] = []
        while self._end(number) > time:
            spans.append((self._start(number), self._end(number)))
            number -= 1
        return spans[::-1]

    def ending(self, time: Time, edge: Time) -> list[Span]:
        if self._slides is not None:
            number = self._number(edge) - self._slides
            return [(self._start(number), edge)] if self._start(number) <= time else []
        number = self._number(edge - self.length)
        return [
            (self._start(k), edge)
            for k in (number - 1, number, number + 1)
            if self._end(k) == edge and self._start(k) <= time
        ]

    def reach(self, time: Time) -> Time:
        number = self._number(time - self.length) - 1
        while self._end(number) <= time:
            number += 1
        return min(self._start(number), time)

    def _start(self, number: int) -> Time:
        return self.offset + number * self.slide

    def _end(self, number: int) -> Time:
        if self._slides is not None:
            return self._start(number + self._slides)
        return self._start(number) + self.length

    def _number(self, time: Time) -> int:
        """The number of the last window that starts at or before `time`."""
        if isinstance(time, int) and isinstance(self.slide, int) and isinstance(self.offset, int):
            return int((time - self.offset) // self.slide)
        slides = (time - self.offset) / self.slide
        if not abs(slides) <= 2**52:
            raise ValueError(f"{self!r} has too many windows up to the time {time!r} to tell them apart")
        last: int = math.floor(slides)
        while self._start(last) > time:
            last -= 1
        while self._start(last + 1) <= time:
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
    """The least time that is greater, between numbers that are whole or real."""
    return math.nextafter(time, math.inf) if abs(time) <= 2**53 else math.floor(time) + 1


def before(time: Time) -> Time:
    return -after(-time)
