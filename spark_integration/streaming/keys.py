"""Which rows are of one key, and the bytes that stand for it in all micro-batches, runs and sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.encoding.packing import pack as pack_value
from mta.monoids.base import Array
from spark_integration.aggregates.inputs import Input


def groups(batch: pa.RecordBatch, keys: Sequence[Input]) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """The rows of each key, in their order, with the key's digest."""
    columns = [plain(batch.column(key.index)) for key in keys]
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in columns:
        own, count = _codes(column)
        codes = np.unique(codes * count + own, return_inverse=True)[1].reshape(-1)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    if len(starts) > 1:
        batch = batch.take(pa.array(order))
    places = pa.array(order[starts])
    values = [column.take(places).to_pylist() for column in columns]
    firsts = list(zip(*values, strict=True)) if values else [()] * len(starts)
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


def digest_of(values: Sequence[Any]) -> bytes:
    """16 bytes that stand for a key's plain values."""
    packed = pack_value([canonical(value) for value in values])
    return blake2b(packed, digest_size=16).digest()


def plain(column: pa.Array) -> pa.Array:
    """The column with dates, times and intervals as whole numbers: an instant has no time zone."""
    kind = _plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain_type(each.type), each.nullable) for each in kind])
    if pa.types.is_map(kind):
        item = pa.field("value", _plain_type(kind.item_type), kind.item_field.nullable)
        return pa.map_(pa.field("key", _plain_type(kind.key_type), nullable=False), item)
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _plain_type(kind.value_type), kind.value_field.nullable))
    return kind


def canonical(value: Any) -> Any:
    """A plain value that equals another one of its column just where Spark says that keys are equal."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return [canonical(item) for item in value.values()]
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map, whose order means nothing
        return sorted(([canonical(item) for item in entry] for entry in value), key=pack_value)
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, Decimal):
        return _shortest(value)
    return value


def _shortest(value: Decimal) -> tuple[int, int]:
    """The digits without zeros at their end, and the exponent: 1.50 equals 1.5."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)))
    if not number:
        return 0, 0
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    return -number if sign else number, exponent
