"""The folds of the windows of some keys, whose elements are in older rows and behind these in new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mta.core.blocks import BLOCK, FEW_ENTRIES, Blocks, block_entries
from mta.core.folds import window_folds
from mta.core.states import ColumnLayout, Layout, Run
from mta.kinds import Array
from mta.tables.older import BlockFolds, Rests
from mta.tables.plan import Program
from mta.tables.spans import Groups

#: For each row where its window begins and ends, as positions among all rows of its key.
Window = tuple[Array, Array]


class OlderRows(NamedTuple):
    """Elements of one program that came before, how many each key has, and the folds of their blocks."""

    elements: Run
    lengths: Array
    folds: BlockFolds | None


def folds_of(
    program: Program, groups: Groups, elements: Run, older: Sequence[OlderRows], windows: Sequence[Window]
) -> Iterator[Run]:
    """For each frame the folds of its windows that are not empty; None if all are empty.

    `elements` are those of the new rows, and `windows` those of each frame.
    """
    layout = program.layout
    if isinstance(layout, ColumnLayout):
        return _Columns(layout, groups, elements, older, windows).folds(program, windows)
    return _of_objects(program, groups, elements, older, windows)


class _Bounds(NamedTuple):
    """Where each new row's key is in one part."""

    #: where the rows of the key begin in the part, how many there are, and how many are in older parts
    starts: Array
    lengths: Array
    before: Array

    def inside(self, heads: Array, ends: Array) -> Window:
        """Windows of positions among all rows of a key as ranges of the rows of the part.

        There may be several windows a row, those of one frame behind those of another.
        """
        frames = len(heads) // max(1, len(self.starts))
        starts, lengths, before = self if frames == 1 else (np.tile(each, frames) for each in self)
        return starts + np.clip(heads - before, 0, lengths), starts + np.clip(ends - before, 0, lengths)


def _bounds(groups: Groups, starts: Array, lengths: Array, before: Array) -> _Bounds:
    return _Bounds(groups.of_rows(starts), groups.of_rows(lengths), groups.of_rows(before))


class _Columns:
    """Folds over columns: blocks of each part, and then the parts one behind the other."""

    def __init__(
        self,
        layout: ColumnLayout,
        groups: Groups,
        elements: Run,
        older: Sequence[OlderRows],
        windows: Sequence[Window],
    ) -> None:
        self._parts: list[tuple[Blocks | Rests, _Bounds]] = []
        before = np.zeros(len(groups.starts), np.int64)
        for place, rows in zip(groups.older, older, strict=True):
            part = _bounds(groups, place.starts, place.lengths, before)
            before = before + place.lengths
            blocks = _blocks_of(layout, rows, part, windows)
            if blocks is not None:
                self._parts.append((blocks, part))
        new = _bounds(groups, groups.starts, groups.lengths, before)
        self._parts.append((Blocks(layout, layout.lift(elements)), new))

    def folds(self, program: Program, windows: Sequence[Window]) -> Iterator[Run]:
        rows = len(windows[0][0])
        if len(windows) == 1 or rows * len(windows) > FEW_ENTRIES:
            for frame, window in zip(program.frames, windows, strict=True):
                yield self._folds(frame.layout, *window)
            return
        # all frames together: for few rows a call costs more than the combines of fields that a frame lacks
        whole = self._folds(program.layout, *map(np.concatenate, zip(*windows, strict=True)))
        stop = 0
        for frame, (heads, ends) in zip(program.frames, windows, strict=True):
            start, stop = stop, stop + int((heads < ends).sum())
            yield frame.layout.picked(program.layout.cut(whole, start, stop)) if start < stop else None

    def _folds(self, layout: Layout, heads: Array, ends: Array) -> Run:
        found, begun = None, np.zeros(len(heads), bool)
        for blocks, bounds in self._parts:
            low, high = bounds.inside(heads, ends)
            rows = np.flatnonzero(low < high)
            if len(rows):
                younger = blocks.folds(layout, low[rows], high[rows])
                found = _followed(layout, found, begun, rows, younger)
                begun[rows] = True
        return found if found is None or begun.all() else layout.take(found, np.flatnonzero(begun))


def _blocks_of(
    layout: ColumnLayout, rows: OlderRows, bounds: _Bounds, windows: Sequence[Window]
) -> Blocks | Rests | None:
    """What folds older rows; None if no window holds any. Only the blocks that windows need are lifted."""
    if rows.folds is None:
        return None
    count = layout.length(rows.elements)
    firsts, lasts = np.zeros((2, -(-count // BLOCK)), bool)
    to_ends = True
    for window in windows:
        low, high = bounds.inside(*window)
        held = low < high
        firsts[low[held] // BLOCK] = True
        lasts[(high[held] - 1) // BLOCK] = True
        to_ends = to_ends and bool((high == bounds.starts + bounds.lengths)[held].all())
    if not firsts.any():
        return None
    if to_ends:
        return Rests(layout, rows.elements, rows.lengths, rows.folds, firsts)
    used = firsts | lasts
    some = layout.take(rows.elements, block_entries(np.flatnonzero(used), count))
    return Blocks(layout, layout.lift(some), used, rows.folds.whole)


def _followed(layout: Layout, found: Run, begun: Array, rows: Array, younger: Run) -> Run:
    """Folds with younger entries behind those of some rows. A row that is not begun may hold anything."""
    if len(rows) == len(begun) and found is None:
        return younger
    if found is None:
        places = np.zeros(len(begun), np.int64)
        places[rows] = np.arange(len(rows))
        return layout.take(younger, places)
    both = np.flatnonzero(begun[rows])
    if len(both):
        folds = layout.combine(layout.take(found, rows[both]), layout.take(younger, both))
        younger = folds if len(both) == len(rows) else layout.put(younger, both, folds)
    return younger if len(rows) == len(begun) else layout.put(found, rows, younger)


def _of_objects(
    program: Program, groups: Groups, elements: Run, older: Sequence[OlderRows], windows: Sequence[Window]
) -> Iterator[Run]:
    """Folds over Python objects, from all rows that windows hold."""
    layout = program.layout
    needed = np.min([heads[groups.starts] for heads, _ in windows], axis=0).tolist()
    rows: list[object] = []
    #: from a position among the rows of a key to its place among `rows`
    moves = np.zeros(len(groups.starts), np.int64)
    for key, skip in enumerate(needed):
        moves[key] = len(rows) - skip
        places = [(place.starts, place.lengths) for place in groups.older]
        sources = [each.elements for each in older]
        for source, (starts, lengths) in zip(
            [*sources, elements], [*places, (groups.starts, groups.lengths)], strict=True
        ):
            start, length = int(starts[key]), int(lengths[key])
            rows += source[start + min(skip, length) : start + length]
            skip = max(0, skip - length)
    states = layout.lift(rows)
    moves = groups.of_rows(moves)
    for frame, (heads, ends) in zip(program.frames, windows, strict=True):
        held = np.flatnonzero(heads < ends)
        if not len(held):
            yield None
            continue
        first, last = (heads + moves)[held], (ends + moves)[held] - 1
        yield window_folds(frame.layout, frame.layout.picked(states), first, last)
