"""Lists the documents that exist: by scans where the server has them (7.6), else by documents called lists.

A list has a line for each root and for each 256 page numbers of a tier, with the time of writing. Lines are
appended, which is atomic. A line is written before its documents are, and again by a writer that goes on, so
a crash leaves a line too many and never a page without one. Lines that are an hour old and have no documents
are dropped: all of them when somebody lists, and some now and then when somebody appends.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta

from couchbase.exceptions import (
    CasMismatchException,
    CouchbaseException,
    DocumentExistsException,
    DocumentNotFoundException,
    FeatureUnavailableException,
    UnsupportedOperation,
)
from couchbase.mutation_state import MutationState

from stores.couchbase.client import CHUNK_KEYS, FIRST_GET_KEYS, Client, chunks
from stores.couchbase.document_names import PAGE
from stores.couchbase.documents import Documents
from stores.couchbase.failures import too_big
from stores.couchbase.list_lines import documents_of, encode_lines, entry_of, list_of, lists_of, parse_lines
from stores.errors import StoreError, StoreFull
from stores.patience import RANDOM, Budget

REFRESH_SECONDS = 900.0
UNUSED_LINE_SECONDS = 3600.0
REMEMBERED = 10_000
# On average an append looks at two old lines and drops those without documents, so lists shrink again.
TIDY_EVERY = 8
TIDY_LINES = 16
TIDY_SECONDS = 2.0
SCAN_SECONDS = 75.0


class DocumentLists:
    def __init__(self, client: Client, *, read_only: bool = False) -> None:
        self._client, self._read_only = client, read_only

    def find(self, call: str, prefix: str) -> Iterator[str]:
        """The documents whose names start with `prefix`, which starts with a kind of `document_names`."""
        if self._has_scans(call, again=True):
            yield from self._scan(call, prefix)
            return
        for name in lists_of(prefix):
            self._client.check_open(call)
            yield from self._find_in_list(call, name, prefix)

    def add(self, call: str, documents: Iterable[str]) -> None:
        """Adds documents to their lists. To be called before they are written, and again after that."""
        if self._has_scans(call):
            return
        wanted = dict.fromkeys(documents)
        appended = self._client.call(call, lambda server: self._append_lines(call, server, wanted))
        for document in appended:
            if RANDOM.random() * TIDY_EVERY < 1:
                self._tidy(call, document)

    def _has_scans(self, call: str, again: bool = False) -> bool:
        """Whether the server has scans. With `again`, asks a server that had none: it may be upgraded now."""

        def ask(server: Documents) -> bool:
            connection = server.connection
            if connection.scans is None or (again and not connection.scans):
                scan = server.scan(PAGE)
                try:
                    iter(scan)
                    scan.cancel_scan()
                    connection.scans = True
                except FeatureUnavailableException:
                    connection.scans = False
                    connection.written.clear()
            return connection.scans

        return self._client.call(call, ask)

    def _scan(self, call: str, prefix: str) -> Iterator[str]:
        """The documents with the prefix. A scan that breaks off starts anew, so a document may come twice."""
        budget, furthest = self._client.patient.budget(), 0
        while True:
            server = self._client.call(call, lambda server: server, budget)
            written = [result for _, result in list(server.connection.written.values())]
            state = {"consistent_with": MutationState(*written)} if written else {}
            try:
                scan = server.scan(prefix, timeout=timedelta(seconds=SCAN_SECONDS), **state)
                for number, row in enumerate(scan):
                    yield row.id
                    self._client.check_open(call)
                    if number >= furthest:
                        budget, furthest = self._client.patient.budget(), number + 1
                return
            except CouchbaseException as error:
                self._client.patient.wait(call, error, budget)

    def _append_lines(self, call: str, server: Documents, documents: Iterable[str]) -> list[str]:
        listed, now = server.connection.listed, time.time()
        if len(listed) > REMEMBERED:
            listed.clear()
        new: dict[str, dict[str, float]] = {}
        for document in documents:
            entry = entry_of(document)
            if not 0 <= now - listed.get(entry, 0) < REFRESH_SECONDS:
                new.setdefault(list_of(document), {})[entry] = now
        for name, entries in new.items():
            try:
                _append(server, name, encode_lines(entries))
            except CouchbaseException as error:
                if not too_big(error):
                    raise
                raise StoreFull(
                    f"{call}: the list {name} in {self._client.settings.url} is full: list_keys and "
                    "list_roots drop what is old from it"
                ) from error
            listed.update(entries)
        return list(new)

    def _find_in_list(self, call: str, name: str, prefix: str) -> Iterator[str]:
        found = self._client.call(call, lambda server: server.get(name))
        if found is None:
            return
        entries, lines = parse_lines(found[0], name)
        there: set[str] = set()
        asked = [
            (document, entry)
            for entry in entries
            if entry.startswith(prefix) or prefix.startswith(entry)
            for document in documents_of(entry)
            if document.startswith(prefix)
        ]
        for chunk in chunks(asked, CHUNK_KEYS):
            self._client.check_open(call)
            existing = self._existing(call, [document for document, _ in chunk])
            there.update(entry for document, entry in chunk if document in existing)
            yield from existing
        if self._read_only:
            return
        oldest = time.time() - UNUSED_LINE_SECONDS
        kept = {
            entry: when
            for entry, when in entries.items()
            if entry in there or when >= oldest or not entry.startswith(prefix)
        }
        if len(kept) < len(entries) or 2 * len(kept) < lines:
            self._client.call(call, lambda server: _shorten(server, name, kept, found[1]))

    def _tidy(self, call: str, name: str) -> None:
        """Drops old lines without documents, if that neither fails nor takes long."""
        budget = Budget(TIDY_SECONDS, max_tries=1)
        gone: set[str] = set()
        with suppress(StoreError):
            found = self._client.call(call, lambda server: server.get(name), budget)
            if found is None:
                return
            entries, lines = parse_lines(found[0], name)
            oldest = time.time() - UNUSED_LINE_SECONDS
            old = [entry for entry, when in entries.items() if when < oldest]
            with suppress(StoreError):
                for entry in RANDOM.sample(old, min(len(old), TIDY_LINES)):
                    if budget.left and not self._has_documents(call, entry, budget):
                        gone.add(entry)
            kept = {entry: when for entry, when in entries.items() if entry not in gone}
            if len(kept) < lines:
                self._client.call(call, lambda server: _shorten(server, name, kept, found[1]), budget)

    def _has_documents(self, call: str, entry: str, budget: Budget) -> bool:
        return any(self._existing(call, some, budget) for some in chunks(documents_of(entry), FIRST_GET_KEYS))

    def _existing(self, call: str, documents: list[str], budget: Budget | None = None) -> dict[str, None]:
        try:
            if self._client.call(call, lambda server: server.connection.exists, budget):
                asked = self._client.each(
                    call, documents, Documents.exists_multi, absent_ok=True, budget=budget
                )
                return {each: None for each in documents if asked[each] is not None and asked[each].exists}
        except StoreError as error:
            if not isinstance(error.__cause__, UnsupportedOperation):
                raise
            self._client.call(call, _has_no_exists, budget)
        found = self._client.get(call, documents, budget=budget)
        return {document: None for document, value in found.items() if value is not None}


def _has_no_exists(server: Documents) -> None:
    server.connection.exists = False


def _append(server: Documents, name: str, data: bytes) -> None:
    try:
        server.append(name, data)
    except DocumentNotFoundException:
        try:
            server.insert(name, data)
        except DocumentExistsException:
            server.append(name, data)


def _shorten(server: Documents, name: str, kept: dict[str, float], cas: int) -> None:
    # If somebody appended meanwhile, the next listing shortens it.
    with suppress(CasMismatchException, DocumentNotFoundException):
        server.replace(name, encode_lines(kept), cas)
