"""What every store does with pages."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from stores.base import Store
from stores.names import page_key, page_prefix, pages_of, parse_page_key
from stores.testing.fixtures import ODD_IDS, ODD_NAMES, Fixtures


class PagesContract(Fixtures):
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
