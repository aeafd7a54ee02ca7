"""Rows of a bucket that wait for the watermark.

A few of them stand in the bucket's state; more are documents in the store, each of them sorted, so that
memory does not grow with the watermark's delay. What has been passed on is never read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from mta.encoding import packing
from mta.encoding.untrusted import Malformed, fields, raw, real, whole
from mta.keyed.documents import Documents, Place, place_of
from spark_integration.streaming.schema import RowSchema, concatenated
from spark_integration.streaming.sorting import MemoryRun, Order, Run, merged

#: Bytes of rows that stand in the state itself, and of the list of documents.
INLINE, TABLE = 16 << 10, 8 << 10

#: Rows of a document, and rows that are held in memory before they become documents.
DOCUMENT_ROWS, HELD_ROWS = 1 << 14, 1 << 17

#: More rows than a document has.
_MOST_ROWS = 1 << 24


@dataclass(frozen=True)
class Document:
    """Sorted rows in the store, the first of which may have been passed on."""

    place: Place
    rows: int
    first: Any
    last: Any
    skip: int = 0


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
        """The batches, which are then held no longer."""
        batches, self.batches, self.rows = self.batches, [], 0
        return batches


class Backlog:
    """`saved` is what `save` gave in the micro-batch before, if rows waited."""

    def __init__(
        self, saved: list[Any] | None, documents: Documents, *, schema: RowSchema, order: Order
    ) -> None:
        self._store, self._schema, self._order = documents, schema, order
        self._documents: list[Document] = []
        self._held = Held()
        #: the document with the list of documents
        self._table: Place | None = None
        if saved is None:
            return
        table, inline = fields(saved, "the rows that wait", 2)
        if raw(inline, "the rows that wait"):
            self._held.add(self._timed(schema.read(inline)))
        if fields(table, "the documents of rows that wait") and type(table[0]) is int:
            self._table = place_of(table)
            self._documents = documents.decoded(self._table, lambda data: _table(packing.unpack(data)))
        else:
            self._documents = _table(table)

    def __bool__(self) -> bool:
        return bool(self._held.rows or self._documents)

    @property
    def first(self) -> Any:
        """The least time of a row that waits."""
        times = [document.first for document in self._documents]
        return min(times + [self._order.times(batch).min().item() for batch in self._held.batches])

    # -- rows -------------------------------------------------------------------------------------------

    def take(self, limit: Any) -> Iterator[pa.RecordBatch]:
        """The rows with times up to `limit`, sorted; they wait no longer."""
        runs: list[Run] = []
        kept: list[Document] = []
        for document in self._documents:
            if document.first > limit:
                kept.append(document)
                continue
            runs.append(_Stored(document, self))
            if document.last > limit:
                rest = self._behind(document, limit)
                kept.append(rest)
        held = [self._order.sorted(batch) for batch in self._held.released()]
        for batch in held:
            end = int(np.searchsorted(self._order.times(batch), limit, "right"))
            if end:
                runs.append(MemoryRun(batch.slice(0, end), self._order))
            self._held.add(batch.slice(end))
        self._store.drop({each.place for each in self._documents} - {each.place for each in kept})
        self._documents = kept
        yield from merged(runs, self._order, limit)

    def _behind(self, document: Document, limit: Any) -> Document:
        """The part of a document behind a time."""
        times = self._order.times(self.load(document))
        count = int(np.searchsorted(times, limit, "right"))
        return replace(
            document, rows=document.rows - count, first=times[count].item(), skip=document.skip + count
        )

    def add(self, batch: pa.RecordBatch) -> None:
        self._held.add(batch)
        if self._held.rows >= HELD_ROWS:
            self._store_held()

    def load(self, document: Document) -> pa.RecordBatch:
        return self._store.decoded(document.place, lambda data: self._rows_of(document, data))

    def _rows_of(self, document: Document, data: memoryview) -> pa.RecordBatch:
        rows = self._timed(self._schema.read(data))
        if rows.num_rows != document.skip + document.rows:
            raise Malformed(f"{rows.num_rows} rows wait where there were {document.skip + document.rows}")
        rows = rows.slice(document.skip)
        times = self._order.times(rows)
        if (times[0], times[-1]) != (document.first, document.last) or bool((times[1:] < times[:-1]).any()):
            raise Malformed("rows that wait are not of their times, or not in the order of these")
        return rows

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that were read, which all have times."""
        if self._order.timed(batch)[1] is not None:
            raise Malformed("rows wait that have no time")
        return batch

    # -- out --------------------------------------------------------------------------------------------

    @property
    def places(self) -> list[Place]:
        """The documents that are in use."""
        return [*(each.place for each in self._documents), *([] if self._table is None else [self._table])]

    def save(self, room: int) -> list[Any] | None:
        """What goes into the state, of which `room` bytes are left; None if no row waits."""
        inline = b""
        if self._held.rows:
            inline = self._schema.with_schema(self._order.sorted(concatenated(self._held.batches)))
            if len(inline) > min(INLINE, room - TABLE):
                inline = b""
                self._store_held()
        if self._table is not None:
            self._store.drop([self._table])
            self._table = None
        table: list[Any] = [
            [*each.place, each.rows, each.first, each.last, each.skip] for each in self._documents
        ]
        packed = msgpack.packb(table)
        if len(packed) > TABLE:
            (self._table,) = self._store.write([packed])
            table = list(self._table)
        return [table, inline] if inline or table else None

    def _store_held(self) -> None:
        batch = self._order.sorted(concatenated(self._held.released()))
        parts = [batch.slice(start, DOCUMENT_ROWS) for start in range(0, batch.num_rows, DOCUMENT_ROWS)]
        places = self._store.write([self._schema.with_schema(part) for part in parts])
        for part, place in zip(parts, places, strict=True):
            times = self._order.times(part)
            self._documents.append(Document(place, part.num_rows, times[0].item(), times[-1].item()))


def _table(packed: Any) -> list[Document]:
    return [_document(each) for each in fields(packed, "the documents of rows that wait")]


def _document(packed: Any) -> Document:
    epoch, number, rows, first, last, skip = fields(packed, "a document of rows that wait", 6)
    whole(rows, "the rows of a document", 1, _MOST_ROWS)
    whole(skip, "the rows that were passed on", 0, _MOST_ROWS)
    if real(first, "a time") > real(last, "a time"):
        raise Malformed(f"rows wait from {first} to {last}")
    return Document(place_of([epoch, number]), rows, first, last, skip)


class _Stored(Run):
    def __init__(self, document: Document, backlog: Backlog) -> None:
        super().__init__(document.first, document.rows)
        self._document, self._backlog = document, backlog

    def load(self) -> pa.RecordBatch:
        return self._backlog.load(self._document)
