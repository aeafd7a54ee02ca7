"""The output of a task: rows with the columns of their aggregates, as soon as these are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from mta.monoids.base import Array
from spark_integration.aggregates.results import PART_BYTES, Results
from spark_integration.partition.blame import Blame
from spark_integration.partition.chunks import Chunk
from spark_integration.partition.peers import Peers
from spark_integration.running.metering import COLUMN as METRICS


class Appender:
    """Appends the columns of results to the columns of rows."""

    def __init__(self, results: Results, blame: Blame) -> None:
        self._results, self._blame = results, blame

    def appended(
        self, chunk: Chunk, start: int, stop: int, results: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Rows start to stop of a chunk with their results."""
        if start == stop:
            return

        def columns_of(first: int, last: int) -> list[pa.Array]:
            of_rows = slice(first - start, last - start)
            return self._results.columns({name: part[of_rows] for name, part in results.items()})

        for first, last in self._results.parts(results, stop - start):
            at = start + first
            columns = self._blame.attempt(chunk, at, start + last, columns_of)
            for batch, row in chunk.slices(at, start + last):
                yield self._joined(batch, [column.slice(row - at, batch.num_rows) for column in columns])

    def repeated(
        self, batches: Iterable[pa.RecordBatch], result: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Batches whose rows all have one result."""
        columns = self._results.columns(result)
        most = max(1, PART_BYTES // max(1, sum(column.nbytes for column in columns)))
        for whole in batches:
            for start in range(0, whole.num_rows, most):
                batch = whole.slice(start, most)
                yield self._joined(batch, [_repeated(column, batch.num_rows) for column in columns])

    def _joined(self, batch: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
        # Spark finds columns by position, but takes no name twice; no name of an aggregate has a NUL
        taken = {*batch.schema.names, METRICS}
        fields = [
            each.with_name(f"{each.name}\0") if each.name in taken else each for each in self._results.fields
        ]
        schema = pa.schema([*batch.schema, *fields])
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)


class Emitter:
    """Sorted rows, chunk by chunk. With a `spool` for rows that wait, rows of one time have one result."""

    def __init__(self, appender: Appender, spool: Callable[[], Path] | None) -> None:
        self._appender = appender
        self._peers = None if spool is None else Peers(spool)

    def emitted(
        self, chunk: Chunk, changed: Array, times: Array | None, results: Mapping[str, Any], last: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows that have their result now; `changed` marks the first rows of groups."""
        if self._peers is None:
            yield from self._appender.appended(chunk, 0, chunk.rows, results)
            return
        assert times is not None
        released, stop, spread = self._peers.settle(chunk, changed, times, results, last)
        if released is not None:
            yield from self._appender.repeated(self._peers.release(), released)
        yield from self._appender.appended(chunk, 0, stop, spread)
        self._peers.hold(chunk, stop)

    def close(self) -> None:
        if self._peers is not None:
            self._peers.close()


def _repeated(column: pa.Array, count: int) -> pa.Array:
    return column if count == 1 else pa.repeat(column[0], count)
