"""Rows of a stream as bytes, a key's rows of an Arrow batch together.

What Spark hands to a stateful function goes through pandas, which turns whole numbers with nulls into floats
and NaN into null, and takes microseconds a row. So rows travel as Arrow's own bytes, in a column of binary:
packed before they are grouped, and unpacked behind the stateful function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as sql

from mta.monoids.base import Array
from mta.packing import pack as pack_value
from spark_integration.columns import Input
from spark_integration.metrics import STREAM_SUMS, Meter
from spark_integration.results import arrow_type

#: Columns of packed rows: the key's digest, a place for the watermark, where the rows stood, the rows.
KEY, EVENT_TIME, PLACE, ROWS = "key", "event_time", "place", "packed"

#: The column that carries what was counted, in rows that are none otherwise, and how such cells begin.
COUNTS, _COUNTS = "__rolling_counts", b"counts: "

#: Rows that are unpacked together.
UNPACKED_ROWS = 10_000


def packed_schema(event_time: sql.StructField | None) -> sql.StructType:
    """Of packed rows; the event time is always null, and only carries the watermark's mark."""
    fields = [sql.StructField(KEY, sql.BinaryType()), sql.StructField(PLACE, sql.LongType())]
    if event_time is not None:
        fields.append(sql.StructField(EVENT_TIME, event_time.dataType, True, event_time.metadata))
    return sql.StructType([*fields, sql.StructField(ROWS, sql.BinaryType())])


def arrow_schema(schema: sql.StructType, zone: str) -> pa.Schema:
    """Columns go by their places, since names of a DataFrame may repeat."""
    kinds = (arrow_type(field.dataType, zone) for field in schema.fields)
    return pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)])


def pack(
    batches: Iterable[pa.RecordBatch],
    keys: Sequence[Input],
    schema: pa.Schema,
    event_time: pa.DataType | None,
) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    place = (context.partitionId() if context is not None else 0) << 40
    for batch in batches:
        if not batch.num_rows:
            continue
        batch = conformed(batch, schema)
        digests, rows = [], []
        for digest, group in _groups(batch, keys):
            digests.append(digest)
            rows.append(serialized(group))
        columns = [pa.array(digests, pa.binary()), pa.array(range(place, place + len(rows)), pa.int64())]
        names = [KEY, PLACE]
        if event_time is not None:
            columns.append(pa.nulls(len(rows), event_time))
            names.append(EVENT_TIME)
        place += len(rows)
        yield pa.RecordBatch.from_arrays([*columns, pa.array(rows, pa.binary())], names=[*names, ROWS])


def unpack(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Rows again, several packed ones in a batch; in the end one that is no row, with what was counted."""
    held: list[pa.RecordBatch] = []
    rows = 0
    counts = np.zeros(len(STREAM_SUMS))
    for batch in batches:
        for value in batch.column(0):
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
    """What was counted for a key, as something that is no rows."""
    return _COUNTS + np.array([meter[name] for name in STREAM_SUMS], dtype=np.float64).tobytes()


def _counted(batch: pa.RecordBatch, names: Sequence[str], counts: Array | None) -> pa.RecordBatch:
    kind = pa.list_(pa.field("element", pa.float64(), nullable=False))
    column = pa.nulls(batch.num_rows, kind) if counts is None else pa.array([counts.tolist()], kind)
    return pa.RecordBatch.from_arrays([*batch.columns, column], names=[*names, COUNTS])


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def serialized(batch: pa.RecordBatch) -> bytes:
    data: bytes = batch.serialize().to_pybytes()
    return data


def deserialized(data: Any, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(index) for batch in batches])
        for index in range(batches[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


# -- keys -------------------------------------------------------------------------------------------------


def _groups(batch: pa.RecordBatch, keys: Sequence[Input]) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """The rows of each key, in their order, with the key's digest."""
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for key in keys:
        own, count = _codes(batch.column(key.index))
        codes = np.unique(codes * count + own, return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    if len(starts) > 1:
        batch = batch.take(pa.array(order))
    firsts = batch.select([key.index for key in keys]).take(pa.array(starts)).to_pylist() if keys else [{}]
    ends = np.append(starts[1:], batch.num_rows)
    for start, end, first in zip(starts.tolist(), ends.tolist(), firsts, strict=True):
        yield digest_of(first), batch.slice(start, end - start)


def _codes(column: pa.Array) -> tuple[Array, int]:
    """A number for each value, equal for equal values, and how many there are."""
    if pa.types.is_nested(column.type):
        seen: dict[Any, int] = {}
        found = [seen.setdefault(pack_value(canonical(value)), len(seen)) for value in column.to_pylist()]
        return np.array(found, dtype=np.int64), len(seen)
    if pa.types.is_floating(column.type):
        column = pc.add(column, 0.0)  # of which there are two
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def digest_of(key: Mapping[str, Any]) -> bytes:
    """16 bytes that stand for a key's values; the same in every batch."""
    packed = pack_value([canonical(value) for value in key.values()])
    return blake2b(packed, digest_size=16).digest()


def canonical(value: Any) -> Any:
    """A plain value that equals another one just where Spark says that keys are equal."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, Mapping):
        return [canonical(item) for item in value.values()]
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return value
    return repr(value)
