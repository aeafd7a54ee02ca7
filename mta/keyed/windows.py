"""The windows of a bucket's keys: short ones all at once, from the table, and long ones one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mta.core.states import layout_of
from mta.durability.attempts import AttemptHold
from mta.durability.manifest import Version
from mta.encoding.untrusted import Malformed
from mta.errors import ManifestCorrupt
from mta.keyed.block import LONG, Block, digest_at, digests_of, elements, end_to_end, joined, ranges, taken
from mta.keyed.folds import first_rows, folds
from mta.keyed.group import SHORT_WINDOW, KeyedPlan, Rows
from mta.keyed.long import INLINE_ROWS, LongKey, SavedKey, SavedRows
from mta.keyed.segments import text_sizes
from mta.keyed.table import KeyTable
from mta.monoids.base import Array
from stores import Store

#: Rows of short windows whose results are computed together, unless one key has more.
PART_ROWS = 1 << 15


class KeyWindows:
    """The windows of the keys of one bucket.

    `number` is the number of the versions that are saved; `name` is how the names of windows begin.
    """

    def __init__(
        self,
        plan: KeyedPlan,
        table: KeyTable,
        name: str,
        store: Store,
        make_hold: Callable[[str, int, Version | None], AttemptHold],
        number: int,
    ) -> None:
        self._plan, self._table, self._name = plan, table, name
        self._store, self._make_hold, self._number = store, make_hold, number
        #: names of windows that ended, to be removed from the store after this save
        self.retired: list[str] = []
        #: pages that were asked for, and found in the cache
        self.asked = self.hits = 0
        #: keys with windows of their own that may take in more rows
        self._open: dict[bytes, LongKey] = {}
        #: keys that are done, to be put into the table together
        self._done: list[Block] = []

    def are_long(self, digests: Array, lengths: Array) -> Array:
        """Which keys have windows of their own, or may need them for this number of new rows; loads all."""
        self._table.load(digests)
        if self._plan.limits.predicates:
            return np.ones(len(digests), dtype=bool)
        indices = self._table.block.find(digests)
        found: Array = lengths > SHORT_WINDOW
        known = indices >= 0
        found[known] |= self._table.block.counts[indices[known]] == LONG
        if self._open:
            found |= np.isin(digests, digests_of(b"".join(sorted(self._open))))
        return found

    def short(self, digests: Array, lengths: Array, times: Array, values: Sequence[Any]) -> ShortWindows:
        """The windows of loaded keys, with their new rows."""
        indices = self._table.block.find(digests)
        before = self._table.block.take(indices[indices >= 0])
        return ShortWindows(self._plan, before, digests, lengths, times, values)

    def put_short(self, block: Block, *, last: bool) -> None:
        """Keys as they are after their new rows, which are the last ones with `last`."""
        self._table.put(block)
        for key in np.flatnonzero(self._too_long(block)).tolist():
            digest = digest_at(block.digests, key)
            window = self._open[digest] = self._long_key(digest, _rows_of(block, key))
            window.youngest, window.seen = block.youngest[key], int(block.seen[key])
            if last:
                self._finish(digest)

    def _too_long(self, block: Block) -> Array:
        """Which keys have more rows than are kept with those of other keys."""
        found: Array = block.counts > self._plan.most_rows
        columns = (block.times is not None) + sum(map(len, block.values))
        suspects = (block.counts * columns > INLINE_ROWS // 8) | (text_sizes(block) > INLINE_ROWS // 2)
        for key in np.flatnonzero(suspects & ~found).tolist():
            rows = _rows_of(block, key)
            found[key] = any(SavedRows.encode(each).size() > INLINE_ROWS for each in rows)
        return found

    def long(self, digest: bytes) -> LongKey:
        """The windows of a loaded key by themselves, to take in new rows."""
        window = self._open.get(digest)
        if window is None:
            index, block = self._index(digest), self._table.block
            saved: bytes | list[Rows] | None = None
            if index >= 0:
                entry = block.long[index]
                saved = _rows_of(block, index) if entry is None else bytes(entry)
            window = self._open[digest] = self._long_key(digest, saved)
        return window

    def put_long(self, digest: bytes, youngest: Any, seen: int, *, last: bool) -> None:
        """The windows have taken in their new rows, which are the last ones with `last`."""
        index = self._index(digest)
        if index >= 0:
            # the key may be kept for rows that are still to come
            youngest = max(youngest, self._table.block.youngest[index])
        window = self._open[digest]
        window.youngest, window.seen = youngest, seen
        if last:
            self._finish(digest)

    def _long_key(self, digest: bytes, saved: bytes | list[Rows] | None) -> LongKey:
        # windows that begin anew get another name, since the older ones may be about to be removed
        name = f"{self._name}/{digest.hex()}/{self._number}"
        try:
            return LongKey(self._plan, name, self._store, self._make_hold, saved)
        except Malformed as error:
            raise self._damaged(f"the key with digest {digest.hex()}", error) from error

    def _index(self, digest: bytes) -> int:
        return int(self._table.block.find(digests_of(digest))[0])

    def _finish(self, digest: bytes) -> None:
        """The key is done: it has its rows, or its saved windows."""
        window, shape = self._open[digest], self._plan.shape
        block = shape.keys(digests_of(digest), np.array([window.youngest], dtype=shape.clock))
        block.seen = np.array([window.seen], dtype=np.int64)
        rows = window.short()
        if rows is None:
            block.counts = np.array([LONG])
            block.long[0] = window.save(self._number)
        else:
            self.retired += window.stored
            block.counts = np.array([rows[0].length])
            if rows[0].length:
                block.times = rows[0].times
                block.values = [each.values if isinstance(each.values, dict) else {} for each in rows]
        self.asked, self.hits = self.asked + window.asked, self.hits + window.hits
        del self._open[digest]
        self._done.append(block)

    def put_done(self) -> None:
        """Puts the keys that are done back into the table."""
        if self._done:
            self._table.put(joined(self._done))
            self._done = []

    def forget(self, keys: Array) -> None:
        """Removes keys of the table, by their indices; their windows are retired."""
        if not len(keys):
            return
        block = self._table.block
        for key in keys[block.counts[keys] == LONG].tolist():
            try:
                self.retired += SavedKey.decode(block.long[key], len(self._plan.programs)).stored
            except Malformed as error:
                raise self._damaged("a key", error) from error
        self._table.remove(keys)

    def finish(self) -> None:
        for digest in list(self._open):
            self._finish(digest)
        self.put_done()

    def give_up(self) -> None:
        for window in self._open.values():
            window.give_up()

    def _damaged(self, what: str, error: Malformed) -> ManifestCorrupt:
        return ManifestCorrupt(
            f"the windows of {what} of {self._name!r} are damaged in the saved state: {error}. Go on from a "
            "copy of the state, or begin anew"
        )


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


def _rows_of(block: Block, key: int) -> list[Rows]:
    """The rows of a key, of each program."""
    one = block.at(np.array([key]))
    count = int(one.rows[0])
    return [Rows(elements(values, count), one.times, count) for values in one.values]
