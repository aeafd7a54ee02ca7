from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import servers
from servers import CouchbaseMock

from stores import (
    Conflict,
    Store,
    StoreClosed,
    StoreConfigError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    open_store,
    page_key,
    page_prefix,
    pages_of,
)
from stores.testing import StoreContract

pytest.importorskip("couchbase")

import couchbase.exceptions as cb
from couchbase.durability import DurabilityLevel
from couchbase.options import GetOptions
from couchbase.transcoder import RawBinaryTranscoder

import stores.couchbase as module

pytestmark = pytest.mark.couchbase

AMBIGUOUS = (
    cb.AmbiguousTimeoutException,
    cb.DurabilitySyncWriteAmbiguousException,
    cb.RequestCanceledException,
)
LIMIT = 20 << 20


@pytest.fixture
def store(couchbase_url: str) -> Iterator[Any]:
    with open_store(couchbase_url, backoff=0.001) as store:
        yield store


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


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


def collection(store: Any) -> Any:
    return store._connection().collection


class TestCouchbase(StoreContract):
    @pytest.fixture
    def store(self, couchbase_url: str) -> Iterator[Store]:
        with open_store(couchbase_url) as store:
            yield store


# Limits


def test_a_document_of_20_mib_is_the_biggest(store: Any, keys: list[str]) -> None:
    store.put_many({keys[0]: bytes(LIMIT)})
    assert store.get_many(keys[:1]) == [bytes(LIMIT)]
    store.delete_many(keys)
    with pytest.raises(StoreError, match=f"'{re.escape(keys[2])}'.*{LIMIT + 1} bytes"):
        store.put_many({keys[1]: b"x", keys[2]: bytes(LIMIT + 1)})
    assert store.get_many(keys) == [None] * len(keys)


def test_a_root_fits_in_a_document(store: Any, name: str) -> None:
    with pytest.raises(StoreError, match=f"root '{name}'.*{LIMIT + 16} bytes"):
        store.swap_root(name, bytes(LIMIT), None)
    assert store.read_root(name) is None
    token = store.swap_root(name, bytes(LIMIT - 16), None)
    store.delete_root(name, token)


def test_the_longest_key_is_within_246_bytes(store: Any) -> None:
    key = page_key(page_prefix("x" * 200, 1, 0), 0)
    assert len(module._page(key)) <= len(module._page("k" * 240)) == 246
    store.put_many({"k" * 240: b"x"})
    assert store.get_many(["k" * 240]) == [b"x"]
    store.delete_many(["k" * 240])


def test_nul_in_a_key_is_refused(store: Any, keys: list[str]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.put_many({keys[0]: b"x", "a\0b": b"x"}),
        lambda: store.get_many(["a\0b"]),
        lambda: store.delete_many(["a\0b"]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="NUL"):
            call()
    assert store.get_many(keys[:1]) == [None]
    assert list(store.list_keys("a\0")) == []


def test_pages_expire_only_with_a_time_to_live(couchbase_url: str, name: str, keys: list[str]) -> None:
    with open_store(couchbase_url) as lasting, open_store(couchbase_url, ttl=0.2) as passing:
        lasting.put_many({keys[0]: b"x"})
        passing.put_many({keys[1]: b"x"})
        token = passing.swap_root(name, b"root", None)
        assert passing.get_many(keys[:2]) == [b"x", b"x"]
        deadline = time.monotonic() + 10
        while passing.get_many(keys[1:2]) != [None]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert lasting.get_many(keys[:2]) == [b"x", None]
        assert passing.read_root(name) == (b"root", token)
        assert set(lasting.list_keys(pages_of(name))) == {keys[0]}


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
    bad = module._page(keys[2])
    operation = getattr(collection(store), call)
    monkeypatch.setattr(collection(store), call, failing_first(operation, bad, error(), calls))
    if call == "upsert_multi":
        store.put_many(dict.fromkeys(keys, b"new"))
    elif call == "get_multi":
        assert store.get_many(keys) == [b"old"] * len(keys)
    else:
        store.delete_many(keys)
    assert calls == [[module._page(key) for key in keys], [bad]]
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
    bad = module._page(keys[4])
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
    key, replace = module._root(name), collection(store).replace
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
        with pytest.raises(StoreUnavailable, match=r"swap_root.*2 tries.*would not stay"):
            store.swap_root(name, b"two", token)
        with pytest.raises(StoreUnavailable, match=r"delete_root.*2 tries.*would not stay"):
            store.delete_root(name, token)


# A server in trouble


def test_a_swap_over_a_server_that_hangs_is_done_once(mock: CouchbaseMock, name: str) -> None:
    with open_store(mock.url, timeout=0.3, backoff=0.01, max_tries=20) as store:
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
                assert sent.wait(10)
                time.sleep(0.5)  # longer than the client waits
                mock.resume()
                token = swap.result(20)
            collection(store).replace = send
            assert store.read_root(name) == (b"%d" % each, token)


def test_a_server_that_hangs_is_named_and_continues(mock: CouchbaseMock, name: str, keys: list[str]) -> None:
    with open_store(mock.url, timeout=0.1, backoff=0.01, max_tries=3) as store:
        store.put_many({keys[0]: b"x"})
        token = store.swap_root(name, b"root", None)
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
    with open_store(mock.url, timeout=0.3, max_tries=2, backoff=0.01) as store:
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
        store.put_many({keys[0]: b"x"})
        mock.stop()
        with pytest.raises(StoreUnavailable, match=f"get_many.*{mock.port}.*3 tries"):
            store.get_many(keys)
        with pytest.raises(StoreUnavailable, match=f"put_many.*{mock.port}.*3 tries"):
            store.put_many({keys[0]: b"x"})


def test_no_server_is_told_in_time() -> None:
    url = f"couchbase://me:hunter2@127.0.0.1:{servers.free_port()}"
    start = time.monotonic()
    with (
        open_store(url, max_tries=2, connect_timeout=0.3, backoff=0.01) as store,
        pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1.*2 tries") as caught,
    ):
        store.get_many(["key"])
    assert time.monotonic() - start < 5
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__} {store!r}"


# Processes and threads

FORKS = """
import os, sys, time
from stores import open_store
store = open_store(sys.argv[1])
store.put_many({"forks": b"x"})
parents = store._connection()
for grandchildren in (0, 1):
    child = os.fork()
    if not child:
        assert store.get_many(["forks"]) == [b"x"]
        assert store._connection() is not parents
        if grandchildren:
            grandchild = os.fork()
            if not grandchild:
                assert store.get_many(["forks"]) == [b"x"]
                sys.exit(0)
            assert os.waitpid(grandchild, 0)[1] == 0
            assert store.get_many(["forks"]) == [b"x"]
            store.close()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
unused = os.fork()
if not unused:
    del store, parents
    sys.exit(0)
assert os.waitpid(unused, 0)[1] == 0
assert store.get_many(["forks"]) == [b"x"]
store.close()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_come_to_their_end(couchbase_url: str) -> None:
    """A child that exits as usual frees what it has; what the client made in the parent must not be freed."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, couchbase_url],
        cwd=Path(module.__file__).parents[1],
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def test_threads_share_one_connection(couchbase_url: str) -> None:
    with open_store(couchbase_url) as store, ThreadPoolExecutor(8) as threads:
        assert store._connected is None  # type: ignore[attr-defined]
        list(threads.map(lambda _: store.get_many(["key"]), range(16)))
        assert len(set(threads.map(lambda _: id(collection(store)), range(16)))) == 1


def test_a_store_closed_in_the_middle_of_a_call_says_so(store: Any, keys: list[str]) -> None:
    get_multi = collection(store).get_multi

    def closed(*arguments: Any) -> Any:
        store.close()
        return get_multi(*arguments)

    collection(store).get_multi = closed
    with pytest.raises(StoreClosed):
        store.get_many(keys)


# Lists


@pytest.fixture
def lists(store: Any) -> None:
    """For tests of the lists of a server without scans."""
    store.put_many({"probe": b""})
    if store._connection().scans:
        pytest.skip("this server has scans")


def list_document(store: Any, key: str) -> bytes:
    value: bytes = collection(store).get(module._list_of(key)).value
    return value


@pytest.mark.usefixtures("lists")
def test_a_page_is_listed_before_it_is_written(
    store: Any, name: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> Any:
        raise MemoryError

    for call in ("upsert_multi", "insert"):
        monkeypatch.setattr(collection(store), call, crash)
    # The list itself may be new too.
    insert = type(collection(store)).insert
    monkeypatch.setattr(
        collection(store),
        "insert",
        lambda key, *rest: insert(collection(store), key, *rest) if key.startswith("mta:l:") else crash(),
    )
    with pytest.raises(MemoryError):
        store.put_many({keys[0]: b"x"})
    with pytest.raises(MemoryError):
        store.swap_root(name, b"x", None)
    monkeypatch.undo()
    assert name.encode() in list_document(store, module._page(keys[0]))
    assert name.encode() in list_document(store, module._root(name))
    assert list(store.list_keys(pages_of(name))) == []
    assert list(store.list_roots(name)) == []


@pytest.mark.usefixtures("lists")
def test_a_list_grows_by_a_line_for_many_pages(store: Any, couchbase_url: str, name: str) -> None:
    prefix = page_prefix(name, 1, 0)
    for number in range(300):
        store.put_many({page_key(prefix, number): b"x"})
    assert list_document(store, module._page(prefix)).count(name.encode()) == 2
    with open_store(couchbase_url) as other:
        assert len(list(other.list_keys(prefix))) == 300
        other.put_many({page_key(prefix, 5): b"y"})
        assert len(list(store.list_keys(prefix))) == 300  # though listed twice


@pytest.mark.usefixtures("lists")
def test_old_lines_that_lead_to_nothing_are_dropped(
    store: Any, couchbase_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefixes = [page_prefix(name, 1, tier) for tier in range(3)]
    now = time.time()
    with open_store(couchbase_url) as old:
        monkeypatch.setattr(module.time, "time", lambda: now - 8 * 86400)
        old.put_many({page_key(prefix, 0): b"x" for prefix in prefixes[:2]})
        token = old.swap_root(name, b"x", None)
        old.delete_root(name, token)
        old.delete_many([page_key(prefixes[0], 0)])
        monkeypatch.setattr(module.time, "time", lambda: now)
        store.put_many({page_key(prefixes[2], 0): b"x"})
        store.delete_many([page_key(prefixes[2], 0)])
        document = module._page(prefixes[0])
        assert list_document(store, document).count(name.encode()) == 3
        assert list(store.list_keys(pages_of(name))) == [page_key(prefixes[1], 0)]
        left = list_document(store, document)
        assert left.count(name.encode()) == 2  # one has a page, one is fresh
        assert f"{prefixes[0]}".encode() not in left
        assert name.encode() in list_document(store, module._root(name))
        assert list(store.list_roots(name)) == []
        assert name.encode() not in list_document(store, module._root(name))
        old.put_many({page_key(prefixes[0], 0): b"x"})  # a writer that goes on tells again after a day
        assert set(store.list_keys(pages_of(name))) == {page_key(prefix, 0) for prefix in prefixes[:2]}


@pytest.mark.usefixtures("lists")
def test_lines_that_repeat_are_dropped(store: Any, name: str) -> None:
    for _ in range(50):
        store.delete_root(name, store.swap_root(name, b"x", None))
    assert list_document(store, module._root(name)).count(name.encode()) == 50
    assert list(store.list_roots(name)) == []
    assert list_document(store, module._root(name)).count(name.encode()) == 1


@pytest.mark.usefixtures("lists")
def test_a_list_that_changes_meanwhile_is_not_shortened(
    store: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, late = (page_key(page_prefix(name, 1, tier), 0) for tier in range(2))
    store.put_many({key: b"x"})
    store.delete_many([key])
    monkeypatch.setattr(module, "LEASE_SECONDS", -10)
    listing = store.list_keys(pages_of(name))
    replace = collection(store).replace

    def too_late(*arguments: Any) -> Any:
        store.put_many({late: b"x"})
        return replace(*arguments)

    monkeypatch.setattr(collection(store), "replace", too_late)
    assert list(listing) == []
    monkeypatch.undo()
    assert list(store.list_keys(pages_of(name))) == [late]


@pytest.mark.usefixtures("lists")
def test_names_with_line_ends_are_listed(store: Any, name: str) -> None:
    odd = f"{name}\u2028\x85\x1c\r\n\x0b"
    key = page_key(page_prefix(odd, 1, 0), 7)
    plain = f"{name}\n\u2028 no page key"
    store.put_many({key: b"x", plain: b"y"})
    store.swap_root(odd, b"x", None)
    assert list(store.list_keys(pages_of(odd))) == [key]
    assert list(store.list_keys(f"{name}\n")) == [plain]
    assert list(store.list_roots(name)) == [odd]
    assert set(store.list_keys(f"{{{name}")) == {key}  # of any window that starts so


@pytest.mark.usefixtures("lists")
def test_a_full_list_is_told(store: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        error = cb.CouchbaseException(message="too big")
        error._context = SimpleNamespace(_base={"status_code": 3})
        raise error

    monkeypatch.setattr(module, "_append", full)
    with pytest.raises(StoreFull, match="list_keys"):
        store.put_many({keys[0]: b"x"})


class Scan:
    """Stands for a scan, which the mock has not."""

    def __init__(self, ids: list[str], breaks: int | None = None) -> None:
        self.ids = ids
        self.breaks = breaks
        self.cancelled = False

    def __iter__(self) -> Iterator[Any]:
        for number, each in enumerate(self.ids):
            if number == self.breaks:
                raise cb.UnAmbiguousTimeoutException
            yield SimpleNamespace(id=each)

    def cancel_scan(self) -> None:
        self.cancelled = True


def test_a_server_with_scans_is_scanned(
    store: Any, name: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def scan(kind: Any, options: Any) -> Scan:
        asked.append((kind.prefix, dict(options)))
        found = (
            [module._page(key) for key in keys] if kind.prefix.startswith("mta:p:") else [module._root(name)]
        )
        return Scan(found, breaks=3 if len(asked) == 2 else None)

    monkeypatch.setattr(collection(store), "scan", scan)
    monkeypatch.setattr(module, "_append", lambda *_: pytest.fail("a list was written to"))
    store.put_many(dict.fromkeys(keys, b"x"))
    assert [prefix for prefix, _ in asked] == ["mta:p:"]  # to see whether there are scans
    assert list(store.list_keys(pages_of(name))) == [*keys[:3], *keys]
    prefix, options = asked[-1]
    assert prefix == f"mta:p:{pages_of(name)}"
    assert options["ids_only"]
    assert options["consistent_with"]._sv
    store.swap_root(name, b"x", None)
    assert list(store.list_roots(name)) == [name]
    assert asked[-1][0] == f"mta:r:{name}"
    assert len(asked) == 4


def test_a_scan_that_always_breaks_is_given_up(
    couchbase_url: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(couchbase_url, max_tries=2, backoff=0) as store:
        found = [module._page(key) for key in keys]
        monkeypatch.setattr(collection(store), "scan", lambda *_: Scan(found, breaks=1))
        with pytest.raises(StoreUnavailable, match=r"list_keys.*2 tries"):
            list(store.list_keys("{"))


# URLs and options


class Recorder:
    """Stands for the client's Cluster."""

    def __init__(self, servers: str, options: Any) -> None:
        self.servers = servers
        self.options = options

    def bucket(self, name: str) -> Recorder:
        self.bucket_name = name
        return self

    def scope(self, name: str) -> Recorder:
        self.scope_name = name
        return self

    def collection(self, name: str) -> Recorder:
        self.collection_name = name
        return self

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("couchbase://", {}, ("couchbase://localhost", "", "", "default", "_default", "_default")),
        ("couchbase://a:b@h/win", {}, ("couchbase://h", "a", "b", "win", "_default", "_default")),
        (
            "couchbases://a:b%40%2Fc@h:1,i:2/",
            {},
            ("couchbases://h:1,i:2", "a", "b@/c", "default", *["_default"] * 2),
        ),
        ("couchbase://[::1]:3/w?scope=s&collection=c", {}, ("couchbase://[::1]:3", "", "", "w", "s", "c")),
        (
            "couchbase://a:b@h/w",
            {"username": "x", "password": "y", "scope": "s"},
            ("couchbase://h", "x", "y", "w", "s", "_default"),
        ),
    ],
)
def test_urls(
    url: str, options: dict[str, Any], expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Cluster", Recorder)
    for variable in ("COUCHBASE_USERNAME", "COUCHBASE_PASSWORD"):
        monkeypatch.delenv(variable, raising=False)
    store: Any = open_store(url, **options)
    cluster = store._connection().cluster
    login = cluster.options["authenticator"].as_dict()
    assert expected == (
        cluster.servers,
        login["username"],
        login["password"],
        cluster.bucket_name,
        cluster.scope_name,
        cluster.collection_name,
    )


def test_credentials_come_from_the_environment_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUCHBASE_USERNAME", "me")
    monkeypatch.setenv("COUCHBASE_PASSWORD", "hunter2")
    stores = [
        open_store("couchbase://host/w"),
        open_store("couchbase://me:hunter2@host/w"),
        open_store("couchbase://host?password=hunter2"),
        open_store("couchbase://me:hunter2@host:1,other:2/w"),
    ]
    for store in stores:
        assert "hunter2" not in f"{store} {store!r} {store.url}"
        travelled = pickle.loads(pickle.dumps(store))
        assert travelled._credentials == {"username": "me", "password": "hunter2"}  # type: ignore[attr-defined]


def test_timeouts_are_explicit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Cluster", Recorder)
    store: Any = open_store(
        "couchbase://h?timeout=0.5&connect_timeout=3&network=external&ssl_ca_certs=/ca.pem"
    )
    options = store._connection().cluster.options
    times = {name: value.total_seconds() for name, value in options.items() if isinstance(value, timedelta)}
    assert times == {
        "bootstrap_timeout": 3,
        "connect_timeout": 3,
        "resolve_timeout": 3,
        "kv_timeout": 0.5,
        "kv_durable_timeout": 10,
    }
    assert options["network"] == "external"
    assert options["authenticator"].as_dict()["trust_store_path"] == "/ca.pem"


@pytest.mark.parametrize(
    "url",
    [
        "couchbase://h/a/b",
        "couchbase://h:port",
        "couchbase://h,/b",
        "couchbase://h?max_tries=0",
        "couchbase://h?backoff=-1",
        "couchbase://h?timeout=0",
        "couchbase://h?ttl=-1",
        "couchbase://h?durability=often",
    ],
)
def test_malformed_urls(url: str) -> None:
    with pytest.raises(StoreConfigError):
        open_store(url)


@pytest.mark.parametrize("level", ["majority", "majority_and_persist_to_active", "persist_to_majority"])
def test_durability_is_asked_of_every_write(
    couchbase_url: str, name: str, keys: list[str], monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """The mock knows no durable writes, so they are sent without."""
    seen = []
    with open_store(couchbase_url, durability=level) as store:
        for call in ("upsert_multi", "remove_multi", "insert", "replace", "remove"):

            def send(operation: Any, call: str, *arguments: Any) -> Any:
                assert arguments[-1].pop("durability").level is DurabilityLevel[level.upper()]
                seen.append(call)
                return operation(*arguments)

            operation = getattr(collection(store), call)
            monkeypatch.setattr(collection(store), call, partial(send, operation, call))
        monkeypatch.setattr(module, "_append", lambda *_: None)
        store.put_many({keys[0]: b"x"})
        store.delete_many(keys)
        token = store.swap_root(name, b"x", store.swap_root(name, b"x", None))
        store.delete_root(name, token)
    assert seen == ["upsert_multi", "remove_multi", "insert", "replace", "remove"]


def test_too_few_nodes_for_durability_are_told(
    couchbase_url: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(couchbase_url, durability="majority", max_tries=2, backoff=0) as store:

        def impossible(items: Any, *_: Any) -> Any:
            return SimpleNamespace(
                results={}, exceptions=dict.fromkeys(items, cb.DurabilityImpossibleException())
            )

        monkeypatch.setattr(module, "_append", lambda *_: None)
        monkeypatch.setattr(collection(store), "upsert_multi", impossible)
        with pytest.raises(StoreUnavailable, match=r"durability=majority.*2 tries"):
            store.put_many({keys[0]: b"x"})
