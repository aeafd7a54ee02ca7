"""The windows of some keys whose rows are in memory together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mta.core.blocks import BLOCK, FEW_ENTRIES, Blocks, block_entries
from mta.core.filled import filled, withheld
from mta.core.folds import window_folds
from mta.core.frame import Frame as CoreFrame
from mta.core.states import Layout, Run
from mta.errors import OutOfOrderError
from mta.keyed.block import ranges
from mta.kinds import Array
from mta.monoids.base import joined
from mta.tables.keys import codes_of, order_of
from mta.tables.plan import Frame, Plan, Program
from mta.tables.spans import Groups, Older

#: About how many rows are computed together, and how many bytes of states, but for longer keys.
PART_ROWS, PART_BYTES = 1 << 17, 1 << 25


class Rows(NamedTuple):
    """Rows as they came."""

    keys: Sequence[pa.Array]
    times: Array | None
    #: of each program
    elements: Sequence[Run]
    count: int


@dataclass
class SortedRows:
    """Rows of some keys, key by key, each in the order of times."""

    #: one row for each key
    keys: Sequence[pa.Array]
    lengths: Array
    times: Array | None
    #: of each program
    elements: Sequence[Run]
    #: of each program over columns, the fold of each block of rows
    whole: list[Run | None] = field(default_factory=list)

    @property
    def count(self) -> int:
        return int(self.lengths.sum())

    @property
    def starts(self) -> Array:
        return np.cumsum(self.lengths) - self.lengths


def rolled(
    plan: Plan, older: Sequence[SortedRows], new: Rows, *, keeps: bool
) -> tuple[dict[str, Array], SortedRows | None]:
    """The results of new rows, in their order, and the rows that windows may still need, with `keeps`."""
    work = _Work(plan, older, new)
    results = work.results()
    return results, work.kept() if keeps else None


class _Work:
    def __init__(self, plan: Plan, older: Sequence[SortedRows], new: Rows) -> None:
        self._plan, self._older = plan, older
        counts = [len(each.lengths) for each in older]
        columns = [
            pa.concat_arrays(parts) for parts in zip(*(each.keys for each in older), new.keys, strict=True)
        ]
        codes, size = (
            codes_of(columns, sum(counts) + new.count) if columns else _one_key(len(older) + new.count)
        )
        *of_older, of_new = np.split(codes, np.cumsum(counts) if columns else np.arange(1, len(older) + 1))
        self._order = order = order_of(of_new, size, new.times)
        codes = of_new[order]
        self._starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        self._keys = [column.take(pa.array(order[self._starts])) for column in new.keys]
        self._times = None if new.times is None else new.times[order]
        self._elements, self._count = new.elements, new.count
        #: of each older part, where the rows of each key begin, and how many there are
        self._where: list[tuple[Array, Array]] = []
        groups = codes[self._starts]
        for each, its_codes in zip(older, of_older, strict=True):
            place = np.full(size, -1)
            place[its_codes] = np.arange(len(its_codes))
            found = place[groups]
            there = found >= 0
            self._where.append(
                (np.where(there, each.starts[found], 0), np.where(there, each.lengths[found], 0))
            )
        self._check_order()
        #: for each key the first position that a window may still need
        self._needed = np.zeros(len(self._starts), np.int64)

    def _check_order(self) -> None:
        if self._times is None:
            return
        for each, (starts, lengths) in zip(self._older, self._where, strict=True):
            there = np.flatnonzero(lengths)
            assert each.times is not None
            late = there[each.times[(starts + lengths - 1)[there]] > self._times[self._starts[there]]]
            if len(late):
                key = [column[int(late[0])].as_py() for column in self._keys]
                raise OutOfOrderError(
                    f"rows of the key {key} are before rows that were there already; append rows in the order "
                    "of their times"
                )

    def results(self) -> dict[str, Array]:
        parts: list[dict[str, Array]] = [self._part(first, last) for first, last in self._parts()]
        found = {}
        for name in self._plan.names:
            column = joined([part.pop(name) for part in parts])
            in_order = np.empty_like(column)
            in_order[self._order] = column
            found[name] = in_order
        return found

    def _parts(self) -> list[tuple[int, int]]:
        """Ranges of keys that are computed together."""
        bounds = np.append(self._starts, self._count)
        size = max((_bytes(program) for program in self._plan.programs), default=8)
        most = max(1024, min(PART_ROWS, PART_BYTES // size))
        found, first = [], 0
        while first < len(self._starts):
            last = max(first + 1, int(bounds.searchsorted(bounds[first] + most, "right")) - 1)
            found.append((first, last))
            first = last
        return found

    def _part(self, first: int, last: int) -> dict[str, Array]:
        """The results of some keys, in sorted order."""
        start, stop = int(self._starts[first]), int(np.append(self._starts, self._count)[last])
        times = None if self._times is None else self._times[start:stop]
        where = [(starts[first:last], lengths[first:last]) for starts, lengths in self._where]
        older = [Older(each.times, *place) for each, place in zip(self._older, where, strict=True)]
        groups = Groups(self._starts[first:last] - start, times, stop - start, older)
        rows = self._order[start:stop]
        found: dict[str, Array] = {}
        needed: list[Array] = []
        for number, program in enumerate(self._plan.programs):
            windows = [groups.windows(frame.limits) for frame in program.frames]
            last_rows = groups.starts + groups.lengths - 1
            needed += [heads[last_rows] for heads, _ in windows]
            states = program.layout.lift(program.layout.take(self._elements[number], rows))
            kind = _Columns if program.in_columns else _Objects
            older_rows = [each.elements[number] for each in self._older]
            folder = kind(
                program, groups, states, older_rows, [each.whole[number] for each in self._older], windows
            )
            for frame, (heads, ends), folds in zip(program.frames, windows, folder.folds(), strict=True):
                found.update(_results(frame, folds, ends - heads))
        self._needed[first:last] = np.min(needed, axis=0)
        return found

    def kept(self) -> SortedRows:
        before = np.zeros(len(self._starts), np.int64)
        for _, lengths in self._where:
            before += lengths
        lengths = np.diff(self._starts, append=self._count)
        skipped = np.clip(self._needed - before, 0, lengths)
        rows = ranges(self._starts + skipped, lengths - skipped)
        order = self._order[rows]
        layouts = [program.layout for program in self._plan.programs]
        elements = [layout.take(each, order) for layout, each in zip(layouts, self._elements, strict=True)]
        times = None if self._times is None else self._times[rows]
        return with_folds(self._plan, SortedRows(self._keys, lengths - skipped, times, elements))


def with_folds(plan: Plan, rows: SortedRows) -> SortedRows:
    """The rows with the fold of each block."""
    count = rows.count
    for program, elements in zip(plan.programs, rows.elements, strict=True):
        if not program.in_columns or not count:
            rows.whole.append(None)
            continue
        layout, parts = program.layout, []
        for start in range(0, count, PART_ROWS):
            part = layout.cut(elements, start, min(count, start + PART_ROWS))
            parts.append(Blocks(layout, layout.lift(part)).whole())
        rows.whole.append(layout.concat(parts))
    return rows


def merged(plan: Plan, parts: Sequence[SortedRows]) -> SortedRows:
    """The rows of parts that follow each other in time, without those that no window needs any more."""
    counts = [len(each.lengths) for each in parts]
    columns = [pa.concat_arrays(each) for each in zip(*(part.keys for part in parts), strict=True)]
    codes, size = codes_of(columns, sum(counts)) if columns else _one_key(len(parts))
    first = np.zeros(size, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    keys = [column.take(pa.array(first)) for column in columns]
    lengths = np.bincount(codes, np.concatenate([part.lengths for part in parts]), size).astype(np.int64)
    of_rows = np.repeat(codes, np.concatenate([part.lengths for part in parts]))
    order = order_of(of_rows, size, None)
    times = None if parts[0].times is None else np.concatenate([part.times for part in parts])[order]
    starts = np.cumsum(lengths) - lengths
    last = np.arange(size)
    older = [Older(times, starts, lengths - 1)]
    ends = starts + lengths - 1
    groups = Groups(last, None if times is None else times[ends], size, older)
    needed = np.min(
        [groups.windows(frame.limits)[0] for program in plan.programs for frame in program.frames], axis=0
    )
    rows = ranges(starts + needed, lengths - needed)
    elements = []
    for number, program in enumerate(plan.programs):
        together = program.layout.concat([part.elements[number] for part in parts])
        elements.append(program.layout.take(together, order[rows]))
    return with_folds(
        plan, SortedRows(keys, lengths - needed, None if times is None else times[rows], elements)
    )


def _one_key(count: int) -> tuple[Array, int]:
    return np.zeros(count, np.int64), 1


def _bytes(program: Program) -> int:
    monoids = program.layout.monoid.monoids.values()
    return sum(getattr(monoid, "state_bytes", 64) for monoid in monoids)


def _results(frame: Frame, folds: Run, counts: Array) -> dict[str, Array]:
    layout = frame.layout
    answers = [] if folds is None else [layout.lowered(folds)]
    results = filled(CoreFrame(frame.limits, {}, lags=False, plain=True), layout, answers, counts)
    return {each.name: withheld(results[each.aggregate], counts < each.least) for each in frame.shown}


class _Columns:
    """Folds windows whose elements are in older rows and behind these in new ones."""

    def __init__(
        self,
        program: Program,
        groups: Groups,
        states: Run,
        older: Sequence[Run],
        whole: Sequence[Run],
        windows: Sequence[tuple[Array, Array]],
    ) -> None:
        self._program, self._windows = program, windows
        layout = program.layout
        #: of each part the folds, and where each row's key begins in it, ends in it, and begins among all
        self._parts: list[tuple[Blocks, Array, Array, Array]] = []
        before = np.zeros(len(groups.starts), np.int64)
        for place, elements, folds in zip(groups.older, older, whole, strict=True):
            bounds = tuple(map(groups.of_rows, (place.starts, place.lengths, before)))
            before = before + place.lengths
            count = layout.length(elements)
            used = np.zeros(-(-count // BLOCK), bool)
            for heads, ends in windows:
                low, high = _inside(*bounds, heads, ends)
                held = low < high
                used[low[held] // BLOCK] = True
                used[(high[held] - 1) // BLOCK] = True
            if used.any():
                some = layout.lift(layout.take(elements, block_entries(np.flatnonzero(used), count)))
                self._parts.append((Blocks(layout, some, used, folds), *bounds))
        bounds = tuple(map(groups.of_rows, (groups.starts, groups.lengths, before)))
        self._parts.append((Blocks(layout, states), *bounds))

    def folds(self) -> Iterator[Run]:
        """For each frame the folds of the windows that are not empty; None if all are."""
        program, windows = self._program, self._windows
        rows = len(windows[0][0])
        if len(windows) == 1 or rows * len(windows) > FEW_ENTRIES:
            for frame, (heads, ends) in zip(program.frames, windows, strict=True):
                yield self._folds(frame.layout, heads, ends)
            return
        # few rows: the frames together, since calls cost more than combines of aggregates that a frame lacks
        all_heads, all_ends = (np.concatenate(each) for each in zip(*windows, strict=True))
        together = self._folds(program.layout, all_heads, all_ends)
        stop = 0
        for frame, (heads, ends) in zip(program.frames, windows, strict=True):
            start, stop = stop, stop + int((heads < ends).sum())
            yield frame.layout.picked(program.layout.cut(together, start, stop)) if start < stop else None

    def _folds(self, layout: Layout, heads: Array, ends: Array) -> Run:
        found, begun = None, np.zeros(len(heads), bool)
        for blocks, *of_rows in self._parts:
            times = len(heads) // len(of_rows[0])
            bounds = [np.tile(each, times) for each in of_rows] if times > 1 else of_rows
            low, high = _inside(*bounds, heads, ends)
            rows = np.flatnonzero(low < high)
            if not len(rows):
                continue
            younger = blocks.folds(layout, low[rows], high[rows])
            if found is None and len(rows) == len(heads):
                found = younger
            else:
                found = _followed(layout, found, begun, rows, younger)
            begun[rows] = True
        return found if found is None or begun.all() else layout.take(found, np.flatnonzero(begun))


def _inside(starts: Array, lengths: Array, before: Array, heads: Array, ends: Array) -> tuple[Array, Array]:
    """Windows of positions among all rows of a key, as ranges of a part that begins behind `before` rows."""
    return starts + np.clip(heads - before, 0, lengths), starts + np.clip(ends - before, 0, lengths)


def _followed(layout: Layout, found: Run, begun: Array, rows: Array, younger: Run) -> Run:
    """Folds with younger entries behind those of some rows. A row that is not begun may hold anything."""
    if found is None:
        places = np.zeros(len(begun), np.int64)
        places[rows] = np.arange(len(rows))
        return layout.take(younger, places)
    going = begun[rows]
    if going.any():
        both = np.flatnonzero(going)
        folds = layout.combine(layout.take(found, rows[both]), layout.take(younger, both))
        younger = folds if going.all() else layout.put(younger, both, folds)
    return younger if len(rows) == len(begun) else layout.put(found, rows, younger)


class _Objects:
    """Folds windows over Python objects, from all rows that they hold."""

    def __init__(
        self,
        program: Program,
        groups: Groups,
        states: list[Any],
        older: Sequence[list[Any]],
        _: Any,
        windows: Sequence[tuple[Array, Array]],
    ) -> None:
        self._program, self._windows = program, windows
        layout = program.layout
        needed = np.min([heads[groups.starts] for heads, _ in windows], axis=0)
        self._states: list[Any] = []
        #: the place of the first position of each key
        moves = np.zeros(len(groups.starts), np.int64)
        for key in range(len(groups.starts)):
            moves[key] = len(self._states) - int(needed[key])
            skip = int(needed[key])
            for place, rows in zip(groups.older, older, strict=True):
                start, length = int(place.starts[key]), int(place.lengths[key])
                if skip < length:
                    self._states += layout.lift(rows[start + skip : start + length])
                skip = max(0, skip - length)
            start = int(groups.starts[key])
            self._states += states[start + skip : start + int(groups.lengths[key])]
        self._moves = groups.of_rows(moves)

    def folds(self) -> Iterator[Run]:
        """For each frame the folds of the windows that are not empty; None if all are."""
        for frame, (heads, ends) in zip(self._program.frames, self._windows, strict=True):
            held = np.flatnonzero(heads < ends)
            if not len(held):
                yield None
                continue
            moves, states = self._moves[held], frame.layout.picked(self._states)
            yield window_folds(frame.layout, states, heads[held] + moves, ends[held] + moves - 1)
