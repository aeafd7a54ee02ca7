"""The client of one store: calls Couchbase's client, and retries until the patience is used up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any, TypeVar, cast

from couchbase.exceptions import (
    CasMismatchException,
    DocumentExistsException,
    DocumentNotFoundException,
    RequestCanceledException,
)

from stores.couchbase.connection import Connector
from stores.couchbase.documents import Documents
from stores.couchbase.failures import CouchbaseFailures, is_transient
from stores.couchbase.settings import Settings
from stores.errors import StoreError
from stores.patience import Budget, Patient

T = TypeVar("T")

CHUNK_BYTES = 8 << 20
CHUNK_KEYS = 512
EDIT_TRIES = 10
FIRST_GET_KEYS = 32  # while the size of the documents is not known


Operation = Callable[[Documents, list[str]], Any]


class Client:
    """The requests of one store, for any number of threads."""

    def __init__(self, settings: Settings, check_open: Callable[[str], None]) -> None:
        self.settings = settings
        self.check_open = check_open
        failures = CouchbaseFailures(settings.url, settings.bucket, settings.durability)
        self.patient = Patient(settings.patience, failures, check_open)
        self.connector = Connector(settings, lambda: check_open("connect"))
        self.expiry = {"expiry": timedelta(seconds=settings.ttl)} if settings.ttl else {}

    def call(self, call: str, action: Callable[[Documents], T], budget: Budget | None = None) -> T:
        """Runs `action` until it succeeds. It must be idempotent: after a lost reply it runs again."""

        def attempt(budget: Budget) -> T:
            try:
                return action(self._documents(budget))
            except RuntimeError:
                self.check_open(call)  # another thread closed the store meanwhile
                raise

        return self.patient.call(call, attempt, budget)

    def each(
        self,
        call: str,
        keys: list[str],
        operation: Operation,
        *,
        absent_ok: bool = False,
        budget: Budget | None = None,
    ) -> dict[str, Any]:
        """The result for each key. Retries the keys that failed.

        With `absent_ok` the result is None where there is no document; else that is an error.
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
                if absent_ok and isinstance(error, DocumentNotFoundException):
                    done[key] = None
                else:
                    failed.append(error)
            documents.connection.note(outcome.results.values())
            if failed:
                raise next((error for error in failed if not is_transient(error)), failed[0])
            lost = [key for key in left if key not in done]
            if lost:
                raise StoreError(f"{call}: {self.settings.url} gave no answer for {lost[0]!r}")

        self.call(call, act, budget)
        return done

    def edit(
        self, call: str, key: str, change: Callable[[bytes | None], tuple[T, bytes | None]], **settings: Any
    ) -> T:
        """Replaces a document atomically by the second value that `change` returns, and returns the first.

        None stands for no document. After a lost reply, `change` may see its own result, and has to keep it.
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
            raise RequestCanceledException(
                message=f"{key} was changed by others at each of {EDIT_TRIES} tries"
            )

        return self.call(call, act)

    def get(
        self, call: str, keys: Iterable[str], size: int = FIRST_GET_KEYS, budget: Budget | None = None
    ) -> dict[str, bytes | None]:
        """The documents, None where absent. Asks for `size` of them at first, then for 8 MB at a time."""
        found: dict[str, bytes | None] = {}
        wanted = iter(dict.fromkeys(keys))
        while chunk := list(islice(wanted, size)):
            results = self.each(call, chunk, Documents.get_multi, absent_ok=True, budget=budget)
            values = [result and result.value for result in results.values()]
            found.update(zip(results, values, strict=True))
            largest = max(len(value or b"") for value in values)
            size = max(1, min(CHUNK_KEYS, CHUNK_BYTES // max(1, largest)))
        return found

    def put(self, call: str, items: Mapping[str, bytes]) -> int:
        """Writes the items, and returns the number of writes sent: more than the items if any was retried."""
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
            self.each(call, chunk, Documents.remove_multi, absent_ok=True)

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
