"""A sorted partition as chunks: a few record batches that are computed together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

#: Limits on a chunk, in rows and bytes; the last batch may go beyond them.
CHUNK_ROWS, CHUNK_BYTES = 1 << 15, 16 << 20


class Chunk:
    """Some record batches that follow each other, and the columns of them that are read."""

    def __init__(self, batches: list[pa.RecordBatch], wanted: Sequence[int]) -> None:
        self.batches = batches
        self.rows = sum(batch.num_rows for batch in batches)
        self.columns = {index: _joined([batch.column(index) for batch in batches]) for index in wanted}

    def value(self, index: int, row: int) -> pa.Scalar:
        """One value of any column."""
        ((batch, _),) = self.slices(row, row + 1)
        return batch.column(index)[0]

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
