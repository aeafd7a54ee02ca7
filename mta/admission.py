"""What comes into a window: elements and batches that were checked, before anything has changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.checks import MAX_TIME, Clock, check_batch_times, check_time
from mta.core.log import Log
from mta.core.outcome import Batch
from mta.encoding.packing import check_text, pack, pack_entries
from mta.errors import OutOfOrderError
from mta.inputs import lift_of, row_of


def _all_numbers(row: tuple[Any, ...]) -> bool:
    """Whether any store can hold it, found out without packing it."""
    for each in row:  # noqa: SIM110  a generator would cost more than what is in it
        if type(each) is not float and type(each) is not int:
            return False
    return True


class Admission:
    """The door of one window. Waits there until the buffer has room for what an element may fill."""

    __slots__ = ("_lift", "_log", "_row", "clock", "stored")

    def __init__(self, log: Log, *, asked_for_times: bool) -> None:
        self._log = log
        self._row, self._lift = row_of(log.layout.monoid), lift_of(log.layout.monoid)
        self.clock = Clock(asked_for=asked_for_times)
        #: whether elements go to a store, which cannot hold everything
        self.stored = False

    def one(self, value: Any, time: Any) -> tuple[Any, Any, Any]:
        """An element's row, state and time."""
        log, clock = self._log, self.clock
        tail = log.tail
        if time is None:  # then all were counted, so that it comes behind the youngest
            time = tail if clock.given is False else clock.counted(tail)
        else:
            if type(time) is not int and type(time) is not float:
                time = check_time(time)
            if not clock.given:
                clock.give(tail)
            if not log.youngest <= time <= MAX_TIME:
                check_time(time)
                raise self._out_of_order(time)
        row = value if self._row is None else self._row(value)
        state = row if self._lift is None else self._lift(row)
        if self.stored and (type(row) not in (float, int) or not tail):
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
        elif count:
            self.clock.give(log.tail)
        times = check_batch_times(times, count)
        if count and times[0] < log.youngest:
            raise self._out_of_order(times[:1].tolist()[0], " in row 0")
        if self.stored and count:
            layout.check_storable(elements)
            if not log.tail:
                layout.check_storable_states(layout.lift(layout.cut(elements, 0, 1)))
        log.pages.admit(log.tail)
        return Batch(elements, times)

    def _check_storable(self, row: Any, state: Any) -> None:
        """Refuses what a store cannot hold now, and not when the page is full."""
        kind = type(row)
        if kind is str:
            check_text(row)
        elif kind is not tuple or not _all_numbers(row):
            pack(row)
        if not self._log.tail:
            pack_entries([self._log.layout.monoid.pack(state)])

    def _out_of_order(self, time: Any, where: str = "") -> OutOfOrderError:
        return OutOfOrderError(
            f"time {time!r}{where} is before {self._log.youngest!r}, the time of the youngest element "
            "inserted; insert elements in the order of their times"
        )
