from __future__ import annotations

import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from stores import (
    CountingStore,
    LatencyStore,
    Store,
    StoreClosed,
    StoreConfigError,
    StoreUnavailable,
    WrapperStore,
    open_store,
)
from stores.memory import MemoryStore
from stores.testing import FaultyStore, SlowStore


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


def test_a_wrapper_is_what_it_wraps(tmp_path: Path) -> None:
    for url in ("memory:", f"rocksdb://{tmp_path}", "redis://localhost:1"):
        inner = open_store(url)
        store = WrapperStore(inner)
        for name in ("url", "local", "shared_across_hosts", "exclusive"):
            assert getattr(store, name) == getattr(inner, name)
        assert repr(inner) in repr(store)
        store.close()


def test_every_call_goes_through_to_the_inner_store() -> None:
    """Also those that a store may leave to its base, which would ask in another way."""
    inner = mock.create_autospec(MemoryStore, instance=True, url="memory:")
    inner.local, inner.shared_across_hosts, inner.exclusive, inner.read_only = True, False, False, False
    store = WrapperStore(inner)
    calls: dict[str, tuple[Any, ...]] = {
        "put_many": ([("k", b"")],), "get_many": (["k"],), "missing": (["k"],), "delete_many": (["k"],),
        "delete_range": ("k", 0, 1), "list_keys": ("k",), "read_root": ("n",), "read_roots": (["n"],),
        "swap_root": ("n", b"", None), "delete_root": ("n", b""), "delete_roots": ({"n": b""},),
        "list_roots": ("n",), "now": (), "incarnation": (),
    }  # fmt: skip
    public = {name for name in vars(Store) if not name.startswith("_") and callable(getattr(Store, name))}
    assert public == {*calls, "close"}
    for name, arguments in calls.items():
        getattr(store, name)(*arguments)
        getattr(inner, name).assert_called_once_with(*arguments)
    store.close()
    store.close()
    assert inner.close.call_count == 2
    with pytest.raises(StoreClosed):
        store.get_many(["k"])


def test_a_wrapper_says_how_it_is_pickled() -> None:
    with pytest.raises(StoreConfigError, match="no __reduce__ that makes it again"):
        pickle.dumps(CountingStore(open_store("memory:x")))
    with pytest.raises(StoreConfigError, match="a private memory: store cannot be pickled"):
        pickle.dumps(LatencyStore(open_store("memory:"), delay=0))


def test_latency_travels_to_another_process(tmp_path: Path) -> None:
    with LatencyStore(open_store(f"rocksdb://{tmp_path}"), delay=0.05) as store:
        store.put_many({"key": b"value"})
        pickled = pickle.dumps(store)
    code = (
        "import pickle, time; store = pickle.loads({!r}); begin = time.monotonic();"
        "print(store.get_many(['key']), store.delay, time.monotonic() - begin >= 0.05)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.format(pickled)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[b'value'] 0.05 True", done.stderr


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), -0.001])
def test_a_delay_is_seconds(delay: float) -> None:
    with pytest.raises(ValueError, match=f"delay must be seconds, 0 or more, not {delay}"):
        LatencyStore(open_store("memory:"), delay)


@pytest.mark.parametrize("delay", ["1", None, True])
def test_a_delay_is_a_number(delay: Any) -> None:
    with pytest.raises(TypeError, match="delay must be a number of seconds"):
        LatencyStore(open_store("memory:"), delay)
