"""How every store lists pages, and deletes ranges of them."""

from __future__ import annotations

import pytest

from stores.base import Store
from stores.names import page_key, page_prefix, pages_of, parse_page_key
from stores.testing.fixtures import Fixtures


class ListingContract(Fixtures):
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
