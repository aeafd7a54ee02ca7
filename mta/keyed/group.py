"""A group that goes on from chunk to chunk: rows in memory while its window is short, then a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from mta.core.states import layout_of
from mta.keyed.folds import first_rows, folds
from mta.monoids.base import Array, Monoid
from mta.policies import Policy

#: A window of no more rows is kept as it is, and computed anew with every chunk.
SHORT_WINDOW = 4096


class Program(Protocol):
    """What the windows of a group compute, and how batches of its elements are cut and joined."""

    @property
    def monoid(self) -> Monoid: ...

    def joined(self, before: Any, values: Any) -> Any:
        """Two batches of elements as one."""

    def kept(self, values: Any, start: int, stop: int) -> Any:
        """A copy of a part of a batch."""


class Group:
    """Has `slide`, `close` and a length, as a window has."""

    def __init__(self, program: Program, policy: Policy, make_window: Callable[[], Any], most: int) -> None:
        self._program, self._limits = program, policy.limits()
        self._layout = layout_of(program.monoid)
        self._make_window = make_window
        #: rows that are kept in memory; 0 for a policy that only a window can ask
        self._most = 0 if self._limits.predicates else most
        self._window: Any = None
        self._kept = 0
        self._values: Any = None
        self._times: Array | None = None

    def __len__(self) -> int:
        return self._kept if self._window is None else len(self._window)

    def slide(self, values: Any, times: Array | None, count: int) -> Any:
        """One result for each of `count` rows."""
        if self._window is None:
            if self._most:
                all_values, all_times = self._joined(values, times)
                total = self._kept + count
                firsts = first_rows(np.zeros(1, dtype=np.int64), total, all_times, self._limits)
                if total - int(firsts[-1]) <= self._most:
                    return self._fold(all_values, all_times, firsts)
            self.move()
        return self._window.slide(values, times)

    def close(self) -> None:
        if self._window is not None:
            self._window.close()

    @property
    def window(self) -> Any:
        """None while the rows are kept in memory."""
        return self._window

    @property
    def rows(self) -> tuple[Any, Array | None, int]:
        """The values and times that are kept in memory, and how many."""
        return self._values, self._times, self._kept

    def restore(self, values: Any, times: Array | None, count: int) -> None:
        self._values, self._times, self._kept = values, times, count

    def adopt(self, window: Any) -> None:
        self._window = window

    def move(self) -> None:
        """Has the rows in a window from now on."""
        self._window = self._make_window()
        if self._kept:
            self._window.extend(self._values, self._times)
        self._values = self._times = None

    def _joined(self, values: Any, times: Array | None) -> tuple[Any, Array | None]:
        if not self._kept:
            return values, times
        if times is not None:
            assert self._times is not None
            times = np.concatenate([self._times, times])
        return self._program.joined(self._values, values), times

    def _fold(self, values: Any, times: Array | None, firsts: Array) -> Any:
        """Results of the rows behind those that were kept; keeps those of the last one's window."""
        layout, total = self._layout, len(firsts)
        states = layout.lift(layout.elements(values))
        found = folds(layout, states, np.zeros(1, dtype=np.int64), firsts)
        results = layout.lower(layout.cut(found, self._kept, total))
        first = int(firsts[-1])
        self._kept = total - first
        self._values = self._program.kept(values, first, total)
        self._times = None if times is None else times[first:].copy()
        return results
