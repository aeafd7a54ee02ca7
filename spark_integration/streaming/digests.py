"""The digest of a key: equal bytes for equal keys, in all micro-batches, runs and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.encoding.packing import pack as pack_value
from mta.keyed.block import DIGEST, digests_of
from mta.monoids.base import Array
from spark_integration.aggregates.inputs import Input
from spark_integration.partition.key_changes import canonical
from spark_integration.partition.plain import plain, values_of

#: For values that are equal only if their packed bytes are.
_pack_simple = msgpack.Packer().pack


def key_column(batch: pa.RecordBatch, keys: Sequence[Input]) -> tuple[Array, Array]:
    """The digests of a batch's keys, each once, and for each row the index of its digest."""
    columns = [plain(batch.column(key.index)) for key in keys]
    codes, count = np.zeros(batch.num_rows, dtype=np.int64), 1
    for number, column in enumerate(columns):
        own, many = _codes(column)
        if number:
            distinct, codes = np.unique(codes * many + own, return_inverse=True)
            codes, count = codes.reshape(-1), len(distinct)
        else:
            codes, count = own, many
    # some row of each key
    rows = np.zeros(count, dtype=np.int64)
    rows[codes] = np.arange(batch.num_rows)
    indices = pa.array(rows)
    values = [values_of(column.take(indices)) for column in columns]
    firsts = list(zip(*values, strict=True)) if values else [()] * count
    simple = all(map(_is_simple, columns))
    digest = _digest_of_simple if simple else digest_of
    return digests_of(b"".join(map(digest, firsts))), codes


def buckets_of(digests: Array, buckets: int) -> Array:
    """The number of each digest's bucket, by other bits than those that order the keys of a bucket."""
    found: Array = np.ascontiguousarray(digests).view(">u8")[1::2].astype(np.uint64) % np.uint64(buckets)
    return found.astype(np.int64)


def _codes(column: pa.Array) -> tuple[Array, int]:
    """A number for each value, the same for equal values, and the number of different values."""
    if pa.types.is_nested(column.type):
        seen: dict[Any, int] = {}
        found = [seen.setdefault(pack_value(canonical(value)), len(seen)) for value in values_of(column)]
        return np.array(found, dtype=np.int64), len(seen)
    if pa.types.is_floating(column.type):
        column = pc.add(column, 0.0)  # -0.0 becomes 0.0
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _is_simple(column: pa.Array) -> bool:
    """Whether equal values of a column always have equal packed bytes."""
    kind = column.type
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _digest_of_simple(values: tuple[Any, ...]) -> bytes:
    return blake2b(_pack_simple(values), digest_size=DIGEST).digest()


def digest_of(values: Sequence[Any]) -> bytes:
    """The digest of a key with these plain values."""
    packed = pack_value([canonical(value) for value in values])
    return blake2b(packed, digest_size=DIGEST).digest()
