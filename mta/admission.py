"""Elements and batches are checked here before they come into a window, while nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.checks import MAX_TIME, Clock, check_time
from mta.core.log import Log
from mta.core.view import Batch
from mta.encoding.packing import check_text, pack, pack_entries
from mta.errors import OutOfOrderError
from mta.inputs import lift_of, row_of
from mta.kinds import Row, State, Time, Value
from mta.times.kinds import NUMBERS


def _all_numbers(row: tuple[Any, ...]) -> bool:
    """Whether any store can hold it, found out without packing it."""
    for each in row:  # noqa: SIM110  a generator would cost more than what is in it
        if type(each) is not float and type(each) is not int:
            return False
    return True


class Admission:
    """Checks what comes into one window, and waits until the buffer has room for pages that may fill."""

    __slots__ = ("_lift", "_log", "_row", "_stored", "clock")

    def __init__(self, log: Log, *, in_microseconds: bool | None, stored: bool) -> None:
        self._log = log
        self._row, self._lift = row_of(log.layout.monoid), lift_of(log.layout.monoid)
        self.clock = Clock(in_microseconds)
        #: whether elements go to a store, which cannot hold everything
        self._stored = stored

    def one(self, value: Value, time: Time | None) -> tuple[Any, Any, Any]:
        """An element's row, state and time."""
        log, clock = self._log, self.clock
        tail = log.tail
        if time is None:  # then all were counted, so that it comes behind the youngest
            time = tail if clock.given is False else clock.counted(tail)
        else:
            if type(time) is not int and type(time) is not float:
                time = clock.take(time, tail)
            elif not clock.numbers:
                clock.give(time, NUMBERS, tail)
            if not log.youngest <= time <= MAX_TIME:
                check_time(time)
                raise self._out_of_order(time)
        row = value if self._row is None else self._row(value)
        state = row if self._lift is None else self._lift(row)
        if self._stored and (type(row) not in (float, int) or not tail):
            self._check_storable(row, state)
        if not (tail + 1) & log.mask:
            log.pages.admit(tail)
        return row, state, time

    def batch(self, values: Any, times: Any) -> Batch:
        log, layout = self._log, self._log.layout
        elements = layout.elements(values)
        count = layout.length(elements)
        if times is None:
            first = self.clock.counted(log.tail) if count else log.tail
            times = np.arange(first, first + count)
        else:
            times = self.clock.take_all(times, count, log.tail)
        if count and times[0] < log.youngest:
            raise self._out_of_order(times[:1].tolist()[0], " in row 0")
        if self._stored and count:
            layout.check_storable(elements)
            if not log.tail:
                layout.check_storable_states(layout.lift(layout.cut(elements, 0, 1)))
        log.pages.admit(log.tail)
        return Batch(elements, times)

    def _check_storable(self, row: Row, state: State) -> None:
        """Refuses what a store cannot hold now, and not when the page is full."""
        kind = type(row)
        if kind is str:
            check_text(row)
        elif kind is not tuple or not _all_numbers(row):
            pack(row)
        if not self._log.tail:
            pack_entries([self._log.layout.monoid.pack(state)])

    def _out_of_order(self, time: Time, where: str = "") -> OutOfOrderError:
        time, youngest = map(self.clock.shown, (time, self._log.youngest))
        return OutOfOrderError(
            f"time {time!r}{where} is before {youngest!r}, the time of the youngest element inserted; insert "
            "elements in the order of their times"
        )
