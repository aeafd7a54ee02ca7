"""Folds of any ranges of a run, many at once, from blocks of the run.

A range is a suffix of one block, whole blocks, and a prefix of another block. Suffixes and prefixes of all
blocks take two scans, for which the blocks lie side by side. The whole blocks are ranges of a run that is
`BLOCK` times shorter. So a range costs two combines, however long it is, and ranges may come in any order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mta.core.folds import take
from mta.core.states import ColumnLayout, Layout, Run
from mta.kinds import Array

#: Entries of a block. A scan of blocks takes one call for each of these.
BLOCK = 32

#: Up to this number of entries the fixed cost of calls outweighs that of combines.
FEW_ENTRIES = 1 << 15


class Blocks:
    """A run of columns of states, or only some blocks of it."""

    def __init__(
        self, layout: ColumnLayout, states: Run, used: Array | None = None, whole: Run | None = None
    ) -> None:
        """Without `used`, `states` are those of the whole run.

        With `used`, which tells for each block whether it is there, they are those of the used blocks, and
        `whole` has the fold of each block of the run. Only the last block may be shorter than the others.
        """
        self._layout, self._states, self._whole = layout, states, whole
        #: the place of each block among those that are there
        self._places = None if used is None or used.all() else np.cumsum(used) - 1
        self._prefixes: Run | None = None
        self._suffixes: Run | None = None
        self._above: Blocks | None = None

    def folds(self, layout: Layout, starts: Array, stops: Array) -> Run:
        """For each range, none of which is empty, the fold of its entries, as states of `layout`.

        `layout` is that of the run, or of a part of its fields. The blocks where ranges begin and end must be
        there.
        """
        if self._places is None and int((stops - starts).max()) <= BLOCK:
            return _doubled(layout, layout.picked(self._states), starts, stops.copy())
        first, last = starts // BLOCK, (stops - 1) // BLOCK
        inside = first == last
        if self._places is not None:
            starts = starts + (self._places[first] - first) * BLOCK
            stops = stops + (self._places[last] - last) * BLOCK
        if inside.all():
            return self._inside(layout, starts, stops)
        if not inside.any():
            return self._across(layout, starts, stops, first, last)
        within, across = np.flatnonzero(inside), np.flatnonzero(~inside)
        parts = [
            self._inside(layout, starts[within], stops[within]),
            self._across(layout, starts[across], stops[across], first[across], last[across]),
        ]
        order = np.empty(len(starts), np.int64)
        order[within], order[across] = np.arange(len(within)), np.arange(len(within), len(starts))
        return layout.take(layout.concat(parts), order)

    # -- within a block ---------------------------------------------------------------------------------

    def _inside(self, layout: Layout, starts: Array, stops: Array) -> Run:
        """Ranges within a block."""
        states, starts, stops = _of_few_blocks(layout, layout.picked(self._states), starts, stops)
        return _doubled(layout, states, starts, stops)

    # -- over several blocks ----------------------------------------------------------------------------

    def _across(self, layout: Layout, starts: Array, stops: Array, first: Array, last: Array) -> Run:
        """Ranges that begin in block `first` and end in a later block `last`."""
        older = layout.take(layout.picked(self._of_starts()), starts)
        between = np.flatnonzero(last - first > 1)
        if len(between):
            after, until = first[between] + 1, last[between]
            # neighbours often have the same whole blocks
            new = np.ones(len(between), bool)
            new[1:] = (after[1:] != after[:-1]) | (until[1:] != until[:-1])
            distinct = np.flatnonzero(new)
            folds = self._tier().folds(layout, after[distinct], until[distinct])
            folds = layout.take(folds, np.cumsum(new) - 1)
            if len(between) == len(starts):
                older = layout.combine(older, folds)
            else:
                older = layout.put(older, between, layout.combine(layout.take(older, between), folds))
        picked, ends = layout.picked(self.prefixes()), stops - 1
        younger = take(layout, picked, ends) if _ascend(ends) else layout.take(picked, ends)
        return layout.combine(older, younger)

    def prefixes(self) -> Run:
        """For each entry of the blocks that are there, the fold of its block up to it."""
        if self._prefixes is None:
            self._prefixes = self._scanned(_prefixes)
        return self._prefixes

    def _of_starts(self) -> Run:
        """The suffixes: for each entry, the fold of its block from it on."""
        if self._suffixes is None:
            self._suffixes = self._scanned(_suffixes)
        return self._suffixes

    def _scanned(self, scan: Callable[[ColumnLayout, Run, int, bool], Run]) -> Run:
        layout, states = self._layout, self._states
        count = layout.length(states)
        blocks = -(-count // BLOCK)
        if blocks * BLOCK > count:  # the last block is filled up with anything
            states = layout.take(states, np.minimum(np.arange(blocks * BLOCK), count - 1))
        # entry 0 of all blocks, then entry 1 of all blocks …
        beside = tuple(_turned(column, -1, BLOCK) for column in states)
        scanned = scan(layout, beside, blocks, count <= FEW_ENTRIES)
        return tuple(_turned(column, BLOCK, -1) for column in scanned)

    def _tier(self) -> Blocks:
        """The run of the folds of whole blocks."""
        if self._above is None:
            self._above = Blocks(self._layout, self.whole())
        return self._above

    def whole(self) -> Run:
        """The fold of each block, but for the last one if it is shorter: then it may be anything."""
        if self._whole is None:
            self._whole = tuple(column[BLOCK - 1 :: BLOCK].copy() for column in self.prefixes())
        return self._whole


def _turned(column: Array, rows: int, columns: int) -> Array:
    """A column, read as a matrix of some rows, in the order of the columns of the matrix."""
    return column.reshape(rows, columns).T.reshape(-1)


def _prefixes(layout: ColumnLayout, beside: Run, blocks: int, few: bool) -> Run:
    """The prefixes of blocks that lie side by side. For few entries, in fewer calls of more combines."""
    count, step = blocks * BLOCK, blocks
    if few:
        while step < count:
            older, younger = layout.cut(beside, 0, count - step), layout.cut(beside, step, count)
            beside = layout.concat([layout.cut(beside, 0, step), layout.combine(older, younger)])
            step *= 2
        return beside
    found = [layout.cut(beside, 0, blocks)]
    for start in range(blocks, count, blocks):
        found.append(layout.combine(found[-1], layout.cut(beside, start, start + blocks)))
    return layout.concat(found)


def _suffixes(layout: ColumnLayout, beside: Run, blocks: int, few: bool) -> Run:
    """The same from the other end."""
    count, step = blocks * BLOCK, blocks
    if few:
        while step < count:
            older, younger = layout.cut(beside, 0, count - step), layout.cut(beside, step, count)
            beside = layout.concat([layout.combine(older, younger), layout.cut(beside, count - step, count)])
            step *= 2
        return beside
    found = [layout.cut(beside, count - blocks, count)]
    for start in range(count - 2 * blocks, -1, -blocks):
        found.append(layout.combine(layout.cut(beside, start, start + blocks), found[-1]))
    return layout.concat(found[::-1])


def _ascend(indices: Array) -> bool:
    return len(indices) < 2 or bool((indices[1:] >= indices[:-1]).all())


def _doubled(layout: Layout, states: Run, starts: Array, stops: Array) -> Run:
    """Short ranges, from the folds of each 1, 2, 4 … entries that follow each other. Changes `stops`."""
    lengths = stops - starts
    longest = int(lengths.max())
    if longest == 1:
        return take(layout, states, starts) if _ascend(starts) else layout.take(states, starts)
    found: Run = None
    #: whether a part of the range is folded
    begun = np.zeros(len(starts), bool)
    size = 1
    while True:
        rows = np.flatnonzero(lengths & size)
        if len(rows):
            stops[rows] -= size
            found = _with_older(layout, found, begun, rows, layout.take(states, stops[rows]))
            begun[rows] = True
        if 2 * size > longest:
            return found
        count = layout.length(states)
        states = layout.combine(layout.cut(states, 0, count - size), layout.cut(states, size, count))
        size *= 2


def _of_few_blocks(layout: Layout, states: Run, starts: Array, stops: Array) -> tuple[Run, Array, Array]:
    """The entries of the blocks that ranges are in, and the ranges among these."""
    count, blocks = layout.length(states), starts // BLOCK
    used = np.zeros(-(-count // BLOCK), bool)
    used[blocks] = True
    if used.all():
        return states, starts, stops.copy()
    moves = (blocks - (np.cumsum(used) - 1)[blocks]) * BLOCK
    return layout.take(states, block_entries(np.flatnonzero(used), count)), starts - moves, stops - moves


def block_entries(blocks: Array, count: int) -> Array:
    """The indices of the entries of some blocks of a run of `count` entries."""
    entries: Array = (blocks[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
    over = int(entries[-1]) + 1 - count if len(entries) else 0
    return entries[:-over] if over > 0 else entries


def _with_older(layout: Layout, found: Run, begun: Array, rows: Array, older: Run) -> Run:
    """Folds with older entries before those of some rows. A row that is not begun may hold anything."""
    if found is None:
        places = np.zeros(len(begun), np.int64)
        places[rows] = np.arange(len(rows))
        return older if len(rows) == len(begun) else layout.take(older, places)
    going = begun[rows]
    if going.all():
        older = layout.combine(older, layout.take(found, rows))
    elif going.any():
        both = np.flatnonzero(going)
        folds = layout.combine(layout.take(older, both), layout.take(found, rows[both]))
        older = layout.put(older, both, folds)
    return older if len(rows) == len(begun) else layout.put(found, rows, older)
