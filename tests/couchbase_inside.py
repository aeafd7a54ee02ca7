"""What the tests of the Couchbase store reach into it for."""

from __future__ import annotations

from typing import Any


def connected(store: Any) -> Any:
    client = store._client
    return client.connector.connection(client.budget())


def collection(store: Any) -> Any:
    """The client's own collection, to have its methods replaced."""
    return connected(store).collection
