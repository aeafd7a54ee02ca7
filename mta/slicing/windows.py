"""The kinds of windows that a query may ask for.

- `Tumbling`, `Sliding`, `FixedBand` and your own `EdgeWindow`: their edges are known before any tuple comes.
- `Session`: gaps between tuples end them.
- `Delta`, `Punctuation` and your own `ContentWindow`: the values of tuples open them.
- `Tumbling` and `Sliding` with measure="count": numbers of tuples.

All are half open: a window [start, end) holds the tuples with start <= time < end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, TypeGuard

from mta.checks import count_option, duration_option, positive_duration, positive_option
from mta.functions import described
from mta.kinds import Time, Value
from mta.monoids.base import required
from mta.monoids.columns import number as checked_number
from mta.options import check_name
from mta.times.durations import Duration
from mta.times.kinds import (
    ANY,
    NUMBERS,
    PLAIN,
    TimeKind,
    as_people_have_it,
    is_date,
    kinds_with,
    number_of,
)

#: the start and the end of a window
Span: TypeAlias = tuple[Time, Time]

#: what `ContentWindow.mark` returns: a plain value
Mark: TypeAlias = Any


class Window(ABC):
    """A kind of windows, which a query asks for. Kinds are values: compare them, share them."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that names the kind and its options; a checkpoint compares it."""

    @property
    def kinds_of_times(self) -> frozenset[TimeKind]:
        """The kinds of times that the windows go with, by the durations that they were made with."""
        return ANY

    def __repr__(self) -> str:
        return self.fingerprint()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())


class EdgeWindow(Window):
    """Windows in event time that do not depend on the tuples. Subclass it for windows of your own.

    Implement `edge_after`, `holding` and `fingerprint`. All three must answer the same in every process.
    Windows may overlap, and may leave out some times; finitely many windows hold a time.
    """

    @abstractmethod
    def edge_after(self, time: Time) -> Time | None:
        """The first time after `time` at which a window starts or ends; None if there is none."""

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
        """The windows that hold `time` and end at `edge`, which is the first edge after `time`."""
        return [span for span in self.holding(time) if span[1] == edge]

    def reach(self, time: Time) -> Time:
        """The earliest start of the windows that hold `time`; `time` itself if none does."""
        return min((start for start, _ in self.holding(time)), default=time)

    def last_end(self, time: Time) -> Time:
        """The latest end of the windows that hold `time`; `time` itself if none does."""
        return max((end for _, end in self.holding(time)), default=time)


class Sliding(EdgeWindow):
    """Windows of one length, one of which starts every `slide`.

    - `length`: the length of a window: a duration with its unit, such as "1 hour" or a `timedelta`, for times
      that are dates, or a number in the unit of the times; a number of tuples with measure="count".
    - `slide`: the distance between the starts of two windows, in the same unit.
    - `offset`: a time at which a window starts; the others start whole slides from there. A duration is a
      time after 1970 began.
    - `measure`: "time", or "count" for windows of `length` tuples, in the order of their times.

    Raises TypeError for options of another type, or of two units, and ValueError if length or slide is not
    above 0 or an offset is given with measure="count". Edges are computed in constant time and not stored.
    """

    def __init__(
        self, length: Any, slide: Any, *, offset: Any = 0, measure: Literal["time", "count"] = "time"
    ) -> None:
        if measure not in ("time", "count"):
            raise ValueError(f'measure is "time" or "count", got {measure!r}')
        kind = type(self).__name__
        self.measure = measure
        self.length: Time
        self.slide: Time
        self._kinds = ANY
        self.offset, kinds = time_option(kind, "offset", offset)
        if measure == "count":
            self.length, self.slide = count_option(kind, "length", length), count_option(kind, "slide", slide)
            if self.offset != 0:
                raise ValueError(f'{kind}(offset=...) goes with measure="time" only, got {offset!r}')
        else:
            durations = {
                "length": positive_duration(kind, "length", length),
                "slide": positive_duration(kind, "slide", slide),
            }
            self.length, self.slide = (each.amount for each in durations.values())
            self._kinds = _together(kind, "offset", offset, kinds, durations)
        whole = round(self.length / self.slide) if self.length / self.slide < 2**53 else 0
        #: the number of slides in a length, where it is whole
        self._slides = whole if whole and whole * self.slide == self.length else None

    def fingerprint(self) -> str:
        parts = [f"length={self._text(self.length)}", f"slide={self._text(self.slide)}"]
        return f"Sliding({', '.join(parts + self._options())})"

    def _options(self) -> list[str]:
        options = [] if not self.offset else [f"offset={shown_time(self.offset, self._kinds)}"]
        return options if self.measure == "time" else [*options, 'measure="count"']

    def _text(self, length: Time) -> str:
        return repr(Duration(length, real=NUMBERS not in self._kinds))

    @property
    def kinds_of_times(self) -> frozenset[TimeKind]:
        return self._kinds

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
        """The number of the last window whose edge is at or before `time`; window 0 has it at `first`."""
        slide = self.slide
        if isinstance(first, int) and isinstance(slide, int):
            # a whole edge is at or before a time if it is at or before the whole part of the time
            return int(((time if isinstance(time, int) else math.floor(time)) - first) // slide)
        slides = (time - first) / slide
        last = math.floor(slides) if abs(slides) <= 2**52 else 0
        if not abs(slides) <= 2**52 or not edge(last - 1) < edge(last) < edge(last + 1):
            raise ValueError(f"{self!r} has too many windows up to the time {time!r} to tell them apart")
        # floats round, so the quotient may be wrong by a few
        while edge(last) > time:
            last -= 1
        while edge(last + 1) <= time:
            last += 1
        return last


class Tumbling(Sliding):
    """Windows of one length, end to end.

    - `length`: the length of a window: a duration with its unit, such as "1 hour" or a `timedelta`, for times
      that are dates, or a number in the unit of the times; a number of tuples with measure="count".
    - `offset`: a time at which a window starts. A duration is a time after 1970 began.
    - `measure`: "time", or "count" for windows of `length` tuples, in the order of their times.

    Raises TypeError for options of another type, or of two units, and ValueError if length is not above 0 or
    an offset is given with measure="count".
    """

    def __init__(self, length: Any, *, offset: Any = 0, measure: Literal["time", "count"] = "time") -> None:
        super().__init__(length, length, offset=offset, measure=measure)

    def fingerprint(self) -> str:
        return f"Tumbling({', '.join([self._text(self.length), *self._options()])})"


class FixedBand(EdgeWindow):
    """One window, [start, start + length), and no other.

    Both are numbers; or `start` is a date, and `length` a duration with its unit.

    Raises TypeError for arguments of another type, and ValueError if length is not above 0.
    """

    def __init__(self, start: Any, length: Any) -> None:
        self.start, kinds = time_option("FixedBand", "start", start)
        duration = positive_duration("FixedBand", "length", length)
        self.length: Time = duration.amount
        self.end = self.start + self.length
        self._kinds = _together("FixedBand", "start", start, kinds, {"length": duration})

    def fingerprint(self) -> str:
        length = Duration(self.length, real=NUMBERS not in self._kinds)
        return f"FixedBand(start={shown_time(self.start, self._kinds)}, length={length!r})"

    @property
    def kinds_of_times(self) -> frozenset[TimeKind]:
        return self._kinds

    def edge_after(self, time: Time) -> Time | None:
        return next((edge for edge in (self.start, self.end) if edge > time), None)

    def holding(self, time: Time) -> list[Span]:
        return [(self.start, self.end)] if self.start <= time < self.end else []


def is_counted(kind: Window) -> TypeGuard[Sliding]:
    """Whether the windows are numbers of tuples, and have no edges in time."""
    return isinstance(kind, Sliding) and kind.measure == "count"


def has_edges(kind: Window) -> TypeGuard[EdgeWindow]:
    """Whether the windows have edges in time."""
    return isinstance(kind, EdgeWindow) and not is_counted(kind)


class Session(Window):
    """Tuples that follow each other within `gap`; a tuple exactly `gap` after the last one still joins.

    A session ends `gap` after its last tuple. `gap` is a duration with its unit, such as "30 minutes" or a
    `timedelta`, for times that are dates, or a number in the unit of the times.

    Raises TypeError if gap is no duration, and ValueError if gap is not above 0.
    """

    def __init__(self, gap: Any) -> None:
        self._duration = positive_duration("Session", "gap", gap)
        self.gap: Time = self._duration.amount

    def fingerprint(self) -> str:
        return f"Session(gap={self._duration!r})"

    @property
    def kinds_of_times(self) -> frozenset[TimeKind]:
        return kinds_with(self._duration)


class ContentWindow(Window):
    """Windows that tuples open by their values. Subclass it for windows of your own.

    A window begins with a tuple and ends before the tuple that opens the next one, in the order of times. A
    late tuple may open a window in the past, and may move all windows that follow.

    Implement `mark`, `opens` and `fingerprint`. All three must answer the same in every process. A watermark
    calls `opens` for all tuples whose windows may still change.
    """

    @abstractmethod
    def mark(self, value: Value) -> Mark:
        """The part of a tuple's value that `opens` looks at: a plain value."""

    @abstractmethod
    def opens(self, first: Mark, mark: Mark) -> bool:
        """Whether a tuple opens a window; `first` is the mark of the first tuple in the window before."""


class Delta(ContentWindow):
    """A window ends at a tuple whose `field` is more than `d` away from its value in the first tuple.

    - `field`: the name of a field with numbers; None where the elements are numbers.
    - `d`: the distance that opens a window.

    Raises TypeError for arguments of another type, and ValueError if d is not above 0.
    """

    def __init__(self, field: str | None, d: float) -> None:
        if field is not None and not isinstance(field, str):
            raise TypeError(f"Delta takes the name of a field, or None for plain elements, got {field!r}")
        self.field, self.d = field, positive_option("Delta", "d", d)

    def fingerprint(self) -> str:
        return f"Delta({self.field!r}, {self.d})"

    def mark(self, value: Value) -> Mark:
        return checked_number(value if self.field is None else required(value, self.field, self), self)

    def opens(self, first: Mark, mark: Mark) -> bool:
        return bool(abs(mark - first) > self.d)


class Punctuation(ContentWindow):
    """A window begins at each tuple for which `predicate(value)` is true.

    - `predicate`: a function of a tuple's value. It is given again when a checkpoint is restored.
    - `name`: stands for the predicate in a checkpoint; without a name the code of the function does.

    Raises TypeError if the predicate cannot be called or the name is no text.
    """

    def __init__(self, predicate: Callable[[Any], Any], *, name: str | None = None) -> None:
        if not callable(predicate):
            raise TypeError(f"Punctuation takes a function of a tuple's value, got {predicate!r}")
        check_name("Punctuation", name)
        self.predicate = predicate
        self._fingerprint = f"Punctuation({described(predicate) if name is None else name})"

    def fingerprint(self) -> str:
        return self._fingerprint

    def mark(self, value: Value) -> bool:
        return bool(self.predicate(value))

    def opens(self, first: Mark, mark: Mark) -> bool:  # noqa: ARG002
        return bool(mark)


def time_option(owner: str, name: str, value: Any) -> tuple[Time, frozenset[TimeKind]]:
    """An option that is a time: a number, a date, or a duration after 1970 began; and its kinds of times."""
    if is_date(value):
        number, kind = number_of(value)
        return number, frozenset([kind])
    duration = duration_option(owner, name, value)
    return duration.amount, kinds_with(duration)


def shown_time(time: Time, kinds: frozenset[TimeKind]) -> str:
    """The text of a time that an option of a window says, in a fingerprint."""
    if len(kinds) == 1 and kinds != PLAIN:
        (kind,) = kinds
        return str(as_people_have_it(time, kind).isoformat())
    return repr(Duration(time, real=NUMBERS not in kinds))


def _together(
    owner: str, name: str, time: Any, kinds: frozenset[TimeKind], durations: dict[str, Duration]
) -> frozenset[TimeKind]:
    """The kinds of times that the options of a window go with: a time with its name, and durations.

    Raises TypeError if there are none.
    """
    found = kinds.intersection(*map(kinds_with, durations.values()))
    if not found:
        options = [f"{each}={duration!r}" for each, duration in durations.items()]
        if len(set(durations.values())) < len(durations):  # the length of a tumbling window is its slide
            del options[1:]
        if kinds != ANY:
            options.append(f"{name}={time!r}")
        raise TypeError(
            f"{owner} takes durations and times of one unit, all numbers or all with their unit, "
            f"got {', '.join(options)}"
        )
    return found


def after(time: Time) -> Time:
    """The least number above a time: an integer or a 64-bit float. An infinity stays."""
    if abs(time) == math.inf:
        return time
    return math.nextafter(time, math.inf) if -(2**53) <= time < 2**53 else math.floor(time) + 1


def before(time: Time) -> Time:
    """The greatest number below a time."""
    return -after(-time)
