"""A bucket in one micro-batch: rows come in, in no order, and go out with their aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from mta.durability.attempts import AttemptHold, retire
from mta.durability.manifest import Version
from mta.encoding.packing import unpack
from mta.encoding.untrusted import Malformed, fields, shown, text
from mta.keyed.documents import Documents, Range, SavedDocuments
from mta.keyed.long import clear_up_after_others
from mta.keyed.table import KeyTable
from mta.keyed.windows import KeyWindows
from mta.monoids.base import Array
from spark_integration.partition.chunks import Chunk
from spark_integration.partition.task import roll_partition
from spark_integration.running.metering import Meter
from spark_integration.streaming.backlog import HELD_ROWS, Backlog
from spark_integration.streaming.bucket.windows import RowWindows, by_key, keys_of, last_times
from spark_integration.streaming.plan import Tools
from spark_integration.streaming.schema import concatenated
from spark_integration.streaming.sorting import SortedPart, in_file, in_memory, merged
from spark_integration.streaming.state import BucketState, damaged
from spark_integration.streaming.storage import LEASE, TaskAttempt, documents_name, windows_name
from stores import Store

#: Bytes of a state, but for what is to be removed from the store.
STATE = 54 << 10

#: Bytes of the names of windows that ended; more are in a document.
NAMES = 2 << 10


class BucketTask:
    """`clock` is the watermark, up to which rows are complete, or else the time of the micro-batch.

    It is None before there is a watermark, or if keys are not forgotten by the clock.
    """

    def __init__(
        self,
        tools: Tools,
        state: BucketState,
        store: Store,
        attempt: TaskAttempt,
        meter: Meter,
        clock: int | None,
    ) -> None:
        self._tools, self._state, self._store, self._attempt = tools, state, store, attempt
        self._meter, self._clock = meter, clock
        stream = tools.stream
        #: the clock that is kept with the keys that came
        self._seen = int(clock or 0) if stream.by_clock else 0
        #: the watermark up to which rows are late
        self._complete = state.out if stream.after_outer_joins else clock
        #: whether the bucket has ended, but for documents in the store that a replay may need
        self._ends = False
        #: the keys of rows that begin to wait, with the last of their times, if keys are forgotten
        self._expected: list[tuple[Array, Array]] = []
        self._holds: dict[str, AttemptHold] = {}
        try:
            self._documents = Documents(
                documents_name(state.name, state.bucket), store, self._hold, state.documents
            )
            self._table = KeyTable(
                tools.keyed.shape, self._documents, state.keys, stream.least, by_clock=stream.by_clock
            )
            self._backlog: Backlog | None = None
            if stream.waits:
                self._backlog = Backlog(state.backlog, self._documents, schema=stream.rows, order=tools.order)
            retired = self._retired()
        except Malformed as error:
            raise damaged(f"bucket {state.bucket}", error) from error
        self._windows = KeyWindows(
            tools.keyed, self._table, windows_name(state.name), store, self._hold, attempt.batch
        )
        self._row_windows = RowWindows(tools, self._windows, meter)
        for name in retired:
            retire(store, name, attempt.batch)
        self._documents.clear()

    def _hold(self, name: str, page_size: int, base: Version | None) -> AttemptHold:
        batch, run = self._attempt.batch, self._attempt.run
        hold = AttemptHold(self._store, name, page_size, base, batch=batch, run=run, lease=LEASE)
        self._holds[name] = hold
        return hold

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes in rows, with a last column of digests; gives the rows that are complete, with aggregates."""
        untimed: list[pa.RecordBatch] = []
        with ExitStack() as files:
            parts = self._taken_in(batches, untimed, files)
            if self._backlog is None:
                ready = merged(parts, self._tools.order)
            elif self._clock is not None:
                ready = self._backlog.take(self._clock)
            else:
                ready = iter(())
            batch = next(ready, None)
            while batch is not None:
                following = next(ready, None)
                self._meter.add("rows", batch.num_rows)
                yield from self._row_windows.slide(by_key(batch), self._seen, last=following is None)
                batch = following
        if untimed:
            # their windows hold only each other
            rows = concatenated(untimed)
            rows = self._tools.order.untimed_sorted(rows, keys_of(rows)[1])
            self._meter.add("rows", rows.num_rows)
            yield from roll_partition(self._tools.plan, self._tools.chunk(rows).batches)

    def _taken_in(
        self, batches: Iterable[pa.RecordBatch], untimed: list[pa.RecordBatch], files: ExitStack
    ) -> list[SortedPart]:
        """The rows that are not late: in the backlog, or as sorted parts."""
        order, parts = self._tools.order, []
        for batch in batches:
            timed = partial(order.timed, batch)
            batch, without = self._tools.blame.attempt(Chunk([batch], []), 0, batch.num_rows, timed)
            if without is not None:
                untimed.append(without)
            times, on_time = order.times(batch), None
            if self._backlog is None:
                on_time = self._not_before_others(batch, times)
            elif self._complete is not None:
                on_time = times > self._complete
            if on_time is not None and not bool(on_time.all()):
                self._meter.add("late", int(batch.num_rows - np.count_nonzero(on_time)))
                batch, times = batch.take(pa.array(np.flatnonzero(on_time))), times[on_time]
            if not batch.num_rows:
                continue
            if self._backlog is not None:
                if self._tools.stream.forgets_rows:
                    self._expected.append(last_times(batch, times))
                self._backlog.add(batch)
                continue
            batch = order.sorted(batch)
            if batch.num_rows < HELD_ROWS:
                parts.append(in_memory(batch, order))
            else:
                parts += in_file(batch, order, files)
        return parts

    def _not_before_others(self, batch: pa.RecordBatch, times: Array) -> Array:
        """Which rows are not older than a row of their key that has come out."""
        digests, keys = keys_of(batch)
        self._table.load(digests)
        over = self._table.over(self._clock)
        self._windows.forget(over[np.isin(self._table.block.digests[over], digests)])
        indices = self._table.block.find(digests)[keys]
        known = indices >= 0
        on_time: Array = ~known
        on_time[known] = times[known] >= self._table.block.youngest[indices[known]]
        return on_time

    @property
    def due(self) -> float | None:
        """The time of the next call if no rows come, in the unit of the clock."""
        waiting = self._backlog.first if self._backlog else None
        if self._state.retired or self._ends:
            waiting = self._clock or 0
        return min((each for each in (waiting, self._table.due) if each is not None), default=None)

    def _retired(self) -> list[str]:
        """Their names, from the state."""
        retired = self._state.retired
        if isinstance(retired, list):
            return self._names(retired)
        found = self._documents.decoded(retired, lambda data: self._names(unpack(data)))
        self._documents.drop([retired])
        return found

    def _names(self, names: Any) -> list[str]:
        """The names, if all of them are of this query's windows: a damaged state removes no others."""
        found: list[str] = fields(names, "windows that ended")
        prefixes = f"{self._state.name}/", f"{windows_name(self._state.name)}/"
        for each in found:
            if not text(each, "the name of a window").startswith(prefixes):
                raise Malformed(f"{shown(each)} is no window of this query")
        return found

    def _retire(self, names: list[str]) -> list[Range]:
        """Puts names into the state, or into a document, which is then live."""
        self._state.retired = names
        packed = msgpack.packb(names)
        if len(packed) <= NAMES:
            return []
        (document,) = self._documents.write([packed])
        self._state.retired = document
        return [(document.epoch, document.number, document.number + 1)]

    def save(self) -> BucketState | None:
        """The state after this micro-batch, None if nothing is left; its documents are in the store."""
        state, stream, windows, table = self._state, self._tools.stream, self._windows, self._table
        windows.finish()
        # only now: rows up to the watermark may still have needed keys that are over
        table.drop_old(self._clock)
        table.refresh()
        table.see(self._clock)
        if self._expected:
            table.load(np.concatenate([digests for digests, _ in self._expected]))
        windows.forget(table.over(self._clock))
        # a key that was over begins anew with the rows that came
        for digests, times in self._expected:
            table.expect(digests, times, self._clock)
        live = self._retire(windows.retired)
        state.keys = table.save(self._clock)
        room = STATE - len(msgpack.packb(state.keys))
        live += table.ranges
        if self._backlog is not None:
            state.backlog = self._backlog.save(room)
            if self._clock is not None:
                state.out = self._clock
            live += [(epoch, number, number + 1) for epoch, number in self._backlog.documents]
        self._meter.add("cache_hits", windows.hits)
        self._meter.add("cache_misses", windows.asked - windows.hits)
        if table.empty and state.backlog is None and not self._documents.wrote:
            if not self._documents.in_store:
                # behind an outer join, the state tells which rows are late
                return state if state.retired or stream.after_outer_joins else None
            # a replay of this micro-batch needs the documents; the next micro-batch removes them
            assert isinstance(state.retired, list)
            state.retired.append(self._documents.name)
            state.documents = SavedDocuments()
            return state
        self._ends = table.empty and state.backlog is None
        state.documents = self._documents.save(self._attempt.batch, live)
        clear_up_after_others(self._store, self._documents.name, self._holds[self._documents.name])
        return state

    def give_up(self) -> None:
        """Removes what was written, where that is possible; the rest is left for `mta gc`."""
        self._windows.give_up()
        with suppress(Exception):
            self._documents.give_up()
