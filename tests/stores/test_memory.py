from __future__ import annotations

import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from stores import Store, open_store
from stores.testing import CountingStore, FaultyStore, SlowStore, StoreContract


class TestPrivateMemory(StoreContract):
    picklable = False

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with open_store("memory:") as store:
            yield store


class TestNamedMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with open_store(f"memory:{uuid.uuid4().hex}") as store:
            yield store


class TestWrappers(StoreContract):
    picklable = False

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with CountingStore(SlowStore(FaultyStore(open_store("memory:"), fails=0.0), delay=0.0)) as store:
            yield store


def test_private_stores_are_apart() -> None:
    with open_store("memory:") as one, open_store("memory:") as other:
        one.put_many({"key": b"x"})
        assert other.get_many(["key"]) == [None]


def test_named_stores_are_one_and_outlive_close() -> None:
    name = f"memory:{uuid.uuid4().hex}"
    with open_store(name) as one:
        one.put_many({"key": b"x"})
    with open_store(name) as again:
        assert again.get_many(["key"]) == [b"x"]


def test_a_named_store_does_not_pass_for_itself_in_another_process() -> None:
    with open_store("memory:here") as store:
        code = f"import pickle; pickle.loads({pickle.dumps(store)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StoreConfigError: the store memory:here lives in process" in done.stderr
