"""Values that are larger than a document may be: a head, and the pieces that it names.

A write names its pieces in the head, writes them, and makes them the value by a swap of the head. Readers see
either the old value or the new one. To replace or delete a value, a swap of the head first forbids all other
writes to commit; then the pieces are deleted, and then the head.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from couchbase.exceptions import CasMismatchException, DocumentNotFoundException

from stores.couchbase import document_names
from stores.couchbase.client import CHUNK_BYTES, Client
from stores.couchbase.documents import Documents
from stores.couchbase.lists import DocumentLists
from stores.couchbase.value_head import MOST_PIECES, ValueHead, ValueWrite, decode_head, encode_head
from stores.errors import StoreError, StoreUnavailable

PIECE_BYTES = CHUNK_BYTES
LATE_SECONDS = 120.0  # how late a write may still arrive
READ_TRIES = 10


class BigValues:
    def __init__(self, client: Client, lists: DocumentLists) -> None:
        self._client = client
        self._lists = lists

    def check(self, items: Mapping[str, bytes]) -> None:
        for key, value in items.items():
            if len(value) > MOST_PIECES * PIECE_BYTES:
                raise StoreError(
                    f"the page {key!r} takes {len(value)} bytes, and at most {MOST_PIECES * PIECE_BYTES} "
                    "can be stored: make pages smaller"
                )

    def put(self, call: str, key: str, value: bytes) -> None:
        pieces = [value[start : start + PIECE_BYTES] for start in range(0, len(value), PIECE_BYTES)]
        write = ValueWrite.new(len(pieces), time.time() + LATE_SECONDS)
        self._lists.add(call, [document_names.head(key)])
        self._edit(call, key, lambda head: head.begun(write))
        sent = self._client.put(call, dict(zip(write.documents(), pieces, strict=True)))
        done = write if sent > len(pieces) else replace(write, may_arrive_until=0.0)
        small = self._client.call(call, lambda server: server.get(document_names.page(key)))
        head = self._edit(call, key, lambda head: head.committed(done, len(value)))
        self._lists.add(call, [document_names.head(key)])
        if head.value is None or head.value.nonce != write.nonce:
            self._client.remove(call, write.documents())  # somebody replaced or deleted it already
        elif small is not None:
            page = document_names.page(key)
            self._client.call(call, lambda server: _remove_if_same(server, page, small[1]))
        self._clear(call, key, head)

    def get(self, call: str, wanted: Iterable[str]) -> dict[str, bytes | None]:
        documents = {document_names.head(key): key for key in wanted}
        found = self._client.get(call, documents)
        return {key: self._read(call, key, found[document]) for document, key in documents.items()}

    def remove(self, call: str, unwanted: Iterable[str]) -> None:
        documents = {document_names.head(key): key for key in unwanted}
        found = self._client.get(call, documents)
        for document, data in found.items():
            if data is not None:
                key = documents[document]
                self._clear(call, key, self._edit(call, key, ValueHead.deleted))

    def _read(self, call: str, key: str, data: bytes | None) -> bytes | None:
        """The value, or None if pieces are missing. Bytes that are no head are returned as they are."""
        for _ in range(READ_TRIES):
            head = None if data is None else decode_head(data)
            if head is None or head.value is None:
                return data if head is None else None
            at_once = max(1, CHUNK_BYTES * head.value.pieces // max(1, head.size))
            pieces = self._client.get(call, head.value.documents(), at_once)
            value = b"".join(piece or b"" for piece in pieces.values())
            if None not in pieces.values() and len(value) == head.size:
                return value
            before, data = data, self._client.get(call, [document_names.head(key)])[document_names.head(key)]
            if data == before:
                return None
        raise StoreUnavailable(
            f"{call}: in {self._client.settings.url} the value of {key!r} was replaced {READ_TRIES} times "
            "while it was read: try again"
        )

    def _edit(self, call: str, key: str, change: Callable[[ValueHead], ValueHead]) -> ValueHead:
        """Changes the head, and returns the new one. A head that names nothing is deleted."""

        def changed(data: bytes | None) -> tuple[ValueHead, bytes | None]:
            head = change((decode_head(data) if data is not None else None) or ValueHead())
            return head, None if head == ValueHead() else encode_head(head)

        return self._client.edit(call, document_names.head(key), changed, **self._client.expiry)

    def _clear(self, call: str, key: str, head: ValueHead) -> None:
        """Deletes the pieces of writes that may not commit, then removes these writes from the head."""
        gone = tuple(write for write in head.others if not write.may_commit)
        if gone:
            self._client.remove(call, [document for write in gone for document in write.documents()])
            self._edit(call, key, lambda head: head.cleared(gone, time.time()))


def _remove_if_same(server: Documents, document: str, cas: int) -> None:
    with suppress(DocumentNotFoundException, CasMismatchException):
        server.remove(document, cas)
