"""The order of rows, and the merge of parts that are sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.monoids.base import Array
from spark_integration.aggregates.inputs import Input, in_total_order
from spark_integration.call.frames import Clock
from spark_integration.partition.times import NAN, TIME, Times
from spark_integration.running.storage import spool_file
from spark_integration.streaming.schema import concatenated

#: Bytes of sorted parts in memory at once, unless more of them overlap in time.
MERGED_BYTES = 16 << 20

#: Rows that are read back together from a file.
PIECE = 1 << 14


class Order:
    """How rows are sorted: by their time, then by the other columns of `order_by`, then as they came."""

    def __init__(self, columns: Sequence[Input], clock: Clock) -> None:
        self._time, *self._others = columns
        self._clock = clock

    def times(self, batch: pa.RecordBatch) -> Array:
        """For rows that all have a time."""
        return Times(batch.column(self._time.index), self._clock).values

    def timed(
        self, batch: pa.RecordBatch, start: int = 0, stop: int | None = None
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Of rows start to stop those with a time, and those without one: null, NaN or infinite."""
        batch = batch.slice(start, None if stop is None else stop - start)
        times = Times(batch.column(self._time.index), self._clock)
        if times.kinds is None:
            return batch, None
        timed = times.kinds == TIME
        if timed.all():
            return batch, None
        return batch.take(pa.array(np.flatnonzero(timed))), batch.take(pa.array(np.flatnonzero(~timed)))

    def sorted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        times = self.times(batch)
        if not self._others:
            if len(times) < 2 or bool((times[1:] >= times[:-1]).all()):
                return batch
            return batch.take(pa.array(np.argsort(times, kind="stable")))
        return batch.take(self._indices(batch, times))

    def untimed_sorted(self, batch: pa.RecordBatch, keys: Array) -> pa.RecordBatch:
        """Rows without a time by their keys, and as Spark sorts them: null, infinities, NaN."""
        kinds = Times(batch.column(self._time.index), self._clock).kinds
        assert kinds is not None
        return batch.take(self._indices(batch, kinds.astype(np.int64) + keys * (NAN + 1)))

    def _indices(self, batch: pa.RecordBatch, times: Array) -> pa.Array:
        columns = {"0": pa.array(times)}
        for number, source in enumerate(self._others, 1):
            column = batch.column(source.index)
            if pa.types.is_floating(column.type):
                reals = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
                nulls = column.is_null().to_numpy(zero_copy_only=False)
                column = pa.array(in_total_order(reals), mask=nulls)
            if column.null_count:
                # nulls come first; the option for that differs between versions of Arrow
                columns[f"{number} is there"] = column.is_valid()
            columns[str(number)] = column
        keys = [(name, "ascending") for name in columns]
        return pc.sort_indices(pa.table(columns), sort_keys=keys)


@dataclass(frozen=True)
class SortedPart:
    """Sorted rows that are in memory or will be loaded."""

    #: the least time
    first: Any
    load: Callable[[], pa.RecordBatch]


def in_memory(batch: pa.RecordBatch, order: Order) -> SortedPart:
    return SortedPart(order.times(batch)[0].item(), lambda: batch)


def in_file(batch: pa.RecordBatch, order: Order, files: ExitStack) -> Iterator[SortedPart]:
    """Sorted rows in a file, as parts that are read back one by one; the end of `files` removes the file."""
    path = spool_file()
    files.callback(path.unlink, missing_ok=True)
    starts = range(0, batch.num_rows, PIECE)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        for start in starts:
            writer.write_batch(batch.slice(start, PIECE))
    for number, start in enumerate(starts):
        yield SortedPart(order.times(batch.slice(start, 1))[0].item(), partial(_piece, path, number))


def _piece(path: Path, number: int) -> pa.RecordBatch:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).get_batch(number)


def merged(parts: Sequence[SortedPart], order: Order) -> Iterator[pa.RecordBatch]:
    """The rows of sorted parts, sorted; among equal rows, the earlier part first."""
    if len(parts) == 1:
        yield parts[0].load()  # the usual case
        return
    waiting = sorted(enumerate(parts), key=lambda pair: pair[1].first)
    waiting.reverse()
    loaded: list[tuple[int, pa.RecordBatch]] = []
    while waiting or loaded:
        size = sum(batch.nbytes for _, batch in loaded)
        fresh = True
        while waiting and (fresh or size < MERGED_BYTES):
            number, part = waiting.pop()
            loaded.append((number, part.load()))
            size += loaded[-1][1].nbytes
            fresh = False
        bound = waiting[-1][1].first if waiting else None
        ready, loaded = _split(loaded, order, bound)
        if ready:
            yield order.sorted(concatenated(ready))


def _split(
    loaded: list[tuple[int, pa.RecordBatch]], order: Order, bound: Any
) -> tuple[list[pa.RecordBatch], list[tuple[int, pa.RecordBatch]]]:
    """The rows before a time, in the order of their parts, and the rest."""
    loaded.sort(key=lambda pair: pair[0])
    if bound is None:
        return [batch for _, batch in loaded if batch.num_rows], []
    ready, rest = [], []
    for number, batch in loaded:
        end = int(np.searchsorted(order.times(batch), bound, "left"))
        if end:
            ready.append(batch.slice(0, end))
        if end < batch.num_rows:
            rest.append((number, batch.slice(end)))
    return ready, rest
