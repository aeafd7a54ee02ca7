"""Calls of Couchbase's client, tried again until they succeed or the patience is at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar, cast

from couchbase.exceptions import (
    CasMismatchException,
    CouchbaseException,
    DocumentExistsException,
    DocumentNotFoundException,
    RequestCanceledException,
)
from couchbase.kv_range_scan import PrefixScan
from couchbase.options import (
    AppendOptions,
    ExistsMultiOptions,
    GetMultiOptions,
    GetOptions,
    InsertOptions,
    RemoveMultiOptions,
    RemoveOptions,
    ReplaceOptions,
    ScanOptions,
    UpsertMultiOptions,
)

from stores.base import StoreError
from stores.couchbase.connection import Connection, Connector
from stores.couchbase.errors import gave_up, passes, refusal
from stores.couchbase.settings import Settings
from stores.patience import Budget

T = TypeVar("T")

CHUNK_BYTES = 8 << 20
CHUNK_KEYS = 512
EDIT_TRIES = 10
FIRST_GET_KEYS = 32  # while it is not known how big they are


class Documents:
    """The documents of a collection, for one try: each request may take the time that is left."""

    def __init__(self, connection: Connection, timeout: float, durable: Mapping[str, Any]) -> None:
        self.connection = connection
        self._collection = connection.collection
        self._timeout = {"timeout": timedelta(seconds=timeout)}
        self._writing = {**self._timeout, **durable}

    def get(self, key: str) -> tuple[bytes, int] | None:
        """A document and its CAS."""
        try:
            result = self._collection.get(key, GetOptions(**self._timeout))
        except DocumentNotFoundException:
            return None
        return result.value, result.cas

    def insert(self, key: str, value: bytes, **settings: Any) -> None:
        self._note(self._collection.insert(key, value, InsertOptions(**self._writing, **settings)))

    def replace(self, key: str, value: bytes, cas: int, **settings: Any) -> None:
        options = ReplaceOptions(cas=cas, **self._writing, **settings)
        self._note(self._collection.replace(key, value, options))

    def remove(self, key: str, cas: int) -> None:
        self._note(self._collection.remove(key, RemoveOptions(cas=cas, **self._writing)))

    def append(self, key: str, value: bytes) -> None:
        self._collection.binary().append(key, value, AppendOptions(**self._writing))

    def get_multi(self, keys: list[str]) -> Any:
        return self._collection.get_multi(keys, GetMultiOptions(**self._timeout))

    def exists_multi(self, keys: list[str]) -> Any:
        return self._collection.exists_multi(keys, ExistsMultiOptions(**self._timeout))

    def remove_multi(self, keys: list[str]) -> Any:
        return self._collection.remove_multi(keys, RemoveMultiOptions(**self._writing))

    def upsert_multi(self, items: dict[str, bytes], **settings: Any) -> Any:
        return self._collection.upsert_multi(items, UpsertMultiOptions(**self._writing, **settings))

    def scan(self, prefix: str, **settings: Any) -> Any:
        return self._collection.scan(PrefixScan(prefix), ScanOptions(ids_only=True, **settings))

    def _note(self, result: Any) -> None:
        self.connection.note([result])


Operation = Callable[[Documents, list[str]], Any]


class Client:
    """The requests of one store, for any number of threads."""

    def __init__(self, settings: Settings, check_open: Callable[[str], None]) -> None:
        self.settings = settings
        self.check_open = check_open
        self.connector = Connector(settings, lambda: check_open("connect"))
        self.expiry = {"expiry": timedelta(seconds=settings.ttl)} if settings.ttl else {}

    def budget(self) -> Budget:
        """For one call, or for each part of one that has many."""
        settings = self.settings
        return Budget(settings.patience, backoff=settings.backoff, max_tries=settings.max_tries)

    def call(self, call: str, action: Callable[[Documents], T], budget: Budget | None = None) -> T:
        """Every action given here may be done twice: a lost reply does not tell whether it was done."""
        budget = budget or self.budget()
        while True:
            try:
                return action(self._documents(budget))
            except CouchbaseException as error:
                self.check_open(call)
                failure = error
            except RuntimeError:
                self.check_open(call)  # another thread closed the store meanwhile
                raise
            self.wait(call, failure, budget)
            self.check_open(call)

    def wait(self, call: str, error: CouchbaseException, budget: Budget) -> None:
        """Waits before the next try, or raises what is to be told of this error."""
        url = self.settings.url
        if not passes(error):
            raise refusal(call, url, self.settings.bucket, error) from error
        if not budget.again():
            raise gave_up(call, url, self.settings.durability, budget, error) from error

    def each(
        self,
        call: str,
        keys: list[str],
        operation: Operation,
        *,
        absent: bool = False,
        budget: Budget | None = None,
    ) -> dict[str, Any]:
        """The result for each key, None where there is no document and that is no error.

        Only the keys that failed are tried again.
        """
        done: dict[str, Any] = {}

        def act(documents: Documents) -> None:
            left = [key for key in keys if key not in done]
            if not left:
                return
            outcome = operation(documents, left)
            done.update(outcome.results)
            failed = []
            for key, error in outcome.exceptions.items():
                if absent and isinstance(error, DocumentNotFoundException):
                    done[key] = None
                else:
                    failed.append(error)
            documents.connection.note(outcome.results.values())
            if failed:
                raise next((error for error in failed if not passes(error)), failed[0])
            lost = [key for key in left if key not in done]
            if lost:
                raise StoreError(f"{call}: {self.settings.url} gave no answer for {lost[0]!r}")

        self.call(call, act, budget)
        return done

    def edit(
        self, call: str, key: str, change: Callable[[bytes | None], tuple[T, bytes | None]], **settings: Any
    ) -> T:
        """Replaces a document by what `change` makes of it, as if at one moment; None is no document.

        Where a reply is lost, `change` sees what it made itself, and should leave it as it is.
        """

        def act(documents: Documents) -> T:
            for _ in range(EDIT_TRIES):
                found = documents.get(key)
                current = None if found is None else found[0]
                result, new = change(current)
                if new == current:
                    return result
                with suppress(DocumentExistsException, DocumentNotFoundException, CasMismatchException):
                    if found is None:
                        documents.insert(key, cast(bytes, new), **settings)
                    elif new is None:
                        documents.remove(key, found[1])
                    else:
                        documents.replace(key, new, found[1], **settings)
                    return result
            raise RequestCanceledException(message=f"{key} would not stay as it was read")

        return self.call(call, act)

    def get(
        self, call: str, keys: Iterable[str], size: int = FIRST_GET_KEYS, budget: Budget | None = None
    ) -> dict[str, bytes | None]:
        """The documents; `size` is how many to ask for at first."""
        found: dict[str, bytes | None] = {}
        wanted = iter(dict.fromkeys(keys))
        while chunk := list(islice(wanted, size)):
            results = self.each(call, chunk, Documents.get_multi, absent=True, budget=budget)
            values = [result and result.value for result in results.values()]
            found.update(zip(results, values, strict=True))
            largest = max(len(value or b"") for value in values)
            size = max(1, min(CHUNK_KEYS, CHUNK_BYTES // max(1, largest)))
        return found

    def put(self, call: str, items: Mapping[str, bytes]) -> int:
        """How many writes were sent: more than there are documents, if any was sent again."""
        sent = 0
        for chunk in _chunks_of_bytes(items):

            def put(documents: Documents, keys: list[str], chunk: dict[str, bytes] = chunk) -> Any:
                nonlocal sent
                sent += len(keys)
                return documents.upsert_multi({key: chunk[key] for key in keys}, **self.expiry)

            self.each(call, list(chunk), put)
        return sent

    def remove(self, call: str, keys: Iterable[str]) -> None:
        for chunk in chunks(dict.fromkeys(keys), CHUNK_KEYS):
            self.each(call, chunk, Documents.remove_multi, absent=True)

    def close(self) -> None:
        self.connector.close()

    def _documents(self, budget: Budget) -> Documents:
        connection = self.connector.connection(budget)
        return Documents(connection, budget.timeout(self.settings.longest), self.settings.durable)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _chunks_of_bytes(items: Mapping[str, bytes]) -> Iterator[dict[str, bytes]]:
    chunk: dict[str, bytes] = {}
    size = 0
    for key, value in items.items():
        if chunk and (size + len(value) > CHUNK_BYTES or len(chunk) == CHUNK_KEYS):
            yield chunk
            chunk, size = {}, 0
        chunk[key] = value
        size += len(value)
    if chunk:
        yield chunk
