"""The windows of some keys whose rows are in memory together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mta.core.filled import filled, withheld
from mta.core.frame import Frame as CoreFrame
from mta.core.states import Run
from mta.errors import OutOfOrderError
from mta.keyed.block import ranges
from mta.kinds import Array
from mta.monoids.base import joined
from mta.tables.folding import OlderRows, folds_of
from mta.tables.keys import codes_of, hashes_of_keys, order_of
from mta.tables.older import PART_ROWS
from mta.tables.plan import Frame, Plan
from mta.tables.rows import Rows, SortedRows, columns_of_keys, taken, with_folds
from mta.tables.spans import Groups, Older

#: The most bytes of states of rows that are computed together, unless they are of one key.
PART_BYTES = 1 << 25


class Leaf:
    """New rows of some keys behind older ones.

    Raises OutOfOrderError if a row is before an older one of its key.
    """

    def __init__(self, plan: Plan, older: Sequence[SortedRows], new: Rows) -> None:
        self._plan, self._older, self._new = plan, older, new
        hashes = hashes_of_keys(new.keys, new.count) if older else np.zeros(0, np.uint64)
        candidates = [each.candidates(hashes) for each in older]
        some = [
            [column.take(pa.array(chosen)) for column in each.keys]
            for each, chosen in zip(older, candidates, strict=True)
        ]
        columns, counts = columns_of_keys([*some, new.keys]), list(map(len, candidates))
        codes, size = codes_of(columns, sum(counts) + new.count)
        *of_older, of_new = np.split(codes, np.cumsum(counts))
        #: the new rows, key by key, and where the rows of each key begin
        self._order = order_of(of_new, size, new.times)
        codes = of_new[self._order]
        self._starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        self._bounds = np.append(self._starts, new.count)
        self._times = None if new.times is None else new.times[self._order]
        self._keys = [column.take(pa.array(self._order[self._starts])) for column in new.keys]
        #: of each older part, where the rows of each key are
        self._places = [
            _place(each, chosen, its_codes, codes[self._starts], size)
            for each, chosen, its_codes in zip(older, candidates, of_older, strict=True)
        ]
        self._check_order()
        #: for each key the first position that a window may still need
        self._needed = np.zeros(len(self._starts), np.int64)

    def _check_order(self) -> None:
        if self._times is None:
            return
        for times, starts, lengths in self._places:
            assert times is not None
            there = np.flatnonzero(lengths)
            late = times[(starts + lengths - 1)[there]] > self._times[self._starts[there]]
            if late.any():
                key = int(there[late.argmax()])
                key_of = zip(self._plan.by, self._keys, strict=True)
                named = ", ".join(f"{name}={column[key].as_py()!r}" for name, column in key_of)
                raise OutOfOrderError(
                    f"a row{' of ' if named else ''}{named} is before rows that came in an earlier call; "
                    f"append the rows of a key in the order of {self._plan.on!r}"
                )

    def results(self) -> dict[str, Array]:
        """The new columns, in the order in which the rows came."""
        parts = [self._part(first, last) for first, last in self._parts()]
        found = {}
        for name in self._plan.names:
            column = joined([part.pop(name) for part in parts])
            found[name] = np.empty_like(column)
            found[name][self._order] = column
        return found

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Ranges of keys that are computed together."""
        states = max(program.state_bytes for program in self._plan.programs)
        most = max(1024, min(PART_ROWS, PART_BYTES // states))
        first = 0
        while first < len(self._starts):
            stop = int(self._bounds.searchsorted(self._bounds[first] + most, "right")) - 1
            last = max(first + 1, stop)
            yield first, last
            first = last

    def _part(self, first: int, last: int) -> dict[str, Array]:
        """The new columns of some keys, in the sorted order."""
        start, stop = int(self._bounds[first]), int(self._bounds[last])
        times = None if self._times is None else self._times[start:stop]
        older = [place.of_keys(first, last) for place in self._places]
        groups = Groups(self._starts[first:last] - start, times, stop - start, older, self._plan.cuts)
        elements = taken(self._plan, self._new.elements, self._order[start:stop])
        last_rows = groups.starts + groups.lengths - 1
        found: dict[str, Array] = {}
        needed = []
        for number, program in enumerate(self._plan.programs):
            windows = [groups.windows(frame.limits) for frame in program.frames]
            needed += [heads[last_rows] for heads, _ in windows]
            rows = [
                OlderRows(each.elements[number], each.lengths, each.folds[number]) for each in self._older
            ]
            folds = folds_of(program, groups, elements[number], rows, windows)
            for frame, (heads, ends), its_folds in zip(program.frames, windows, folds, strict=True):
                found.update(_results(frame, its_folds, ends - heads))
        self._needed[first:last] = np.min(needed, axis=0)
        return found

    def kept(self) -> SortedRows:
        """The new rows that windows may still need, after `results`."""
        before = sum((place.lengths for place in self._places), np.zeros(len(self._starts), np.int64))
        lengths = np.diff(self._bounds)
        gone = np.clip(self._needed - before, 0, lengths)
        rows = ranges(self._starts + gone, lengths - gone)
        elements = taken(self._plan, self._new.elements, self._order[rows])
        times = None if self._times is None else self._times[rows]
        return with_folds(self._plan, SortedRows(self._keys, lengths - gone, times, elements))


def _place(older: SortedRows, chosen: Array, of_older: Array, codes: Array, size: int) -> Older:
    """Where the older rows of some keys are.

    `of_older` are the codes of the chosen keys of the older rows, and `codes` those that are asked for.
    """
    numbers = np.full(size, -1)
    numbers[of_older] = chosen
    found = numbers[codes]
    starts, lengths = np.zeros((2, len(codes)), np.int64)
    there = np.flatnonzero(found >= 0)
    starts[there], lengths[there] = older.starts[found[there]], older.lengths[found[there]]
    return Older(older.times, starts, lengths)


def _results(frame: Frame, folds: Run | None, counts: Array) -> dict[str, Array]:
    layout = frame.layout
    answers = [] if folds is None else [layout.lowered(folds)]
    results = filled(CoreFrame(frame.limits, {}, lags=False, plain=True), layout, answers, counts)
    return {each.name: withheld(results[each.aggregate], counts < each.least) for each in frame.shown}
