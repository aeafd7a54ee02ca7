"""Rows of a stream as bytes, those of an Arrow batch together that are of keys of one bucket.

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
from spark_integration.streaming.keys import buckets_of, encode_bucket, key_column
from spark_integration.streaming.schema import RowSchema, concatenated, deserialized, serialized

#: Columns of packed rows: the bucket, a place for the watermark, where the rows stood, the rows.
KEY, EVENT_TIME, PLACE, ROWS = "key", "event_time", "place", "packed"

#: Instead of a bucket, for the state that says what the query is; it sorts before all others.
QUERY_KEY = b""

#: The column that carries what was counted, in rows that are none otherwise, and how such cells begin.
COUNTS, _COUNTS = "__rolling_counts", b"counts: "

#: Rows that are unpacked together.
UNPACKED_ROWS = 10_000

#: Bytes of packed rows that Spark gathers, about, and how many rows may be added for that.
GATHERED_BYTES, MOST_ADDED = 4 << 20, 20_000


class Filling:
    """Rows of nothing behind packed ones, so that Spark hands on what it has gathered.

    Before and behind a stateful function it gathers until rows are as many as its setting says, and takes a
    packed one for one, whatever bytes it has.
    """

    def __init__(self, gathered: int, task: int = 0) -> None:
        """`task` is the number of one of those whose rows are gathered together."""
        if not 0 < gathered <= MOST_ADDED:
            gathered = 0
        self._gathered, self._of_a_byte = gathered, gathered / GATHERED_BYTES
        # what is gathered once, and of all tasks twice, need not be handed on before the end
        self._owed = math.ldexp(-gathered, -task)

    def behind(self, size: int) -> int:
        """How many to add behind so many bytes."""
        # so many are enough for Spark to hand on all there is, however large that was
        self._owed = min(self._owed + size * self._of_a_byte, self._gathered)
        added = max(0, int(self._owed))
        self._owed -= added
        return added


def packed_schema(event_time: sql.StructField | None) -> sql.StructType:
    """Of packed rows; the event time is always null, and only carries the watermark's mark.

    It is a number, as Spark compares it, since pandas knows fewer time zones than Spark.
    """
    fields = [sql.StructField(KEY, sql.BinaryType()), sql.StructField(PLACE, sql.LongType())]
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
    """A row for each bucket of each batch with what fills up behind it, and one for the query."""
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    place = task << 40
    filling = Filling(gathered, task)
    yield _packed([(QUERY_KEY, place, b"")], marked)
    for batch in batches:
        if not batch.num_rows:
            continue
        packed: list[tuple[bytes, int, bytes | None]] = []
        for key, rows in _by_bucket(conformed(batch, schema.arrow), keys, schema.keyed, buckets):
            packed.append((key, place, rows))
            packed += [(key, place, None)] * filling.behind(len(rows))
            place += 1
        yield _packed(packed, marked)


def _by_bucket(
    batch: pa.RecordBatch, keys: Sequence[Input], keyed: pa.Schema, buckets: int
) -> Iterator[tuple[bytes, bytes]]:
    """The rows of each bucket as they came, with their keys behind them."""
    digests, codes = key_column(batch, keys)
    numbers = buckets_of(digests, buckets)[codes]
    data = pa.py_buffer(digests[codes].tobytes())
    column = pa.FixedSizeBinaryArray.from_buffers(keyed.field(-1).type, len(codes), [None, data])
    batch = pa.RecordBatch.from_arrays([*batch.columns, column], schema=keyed)
    # small numbers are sorted by their digits
    order = np.argsort(numbers.astype(np.uint16) if buckets <= 1 << 16 else numbers, kind="stable")
    numbers = numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(starts) > 1:
        batch = batch.take(pa.array(order))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True):
        yield encode_bucket(int(numbers[start])), serialized(batch.slice(start, end - start))


def _packed(packed: Sequence[tuple[bytes, int, bytes | None]], marked: bool) -> pa.RecordBatch:
    keys, places, rows = zip(*packed, strict=True)
    columns = {KEY: pa.array(keys, pa.binary()), PLACE: pa.array(places, pa.int64())}
    if marked:
        columns[EVENT_TIME] = pa.nulls(len(packed), pa.int64())
    columns[ROWS] = pa.array(rows, pa.binary())
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def unpack(
    schema: pa.Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows again, several packed ones in a batch; in the end one that is no row, with what was counted.

    The last of the names is that of the column for it.
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
    """What was counted for a bucket, as something that is no rows."""
    return _COUNTS + np.array([meter[name] for name in STREAM_SUMS], dtype=np.float64).tobytes()


def _counted(batch: pa.RecordBatch, names: Sequence[str], counts: Array | None) -> pa.RecordBatch:
    kind = pa.list_(pa.field("element", pa.float64(), nullable=False))
    column = pa.nulls(batch.num_rows, kind) if counts is None else pa.array([counts.tolist()], kind)
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=names)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
