"""What is dead leaves the disk."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from stores import Store, open_store, page_key, page_prefix

PAGE = random.Random(1).randbytes(1 << 17)
FAST, SLOW = page_prefix("fast", 1, 0), page_prefix("slow", 1, 0)


def size(directory: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def put(store: Store, prefix: str, number: int, window: int) -> None:
    store.put_many({page_key(prefix, number): PAGE})
    if number >= window:
        store.delete_range(prefix, number - window, number - window + 1)


def test_a_window_that_slid_leaves_what_lives(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}") as store:
        for number in range(800):
            put(store, FAST, number, 200)
    assert size(tmp_path) < 1.25 * 200 * len(PAGE)
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert set(store.get_many([page_key(FAST, number) for number in range(600, 800)])) == {PAGE}


def test_pages_that_live_long_among_others(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}") as store:
        for number in range(1000):
            put(store, FAST, number, 50)
            if number % 10 == 0:
                put(store, SLOW, number // 10, 1000)
    assert size(tmp_path) < 1.25 * 150 * len(PAGE)
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert set(store.get_many([page_key(SLOW, number) for number in range(100)])) == {PAGE}


@pytest.mark.parametrize("by", ["range", "keys"])
def test_nothing_is_left_of_what_was_removed(tmp_path: Path, by: str) -> None:
    keys = [page_key(FAST, number) for number in range(400)]
    with open_store(f"rocksdb://{tmp_path}") as store:
        token = store.swap_root("fast", b"x", None)
        for key in keys:
            store.put_many({key: PAGE})
    assert size(tmp_path) > len(keys) * len(PAGE)
    with open_store(f"rocksdb://{tmp_path}") as store:
        store.delete_root("fast", token)
        if by == "range":
            store.delete_range(FAST, 0, 400)
        else:
            store.delete_many(keys)
    assert size(tmp_path) < 1 << 20


def test_a_directory_of_which_nothing_was_deleted_is_closed_as_it_is(tmp_path: Path) -> None:
    with open_store(f"rocksdb://{tmp_path}") as store:
        for number in range(300):
            put(store, FAST, number, 1000)
    before = {entry.name for entry in os.scandir(tmp_path) if entry.name.endswith(".blob")}
    with open_store(f"rocksdb://{tmp_path}") as store:
        assert store.get_many([page_key(FAST, 0)]) == [PAGE]
    assert {entry.name for entry in os.scandir(tmp_path) if entry.name.endswith(".blob")} == before
