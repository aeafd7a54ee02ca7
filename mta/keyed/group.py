"""What the windows of keys compute, and the window of one key, batch by batch.

Its rows are in memory while the window is short; then they move into a window with pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from mta.core.states import layout_of
from mta.frames.limits import Limits
from mta.keyed.block import Shape
from mta.keyed.folds import first_rows, folds
from mta.monoids.base import Array, Monoid
from mta.policies import Policy
from mta.window import MonoidTreeAggregator

#: A window of no more rows is kept as it is, and computed anew with every batch.
SHORT_WINDOW = 4096


class Program(Protocol):
    """Aggregates that share a window, and how batches of their elements are cut and joined."""

    @property
    def monoid(self) -> Monoid: ...

    def cut(self, values: Any, start: int, stop: int) -> Any: ...

    def joined(self, before: Any, values: Any) -> Any:
        """Two batches as one."""

    def kept(self, values: Any, start: int, stop: int) -> Any:
        """A copy of a part of a batch."""


@dataclass(frozen=True)
class KeyedPlan:
    """Each key has one window for each program; all of them are under one frame."""

    shape: Shape
    programs: Sequence[Program]
    #: of each program; the same but for what their predicates see
    policies: Sequence[Policy]
    page_sizes: Sequence[int]
    #: of windows whose pages are in the store
    algorithm: type[MonoidTreeAggregator]

    @cached_property
    def limits(self) -> Limits:
        return self.policies[0].limits()

    @cached_property
    def most_rows(self) -> int:
        """The most rows of a window that is kept with those of other keys."""
        return min(SHORT_WINDOW, *self.page_sizes)


class Rows(NamedTuple):
    """A batch of elements of one program, with their times."""

    values: Any
    times: Array | None
    length: int

    def followed_by(self, new: Rows, program: Program) -> Rows:
        values, times = program.joined(self.values, new.values), new.times
        if times is not None:
            assert self.times is not None
            times = np.concatenate([self.times, times])
        return Rows(values, times, self.length + new.length)

    def last(self, count: int, program: Program) -> Rows:
        """A copy of the last `count` rows."""
        start = self.length - count
        times = None if self.times is None else self.times[start:].copy()
        return Rows(program.kept(self.values, start, self.length), times, count)


class Group:
    """Has `slide`, `close` and a length, as a window has."""

    def __init__(self, program: Program, policy: Policy, make_window: Callable[[], Any], most: int) -> None:
        self._program, self._limits = program, policy.limits()
        self._layout = layout_of(program.monoid)
        self._make_window = make_window
        #: limit on the rows in memory; 0 for a policy that needs a window
        self._most = 0 if self._limits.predicates else most
        #: None while the rows are in memory
        self.window: Any = None
        self.rows = Rows(None, None, 0)

    def __len__(self) -> int:
        return self.rows.length if self.window is None else len(self.window)

    def slide(self, values: Any, times: Array | None, count: int) -> Any:
        """One result for each of `count` rows."""
        if self.window is None:
            if self._most:
                found = self._slide_in_memory(values, times, count)
                if found is not None:
                    return found
            self.move()
        return self.window.slide(values, times)

    def close(self) -> None:
        if self.window is not None:
            self.window.close()

    def move(self) -> None:
        """Moves the rows from memory into a window."""
        window = self._make_window()
        self.window = window
        if self.rows.length:
            window.extend(self.rows.values, self.rows.times)
        self.rows = Rows(None, None, 0)

    def _slide_in_memory(self, values: Any, times: Array | None, count: int) -> Any:
        """The results, or None if the window becomes too long for memory."""
        rows, layout = Rows(values, times, count), self._layout
        if self.rows.length:
            rows = self.rows.followed_by(rows, self._program)
        total = rows.length
        start = np.zeros(1, dtype=np.int64)
        firsts = first_rows(start, total, rows.times, self._limits)
        held = total - int(firsts[-1])
        if held > self._most:
            return None
        found = folds(layout, layout.lift(layout.elements(rows.values)), start, firsts)
        results = layout.lower(layout.cut(found, total - count, total))
        self.rows = rows.last(held, self._program)
        return results
