"""Rows of a bucket that wait for the watermark.

A few of them stand in the bucket's state; more are documents in the store, each of them sorted, so that
memory does not grow with the watermark's delay. Rows that came out are never read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from mta.encoding import packing
from mta.encoding.untrusted import Malformed, fields, raw, real, whole
from mta.keyed.documents import DocumentId, Documents
from spark_integration.streaming.schema import RowSchema, concatenated
from spark_integration.streaming.sorting import Order, SortedPart, in_memory, merged

#: Bytes of rows that stand in the state itself, and of the list of documents.
INLINE, TABLE = 16 << 10, 8 << 10

#: Rows of a document, and rows that are held in memory before they become documents.
DOCUMENT_ROWS, HELD_ROWS = 1 << 14, 1 << 17

#: More rows than a document has.
_MOST_ROWS = 1 << 24


@dataclass(frozen=True)
class WaitingRows:
    """A document of sorted rows, the first of which may have come out already."""

    document: DocumentId
    rows: int
    first: Any
    last: Any
    skip: int = 0

    def encode(self) -> list[Any]:
        return [*self.document, self.rows, self.first, self.last, self.skip]

    @staticmethod
    def decode(packed: Any) -> WaitingRows:
        epoch, number, rows, first, last, skip = fields(packed, "a document of rows that wait", 6)
        whole(rows, "the rows of a document", 1, _MOST_ROWS)
        whole(skip, "the rows that came out", 0, _MOST_ROWS)
        if real(first, "a time") > real(last, "a time"):
            raise Malformed(f"rows wait from {first} to {last}")
        return WaitingRows(DocumentId.decode([epoch, number]), rows, first, last, skip)


class Held:
    """Rows in memory, counted as they come."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        if rows:
            self.batches.append(batch)
            self.rows += rows

    def released(self) -> list[pa.RecordBatch]:
        """Gives the batches away."""
        batches, self.batches, self.rows = self.batches, [], 0
        return batches


class Backlog:
    """`saved` is the result of `save` in the micro-batch before, None if no row waited."""

    def __init__(
        self, saved: list[Any] | None, documents: Documents, *, schema: RowSchema, order: Order
    ) -> None:
        self._store, self._schema, self._order = documents, schema, order
        self._stored: list[WaitingRows] = []
        self._held = Held()
        #: the document with the table of the others
        self._table: DocumentId | None = None
        if saved is None:
            return
        table, inline = fields(saved, "the rows that wait", 2)
        if raw(inline, "the rows that wait"):
            self._held.add(self._timed(schema.read(inline)))
        if fields(table, "the documents of rows that wait") and type(table[0]) is int:
            self._table = DocumentId.decode(table)
            self._stored = documents.decoded(self._table, lambda data: _decode_table(packing.unpack(data)))
        else:
            self._stored = _decode_table(table)

    def __bool__(self) -> bool:
        return bool(self._held.rows or self._stored)

    @property
    def first(self) -> Any:
        """The least time of a row that waits."""
        times = [each.first for each in self._stored]
        return min(times + [self._order.times(batch).min().item() for batch in self._held.batches])

    def take(self, limit: Any) -> Iterator[pa.RecordBatch]:
        """The rows with times up to `limit`, sorted; they wait no longer."""
        parts: list[SortedPart] = []
        kept: list[WaitingRows] = []
        for each in self._stored:
            if each.first > limit:
                kept.append(each)
                continue
            parts.append(SortedPart(each.first, partial(self._until, limit, each)))
            if each.last > limit:
                kept.append(self._behind(each, limit))
        held = [self._order.sorted(batch) for batch in self._held.released()]
        for batch in held:
            end = self._rows_until(limit, batch)
            if end:
                parts.append(in_memory(batch.slice(0, end), self._order))
            self._held.add(batch.slice(end))
        self._store.drop({each.document for each in self._stored} - {each.document for each in kept})
        self._stored = kept
        yield from merged(parts, self._order)

    def _rows_until(self, limit: Any, batch: pa.RecordBatch) -> int:
        """The number of sorted rows with times up to `limit`."""
        return int(np.searchsorted(self._order.times(batch), limit, "right"))

    def _until(self, limit: Any, rows: WaitingRows) -> pa.RecordBatch:
        batch = self._load(rows)
        return batch.slice(0, self._rows_until(limit, batch))

    def _behind(self, rows: WaitingRows, limit: Any) -> WaitingRows:
        batch = self._load(rows)
        count = self._rows_until(limit, batch)
        first = self._order.times(batch.slice(count, 1))[0].item()
        return replace(rows, rows=rows.rows - count, first=first, skip=rows.skip + count)

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.add(batch)
        if self._held.rows >= HELD_ROWS:
            self._store_held()

    def _load(self, waiting: WaitingRows) -> pa.RecordBatch:
        return self._store.decoded(waiting.document, lambda data: self._rows_of(waiting, data))

    def _rows_of(self, waiting: WaitingRows, data: memoryview) -> pa.RecordBatch:
        rows = self._timed(self._schema.read(data))
        if rows.num_rows != waiting.skip + waiting.rows:
            raise Malformed(f"{rows.num_rows} rows wait where there were {waiting.skip + waiting.rows}")
        rows = rows.slice(waiting.skip)
        times = self._order.times(rows)
        if (times[0], times[-1]) != (waiting.first, waiting.last) or bool((times[1:] < times[:-1]).any()):
            raise Malformed("rows that wait are not of their times, or not in the order of these")
        return rows

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that were read, which all have times."""
        if self._order.timed(batch)[1] is not None:
            raise Malformed("rows wait that have no time")
        return batch

    @property
    def documents(self) -> list[DocumentId]:
        """The documents that are in use."""
        return [*(each.document for each in self._stored), *([] if self._table is None else [self._table])]

    def save(self, room: int) -> list[Any] | None:
        """The backlog for the state, which has `room` bytes left; None if no row waits."""
        inline = b""
        if self._held.rows:
            inline = self._schema.with_schema(self._order.sorted(concatenated(self._held.batches)))
            if len(inline) > min(INLINE, room - TABLE):
                inline = b""
                self._store_held()
        if self._table is not None:
            self._store.drop([self._table])
            self._table = None
        table: list[Any] = [each.encode() for each in self._stored]
        packed = msgpack.packb(table)
        if len(packed) > TABLE:
            (self._table,) = self._store.write([packed])
            table = list(self._table)
        return [table, inline] if inline or table else None

    def _store_held(self) -> None:
        batch = self._order.sorted(concatenated(self._held.released()))
        parts = [batch.slice(start, DOCUMENT_ROWS) for start in range(0, batch.num_rows, DOCUMENT_ROWS)]
        documents = self._store.write([self._schema.with_schema(part) for part in parts])
        for part, document in zip(parts, documents, strict=True):
            times = self._order.times(part)
            self._stored.append(WaitingRows(document, part.num_rows, times[0].item(), times[-1].item()))


def _decode_table(packed: Any) -> list[WaitingRows]:
    return [WaitingRows.decode(each) for each in fields(packed, "the documents of rows that wait")]
