"""What an aggregate store answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import Any

from mta.core.states import NOTHING
from mta.monoids.base import Monoid
from mta.slicing.slices import Slices
from mta.slicing.windows import Time


class AggregateStore(ABC):
    """Aggregates of runs of slices. What it keeps follows from the slices."""

    #: whether slices in the process may become one where no query tells them apart
    joins: bool = True

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid

    @abstractmethod
    def fold(self, book: Slices, start: int, stop: int) -> Any:
        """The aggregate of slices `start` to `stop` - 1, of which there is one at least."""

    def between(self, book: Slices, start: Time, end: Time) -> Any:
        """The aggregate of the slices that start in [start, end), or NOTHING."""
        first, stop = bisect_left(book.firsts, start), bisect_left(book.firsts, end)
        return self.fold(book, first, stop) if first < stop else NOTHING

    def has_before(self, book: Slices, time: Time) -> bool:  # noqa: ARG002
        """Whether slices that are no more in the process have tuples at `time` or after it."""
        return False
