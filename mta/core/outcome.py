"""A batch of rows, and its outcome: the results and the window after it."""

from __future__ import annotations

from typing import Any, NamedTuple

from mta.core.stack import Stack
from mta.core.states import Layout, Run
from mta.kinds import State
from mta.monoids.base import Array


class Batch:
    """Rows that were checked."""

    __slots__ = ("elements", "times")

    def __init__(self, elements: Run, times: Array) -> None:
        self.elements = elements
        self.times = times

    def __len__(self) -> int:
        return len(self.times)

    def time(self, row: int) -> Any:
        """The time of a row as a plain number."""
        return self.times[row : row + 1].tolist()[0]

    def part(self, layout: Layout, start: int, stop: int) -> Batch:
        return Batch(layout.cut(self.elements, start, stop), self.times[start:stop])

    @property
    def last(self) -> Any:
        """The time of the last row."""
        return self.time(len(self.times) - 1)


class Outcome(NamedTuple):
    """The results of a batch, and the window after it."""

    results: Any
    #: the head of the last row's window, and the time of the element there
    head: int
    oldest: Any
    #: the stack, walked up to that head; None if the last row's window lies in the batch
    walker: Stack | None
    #: the aggregate from the walker's boundary, or from the head without a walker, to the new tail
    r1: State
    #: the aggregate of the last row's window
    total: State
