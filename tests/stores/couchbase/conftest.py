from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import servers
from chance import fresh
from servers import CouchbaseMock

from stores import open_store, page_key, page_prefix


@pytest.fixture
def store(couchbase_url: str) -> Iterator[Any]:
    with open_store(couchbase_url, backoff=0.001, patience=100, timeout=50) as store:
        yield store


@pytest.fixture
def name() -> str:
    return fresh()


@pytest.fixture
def keys(name: str) -> list[str]:
    return [page_key(page_prefix(name, 1, 0), number) for number in range(6)]


@pytest.fixture(scope="module")
def shared_mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CouchbaseMock]:
    if servers.couchbase_mock() is None:
        servers.unreachable("no CouchbaseMock: install Java and run .ci/couchbase_mock.sh")
    with servers.couchbase_mock_server(tmp_path_factory.mktemp("mock")) as mock:
        yield mock


@pytest.fixture
def mock(shared_mock: CouchbaseMock) -> Iterator[CouchbaseMock]:
    """A server of this module, to be made to fail."""
    yield shared_mock
    shared_mock.fail(0, times=0)


@pytest.fixture(autouse=True)
def no_tidying_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("couchbase")
    monkeypatch.setattr("stores.couchbase.lists.TIDY_EVERY", 1e9)
