"""What all rivals share: checks, arrivals and watermarks. A rival adds `_take` and `_due`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from mta.checks import check_numbers, check_time
from mta.errors import OutOfOrderError
from mta.kinds import State, Time
from mta.monoids.base import Monoid
from mta.slicing.batches import plain_rows
from mta.slicing.queries import checked_queries
from mta.slicing.settings import checked_lateness
from mta.slicing.window_manager import Result, TimedResult, result_order
from mta.slicing.windows import Window, is_counted


class Rival(ABC):
    """Windows over a stream out of order, with insert, extend, watermark and late_dropped."""

    #: the kinds of windows that it takes, and why it takes no others
    takes: ClassVar[tuple[type[Window], ...]]
    takes_only: ClassVar[str]

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        self.monoid = monoid
        self.kinds = {name: query.kind for name, query in checked_queries(queries).items()}
        self.lateness = checked_lateness(lateness)
        for name, kind in self.kinds.items():
            if is_counted(kind) or not isinstance(kind, self.takes):
                raise ValueError(f"the query {name!r} is {kind!r}{self.takes_only}")
        self.late_dropped = 0
        self._time: Time = -math.inf
        self._arrivals = 0

    def insert(self, value: Any, time: float) -> list[Result]:
        if type(time) is not int and type(time) is not float:
            time = check_time(time)
        if self._take(time, self._arrivals, self.monoid.lift(value)):
            self._arrivals += 1
        else:
            self.late_dropped += 1
        return []

    def extend(self, values: Any, times: Any) -> list[Result]:
        rows = plain_rows(self.monoid, values)
        for value in rows:
            self.monoid.lift(value)
        for value, time in zip(rows, check_numbers(times, len(rows)).tolist(), strict=True):
            self.insert(value, time)
        return []

    def watermark(self, time: float) -> list[Result]:
        time = check_time(time)
        if time < self._time:
            raise OutOfOrderError(f"the watermark {time!r} is before {self._time!r}, the one before it")
        found = sorted(self._due(time), key=result_order)
        self._time = time
        return [each.result for each in found]

    @abstractmethod
    def _take(self, time: Time, arrival: int, state: State) -> bool:
        """Adds a tuple; False if it is late for all queries."""

    @abstractmethod
    def _due(self, time: Time) -> list[TimedResult]:
        """The results that are due at a watermark, in any order."""
