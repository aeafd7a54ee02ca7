"""What every store must do, as a test class to inherit from, and stores that are slow, faulty or counted.

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        with open_store("mystore://...") as store:
            yield store
"""

from __future__ import annotations

import copy
import hashlib
import multiprocessing
import os
import pickle
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from stores.base import (
    Conflict,
    Store,
    StoreClosed,
    StoreConfigError,
    StoreUnavailable,
    Token,
    page_key,
    page_prefix,
    pages_of,
    parse_page_key,
)

T = TypeVar("T")

ODD_NAMES = (
    "a b",
    "a/b\\c",
    "{a}",
    "}{",
    "100%",
    "%7B",
    "line\nbreak",
    "nul\0",
    "Zürich 東京 🚲",
    "*?[a-z]",
    "'\"; DROP",
    "x" * 200,
)
ODD_IDS = [ascii(name)[:12] for name in ODD_NAMES]


def _read_in_child(store: Store, key: str, results: Any) -> None:
    try:
        results.put(store.get_many([key]))
    except Exception as error:
        results.put(repr(error))


class StoreContract:
    """Inherit, and give a fixture `store`. Each test uses names of its own, so the store may be shared."""

    picklable = True
    survives_fork = True
    """Whether a forked child can use the store while its parent has it open."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        raise NotImplementedError("give a fixture `store` that yields an open store")

    @pytest.fixture
    def name(self) -> str:
        return f"contract-{uuid.uuid4().hex}"

    @pytest.fixture
    def prefix(self, name: str) -> str:
        return page_prefix(name, epoch=1, tier=0)

    @pytest.fixture
    def keys(self, prefix: str) -> list[str]:
        return [page_key(prefix, index) for index in range(20)]

    # Pages

    def test_values_come_in_the_order_of_the_keys(self, store: Store, keys: list[str]) -> None:
        store.put_many({key: key.encode() for key in keys})
        shuffled = random.Random(1).sample(keys, len(keys))
        assert store.get_many(shuffled) == [key.encode() for key in shuffled]

    def test_absent_keys_are_none_in_their_place(self, store: Store, keys: list[str]) -> None:
        store.put_many([(keys[1], b"one"), (keys[3], b"")])
        assert store.get_many(keys[:5]) == [None, b"one", None, b"", None]

    def test_a_key_asked_twice_is_answered_twice(self, store: Store, keys: list[str]) -> None:
        store.put_many({keys[0]: b"x"})
        assert store.get_many([keys[0], keys[1], keys[0]]) == [b"x", None, b"x"]

    def test_put_overwrites_and_can_be_repeated(self, store: Store, keys: list[str]) -> None:
        for value in (b"first", b"second", b"second"):
            store.put_many({keys[0]: value})
        assert store.get_many(keys[:1]) == [b"second"]

    def test_the_last_of_equal_keys_wins(self, store: Store, keys: list[str]) -> None:
        store.put_many([(keys[0], b"first"), (keys[0], b"last")])
        assert store.get_many(keys[:1]) == [b"last"]

    def test_put_takes_an_iterator(self, store: Store, keys: list[str]) -> None:
        store.put_many((key, b"x") for key in keys)
        assert store.get_many(keys) == [b"x"] * len(keys)

    def test_missing_says_what_is_not_there(self, store: Store, keys: list[str]) -> None:
        store.put_many(dict.fromkeys(keys[1:], b"x"))
        assert store.missing([*keys, keys[0]]) == [keys[0], keys[0]]
        assert store.missing([]) == []

    def test_delete_can_be_repeated(self, store: Store, keys: list[str]) -> None:
        store.put_many(dict.fromkeys(keys[:3], b"x"))
        for _ in range(2):
            store.delete_many(iter([keys[0], keys[2], keys[5]]))
            assert store.get_many(keys[:3]) == [None, b"x", None]

    def test_any_bytes_come_back(self, store: Store, keys: list[str]) -> None:
        values = [bytes(range(256)), b"\0", b"\r\n$-1\r\n", b"\xff" * 1000]
        store.put_many(zip(keys, values, strict=False))
        assert store.get_many(keys[: len(values)]) == values

    def test_big_values(self, store: Store, keys: list[str]) -> None:
        values = [random.Random(seed).randbytes(3 << 20) for seed in range(4)]
        store.put_many(zip(keys, values, strict=False))
        assert store.get_many(keys[:4]) == values
        store.delete_many(keys)

    def test_values_beyond_the_limit_of_a_document(self, store: Store, keys: list[str], prefix: str) -> None:
        older, newer = (random.Random(seed).randbytes(45 << 20) for seed in range(2))
        store.put_many({keys[0]: b"x", keys[1]: older})
        assert store.get_many(keys[:3]) == [b"x", older, None]
        for _ in range(2):
            store.put_many({keys[1]: newer})
        assert store.get_many([keys[1]]) == [newer]
        assert set(store.list_keys(prefix)) == {keys[0], keys[1]}
        store.put_many({keys[1]: b"small"})
        assert store.get_many([keys[1]]) == [b"small"]
        store.put_many({keys[1]: older})
        store.delete_range(prefix, 1, 5)
        assert store.get_many(keys[:3]) == [b"x", None, None]
        assert set(store.list_keys(prefix)) == {keys[0]}

    def test_many_small_values(self, store: Store, prefix: str) -> None:
        items = {page_key(prefix, index): b"%d" % index for index in range(2500)}
        store.put_many(items)
        assert store.get_many(list(items)) == list(items.values())
        store.delete_many(items)
        assert list(store.list_keys(prefix)) == []

    def test_empty_batches_do_nothing(self, store: Store) -> None:
        store.put_many({})
        store.delete_many([])
        assert store.get_many([]) == []

    @pytest.mark.parametrize("value", ["text", bytearray(b"x"), memoryview(b"x"), None, 1])
    def test_values_are_bytes_or_nothing_is_written(self, store: Store, keys: list[str], value: Any) -> None:
        with pytest.raises(TypeError, match=type(value).__name__):
            store.put_many([(keys[0], b"x"), (keys[1], value)])
        assert store.get_many(keys[:2]) == [None, None]

    @pytest.mark.parametrize("key", ["", "k" * 241, "ü" * 121, "\ud800", b"bytes", None, 7])
    def test_keys_are_short_text(self, store: Store, keys: list[str], key: Any) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.put_many([(keys[0], b"x"), (key, b"x")]),
            lambda: store.get_many([key]),
            lambda: store.delete_many([key]),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="a key must"):
                call()
        assert store.get_many(keys[:1]) == [None]

    @pytest.mark.parametrize("window", ODD_NAMES, ids=ODD_IDS)
    def test_windows_with_odd_names(self, store: Store, window: str) -> None:
        epoch = uuid.uuid4().int >> 64
        key = page_key(page_prefix(window, epoch, tier=255), (1 << 64) - 1)
        store.put_many({key: b"page"})
        assert store.get_many([key]) == [b"page"]
        assert key in set(store.list_keys(pages_of(window)))
        assert parse_page_key(key) == (window, epoch, 255, (1 << 64) - 1)
        store.delete_many([key])

    # Ranges and lists

    @pytest.mark.parametrize(("start", "stop"), [(0, 20), (3, 7), (7, 8), (5, 5), (9, 2), (15, 40)])
    def test_delete_range_ends_before_stop(
        self, store: Store, keys: list[str], prefix: str, start: int, stop: int
    ) -> None:
        store.put_many(dict.fromkeys(keys, b"x"))
        store.delete_range(prefix, start, stop)
        left = [None if start <= index < stop else b"x" for index in range(20)]
        assert store.get_many(keys) == left
        assert set(store.list_keys(prefix)) == {key for key, value in zip(keys, left, strict=True) if value}

    def test_delete_range_goes_across_digits_and_chunks(self, store: Store, prefix: str) -> None:
        there = [0, 9, 10, 15, 16, 255, 256, 2499, 2500, 2501]
        store.put_many({page_key(prefix, index): b"x" for index in there})
        store.delete_range(prefix, 10, 2500)
        assert {parse_page_key(key).number for key in store.list_keys(prefix)} == {0, 9, 2500, 2501}

    def test_delete_range_spares_other_prefixes(self, store: Store, name: str) -> None:
        prefixes = [page_prefix(name, epoch, tier) for epoch in (1, 2) for tier in (0, 1)]
        store.put_many({page_key(prefix, 5): b"x" for prefix in prefixes})
        store.delete_range(prefixes[1], 0, 100)
        left = set(store.list_keys(pages_of(name)))
        assert left == {page_key(prefix, 5) for prefix in prefixes if prefix != prefixes[1]}

    def test_put_after_delete_range(self, store: Store, keys: list[str], prefix: str) -> None:
        store.put_many({keys[3]: b"old"})
        store.delete_range(prefix, 0, 10)
        store.put_many({keys[3]: b"new"})
        assert store.get_many([keys[3]]) == [b"new"]

    def test_delete_range_checks_its_ends(self, store: Store, prefix: str) -> None:
        with pytest.raises(ValueError, match="negative"):
            store.delete_range(prefix, -1, 5)

    @pytest.mark.parametrize("other", ["{0}b", "{0}}}", "{0}:", "x{0}", "{0}*"])
    def test_windows_do_not_see_each_others_pages(self, store: Store, name: str, other: str) -> None:
        mine, theirs = (page_key(page_prefix(who, 1, 0), 0) for who in (name, other.format(name)))
        store.put_many({mine: b"x", theirs: b"x"})
        assert set(store.list_keys(pages_of(name))) == {mine}

    def test_pages_can_be_deleted_while_they_are_listed(self, store: Store, prefix: str) -> None:
        store.put_many({page_key(prefix, index): b"x" for index in range(3000)})
        for key in store.list_keys(prefix):
            store.delete_many([key])
        assert list(store.list_keys(prefix)) == []

    # Roots

    def test_no_root_at_first(self, store: Store, name: str) -> None:
        assert store.read_root(name) is None

    def test_swap_and_read(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"one", None)
        assert store.read_root(name) == (b"one", token)
        newer = store.swap_root(name, b"", token)
        assert store.read_root(name) == (b"", newer)
        assert len({token, newer}) == 2

    def test_creating_what_exists_conflicts(self, store: Store, name: str) -> None:
        store.swap_root(name, b"first", None)
        with pytest.raises(Conflict) as caught:
            store.swap_root(name, b"second", None)
        assert caught.value.name == name
        assert store.read_root(name) is not None

    def test_an_old_token_conflicts_and_changes_nothing(self, store: Store, name: str) -> None:
        old = store.swap_root(name, b"one", None)
        new = store.swap_root(name, b"two", old)
        with pytest.raises(Conflict):
            store.swap_root(name, b"three", old)
        with pytest.raises(Conflict):
            store.delete_root(name, old)
        assert store.read_root(name) == (b"two", new)

    def test_a_token_conflicts_where_there_is_no_root(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"one", None)
        store.delete_root(name, token)
        with pytest.raises(Conflict):
            store.swap_root(name, b"two", token)
        assert store.read_root(name) is None

    def test_tokens_never_repeat(self, store: Store, name: str) -> None:
        tokens = []
        for _ in range(3):
            token = store.swap_root(name, b"same", None)
            tokens += [token, store.swap_root(name, b"same", token)]
            store.delete_root(name, tokens[-1])
        assert len(set(tokens)) == 6
        store.swap_root(name, b"same", None)
        for token in tokens:
            with pytest.raises(Conflict):
                store.swap_root(name, b"late", token)

    def test_deleting_a_root_can_be_repeated(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"x", None)
        store.delete_root(name, token)
        store.delete_root(name, token)
        assert store.read_root(name) is None
        assert name not in set(store.list_roots())

    @pytest.mark.parametrize("odd", ODD_NAMES, ids=ODD_IDS)
    def test_roots_with_odd_names(self, store: Store, odd: str) -> None:
        current = store.read_root(odd)
        token = store.swap_root(odd, b"data", current[1] if current else None)
        assert store.read_root(odd) == (b"data", token)
        assert odd in set(store.list_roots(odd[:3]))
        store.delete_root(odd, token)

    def test_many_roots_are_read_at_once(self, store: Store, name: str) -> None:
        names = [f"{name}-{number}" for number in range(250)]
        tokens = {each: store.swap_root(each, each.encode(), None) for each in names[::2]}
        asked = [names[3], *reversed(names), names[0]]
        expected = [(each.encode(), tokens[each]) if each in tokens else None for each in asked]
        assert store.read_roots(asked) == expected
        assert store.read_roots([]) == []
        with pytest.raises(ValueError, match="name"):
            store.read_roots([name, ""])
        assert store.delete_roots(tokens) == []

    def test_many_roots_are_deleted_at_once(self, store: Store, name: str) -> None:
        names = [f"{name}-{number}" for number in range(250)]
        tokens = {each: store.swap_root(each, b"one", None) for each in names}
        changed = {each: store.swap_root(each, b"two", tokens[each]) for each in names[::50]}
        store.delete_root(names[1], tokens[names[1]])
        assert sorted(store.delete_roots(tokens)) == sorted(changed)
        assert set(store.list_roots(f"{name}-")) == set(changed)
        assert store.read_roots(list(changed)) == [(b"two", token) for token in changed.values()]
        assert store.delete_roots(changed) == []
        assert store.delete_roots(changed) == []
        assert store.delete_roots({}) == []
        assert list(store.list_roots(f"{name}-")) == []

    def test_list_roots_by_prefix(self, store: Store, name: str) -> None:
        names = {f"{name}{end}" for end in ("", "-a", "-ab", "-b")}
        for each in names:
            store.swap_root(each, b"x", None)
        assert set(store.list_roots(name)) == names
        assert set(store.list_roots(f"{name}-a")) == {f"{name}-a", f"{name}-ab"}
        assert names <= set(store.list_roots())
        assert list(store.list_roots(f"{name}-?")) == []

    @pytest.mark.parametrize("name", ["", "n" * 201, "{" * 67, "\ud800", b"bytes", None])
    def test_names_are_short_text(self, store: Store, name: Any) -> None:
        calls: list[Callable[[], object]] = [
            lambda: store.read_root(name),
            lambda: store.swap_root(name, b"", None),
            lambda: store.delete_root(name, b"token"),
            lambda: pages_of(name),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="a name must"):
                call()

    def test_root_data_is_bytes(self, store: Store, name: str) -> None:
        with pytest.raises(TypeError, match="str"):
            store.swap_root(name, "text", None)  # type: ignore[arg-type]
        assert store.read_root(name) is None

    def test_roots_and_pages_do_not_mix(self, store: Store, name: str) -> None:
        token = store.swap_root(name, b"root", None)
        store.put_many({name: b"page"})
        assert store.get_many([name]) == [b"page"]
        assert store.read_root(name) == (b"root", token)
        assert set(store.list_keys(name)) == {name}
        store.delete_many([name])
        assert set(store.list_roots(name)) == {name}

    # Threads

    def test_one_of_two_racing_swaps_wins(self, store: Store, name: str) -> None:
        start = threading.Barrier(2)
        token: Token | None = None

        def swap(data: bytes) -> Token | None:
            start.wait()
            try:
                return store.swap_root(name, data, token)
            except Conflict:
                return None

        with ThreadPoolExecutor(2) as threads:
            for _ in range(30):
                won = [each for each in threads.map(swap, (b"a", b"b")) if each is not None]
                assert len(won) == 1
                token = won[0]

    def test_swaps_from_many_threads_lose_nothing(self, store: Store, name: str) -> None:
        store.swap_root(name, b"0", None)

        def add_ten(_: int) -> None:
            added = 0
            while added < 10:
                current = store.read_root(name)
                assert current is not None
                try:
                    store.swap_root(name, b"%d" % (int(current[0]) + 1), current[1])
                    added += 1
                except Conflict:
                    pass

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add_ten, range(4)))
        current = store.read_root(name)
        assert current is not None
        assert current[0] == b"40"

    def test_many_threads_put_get_and_delete(self, store: Store, name: str) -> None:
        def work(tier: int) -> None:
            prefix = page_prefix(name, 1, tier)
            for index in range(30):
                key = page_key(prefix, index)
                store.put_many({key: b"%d" % index * 1000})
                assert store.get_many([key, page_key(prefix, index + 1)]) == [b"%d" % index * 1000, None]
            store.delete_range(prefix, 0, 29)
            assert list(store.list_keys(prefix)) == [page_key(prefix, 29)]

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))

    # Life

    def test_a_closed_store_says_so(self, store: Store, name: str, keys: list[str]) -> None:
        store.put_many({keys[0]: b"x"})
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.put_many({keys[0]: b"x"}),
            lambda: store.get_many(keys),
            lambda: store.delete_many(keys),
            lambda: store.delete_range(name, 0, 1),
            lambda: store.list_keys(name),
            lambda: store.read_root(name),
            lambda: store.swap_root(name, b"", None),
            lambda: store.delete_root(name, b""),
            lambda: store.read_roots([name]),
            lambda: store.delete_roots({name: b""}),
            store.list_roots,
        ]
        for call in calls:
            with pytest.raises(StoreClosed) as caught:
                call()
            assert store.url in str(caught.value)

    def test_with_closes(self, store: Store) -> None:
        with store as same:
            assert same is store
        with pytest.raises(StoreClosed):
            store.get_many(["key"])

    def test_repr_names_the_store(self, store: Store) -> None:
        assert store.url in repr(store)

    def test_pickle_gives_the_same_data(self, store: Store, name: str, keys: list[str]) -> None:
        store.put_many({keys[0]: b"x"})
        token = store.swap_root(name, b"root", None)
        if not self.picklable:
            with pytest.raises(StoreConfigError):
                pickle.dumps(store)
            return
        with pickle.loads(pickle.dumps(store)) as other:
            assert type(other) is type(store)
            assert other.url == store.url
            assert other.get_many(keys[:1]) == [b"x"]
            assert other.read_root(name) == (b"root", token)
        with copy.copy(store) as other:
            assert other.get_many(keys[:1]) == [b"x"]
        assert store.get_many(keys[:1]) == [b"x"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_child_connects_anew(self, store: Store, keys: list[str]) -> None:
        store.put_many({keys[0]: b"x"})
        processes = multiprocessing.get_context("fork")
        results = processes.SimpleQueue()
        child = processes.Process(target=_read_in_child, args=(store, keys[0], results))
        child.start()
        child.join(30)
        assert child.exitcode == 0
        answer = results.get()
        results.close()
        assert answer == [b"x"] if self.survives_fork else "fork" in answer
        assert store.get_many(keys[:1]) == [b"x"]


class Wrapper(Store):
    """Hands every call to another store, by way of `_around`, which a subclass overrides."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner.url)
        self.inner = inner
        self.local = inner.local  # type: ignore[misc]
        self.shared_across_hosts = inner.shared_across_hosts  # type: ignore[misc]

    def _around(self, call: str, action: Callable[[], T]) -> T:
        raise NotImplementedError

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        self._around("put_many", lambda: self.inner.put_many(items))

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        return self._around("get_many", lambda: self.inner.get_many(keys))

    def _missing(self, keys: list[str]) -> list[str]:
        return self._around("missing", lambda: self.inner.missing(keys))

    def _delete_many(self, keys: list[str]) -> None:
        self._around("delete_many", lambda: self.inner.delete_many(keys))

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        self._around("delete_range", lambda: self.inner.delete_range(prefix, start, stop))

    def _list_keys(self, prefix: str) -> Iterator[str]:
        return self._around("list_keys", lambda: self.inner.list_keys(prefix))

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        return self._around("read_root", lambda: self.inner.read_root(name))

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        return self._around("read_roots", lambda: self.inner.read_roots(names))

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        return self._around("swap_root", lambda: self.inner.swap_root(name, data, expected_token))

    def _delete_root(self, name: str, expected_token: Token) -> None:
        self._around("delete_root", lambda: self.inner.delete_root(name, expected_token))

    def _delete_roots(self, expected_tokens: dict[str, Token]) -> list[str]:
        return self._around("delete_roots", lambda: self.inner.delete_roots(expected_tokens))

    def _list_roots(self, prefix: str) -> Iterator[str]:
        return self._around("list_roots", lambda: self.inner.list_roots(prefix))

    def now(self) -> float:
        return self.inner.now()

    def _incarnation(self) -> object:
        return self.inner.incarnation()

    def _close(self) -> None:
        self.inner.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise StoreConfigError(f"{type(self).__name__} is for tests in one process: it cannot be pickled")


class SlowStore(Wrapper):
    """Every call takes `delay` seconds longer, as over a network."""

    def __init__(self, inner: Store, delay: float) -> None:
        super().__init__(inner)
        self.delay = delay

    def _around(self, call: str, action: Callable[[], T]) -> T:  # noqa: ARG002
        time.sleep(self.delay)
        return action()


class FaultyStore(Wrapper):
    """Raises StoreUnavailable instead of a call, or after it: then it was done and only its reply is lost.

    `fails` is a probability, drawn from `seed`, or a function of the call's name and its number from 1 on.
    """

    def __init__(
        self, inner: Store, fails: float | Callable[[str, int], bool], *, after: bool = False, seed: int = 0
    ) -> None:
        super().__init__(inner)
        self.fails = fails
        self.after = after
        self.faults = 0
        self._random = random.Random(seed)
        self._number = 0
        self._lock = threading.Lock()

    def _around(self, call: str, action: Callable[[], T]) -> T:
        with self._lock:
            self._number += 1
            number = self._number
            fault = self.fails(call, number) if callable(self.fails) else self._random.random() < self.fails
            self.faults += fault
        if not fault:
            return action()
        if self.after:
            action()
        raise StoreUnavailable(
            f"{call}: {self.url} did not answer after 1 try: injected fault in call {number}"
        )


class CountingStore(Wrapper):
    """Counts calls by name, and the pages and bytes of values that went in and out."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.calls: Counter[str] = Counter()
        self.keys_read = self.keys_written = self.keys_deleted = 0
        self.bytes_read = self.bytes_written = 0

    @property
    def round_trips(self) -> int:
        return self.calls.total()

    def _around(self, call: str, action: Callable[[], T]) -> T:
        with self._lock:
            self.calls[call] += 1
        return action()

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        super()._put_many(items)
        with self._lock:
            self.keys_written += len(items)
            self.bytes_written += sum(len(value) for _, value in items)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        values = super()._get_many(keys)
        with self._lock:
            self.keys_read += len(keys)
            self.bytes_read += sum(len(value) for value in values if value is not None)
        return values

    def _delete_many(self, keys: list[str]) -> None:
        super()._delete_many(keys)
        with self._lock:
            self.keys_deleted += len(keys)

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        root = super()._read_root(name)
        with self._lock:
            self.bytes_read += len(root[0]) if root else 0
        return root

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        roots = super()._read_roots(names)
        with self._lock:
            self.bytes_read += sum(len(root[0]) for root in roots if root is not None)
        return roots

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        token = super()._swap_root(name, data, expected_token)
        with self._lock:
            self.bytes_written += len(data)
        return token


class WriteOnceStore(Wrapper):
    """Refuses another value under a key that was ever put, deleted or not: a late write could bring it back.

    What it refused is in `refused`, since a refusal in the background may go unheard.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.refused: list[str] = []
        self._digests: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def _around(self, call: str, action: Callable[[], T]) -> T:  # noqa: ARG002
        return action()

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        with self._lock:
            for key, value in items:
                digest = hashlib.blake2b(value, digest_size=16).digest()
                if self._digests.setdefault(key, digest) != digest:
                    self.refused.append(key)
                    raise AssertionError(f"{key!r} was put before, with another value")
        super()._put_many(items)


class LateStore(Wrapper):
    """Raises StoreUnavailable instead of a call that writes, which is then done at some later time.

    So it is when a connection breaks whose bytes are still on their way. `late` is a probability, drawn from
    `seed`, or a function of the call's name and its number from 1 on; `deliver` does what is still waiting.
    """

    def __init__(self, inner: Store, late: float | Callable[[str, int], bool], *, seed: int = 0) -> None:
        super().__init__(inner)
        self.late = late
        self.waiting: list[Callable[[], object]] = []
        self.delivered = 0
        self._random = random.Random(seed)
        self._number = 0
        self._lock = threading.Lock()

    def _around(self, call: str, action: Callable[[], T]) -> T:
        with self._lock:
            self._number += 1
            late = self.late(call, self._number) if callable(self.late) else self._random.random() < self.late
            late = late and call in ("put_many", "delete_many", "delete_range", "swap_root", "delete_root")
            if late:
                self.waiting.append(action)
                raise StoreUnavailable(f"{call}: {self.url} did not answer after 1 try: it may be done later")
        if not callable(self.late) and self._random.random() < self.late:
            self.deliver(1)
        return action()

    def deliver(self, most: int | None = None) -> None:
        """Does some of what waits, in any order, or all of it."""
        with self._lock:
            self._random.shuffle(self.waiting)
            count = len(self.waiting) if most is None else most
            due, self.waiting = self.waiting[:count], self.waiting[count:]
            for action in due:
                with suppress(Conflict):
                    action()
                self.delivered += 1
