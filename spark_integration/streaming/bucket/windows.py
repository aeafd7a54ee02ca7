"""The windows of a bucket's keys: short ones all at once, long ones one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mta.encoding.untrusted import Malformed
from mta.keyed.block import LONG, Block, digest_at, digests_of, joined
from mta.keyed.group import SHORT_WINDOW
from mta.keyed.table import KeyTable
from mta.monoids.base import Array
from spark_integration.running.metering import Meter
from spark_integration.streaming.bucket.arrivals import Arrivals
from spark_integration.streaming.bucket.short import ShortWindows
from spark_integration.streaming.long import LongKey, Rows, decode_long
from spark_integration.streaming.plan import Tools, elements
from spark_integration.streaming.state import INLINE_ROWS, damaged, pack_rows, size_of
from spark_integration.streaming.storage import Place
from stores import Store


class Windows:
    def __init__(
        self, tools: Tools, table: KeyTable, name: str, store: Store, place: Place, meter: Meter
    ) -> None:
        self._tools, self._table, self._name = tools, table, name
        self._store, self._place, self._meter = store, place, meter
        #: names of what is to be removed from the store with the next micro-batch
        self.retired: list[str] = []
        #: keys with windows of their own, of which more rows may come, and their youngest rows
        self._open: dict[bytes, LongKey] = {}
        self._youngest: dict[bytes, tuple[Any, int]] = {}
        #: keys that are done, to be put into the table together
        self._done: list[Block] = []

    def slide(self, arrivals: Arrivals, seen: int, *, last: bool) -> Iterator[pa.RecordBatch]:
        """Sorted rows with their aggregates; all rows of a key and time come together."""
        self._table.load(arrivals.digests)
        places = self._table.block.find(arrivals.digests)
        long = self._are_long(arrivals, places)
        short = np.flatnonzero(~long)
        if len(short):
            yield from self._slide_short(arrivals.take(short), seen, last)
        for key in np.flatnonzero(long).tolist():
            yield from self._slide_long(arrivals, key, seen)
            if last:
                self._finish(digest_at(arrivals.digests, key))
        self._put_done()

    def _are_long(self, arrivals: Arrivals, places: Array) -> Array:
        """Which keys have windows of their own, or so many rows that these may be needed."""
        if self._tools.plan.frame.by_predicate:
            return np.ones(len(places), dtype=bool)
        found: Array = arrivals.lengths > SHORT_WINDOW
        known = places >= 0
        found[known] |= self._table.block.counts[places[known]] == LONG
        if self._open:
            found |= np.isin(arrivals.digests, digests_of(b"".join(sorted(self._open))))
        return found

    # -- short windows ----------------------------------------------------------------------------------

    def _slide_short(self, arrivals: Arrivals, seen: int, last: bool) -> Iterator[pa.RecordBatch]:
        places = self._table.block.find(arrivals.digests)
        before = self._table.block.take(places[places >= 0])
        windows = ShortWindows(self._tools, before, arrivals)
        for start, stop, results in windows.results():
            yield from self._tools.appender.appended(windows.chunk, start, stop, results)
        block, left = windows.after(seen)
        self._meter.add("evictions", left * len(self._tools.programs))
        self._table.put(block)
        self._move(np.flatnonzero(self._too_long(block)), block, last)

    def _too_long(self, block: Block) -> Array:
        """Which keys have more rows than stand among those of others."""
        found: Array = block.counts > self._tools.most_rows
        columns = self._tools.timed + sum(len(each) for each in block.values)
        suspects = block.counts * columns > INLINE_ROWS // 8
        if any(isinstance(column, list) for each in block.values for column in each.values()):
            suspects |= _text_sizes(block) > INLINE_ROWS // 2
        for key in np.flatnonzero(suspects & ~found).tolist():
            found[key] = any(size_of(pack_rows(*rows)) > INLINE_ROWS for rows in rows_of(block, key))
        return found

    def _move(self, keys: Array, block: Block, last: bool) -> None:
        """Gives keys windows of their own."""
        for key in keys.tolist():
            digest = digest_at(block.digests, key)
            self._open[digest] = self._long(digest, rows_of(block, key))
            self._youngest[digest] = block.youngest[key], int(block.seen[key])
            if last:
                self._finish(digest)

    # -- long windows -----------------------------------------------------------------------------------

    def _long(self, digest: bytes, saved: bytes | Sequence[Rows] | None) -> LongKey:
        rows = list(saved) if saved is not None and not isinstance(saved, bytes) else saved
        # a window that begins again is another one, since that of before may be about to be removed
        name = f"{self._name}/{digest.hex()}/{self._place.batch}"
        try:
            return LongKey(self._tools, name, self._store, self._place, self._meter, rows)
        except Malformed as error:
            raise damaged(f"the key with digest {digest.hex()}", error) from error

    def _slide_long(self, arrivals: Arrivals, key: int, seen: int) -> Iterator[pa.RecordBatch]:
        digest = digest_at(arrivals.digests, key)
        window = self._open.get(digest)
        if window is None:
            window = self._open[digest] = self._long(digest, self._saved(digest))
        batch = arrivals.rows_of(key)
        yield from window.slide(self._tools.rows(batch))
        last = self._tools.order.times(batch.slice(batch.num_rows - 1))[0]
        place = self._place_of(digest)
        if place >= 0:
            # of which some rows may be still to come
            last = max(last, self._table.block.youngest[place])
        self._youngest[digest] = last, seen

    def _place_of(self, digest: bytes) -> int:
        return int(self._table.block.find(digests_of(digest))[0])

    def _saved(self, digest: bytes) -> bytes | list[Rows] | None:
        place = self._place_of(digest)
        if place < 0:
            return None
        block = self._table.block
        entry = block.long[place]
        return rows_of(block, place) if entry is None else bytes(entry)

    def _finish(self, digest: bytes) -> None:
        """The key is among the others again, with its rows or with what its windows came to."""
        window = self._open[digest]
        youngest, seen = self._youngest[digest]
        rows = window.short()
        entry = None
        if rows is None:
            entry = window.save()
        else:
            self.retired += window.stored
        del self._open[digest], self._youngest[digest]
        self._done.append(self._block(digest, youngest, seen, rows, entry))

    def _put_done(self) -> None:
        if self._done:
            self._table.put(joined(self._done))
            self._done = []

    def _block(
        self, digest: bytes, youngest: Any, seen: int, rows: list[Rows] | None, entry: bytes | None
    ) -> Block:
        """One key."""
        nothing = self._tools.shape.empty()
        times, values = nothing.times, nothing.values
        count = LONG
        if rows is not None:
            count = rows[0][2]
        if rows is not None and count:
            times = rows[0][1]
            values = [each[0] if isinstance(each[0], dict) else {} for each in rows]
        long = np.full(1, None, dtype=object)
        long[0] = entry
        return Block(
            digests_of(digest), np.array([youngest], dtype=self._tools.shape.clock),
            np.array([seen], dtype=np.int64), np.array([count]), times, values, long,
        )  # fmt: skip

    # -- ends -------------------------------------------------------------------------------------------

    def forget(self, places: Array) -> None:
        """Removes keys of the table; what they have in the store is removed with the next micro-batch."""
        if not len(places):
            return
        block = self._table.block
        for place in places[block.counts[places] == LONG].tolist():
            try:
                _, _, stored, _ = decode_long(block.long[place], len(self._tools.programs))
            except Malformed as error:
                raise damaged(f"a key of {self._name}", error) from error
            self.retired += stored
        self._table.remove(places)

    def finish(self) -> None:
        for digest in list(self._open):
            self._finish(digest)
        self._put_done()

    def give_up(self) -> None:
        for window in self._open.values():
            window.give_up()


def rows_of(block: Block, key: int) -> list[Rows]:
    """Of each program the values, times and number of a key's rows."""
    one = block.cut(key, key + 1)
    count = int(one.rows[0])
    return [(elements(values, count), one.times, count) for values in one.values]


def _text_sizes(block: Block) -> Array:
    """About how many bytes the texts of each key have."""
    sizes = np.zeros(len(block), dtype=np.int64)
    for each in block.values:
        for column in each.values():
            if isinstance(column, list):
                lengths = [len(item) + 3 if isinstance(item, (str, bytes)) else 9 for item in column]
                before = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
                sizes += before[block.ends] - before[block.ends - block.rows]
    return sizes
