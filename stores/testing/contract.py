"""The contract of stores, as a test class to inherit from."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stores.base import Store, Token
from stores.errors import Conflict, StoreClosed, StoreConfigError
from stores.names import page_key, page_prefix, pages_of, parse_page_key

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


class StoreContract:
    """Inherit, and give a fixture `store`. Each test uses names of its own, so tests may share a store.

    Set `picklable = False` or `survives_fork = False` if your store cannot be pickled, or not be forked.
    """

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

    # Listing, and deleting ranges

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

    # Many threads at once

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

    # Closing, pickling, forking

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


def _read_in_child(store: Store, key: str, results: Any) -> None:
    try:
        results.put(store.get_many([key]))
    except Exception as error:
        results.put(repr(error))
