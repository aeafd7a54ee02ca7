"""Rows of a stream as bytes: the rows of one Arrow batch and one bucket together.

What Spark hands to a stateful function goes through pandas, which turns whole numbers with nulls into floats
and NaN into null, and takes microseconds a row. So rows travel as Arrow's own bytes, in a column of binary:
packed before they are grouped, and unpacked behind the stateful function.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as sql

from mta.monoids.base import Array
from spark_integration.aggregates.inputs import Input
from spark_integration.running.metering import STREAM_SUMS, Meter
from spark_integration.streaming.digests import buckets_of, key_column
from spark_integration.streaming.schema import RowSchema, concatenated, deserialized, serialized

#: Columns of packed rows: the bucket, a column for the watermark, the position in the input, the rows.
KEY, EVENT_TIME, POSITION, ROWS = "key", "event_time", "position", "packed"

#: Stands for a bucket in the rows of the query's own state; it sorts before all buckets.
QUERY_KEY = b""

#: The column of the counts, in extra rows, and the beginning of the cells of such rows.
COUNTS, _COUNTS = "__rolling_counts", b"counts: "

#: Rows that are unpacked together.
UNPACKED_ROWS = 10_000

#: Bytes of packed rows that Spark gathers, about, and how many rows may be added for that.
GATHERED_BYTES, MOST_ADDED = 4 << 20, 20_000


class Filling:
    """Empty rows behind packed ones, so that Spark hands on the rows that it has gathered.

    Before and behind a stateful function Spark gathers rows until their number reaches a setting. It counts a
    packed row as one, however large it is. Empty rows make it hand on about every GATHERED_BYTES.
    """

    def __init__(self, gathered: int, task: int = 0) -> None:
        """`task` is the number of the task, among the tasks whose rows are gathered together."""
        if not 0 < gathered <= MOST_ADDED:
            gathered = 0
        self._gathered, self._of_a_byte = gathered, gathered / GATHERED_BYTES
        # the first GATHERED_BYTES of a task need no empty rows: Spark hands them on in the end. Later tasks
        # may leave out ever less, all tasks together twice as much as one
        self._owed = math.ldexp(-gathered, -task)

    def behind(self, size: int) -> int:
        """The number of empty rows to add behind packed rows of `size` bytes."""
        # `gathered` rows make Spark hand on everything, so more are never needed
        self._owed = min(self._owed + size * self._of_a_byte, self._gathered)
        added = max(0, int(self._owed))
        self._owed -= added
        return added


def packed_schema(event_time: sql.StructField | None) -> sql.StructType:
    """The schema of packed rows. The event time is always null: Spark only needs the watermark's mark on it.

    It is a number and not a timestamp, since pandas knows fewer time zones than Spark.
    """
    fields = [sql.StructField(KEY, sql.BinaryType()), sql.StructField(POSITION, sql.LongType())]
    if event_time is not None:
        fields.append(sql.StructField(EVENT_TIME, sql.LongType(), True, event_time.metadata))
    return sql.StructType([*fields, sql.StructField(ROWS, sql.BinaryType())])


def pack(
    keys: Sequence[Input],
    schema: RowSchema,
    buckets: int,
    marked: bool,
    gathered: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """A packed row for each bucket of each batch, with empty rows behind it, and one row for the query."""
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    position = task << 40
    filling = Filling(gathered, task)
    yield _packed([(QUERY_KEY, position, b"")], marked)
    for batch in batches:
        if not batch.num_rows:
            continue
        packed: list[tuple[bytes, int, bytes | None]] = []
        for key, rows in _by_bucket(batch, keys, schema, buckets):
            packed.append((key, position, rows))
            packed += [(key, position, None)] * filling.behind(len(rows))
            position += 1
        yield _packed(packed, marked)


def _by_bucket(
    batch: pa.RecordBatch, keys: Sequence[Input], schema: RowSchema, buckets: int
) -> Iterator[tuple[bytes, bytes]]:
    """The rows of each bucket as they came, with the digests of their keys as a last column."""
    columns = []
    for column, field in zip(batch.columns, schema.arrow, strict=True):
        columns.append(column if column.type == field.type else column.cast(field.type))
    digests, codes = key_column(pa.RecordBatch.from_arrays(columns, schema=schema.arrow), keys)
    numbers = buckets_of(digests, buckets)[codes]
    data = pa.py_buffer(digests[codes].tobytes())
    kind = schema.keyed.field(-1).type
    columns.append(pa.FixedSizeBinaryArray.from_buffers(kind, len(codes), [None, data]))
    batch = pa.RecordBatch.from_arrays(columns, schema=schema.keyed)
    # small numbers are sorted by their digits
    order = np.argsort(numbers.astype(np.uint16) if buckets <= 1 << 16 else numbers, kind="stable")
    numbers = numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(starts) > 1:
        batch = batch.take(pa.array(order))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True):
        # four bytes, the highest first, sort as the numbers do
        yield int(numbers[start]).to_bytes(4, "big"), serialized(batch.slice(start, end - start))


def _packed(packed: Sequence[tuple[bytes, int, bytes | None]], marked: bool) -> pa.RecordBatch:
    keys, positions, rows = zip(*packed, strict=True)
    columns = {KEY: pa.array(keys, pa.binary()), POSITION: pa.array(positions, pa.int64())}
    if marked:
        columns[EVENT_TIME] = pa.nulls(len(packed), pa.int64())
    columns[ROWS] = pa.array(rows, pa.binary())
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def unpack(
    schema: pa.Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of packed ones, and in the end an extra row with the counts.

    `names` are the names of the columns; the last one is the column of the counts.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    counts = np.zeros(len(STREAM_SUMS))
    for batch in batches:
        for value in batch.column(0).drop_null():
            data = value.as_buffer()
            if data[: len(_COUNTS)] == _COUNTS:
                counts += np.frombuffer(data[len(_COUNTS) :])
                continue
            held.append(deserialized(data, schema))
            rows += held[-1].num_rows
            if rows >= UNPACKED_ROWS:
                yield _counted(concatenated(held), names, None)
                held, rows = [], 0
    if held:
        yield _counted(concatenated(held), names, None)
    if counts.any():
        nothing = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
        yield _counted(nothing, names, counts)


def packed_counts(meter: Meter) -> bytes:
    """The counts of a bucket, as a cell."""
    return _COUNTS + np.array(list(map(meter.__getitem__, STREAM_SUMS)), dtype=np.float64).tobytes()


def _counted(batch: pa.RecordBatch, names: Sequence[str], counts: Array | None) -> pa.RecordBatch:
    kind = pa.list_(pa.field("element", pa.float64(), nullable=False))
    column = pa.nulls(batch.num_rows, kind) if counts is None else pa.array([counts.tolist()], kind)
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=names)
