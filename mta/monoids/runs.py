"""The longest run of elements that increase from one to the next."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from mta.kinds import Packed, Row, State, Value
from mta.monoids.base import Monoid, required
from mta.monoids.columns import number


class LongestRun(NamedTuple):
    """The start and the end of a run, the interval between them, and its number of elements.

    All but the count are None if there is no run.

    >>> from mta.monoids import LongestRun
    >>> LongestRun(start=10, end=30, interval=20, count=3).count
    3
    """

    start: int | float | None
    end: int | float | None
    interval: int | float | None
    count: int  # type: ignore[assignment]


_WORD = 2**63

_tuple = tuple.__new__

_Number: TypeAlias = int | float | None

#: (n, first value, last value, length of the run at the head, length of the run at the tail,
#:  length of the longest run, its position, and four times, all None if the elements have no times:
#:  end of the run at the head, start of the run at the tail, start and end of the longest run).
#: All is None or 0 for no elements.
RunState: TypeAlias = tuple[int, _Number, _Number, int, int, int, int, _Number, _Number, _Number, _Number]


class LongestIncreasingRun(Monoid):
    """The longest run of consecutive numbers that increase, the oldest one if several tie.

    An element is a number or a pair (time, number), or with field names a mapping:
    `LongestIncreasingRun("value")` or `LongestIncreasingRun("value", time="ts")`. The result is a LongestRun.
    Its start and end are times if elements have times, and otherwise positions, counted from the first
    element of the window. A combine costs constant time.

    Raises TypeError for a time field without a value field, for an element that is no number, and for
    elements with and without times in one window.

    >>> from mta import AmortizedMTA, monoids
    >>> window = AmortizedMTA(monoids.LongestIncreasingRun("load", time="ts"))
    >>> for ts, load in ((10, 5), (20, 1), (30, 4), (40, 9), (50, 2)):
    ...     window.insert({"ts": ts, "load": load})
    >>> window.query()
    LongestRun(start=20, end=40, interval=20, count=3)
    """

    identity: RunState = (0, None, None, 0, 0, 0, 0, None, None, None, None)

    def __init__(self, value: str | None = None, *, time: str | None = None) -> None:
        if time is not None and value is None:
            raise TypeError("LongestIncreasingRun takes a time field together with a value field only")
        for name in (value, time):
            if name is not None and not isinstance(name, str):
                raise TypeError(f"LongestIncreasingRun takes field names, got {name!r}")
        self.fields = tuple(name for name in (value, time) if name is not None)

    def row(self, value: Value) -> Row:
        if self.fields:  # a window of plain elements calls check_row itself
            inputs = [required(value, field, self) for field in self.fields]
            value = (inputs[1], inputs[0]) if len(inputs) == 2 else inputs[0]
        return self.check_row(value)

    def check_row(self, row: Row) -> Row:
        if type(row) is tuple and len(row) == 2:
            time, value = row
            if type(value) is float and value == value and type(time) is int and -_WORD <= time < _WORD:
                return row  # the common case
        if not isinstance(row, (tuple, list)):
            return number(row, self)
        if len(row) != 2:
            raise TypeError(f"{self!r} takes a number or a pair (time, number), got {row!r}")
        return (number(row[0], self), number(row[1], self))

    def lift(self, value: Value) -> RunState:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Row) -> RunState:
        if type(row) is tuple or isinstance(row, (tuple, list)):
            time, value = row
            return (1, value, value, 1, 1, 1, 0, time, time, time, time)
        return (1, row, row, 1, 1, 1, 0, None, None, None, None)

    def combine(self, older: State, younger: State) -> State:
        if not older[0]:
            return younger
        if not younger[0]:
            return older
        n, first, before, head, tail, best, at, head_end, tail_start, start, end = older
        m, after, last, head_b, tail_b, best_b, at_b, head_end_b, tail_start_b, start_b, end_b = younger
        if (start is None) != (start_b is None):
            raise TypeError(f"{self!r} cannot mix elements with times and elements without")
        if before < after:
            if tail + head_b > best:
                best, at, start, end = tail + head_b, n - tail, tail_start, head_end_b
            if head == n:
                head, head_end = n + head_b, head_end_b
            if tail_b == m:
                tail_b, tail_start_b = m + tail, tail_start
        if best_b > best:
            best, at, start, end = best_b, n + at_b, start_b, end_b
        return (n + m, first, last, head, tail_b, best, at, head_end, tail_start_b, start, end)

    def lower(self, state: State) -> LongestRun:
        count, at, start, end = state[5], state[6], state[9], state[10]
        if not count:
            return LongestRun(None, None, None, 0)
        if start is None:
            start, end = at, at + count - 1
        # a call of `LongestRun` would take as long as a combine
        return _tuple(LongestRun, (start, end, end - start, count))

    def unpack(self, packed: Packed) -> RunState:
        n, first, last, head, tail, best, at, *times = state = tuple(packed)
        if len(times) != 4 or any(type(count) is not int for count in (n, head, tail, best, at)):
            raise TypeError(f"{self!r} has no such state: {packed!r}")
        if not n and state == self.identity:
            return state
        for each in (first, last, *([] if times == [None] * 4 else times)):
            number(each, self)
        return state

    def fingerprint(self) -> str:
        names = [repr(self.fields[0])] if self.fields else []
        names += [f"time={name!r}" for name in self.fields[1:]]
        return f"LongestIncreasingRun({', '.join(names)})"

    @staticmethod
    def starts_after(total: RunState, old: RunState) -> bool:
        """Whether the longest run of `total` starts after the end of its prefix `old`."""
        return bool(total[0] and total[6] >= old[0])
