"""What the tests of the Couchbase store reach into it for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def connected(store: Any) -> Any:
    client = store._client
    return client.connector.connection(client.patient.budget())


def collection(store: Any) -> Any:
    """The client's own collection, to have its methods replaced."""
    return connected(store).collection


class Spoiled:
    """A collection whose calls a test may have fail. It remembers the names of all that was written to it."""

    def __init__(self, store: Any, spoil: Callable[[str, Callable[[], Any]], Any]) -> None:
        connection = connected(store)
        self.collection = connection.collection
        self.spoil = spoil
        self.written: set[str] = set()
        connection.collection = self

    def __getattr__(self, call: str) -> Any:
        operation = getattr(self.collection, call)

        def spoiled(what: Any, *arguments: Any) -> Any:
            if call in ("insert", "replace", "upsert_multi"):
                self.written.update([what] if isinstance(what, str) else what)
            return self.spoil(call, lambda: operation(what, *arguments))

        return operation if call in ("binary", "scan") else spoiled

    def left(self) -> set[str]:
        """What is still there of all that was written, but for lists."""
        found = self.collection.get_multi(sorted(self.written)).results
        return {document for document in found if not document.startswith("mta:l:")}


class FailsAt:
    """The call of that number, from 0, raises: before it is done, or after it."""

    def __init__(self, number: int, error: BaseException, done: bool = False) -> None:
        self.number = number
        self.error = error
        self.done = done
        self.count = 0

    @property
    def failed(self) -> bool:
        return self.count > self.number

    def __call__(self, call: str, action: Callable[[], Any]) -> Any:  # noqa: ARG002
        self.count += 1
        if self.count - 1 != self.number:
            return action()
        if self.done:
            action()
        raise self.error
