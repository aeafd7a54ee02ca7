from __future__ import annotations

import time

import pytest

from stores import StoreUnavailable, open_store
from stores.testing import CountingStore, FaultyStore, SlowStore


def test_counting() -> None:
    store = CountingStore(open_store("memory:"))
    store.put_many({"a": b"123", "b": b"4"})
    store.put_many({})
    assert store.get_many(["a", "none"]) == [b"123", None]
    store.delete_many(["a"])
    store.swap_root("root", b"12345", None)
    assert store.calls == {"put_many": 1, "get_many": 1, "delete_many": 1, "swap_root": 1}
    assert (store.keys_written, store.bytes_written) == (2, 9)
    assert (store.keys_read, store.bytes_read) == (2, 3)
    assert store.keys_deleted == 1
    store.reset()
    assert store.round_trips == 0


def test_slow() -> None:
    store = SlowStore(open_store("memory:"), delay=0.02)
    start = time.perf_counter()
    store.get_many(["key"])
    assert time.perf_counter() - start >= 0.02


@pytest.mark.parametrize(("after", "stored"), [(False, None), (True, b"x")])
def test_faults_before_and_after_the_call(after: bool, stored: bytes | None) -> None:
    inner = open_store("memory:")
    store = FaultyStore(inner, lambda call, number: call == "put_many" and number == 1, after=after)
    with pytest.raises(StoreUnavailable, match="call 1"):
        store.put_many({"key": b"x"})
    assert inner.get_many(["key"]) == [stored]
    store.put_many({"key": b"y"})
    assert store.get_many(["key"]) == [b"y"]
    assert store.faults == 1


def test_faults_repeat_with_the_seed() -> None:
    def faults(seed: int) -> list[int]:
        store = FaultyStore(open_store("memory:"), 0.3, seed=seed)
        failed = []
        for number in range(100):
            try:
                store.get_many(["key"])
            except StoreUnavailable:
                failed.append(number)
        return failed

    assert faults(1) == faults(1) != faults(2)
    assert 10 < len(faults(1)) < 60
