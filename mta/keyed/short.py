"""Keys whose windows are short: the results of all their rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mta.core.states import layout_of
from mta.keyed.block import Block, elements, end_to_end, ranges, taken
from mta.keyed.folds import first_rows, folds
from mta.keyed.group import KeyedPlan
from mta.monoids.base import Array

#: Rows of windows whose results are computed together, unless one key has more.
PART_ROWS = 1 << 15


class ShortWindows:
    """The rows that keys had, and behind those of each key the new ones.

    `digests` are the keys, ascending; `lengths`, `times` and `values` are their new rows, key by key.
    """

    def __init__(
        self,
        plan: KeyedPlan,
        before: Block,
        digests: Array,
        lengths: Array,
        times: Array,
        values: Sequence[Any],
    ) -> None:
        self._plan, self._before = plan, before
        self._digests, self._new_lengths, self._new_times = digests, lengths, times
        #: the keys that had rows, by their indices among the digests
        self._known = np.searchsorted(digests, before.digests)
        had = np.zeros(len(digests), dtype=np.int64)
        had[self._known] = before.rows
        #: the start of each key's rows, and their number
        self._lengths = had + lengths
        self._starts = np.cumsum(self._lengths) - self._lengths
        #: where the new rows are
        self._new = ranges(self._starts + had, lengths)
        # the rows of before come first in each column, the new ones behind them; this sorts them by key
        old, count = int(had.sum()), int(self._lengths.sum())
        order = np.empty(count, dtype=np.int64)
        order[ranges(self._starts[self._known], before.rows)] = np.arange(old)
        order[self._new] = np.arange(old, count)
        self._times: Array | None = None
        if before.times is not None:
            self._times = np.concatenate([before.times, times])[order]
        self._firsts = first_rows(self._starts, count, self._times, plan.limits)
        #: the columns of each program
        self._columns = taken(end_to_end([before.values, values]), order)

    def parts(self) -> Iterator[tuple[int, int]]:
        """Ranges of the new rows, each of some keys, to be computed together."""
        ends, new_ends = np.cumsum(self._lengths), np.cumsum(self._new_lengths)
        first = 0
        while first < len(ends):
            before = int(self._starts[first])
            last = max(first, int(np.searchsorted(ends, before + PART_ROWS, "right")) - 1)
            yield int(new_ends[first] - self._new_lengths[first]), int(new_ends[last])
            first = last + 1

    def results(self, number: int, start: int, stop: int) -> Any:
        """The results of one program for new rows start to stop, from all rows in their windows."""
        program = self._plan.programs[number]
        layout = layout_of(program.monoid)
        rows = self._new[start:stop]
        first, last = int(self._firsts[rows[0]]), int(rows[-1]) + 1
        values = elements(self._columns[number], len(self._firsts))
        states = layout.lift(layout.elements(program.cut(values, first, last)))
        inner = self._starts[(self._starts > first) & (self._starts < last)] - first
        firsts = np.maximum(self._firsts[first:last] - first, 0)
        found = folds(layout, states, np.concatenate([[0], inner]), firsts)
        return layout.lower(layout.take(found, rows - first))

    def after(self, seen: int) -> tuple[Block, int]:
        """The keys with the rows that are in their windows now, and the number of rows that have left."""
        last = self._starts + self._lengths - 1
        first = self._firsts[last]
        counts = last + 1 - first
        rows = ranges(first, counts)
        youngest = self._new_times[np.cumsum(self._new_lengths) - 1]
        # a key may be kept for rows that are still to come
        youngest[self._known] = np.maximum(youngest[self._known], self._before.youngest)
        block = Block(
            self._digests,
            youngest,
            np.full(len(counts), seen, dtype=np.int64),
            counts,
            None if self._times is None else self._times[rows],
            taken(self._columns, rows),
            np.full(len(counts), None, dtype=object),
        )
        return block, int(self._lengths.sum()) - len(rows)
