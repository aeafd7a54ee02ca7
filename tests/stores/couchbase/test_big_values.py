"""Values larger than a document. Documents are small here, but for one test; all goes as with large ones."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from couchbase_inside import FailsAt, Spoiled, collection

from mta import AmortizedMTA, monoids, policies
from mta.durability.operations import remove, verify
from stores import StoreClosed, StoreError, StoreUnavailable, open_store, page_prefix, pages_of

pytest.importorskip("couchbase")

import couchbase.exceptions as cb

from stores.couchbase import big_values, value_head
from stores.couchbase import document_names as documents
from stores.couchbase import store as store_module

pytestmark = pytest.mark.couchbase

DOCUMENT, PIECE = 1000, 400
OLD, NEW = (random.Random(seed).randbytes(2100) for seed in (1, 2))
SMALL = b"small"


@pytest.fixture(autouse=True)
def small_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "DOCUMENT_BYTES", DOCUMENT)
    monkeypatch.setattr(big_values, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(big_values, "LATE_SECONDS", 0.0)


@pytest.fixture
def impatient(couchbase_url: str) -> Iterator[Any]:
    with open_store(couchbase_url, max_tries=1) as store:
        yield store


def head_of(store: Any, key: str) -> value_head.ValueHead | None:
    found = collection(store).get_multi([documents.head(key)]).results
    return value_head.decode_head(found[documents.head(key)].value) if found else None


def untouched(_: str, action: Callable[[], Any]) -> Any:
    return action()


@pytest.mark.parametrize("size", [DOCUMENT, DOCUMENT + 1, 3 * PIECE, 3 * PIECE + 1, 20 * PIECE])
def test_values_of_any_size(store: Any, keys: list[str], name: str, size: int) -> None:
    spoiled = Spoiled(store, untouched)
    value = random.Random(size).randbytes(size)
    for _ in range(2):
        store.put_many({keys[0]: SMALL, keys[1]: value, keys[2]: SMALL})
        assert store.get_many([keys[1], keys[3], keys[0], keys[1]]) == [value, None, SMALL, value]
        assert sorted(store.list_keys(pages_of(name))) == keys[:3]
    for _ in range(2):
        store.delete_range(page_prefix(name, 1, 0), 1, 3)
        assert store.get_many(keys[:3]) == [SMALL, None, None]
        assert list(store.list_keys(pages_of(name))) == keys[:1]
    store.delete_many(keys)
    assert spoiled.left() == set()


def test_values_replace_each_other(store: Any, keys: list[str], name: str) -> None:
    spoiled = Spoiled(store, untouched)
    for value in (OLD, NEW, NEW, SMALL, OLD, SMALL, b"", NEW, bytes(DOCUMENT + 1)):
        store.put_many([(keys[0], bytes(5000)), (keys[0], value)])
        assert store.get_many(keys[:2]) == [value, None]
        assert set(store.list_keys(pages_of(name))) == {keys[0]}
    store.delete_many(keys[:1])
    assert store.get_many(keys[:1]) == [None]
    assert spoiled.left() == set()


def test_any_key_may_have_a_big_value(store: Any) -> None:
    for key in ("k" * 240, "plain", "{a}:x", "Zürich\n"):
        store.put_many({key: NEW})
        assert store.get_many([key]) == [NEW]
        assert key in set(store.list_keys(key[:3]))
        store.delete_many([key])
        assert key not in set(store.list_keys(key[:3]))


def test_nothing_is_written_if_a_key_or_a_size_is_wrong(
    store: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(big_values, "MOST_PIECES", 4)
    spoiled = Spoiled(store, untouched)
    with pytest.raises(ValueError, match="NUL"):
        store.put_many({keys[0]: SMALL, "a\0b": NEW})
    with pytest.raises(StoreError, match=rf"{re.escape(keys[1])}.*2100 bytes.*1600.*smaller"):
        store.put_many({keys[0]: SMALL, keys[1]: NEW})
    assert spoiled.written == set()


# Faults

BEFORE: dict[str, bytes | None] = {"absent": None, "small": SMALL, "big": OLD}


@pytest.mark.parametrize(
    ("error", "done"),
    [(cb.AmbiguousTimeoutException, True), (KeyboardInterrupt, False)],
    ids=["without-reply", "killed"],
)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("action", ["put", "delete"])
def test_a_fault_at_any_request_leaves_the_old_or_the_new(
    impatient: Any,
    keys: list[str],
    name: str,
    action: str,
    before: str,
    done: bool,
    error: type[BaseException],
) -> None:
    """And what it leaves besides is found by a list, and goes when the key is deleted."""
    store, key, old = impatient, keys[0], BEFORE[before]
    new = NEW if action == "put" else None
    spoiled = Spoiled(store, untouched)

    def act() -> None:
        if action == "put":
            store.put_many({key: NEW})
        else:
            store.delete_many([key])

    for number in range(100):
        store.delete_many([key])
        if old is not None:
            store.put_many({key: old})
        spoiled.spoil = faults = FailsAt(number, error(), done)
        if not finished(act, error):
            assert store.get_many([key]) in ([old], [new])
        spoiled.spoil = untouched
        if not faults.failed:
            break
        left = spoiled.left()
        assert not left or set(store.list_keys(pages_of(name))) == {key}, left
        if number % 2:
            act()
            assert store.get_many([key]) == [new]
        store.delete_many([key])
        assert store.get_many([key]) == [None]
        assert spoiled.left() == set()
    assert number >= 2, "no request was made to fail"
    assert store.get_many([key]) == [new]


def finished(act: Callable[[], None], error: type[BaseException]) -> bool:
    try:
        act()
    except (StoreUnavailable, error):
        return False
    return True


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_passing_faults_are_waited_for(store: Any, keys: list[str], done: bool) -> None:
    spoiled = Spoiled(store, untouched)
    for number in range(100):
        store.put_many({keys[0]: OLD})
        spoiled.spoil = faults = FailsAt(number, cb.AmbiguousTimeoutException(), done)
        store.put_many({keys[0]: NEW})
        assert store.get_many(keys[:2]) == [NEW, None]
        store.delete_many(keys[:1])
        assert store.get_many(keys[:1]) == [None]
        spoiled.spoil = untouched
        assert spoiled.left() == set()
        if not faults.failed:
            return


# Others at the same time


def test_a_reader_sees_the_old_or_the_new(store: Any, couchbase_url: str, keys: list[str]) -> None:
    store.put_many({keys[0]: OLD})
    end = threading.Event()

    def read() -> int:
        count = 0
        with open_store(couchbase_url) as reader:
            while not end.is_set():
                assert reader.get_many(keys[:1]) in ([OLD], [NEW], [SMALL])
                count += 1
        return count

    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        for value in (NEW, OLD, SMALL) * 5:
            store.put_many({keys[0]: value})
        end.set()
        assert all(reader.result() for reader in readers)


class Interrupted:
    """Somebody else acts before the call of that name and number."""

    def __init__(self, call: str, number: int, other: Callable[[], None]) -> None:
        self.call = call
        self.left = number
        self.other = other

    def __call__(self, call: str, action: Callable[[], Any]) -> Any:
        self.left -= call == self.call
        if call == self.call and self.left == 0:
            self.other()
        return action()


PUT = [("get", 1), ("insert", 1), ("upsert_multi", 1), ("get", 2), ("get", 3), ("replace", 1)]


@pytest.mark.parametrize(("call", "number"), PUT)
@pytest.mark.parametrize("theirs", [None, SMALL, OLD], ids=["delete", "small", "big"])
def test_writers_at_the_same_time_leave_what_one_of_them_wrote(
    store: Any, couchbase_url: str, keys: list[str], call: str, number: int, theirs: bytes | None
) -> None:
    key = keys[0]
    with open_store(couchbase_url) as other:
        both = [Spoiled(each, untouched) for each in (store, other)]

        def act() -> None:
            if theirs is None:
                other.delete_many([key])
            else:
                other.put_many({key: theirs})
            assert other.get_many([key]) == [theirs]

        both[0].spoil = interrupted = Interrupted(call, number, act)
        store.put_many({key: NEW})
        assert interrupted.left <= 0
        both[0].spoil = untouched
        assert store.get_many([key]) == other.get_many([key])
        assert store.get_many([key])[0] in (NEW, theirs)
        other.delete_many([key])
        assert store.get_many([key]) == [None]
        assert [each.left() for each in both] == [set(), set()]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_reader_whose_pieces_go_reads_again(
    store: Any, couchbase_url: str, keys: list[str], number: int
) -> None:
    store.put_many({keys[0]: OLD})
    with open_store(couchbase_url) as other:
        spoiled = Spoiled(store, untouched)
        spoiled.spoil = first = Interrupted("get_multi", number, lambda: other.put_many({keys[0]: NEW}))
        assert store.get_many(keys[:1]) in ([OLD], [NEW])
        spoiled.spoil = second = Interrupted("get_multi", number, lambda: other.delete_many(keys[:1]))
        assert store.get_many(keys[:1]) in ([NEW], [None])
        assert first.left <= 0
        assert second.left <= 0


def test_a_value_that_changes_all_the_time_is_given_up(
    store: Any, couchbase_url: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(big_values, "READ_TRIES", 3)
    store.put_many({keys[0]: OLD})
    with open_store(couchbase_url) as other:

        def spoil(_: str, action: Callable[[], Any]) -> Any:
            other.put_many({keys[0]: NEW})
            return action()

        spoiled = Spoiled(store, spoil)
        with pytest.raises(StoreUnavailable, match=r"get_many.*replaced 3 times"):
            store.get_many(keys[:1])
        spoiled.spoil = untouched
    assert store.get_many(keys[:1]) == [NEW]


# Writes that arrive late


def test_pieces_that_may_still_arrive_stay_named(
    impatient: Any, keys: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write without a reply may be done after the value was deleted. The next collector then finds it."""
    monkeypatch.setattr(big_values, "LATE_SECONDS", 60.0)
    store, late = impatient, []

    def hold(call: str, action: Callable[[], Any]) -> Any:
        if call == "upsert_multi":
            late.append(action)
            raise cb.AmbiguousTimeoutException
        return action()

    spoiled = Spoiled(store, hold)
    with pytest.raises(StoreUnavailable, match="put_many"):
        store.put_many({keys[0]: NEW})
    spoiled.spoil = untouched
    store.delete_many(keys[:1])
    late[0]()
    assert store.get_many(keys[:1]) == [None]
    assert list(store.list_keys(pages_of(name))) == keys[:1]
    now = big_values.time.time()
    monkeypatch.setattr(big_values.time, "time", lambda: now + 61)
    store.delete_many(keys[:1])
    assert spoiled.left() == set()
    assert list(store.list_keys(pages_of(name))) == []


def test_what_was_written_without_a_fault_goes_at_once(
    store: Any, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(big_values, "LATE_SECONDS", 60.0)
    spoiled = Spoiled(store, untouched)
    store.put_many({keys[0]: OLD})
    store.put_many({keys[0]: NEW})
    store.delete_many(keys[:1])
    assert spoiled.left() == set()


# What somebody else wrote


NONCE = "0" * 32
HOSTILE: list[Any] = [
    b"",
    b"\xff\x00",
    b"[" * 100_000,
    7,
    [],
    {},
    {"value": None, "size": 0},
    {"value": 7, "size": 0, "others": []},
    {"value": [NONCE, 1, 0, False], "size": "1", "others": []},
    {"value": [NONCE, 1, 0, False], "size": -1, "others": []},
    {"value": [NONCE, 10**9, 0, False], "size": 10**18, "others": []},
    {"value": [NONCE, 1.5, 0, False], "size": 1, "others": []},
    {"value": [NONCE, True, 0, False], "size": 1, "others": []},
    {"value": ["../x", 1, 0, False], "size": 1, "others": []},
    {"value": ["\ud800" * 32, 1, 0, False], "size": 1, "others": []},
    {"value": [NONCE, 1, "soon", False], "size": 1, "others": []},
    {"value": [NONCE, 1, 0], "size": 1, "others": []},
    {"value": None, "size": 0, "others": {"a": 1}},
    {"value": None, "size": 0, "others": [[NONCE, 1, float("nan"), 1]]},
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_a_head_that_nobody_wrote_stops_nobody(store: Any, keys: list[str], name: str, content: Any) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    store.put_many({keys[1]: SMALL, keys[0]: OLD})
    collection(store).upsert(documents.head(keys[0]), data)
    assert store.get_many(keys[:2]) == [data, SMALL]  # which is no page
    assert set(store.list_keys(pages_of(name))) == set(keys[:2])
    store.put_many({keys[0]: NEW})
    assert store.get_many(keys[:1]) == [NEW]
    collection(store).upsert(documents.head(keys[0]), data)
    store.delete_many(keys[:2])
    assert list(store.list_keys(pages_of(name))) == []


def test_a_piece_that_is_lost_or_changed_is_no_value(store: Any, keys: list[str]) -> None:
    store.put_many({keys[0]: OLD, keys[1]: NEW})
    lost, cut = (head_of(store, key).value.documents()[1] for key in keys[:2])  # type: ignore[union-attr]
    collection(store).remove(lost)
    collection(store).upsert(cut, b"x")
    assert store.get_many(keys[:2]) == [None, None]
    store.delete_many(keys[:2])
    assert [head_of(store, key) for key in keys[:2]] == [None, None]


# Windows


def test_a_window_of_large_pages_is_saved_restored_and_removed(
    store: Any, couchbase_url: str, name: str
) -> None:
    values = np.random.default_rng(1).normal(size=5000)  # a page takes 4 KB, and a document 1 KB
    shape: dict[str, Any] = {"policy": policies.CountWindow(2000), "page_size": 512}
    window = AmortizedMTA(monoids.Max(), store=store, name=name, **shape)
    with open_store(couchbase_url) as other:
        both = [Spoiled(each, untouched) for each in (store, other)]
        for start in range(0, len(values), 1000):
            window.slide(values[start : start + 1000])
            window.checkpoint(offset=start)
        assert any(document.startswith("mta:c:") for document in both[0].left())
        restored = AmortizedMTA.restore(other, name, monoids.Max(), **shape)  # as after a crash
        assert restored.query() == values[-2000:].max()
        restored.extend(values)
        assert restored.query() == values[-2000:].max()
        restored.checkpoint()
        restored.close()
        assert verify(other, name).problems == []
        window.close()
        remove(other, name)
        assert [each.left() for each in both] == [set(), set()]


def test_what_a_failed_writer_left_is_removed(impatient: Any, couchbase_url: str, name: str) -> None:
    values = np.random.default_rng(1).normal(size=5000)
    spoiled = Spoiled(impatient, untouched)
    window = AmortizedMTA(
        monoids.Max(), store=impatient, name=name, policy=policies.CountWindow(3000), page_size=512
    )

    def kill(call: str, action: Callable[[], Any]) -> Any:
        if call == "upsert_multi" and spoiled.left():
            raise cb.AmbiguousTimeoutException
        return action()

    spoiled.spoil = kill
    with suppress(StoreUnavailable):
        window.extend(values)
    with pytest.raises(StoreUnavailable):
        window.checkpoint()
    spoiled.spoil = untouched
    assert any(document.startswith("mta:h:") for document in spoiled.left())
    with open_store(couchbase_url) as other:
        remove(other, name)
        assert list(other.list_keys(pages_of(name))) == []
    assert spoiled.left() == set()
    impatient.close()
    with suppress(StoreClosed):
        window.close()
