"""The order of rows, and the merge of parts that are sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.monoids.base import Array
from spark_integration.aggregates.inputs import Input, in_total_order
from spark_integration.call.frames import Clock
from spark_integration.partition.times import NAN, TIME, Times
from spark_integration.streaming.schema import concatenated

#: Bytes of sorted parts in memory at once, unless more of them overlap in time.
MERGED_BYTES = 16 << 20


class Order:
    """How rows are sorted: by their time, then by the other columns of `order_by`, then as they came."""

    def __init__(self, columns: Sequence[Input], clock: Clock) -> None:
        self._time, *self._others = columns
        self._clock = clock

    def times(self, batch: pa.RecordBatch) -> Array:
        """For rows that all have a time."""
        return self.times_of(batch.column(self._time.index))

    def times_of(self, column: pa.Array) -> Array:
        return Times(column, self._clock).values

    def timed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The rows with a time, and the rows without one: null, NaN or infinite."""
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
            column = _sortable(batch.column(source.index))
            if column.null_count:
                # nulls come first; the option for that differs between versions of Arrow
                columns[f"{number} is there"] = column.is_valid()
            columns[str(number)] = column
        keys = [(name, "ascending") for name in columns]
        return pc.sort_indices(pa.table(columns), sort_keys=keys)


def _sortable(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    ordered = in_total_order(column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64))
    return pa.array(ordered, mask=column.is_null().to_numpy(zero_copy_only=False))


class SortedPart:
    """Sorted rows that are in memory or will be loaded."""

    def __init__(self, first: Any, rows: int) -> None:
        #: the least time, and the number of rows
        self.first, self.rows = first, rows

    def load(self) -> pa.RecordBatch:
        raise NotImplementedError


class SortedBatch(SortedPart):
    def __init__(self, batch: pa.RecordBatch, order: Order) -> None:
        times = order.times(batch)
        super().__init__(times[0].item(), batch.num_rows)
        self.batch = batch
        #: the greatest time
        self.last = times[-1].item()

    def load(self) -> pa.RecordBatch:
        return self.batch


def merged(parts: Sequence[SortedPart], order: Order, limit: Any = None) -> Iterator[pa.RecordBatch]:
    """The rows of sorted parts with times up to a limit, sorted; among equal rows, the earlier part first."""
    if len(parts) == 1 and isinstance(parts[0], SortedBatch) and (limit is None or parts[0].last <= limit):
        yield parts[0].batch  # the usual case
        return
    waiting = sorted(enumerate(parts), key=lambda pair: pair[1].first)
    waiting.reverse()
    loaded: list[tuple[int, pa.RecordBatch]] = []
    while waiting or loaded:
        size = sum(batch.nbytes for _, batch in loaded)
        fresh = True
        while waiting and (fresh or size < MERGED_BYTES):
            number, part = waiting.pop()
            batch = part.load()
            if limit is not None:
                batch = batch.slice(0, int(np.searchsorted(order.times(batch), limit, "right")))
            loaded.append((number, batch))
            size += batch.nbytes
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
