"""A sorted partition as chunks: runs of record batches, with the places where keys and times change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.monoids.base import Array
from spark_integration.buffers import to_numpy, validity
from spark_integration.columns import Input, real_numbers, whole_numbers
from spark_integration.frames import Clock

#: Arrow batches are put together up to so many rows or bytes.
CHUNK_ROWS, CHUNK_BYTES = 1 << 15, 16 << 20

#: Order values that are no times: each kind stands apart from all others, in the order that Spark sorts them.
NULL, MINUS_INFINITY, TIME, INFINITY, NAN = range(5)


class Chunk:
    """Some record batches that follow each other, and the columns of them that are looked at."""

    def __init__(self, batches: list[pa.RecordBatch], wanted: Sequence[int]) -> None:
        self.batches = batches
        self.rows = sum(batch.num_rows for batch in batches)
        self.columns = {index: _joined([batch.column(index) for batch in batches]) for index in wanted}

    def value(self, index: int, row: int) -> Any:
        """One value of any column, for people to read."""
        ((batch, _),) = self.slices(row, row + 1)
        return batch.column(index)[0].as_py()

    def slices(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """The batches of rows start to stop, and where in the chunk each begins; nothing is copied."""
        begin = 0
        for batch in self.batches:
            end = begin + batch.num_rows
            first, last = max(start, begin), min(stop, end)
            if first < last:
                whole = last - first == batch.num_rows
                yield (batch if whole else batch.slice(first - begin, last - first)), first
            begin = end


def _joined(parts: list[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def chunks(batches: Iterable[pa.RecordBatch], wanted: Sequence[int]) -> Iterator[tuple[Chunk, bool]]:
    """Chunks that are not empty, and whether each is the last."""
    before: Chunk | None = None
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            if before is not None:
                yield before, False
            before, held, rows, size = Chunk(held, wanted), [], 0, 0
    if before is not None:
        yield before, not held
    if held:
        yield Chunk(held, wanted), True


# -- keys -------------------------------------------------------------------------------------------------


class Keys:
    """Where the key changes, within a chunk and from the chunk before it."""

    def __init__(self, keys: Sequence[Input]) -> None:
        self._keys = keys
        self._last: dict[int, pa.Array] = {}

    def changes(self, chunk: Chunk) -> Array:
        """For each row, whether its key differs from the row's before it; true for the first row of all."""
        changed = np.zeros(chunk.rows, dtype=bool)
        for key in self._keys:
            column = chunk.columns[key.index]
            changed[1:] |= differences(column)
            last = self._last.get(key.index)
            if last is None or differences(pa.concat_arrays([last, column.slice(0, 1)]))[0]:
                changed[0] = True
            self._last[key.index] = column.slice(chunk.rows - 1)
        return changed


def differences(column: pa.Array) -> Array:
    """For each row but the first, whether it is unlike the one before; null equals null, NaN equals NaN."""
    count = len(column)
    if count < 2:
        return np.zeros(0, dtype=bool)
    found = _value_differences(column)
    if column.null_count:
        valid = validity(column)
        found = np.where(valid[1:] & valid[:-1], found, valid[1:] != valid[:-1])
    return found


def _value_differences(column: pa.Array) -> Array:
    kind = column.type
    if pa.types.is_floating(kind):
        values = real_numbers(column)
        both_missing = np.isnan(values[1:]) & np.isnan(values[:-1])
        found: Array = (values[1:] != values[:-1]) & ~both_missing
        return found
    if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind):
        values = whole_numbers(column)
        unlike: Array = values[1:] != values[:-1]
        return unlike
    if pa.types.is_struct(kind):
        found = np.zeros(len(column) - 1, dtype=bool)
        for part in column.flatten():
            found |= differences(part)
        return found
    if pa.types.is_nested(kind):
        items = [_comparable(item) for item in column.to_pylist()]
        return np.fromiter((a != b for a, b in pairwise(items)), bool, len(items) - 1)
    different = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
    unequal: Array = to_numpy(pc.fill_null(different, False))
    return unequal


def _comparable(value: Any) -> Any:
    """A value that equals another one just where Spark says so."""
    if isinstance(value, float):
        return "NaN" if value != value else value
    if isinstance(value, dict):
        return tuple((name, _comparable(item)) for name, item in value.items())
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return value


# -- times ------------------------------------------------------------------------------------------------


class Times:
    """The order column of a chunk: kinds of values, and the times of those that are times."""

    def __init__(self, column: pa.Array, clock: Clock) -> None:
        if clock == "whole":
            self.values = whole_numbers(column)
            if self.values.size and int(self.values.min()) < -(2**63) + 1:
                raise ValueError(f"an order value is {-(2**63)}, which is beyond the times of a window")
            self.kinds: Array | None = None
        else:
            values = real_numbers(column)
            kinds = np.full(len(values), TIME, dtype=np.int8)
            finite = np.isfinite(values)
            if not finite.all():
                kinds[np.isnan(values)] = NAN
                kinds[values == np.inf] = INFINITY
                kinds[values == -np.inf] = MINUS_INFINITY
                values = np.where(finite, values, 0.0)
            self.values = values
            self.kinds = None if finite.all() else kinds
        if column.null_count:
            kinds = np.full(len(column), TIME, dtype=np.int8) if self.kinds is None else self.kinds
            kinds[~validity(column)] = NULL
            self.kinds = kinds

    def kind_at(self, row: int) -> int:
        return TIME if self.kinds is None else int(self.kinds[row])

    def kind_changes(self) -> Array:
        """For each row but the first, whether it is of another kind than the one before."""
        if self.kinds is None:
            return np.zeros(max(len(self.values) - 1, 0), dtype=bool)
        changes: Array = self.kinds[1:] != self.kinds[:-1]
        return changes
