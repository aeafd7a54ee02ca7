"""The new rows of a micro-batch, sorted by key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mta.keyed.block import digests_of, ranges
from mta.monoids.base import Array


@dataclass(frozen=True)
class Arrivals:
    """Rows sorted by the digests of their keys; the rows of a key keep their order."""

    digests: Array
    #: the number of rows of each key
    lengths: Array
    batch: pa.RecordBatch

    @property
    def starts(self) -> Array:
        found: Array = np.cumsum(self.lengths) - self.lengths
        return found

    def take(self, keys: Array) -> Arrivals:
        """Some keys, by ascending indices."""
        if len(keys) == len(self.digests):
            return self
        rows = ranges(self.starts[keys], self.lengths[keys])
        return Arrivals(self.digests[keys], self.lengths[keys], self.batch.take(pa.array(rows)))

    def rows_of(self, key: int) -> pa.RecordBatch:
        return self.batch.slice(int(self.starts[key]), int(self.lengths[key]))


def by_key(batch: pa.RecordBatch) -> Arrivals:
    """The rows of a batch whose last column has the digests of their keys."""
    digests, keys = keys_of(batch)
    lengths = np.bincount(keys, minlength=len(digests))
    if len(digests) > 1:
        # small numbers are sorted by their digits
        small = keys.astype(np.uint16) if len(digests) < 1 << 16 else keys
        batch = batch.take(pa.array(np.argsort(small, kind="stable")))
    return Arrivals(digests, lengths, batch)


def keys_of(batch: pa.RecordBatch) -> tuple[Array, Array]:
    """The digests of a batch in their order, and for each row the index of its digest."""
    encoded = batch.column(batch.num_columns - 1).dictionary_encode()
    _, data = encoded.dictionary.buffers()
    found = digests_of(data)[: len(encoded.dictionary)]
    order = np.argsort(found)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return found[order], ranks[encoded.indices.to_numpy(zero_copy_only=False)]


def last_times(batch: pa.RecordBatch, times: Array) -> tuple[Array, Array]:
    """The digests of a batch in their order, and for each the greatest of its rows' times."""
    digests, keys = keys_of(batch)
    found = np.full(len(digests), times.min())
    np.maximum.at(found, keys, times)
    return digests, found
