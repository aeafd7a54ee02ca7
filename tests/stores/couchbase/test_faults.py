from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import servers
from couchbase_inside import collection
from servers import CouchbaseMock

from stores import Conflict, StoreConfigError, StoreError, StoreFull, StoreUnavailable, open_store, pages_of

pytest.importorskip("couchbase")

import couchbase.exceptions as cb
from couchbase.options import GetOptions
from couchbase.transcoder import RawBinaryTranscoder

from stores.couchbase import document_names as documents

pytestmark = pytest.mark.couchbase

AMBIGUOUS = (
    cb.AmbiguousTimeoutException,
    cb.DurabilitySyncWriteAmbiguousException,
    cb.RequestCanceledException,
)


# Faults of single keys


def failing_first(operation: Any, bad: str, error: Exception, calls: list[list[str]]) -> Any:
    """The operation, whose first call fails for the key `bad` only."""

    def multi(items: Any, *options: Any) -> Any:
        calls.append(list(items))
        if len(calls) > 1:
            return operation(items, *options)
        rest = {key: items[key] for key in items if key != bad} if isinstance(items, dict) else None
        outcome = operation([key for key in items if key != bad] if rest is None else rest, *options)
        return SimpleNamespace(results=outcome.results, exceptions={**outcome.exceptions, bad: error})

    return multi


@pytest.mark.parametrize(
    "error",
    [
        cb.AmbiguousTimeoutException,
        cb.UnAmbiguousTimeoutException,
        cb.TemporaryFailException,
        cb.RequestCanceledException,
        cb.DurabilitySyncWriteInProgressException,
    ],
)
@pytest.mark.parametrize("call", ["upsert_multi", "get_multi", "remove_multi"])
def test_only_the_keys_that_failed_are_tried_again(
    store: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch, call: str, error: type[Exception]
) -> None:
    store.put_many(dict.fromkeys(keys, b"old"))
    calls: list[list[str]] = []
    bad = documents.page(keys[2])
    operation = getattr(collection(store), call)
    monkeypatch.setattr(collection(store), call, failing_first(operation, bad, error(), calls))
    if call == "upsert_multi":
        store.put_many(dict.fromkeys(keys, b"new"))
    elif call == "get_multi":
        assert store.get_many(keys) == [b"old"] * len(keys)
    else:
        store.delete_many(keys)
    assert calls == [[documents.page(key) for key in keys], [bad]]
    monkeypatch.undo()
    left = {"upsert_multi": b"new", "get_multi": b"old", "remove_multi": None}[call]
    assert store.get_many(keys) == [left] * len(keys)


@pytest.mark.parametrize("call", ["upsert_multi", "get_multi", "remove_multi"])
def test_no_failure_of_a_single_key_is_lost(
    store: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    actions: dict[str, Callable[[], object]] = {
        "upsert_multi": lambda: store.put_many(dict.fromkeys(keys, b"x")),
        "get_multi": lambda: store.get_many(keys),
        "remove_multi": lambda: store.delete_many(keys),
    }
    bad = documents.page(keys[4])
    operation = getattr(collection(store), call)
    for error, raised in (
        (cb.CouchbaseException(message="odd"), "odd"),
        (cb.ValueFormatException(), "ValueFormat"),
    ):
        monkeypatch.setattr(collection(store), call, failing_first(operation, bad, error, []))
        with pytest.raises(StoreError, match=raised) as caught:
            actions[call]()
        assert not isinstance(caught.value, StoreUnavailable)

    def lose(items: Any, *_: Any) -> Any:
        kept = {key: object() for key in items if key != bad}
        return SimpleNamespace(results=kept, exceptions={})

    monkeypatch.setattr(collection(store), call, lose)
    with pytest.raises(StoreError, match=f"no answer for '{re.escape(bad)}'"):
        actions[call]()


def test_a_page_that_cannot_be_written_is_not_an_absent_page(
    couchbase_url: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(couchbase_url, max_tries=2, backoff=0) as store:

        def fail(items: Any, *_: Any) -> Any:
            return SimpleNamespace(
                results={}, exceptions={key: cb.UnAmbiguousTimeoutException() for key in items}
            )

        for call in ("get_multi", "upsert_multi", "remove_multi"):
            monkeypatch.setattr(collection(store), call, fail)
        with pytest.raises(StoreUnavailable, match=r"get_many.*127.*2 tries.*UnAmbiguousTimeout"):
            store.get_many(keys)
        with pytest.raises(StoreUnavailable, match="put_many"):
            store.put_many({keys[0]: b"x"})
        with pytest.raises(StoreUnavailable, match="delete_many"):
            store.delete_many(keys)


# Roots whose reply is lost


def losing_reply(operation: Any, error: Exception, done: bool, lost: list[Any]) -> Any:
    def once(*arguments: Any) -> Any:
        if lost:
            return operation(*arguments)
        lost.append(operation(*arguments) if done else None)
        raise error

    return once


@pytest.mark.parametrize("error", AMBIGUOUS)
@pytest.mark.parametrize("done", [True, False])
def test_an_ambiguous_swap_is_read_back(
    store: Any, name: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception], done: bool
) -> None:
    token: Any = None
    for call, data in (("insert", b"one"), ("replace", b"two")):
        operation, lost = getattr(collection(store), call), []  # type: ignore[var-annotated]
        monkeypatch.setattr(collection(store), call, losing_reply(operation, error(), done, lost))
        older, token = token, store.swap_root(name, data, token)
        assert len(lost) == 1
        assert store.read_root(name) == (data, token)
        with pytest.raises(Conflict):
            store.swap_root(name, b"late", older)
    operation, lost = collection(store).remove, []
    monkeypatch.setattr(collection(store), "remove", losing_reply(operation, error(), done, lost))
    store.delete_root(name, token)
    assert len(lost) == 1
    assert store.read_root(name) is None


@pytest.mark.parametrize("call", ["insert", "replace"])
def test_an_ambiguous_swap_that_another_writer_beat_conflicts(
    store: Any, couchbase_url: str, name: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    token = None if call == "insert" else store.swap_root(name, b"one", None)
    with open_store(couchbase_url) as other:

        def beaten(*_: Any) -> Any:
            other.swap_root(name, b"theirs", token)
            raise cb.AmbiguousTimeoutException

        monkeypatch.setattr(collection(store), call, beaten)
        with pytest.raises(Conflict):
            store.swap_root(name, b"mine", token)
        current = other.read_root(name)
        assert current is not None
        assert current[0] == b"theirs"


def test_a_root_that_is_touched_is_still_the_same(
    store: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = store.swap_root(name, b"one", None)
    key, replace = documents.root(name), collection(store).replace
    touched = []

    def touch_first(*arguments: Any) -> Any:
        if not touched:
            raw = collection(store).get(key, GetOptions(transcoder=RawBinaryTranscoder())).value
            touched.append(collection(store).upsert(key, raw))
        return replace(*arguments)

    monkeypatch.setattr(collection(store), "replace", touch_first)
    token = store.swap_root(name, b"two", token)
    assert touched
    assert store.read_root(name) == (b"two", token)


def test_a_root_that_never_stays_is_given_up(
    couchbase_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(couchbase_url, max_tries=2, backoff=0) as store:
        token = store.swap_root(name, b"one", None)

        def mismatch(*_: Any) -> Any:
            raise cb.CasMismatchException

        for call in ("replace", "remove"):
            monkeypatch.setattr(collection(store), call, mismatch)
        with pytest.raises(StoreUnavailable, match=r"swap_root.*2 tries.*changed by others"):
            store.swap_root(name, b"two", token)
        with pytest.raises(StoreUnavailable, match=r"delete_root.*2 tries.*changed by others"):
            store.delete_root(name, token)


# A server in trouble


def test_a_swap_over_a_server_that_hangs_is_done_once(mock: CouchbaseMock, name: str) -> None:
    with open_store(mock.url, timeout=0.3, backoff=0.01, max_tries=1000) as store:
        token = store.swap_root(name, b"one", None)
        for each in range(3):
            send, sent = collection(store).replace, threading.Event()

            def stop_and_send(*arguments: Any, send: Any = send, sent: threading.Event = sent) -> Any:
                if not sent.is_set():
                    mock.pause()
                    sent.set()
                return send(*arguments)

            collection(store).replace = stop_and_send
            with ThreadPoolExecutor(1) as thread:
                swap = thread.submit(store.swap_root, name, b"%d" % each, token)
                assert sent.wait(300)
                time.sleep(0.5)  # longer than the client waits
                mock.resume()
                token = swap.result()
            collection(store).replace = send
            assert store.read_root(name) == (b"%d" % each, token)


def test_a_server_that_hangs_is_named_and_continues(mock: CouchbaseMock, name: str, keys: list[str]) -> None:
    with (
        open_store(mock.url) as patient,
        open_store(mock.url, timeout=0.2, backoff=0.01, max_tries=3) as store,
    ):
        patient.put_many({keys[0]: b"x"})
        token = patient.swap_root(name, b"root", None)
        with suppress(StoreUnavailable):  # it is slow at first
            store.get_many(keys)
        mock.pause()
        try:
            calls: list[tuple[str, Callable[[], object]]] = [
                ("put_many", lambda: store.put_many({keys[0]: b"x"})),
                ("get_many", lambda: store.get_many(keys)),
                ("delete_many", lambda: store.delete_many(keys[1:])),
                ("read_root", lambda: store.read_root(name)),
                ("swap_root", lambda: store.swap_root(name, b"y", token)),
                ("list_keys", lambda: list(store.list_keys(pages_of(name)))),
            ]
            for call, action in calls:
                with pytest.raises(StoreUnavailable, match=f"{call}.*{mock.port}.*3 tries") as caught:
                    action()
                assert servers.COUCHBASE_PASSWORD not in f"{caught.value} {caught.value.__cause__}"
        finally:
            mock.resume()
    with open_store(mock.url) as store:
        assert store.get_many(keys[:1]) == [b"x"]
        assert store.read_root(name) == (b"root", token)


def test_out_of_memory_is_told_and_passes(mock: CouchbaseMock, name: str, keys: list[str]) -> None:
    with open_store(mock.url, timeout=1, max_tries=2, backoff=0.01) as store:
        token = store.swap_root(name, b"x", None)
        store.put_many({keys[1]: b"x"})
        for status in (0x82, 0x86):
            mock.fail(status, times=-1)
            with pytest.raises(StoreFull, match=r"put_many.*2 tries.*quota"):
                store.put_many({keys[0]: b"x"})
            with pytest.raises(StoreUnavailable, match="get_many"):
                store.get_many(keys)
            mock.fail(status, times=0)
        store.put_many({keys[0]: b"x"})
        replace = collection(store).replace

        def full(*arguments: Any) -> Any:
            mock.fail(0x82, times=1)
            return replace(*arguments)

        collection(store).replace = full
        with pytest.raises(StoreFull, match="swap_root"):
            store.swap_root(name, b"y", token)
        collection(store).replace = replace
        store.swap_root(name, b"y", token)


@pytest.mark.parametrize("status", [0x82, 0x84, 0x85, 0x86])
def test_a_passing_failure_is_waited_for(mock: CouchbaseMock, keys: list[str], status: int) -> None:
    with open_store(mock.url, backoff=0.01) as store:
        store.put_many(dict.fromkeys(keys, b"x"))
        mock.fail(status, times=4)
        assert store.get_many(keys) == [b"x"] * len(keys)
        mock.fail(status, times=4)
        store.put_many(dict.fromkeys(keys, b"y"))
        assert store.get_many(keys) == [b"y"] * len(keys)


@pytest.mark.parametrize("status", [0x20, 0x24])
def test_a_refusal_is_told_at_once(mock: CouchbaseMock, keys: list[str], status: int) -> None:
    with open_store(mock.url, max_tries=100) as store:
        store.get_many(keys)
        mock.fail(status, times=-1)
        with pytest.raises(StoreConfigError, match="user or password") as caught:
            store.get_many(keys)
        assert servers.COUCHBASE_PASSWORD not in f"{caught.value} {caught.value.__cause__}".replace(
            "user or password", ""
        )


def test_a_bucket_that_is_not_there_is_told_at_once(mock: CouchbaseMock) -> None:
    url = mock.url.removesuffix("default") + "nowhere"
    with (
        open_store(url, max_tries=100) as store,
        pytest.raises(StoreConfigError, match="no bucket 'nowhere'"),
    ):
        store.get_many(["key"])


def test_a_killed_server_is_named(tmp_path: Path, shared_mock: CouchbaseMock, keys: list[str]) -> None:
    del shared_mock  # which skips where there is none
    with (
        servers.couchbase_mock_server(tmp_path) as mock,
        open_store(mock.url, timeout=0.2, max_tries=3, backoff=0.01) as store,
    ):
        while True:  # a machine with much to do may not be ready so soon
            with suppress(StoreUnavailable):
                store.put_many({keys[0]: b"x"})
                break
        mock.stop()
        with pytest.raises(StoreUnavailable, match=f"get_many.*{mock.port}.*3 tries"):
            store.get_many(keys)
        with pytest.raises(StoreUnavailable, match=f"put_many.*{mock.port}.*3 tries"):
            store.put_many({keys[0]: b"x"})


def test_no_server_is_told_in_time() -> None:
    url = f"couchbase://me:hunter2@127.0.0.1:{servers.free_port()}"
    with (
        open_store(url, max_tries=2, connect_timeout=0.3, backoff=0.01) as store,
        pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1.*2 tries") as caught,
    ):
        store.get_many(["key"])
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__} {store!r}"
