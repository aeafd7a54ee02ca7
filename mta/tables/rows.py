"""Rows of many keys: as they came, and sorted by key and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from mta.core.states import ColumnLayout, Run
from mta.keyed.block import ranges
from mta.kinds import Array
from mta.monoids.base import joined
from mta.tables.keys import codes_of, hashes_of_keys, order_of
from mta.tables.older import BlockFolds, block_folds
from mta.tables.plan import Plan
from mta.tables.spans import Groups, Older


@dataclass
class Rows:
    """Rows as they came."""

    keys: Sequence[pa.Array]
    times: Array | None
    #: of each program
    elements: Sequence[Run]
    count: int

    def take(self, plan: Plan, order: Array) -> Rows:
        """The rows at some indices."""
        return Rows(
            [column.take(pa.array(order)) for column in self.keys],
            None if self.times is None else self.times[order],
            taken(plan, self.elements, order),
            len(order),
        )


def together(plan: Plan, pieces: Sequence[Rows]) -> Rows:
    """Pieces end to end."""
    if len(pieces) == 1:
        return pieces[0]
    return Rows(
        columns_of_keys([piece.keys for piece in pieces]),
        _times_of([piece.times for piece in pieces]),
        _joined(plan, [piece.elements for piece in pieces]),
        sum(piece.count for piece in pieces),
    )


#: How many times fewer keys make it worth while to look for them by their hashes first.
FEWER = 8


@dataclass
class SortedRows:
    """Rows of some keys, key by key, and those of each key in the order of their times."""

    #: one entry for each key
    keys: Sequence[pa.Array]
    lengths: Array
    times: Array | None
    #: of each program
    elements: Sequence[Run]
    #: of each program; None for one over Python objects
    folds: list[BlockFolds | None] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return int(self.lengths.sum())

    @cached_property
    def starts(self) -> Array:
        """Where the rows of each key begin."""
        found: Array = np.cumsum(self.lengths) - self.lengths
        return found

    @cached_property
    def hashes(self) -> Array:
        """The hash of each key."""
        return hashes_of_keys(self.keys, len(self.lengths))

    def candidates(self, hashes: Array) -> Array:
        """The indices of keys among which are all that have one of these hashes."""
        if FEWER * len(hashes) > len(self.lengths):
            return np.arange(len(self.lengths))
        return np.flatnonzero(np.isin(self.hashes, hashes))

    def take(self, plan: Plan, keys: Array) -> SortedRows:
        """The rows of the keys at some indices."""
        lengths = self.lengths[keys]
        order = ranges(self.starts[keys], lengths)
        columns = [column.take(pa.array(keys)) for column in self.keys]
        times = None if self.times is None else self.times[order]
        return with_folds(plan, SortedRows(columns, lengths, times, taken(plan, self.elements, order)))


def with_folds(plan: Plan, rows: SortedRows) -> SortedRows:
    """The rows, with the folds of their blocks."""
    for program, elements in zip(plan.programs, rows.elements, strict=True):
        layout = program.layout
        folds = None
        if isinstance(layout, ColumnLayout):
            folds = block_folds(layout, elements, rows.lengths)
        rows.folds.append(folds)
    return rows


def merged(plan: Plan, parts: Sequence[SortedRows]) -> SortedRows:
    """The rows of parts that follow each other in time, without those that no window needs any more."""
    all_lengths = np.concatenate([part.lengths for part in parts])
    columns = columns_of_keys([part.keys for part in parts])
    codes, size = codes_of(columns, len(all_lengths))
    first = np.zeros(size, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    lengths = np.bincount(codes, all_lengths, size).astype(np.int64)
    order = order_of(np.repeat(codes, all_lengths), size, None)
    times = _times_of([part.times for part in parts])
    if times is not None:
        times = times[order]
    starts = np.cumsum(lengths) - lengths
    needed = _needed(plan, starts, lengths, times)
    rows = ranges(starts + needed, lengths - needed)
    return with_folds(
        plan,
        SortedRows(
            [column.take(pa.array(first)) for column in columns],
            lengths - needed,
            None if times is None else times[rows],
            taken(plan, _joined(plan, [part.elements for part in parts]), order[rows]),
        ),
    )


def _needed(plan: Plan, starts: Array, lengths: Array, times: Array | None) -> Array:
    """For each key the first of its rows that a window may still need: none is empty."""
    last = starts + lengths - 1
    older = [Older(times, starts, lengths - 1)]
    youngest = None if times is None else times[last]
    groups = Groups(np.arange(len(starts)), youngest, len(starts), older, plan.cuts)
    heads = [groups.windows(frame.limits)[0] for program in plan.programs for frame in program.frames]
    found: Array = np.min(heads, axis=0)
    return found


def columns_of_keys(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    """The columns of keys of several parts, end to end."""
    return [pa.concat_arrays(columns) for columns in zip(*parts, strict=True)]


def taken(plan: Plan, elements: Sequence[Run], order: Array) -> list[Run]:
    """The elements of each program at some indices."""
    return [program.layout.take(each, order) for program, each in zip(plan.programs, elements, strict=True)]


def _joined(plan: Plan, parts: Sequence[Sequence[Run]]) -> list[Run]:
    of_programs = zip(plan.programs, zip(*parts, strict=True), strict=True)
    return [program.layout.concat(each) for program, each in of_programs]


def _times_of(parts: Sequence[Array | None]) -> Array | None:
    times = [part for part in parts if part is not None]
    return joined(times) if times else None
