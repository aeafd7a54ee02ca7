from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import servers
from servers import CouchbaseMock

from stores import Store, StoreClosed, StoreUnavailable, open_store

pytest.importorskip("couchbase")

from stores.couchbase.connection import Connection, Connector
from stores.couchbase.diagnosis import diagnose
from stores.patience import Budget

pytestmark = pytest.mark.couchbase

QUICK = {"max_tries": 2, "patience": 300, "connect_timeout": 0.2}


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.create_server((servers.HOST, 0)) as listener:
        yield listener.getsockname()[1]


def test_what_stands_in_the_way_is_told(silent: int) -> None:
    closed = servers.free_port()
    cases = {
        f"couchbase://{servers.HOST}:{closed}": rf"nothing listens at 127\.0\.0\.1:{closed}.*refused",
        "couchbase://no-such-host.invalid": "no address is known for the host 'no-such-host.invalid'",
        f"couchbase://{servers.HOST}:{silent}": rf"127\.0\.0\.1:{silent} takes connections, but gave no",
        f"couchbase://{servers.HOST}:{closed},x.invalid:7": r"nothing listens.*; no address.*'x\.invalid'",
    }
    for url, told in cases.items():
        with (
            open_store(url, username="me", password="hunter2", **QUICK) as store,
            pytest.raises(StoreUnavailable, match=rf"get_many.* 2 tries in .*{told}") as caught,
        ):
            store.get_many(["key"])
        error: BaseException | None = caught.value
        while error is not None:
            assert "hunter2" not in f"{error} {error!r}"
            error = error.__cause__


@pytest.mark.parametrize("host", ["a..b", "h:99999", "h:123456789012", "x" * 300])
def test_any_host_has_an_explanation(host: str) -> None:
    assert diagnose(f"couchbase://{host}", 1.0)


def test_an_explanation_takes_no_longer_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def resolve(*_: Any, **__: Any) -> Any:
        asked.wait(300)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert diagnose("couchbase://slow", 0.1) == "slow was not found in time"
    asked.set()


def test_an_explanation_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert "h was not found in time" in diagnose("couchbase://h", 0.1)


def test_threads_wait_for_one_connection_and_not_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would wait for those before it, if each tried by itself."""
    url = f"couchbase://{servers.HOST}:{servers.free_port()}"
    connect, tries, begin = Connector._connect, [], threading.Barrier(16)

    def counted(self: Connector, budget: Budget) -> Connection:
        tries.append(budget)
        return connect(self, budget)

    def get(store: Store) -> None:
        begin.wait()
        store.get_many(["key"])

    monkeypatch.setattr(Connector, "_connect", counted)
    with open_store(url, patience=1.5, connect_timeout=1.0) as store, ThreadPoolExecutor(16) as threads:
        for call in [threads.submit(get, store) for _ in range(16)]:
            with pytest.raises(StoreUnavailable, match="get_many"):
                call.result()
    assert 1 <= len(tries) < 16


def test_a_store_closed_while_it_connects_says_so(silent: int) -> None:
    url = f"couchbase://{servers.HOST}:{silent}"
    with open_store(url, connect_timeout=0.3) as store, ThreadPoolExecutor(1) as thread:
        call = thread.submit(store.get_many, ["key"])
        time.sleep(0.1)
        store.close()
        with pytest.raises(StoreClosed):
            call.result()


def test_a_server_that_freezes_holds_no_call_longer_than_its_patience(mock: CouchbaseMock) -> None:
    with open_store(mock.url, patience=2) as store:
        while True:  # a machine with much to do may not be ready so soon
            with suppress(StoreUnavailable):
                store.put_many({"key": b"x"})
                break
        mock.pause()
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match=r"get_many.* in \d"):
                    store.get_many(["key"])
        finally:
            mock.resume()
    with open_store(mock.url) as store:
        assert store.get_many(["key"]) == [b"x"]


def test_a_server_that_comes_back_within_the_patience_is_waited_for(mock: CouchbaseMock) -> None:
    with open_store(mock.url, timeout=0.2, patience=300) as store, ThreadPoolExecutor(1) as thread:
        store.put_many({"key": b"x"})
        mock.pause()
        call = thread.submit(store.get_many, ["key"])
        time.sleep(1)
        mock.resume()
        assert call.result() == [b"x"]
