"""Rows of a key that wait for the watermark.

A few of them stand in the key's state; more are documents in the store, each of them sorted, so that memory
does not grow with the watermark's delay. What has been passed on is never read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import xxhash

from mta.durability.attempts import AttemptHold
from mta.durability.coding import pack_version, unpack_version
from mta.durability.manifest import DOCUMENTS, Version
from mta.encoding.packing import pack
from mta.errors import PageCorrupt, PagesLost
from spark_integration.streaming.schema import RowSchema, concatenated
from spark_integration.streaming.sorting import MemoryRun, Order, Run, merged
from stores import Store, page_key
from stores.base import page_prefix

#: Bytes of rows that stand in the state itself, and of the list of documents.
INLINE, TABLE = 12 << 10, 8 << 10

#: Rows of a document, and rows that are held in memory before they become documents.
DOCUMENT_ROWS, HELD_ROWS = 1 << 14, 1 << 17

#: What holds count in; documents are no pages, so any power of two will do.
_PAGE = 2

MakeHold = Callable[[str, int, Version | None], AttemptHold]


@dataclass(frozen=True)
class Document:
    """Sorted rows in the store, the first of which may have been passed on."""

    epoch: int
    number: int
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
    def __init__(
        self,
        saved: list[Any] | None,
        name: str,
        *,
        store: Store,
        make_hold: MakeHold,
        schema: RowSchema,
        order: Order,
    ) -> None:
        self._store, self._name, self._schema, self._order = store, name, schema, order
        #: counts up; no number is used for another document
        self._next = 0
        base: Version | None = None
        self._documents: list[Document] = []
        self._held = Held()
        table: Any = []
        if saved is not None:
            self._next, packed, table, inline = saved
            base = None if packed is None else unpack_version(1, packed)
            if inline:
                self._held.add(schema.read(inline))
        self._base = base
        self._hold = make_hold(name, _PAGE, base)
        if isinstance(table, int):
            assert base is not None
            epoch = next(epoch for epoch, first, last in base.documents if first <= table < last)
            table = msgpack.unpackb(self._read(epoch, table))
        self._documents = [Document(*each) for each in table]

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
        data = self._read(document.epoch, document.number)
        return self._schema.read(data).slice(document.skip)

    def _read(self, epoch: int, number: int) -> bytes:
        key = page_key(page_prefix(self._name, epoch, DOCUMENTS), number)
        (data,) = self._store.get_many([key])
        if data is None:
            self._hold.check_hold()
            raise PagesLost(
                f"rows that wait for the watermark are not in {self._store!r} (key {key!r}): the store lost "
                "them, or the query was started from an older checkpoint than the store's"
            )
        if xxhash.xxh3_64_digest(memoryview(data)[:-8]) != data[-8:]:
            raise PageCorrupt(
                f"rows that wait for the watermark are damaged in {self._store!r} (key {key!r})"
            )
        return data[:-8]

    # -- out --------------------------------------------------------------------------------------------

    def save(self, number: int) -> tuple[list[Any] | None, Version | None]:
        """What goes into the state, and the version that it names, if there are documents."""
        inline = b""
        if self._held.rows:
            inline = self._schema.with_schema(self._order.sorted(concatenated(self._held.batches)))
            if len(inline) > INLINE:
                inline = b""
                self._store_held()
        table: Any = [
            [each.epoch, each.number, each.rows, each.first, each.last, each.skip] for each in self._documents
        ]
        named = [(each.epoch, each.number) for each in self._documents]
        packed = msgpack.packb(table)
        if len(packed) > TABLE:
            epoch, table = self._write([packed])[0]
            named.append((epoch, table))
        version = self._version(number, named)
        if self._hold.claimed:
            assert version is not None
            self._hold.commit(version, "rows", "watermark")
        if not inline and not named and version is None:
            return None, None
        return [self._next, None if version is None else pack_version(version), table, inline], version

    def _version(self, number: int, named: list[tuple[int, int]]) -> Version | None:
        if self._base is None and not self._hold.claimed:
            return None
        assert self._hold.extents is not None
        return Version(
            number, 0, 0, None, None, pack(number), self._hold.extents, (), documents=tuple(_ranges(named))
        )

    def give_up(self) -> None:
        """Deletes what was written, of which nothing will count."""
        if self._hold.claimed:
            self._hold.let_go()

    def _store_held(self) -> None:
        batch = self._order.sorted(concatenated(self._held.released()))
        parts = [batch.slice(start, DOCUMENT_ROWS) for start in range(0, batch.num_rows, DOCUMENT_ROWS)]
        contents = [self._schema.with_schema(part) for part in parts]
        for part, (epoch, number) in zip(parts, self._write(contents), strict=True):
            times = self._order.times(part)
            self._documents.append(Document(epoch, number, part.num_rows, times[0].item(), times[-1].item()))

    def _write(self, contents: list[bytes]) -> list[tuple[int, int]]:
        self._hold.claim()
        prefix = page_prefix(self._name, self._hold.root.epoch, DOCUMENTS)
        numbers = range(self._next, self._next + len(contents))
        self._next += len(contents)
        self._store.put_many(
            {
                page_key(prefix, number): content + xxhash.xxh3_64_digest(content)
                for number, content in zip(numbers, contents, strict=True)
            }
        )
        return [(self._hold.root.epoch, number) for number in numbers]


def has_rows(saved: list[Any] | None) -> bool:
    """Whether rows wait in what `save` gave."""
    if saved is None:
        return False
    _, _, table, inline = saved
    return table != [] or bool(inline)


class _Stored(Run):
    def __init__(self, document: Document, backlog: Backlog) -> None:
        super().__init__(document.first, document.rows)
        self._document, self._backlog = document, backlog

    def load(self) -> pa.RecordBatch:
        return self._backlog.load(self._document)


def _ranges(named: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Epoch, first and last + 1 of documents that follow each other."""
    run: tuple[int, int, int] | None = None
    for epoch, number in sorted(named):
        if run is not None and run[0] == epoch and run[2] == number:
            run = (epoch, run[1], number + 1)
            continue
        if run is not None:
            yield run
        run = (epoch, number, number + 1)
    if run is not None:
        yield run
