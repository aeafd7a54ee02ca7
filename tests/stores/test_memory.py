from __future__ import annotations

import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from stores import LatencyStore, Store, open_store
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


class TestLatency(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        with LatencyStore(open_store(f"memory:{uuid.uuid4().hex}"), delay=0) as store:
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


HAMMERED = """
import os, threading, warnings
from stores import open_store
warnings.simplefilter("ignore")

store = open_store("memory:hammered")
done = threading.Event()

def hammer():
    while not done.is_set():
        store.put_many({"key": b"x"})
        open_store("memory:hammered").get_many(["key"])

threads = [threading.Thread(target=hammer) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(100):
    child = os.fork()
    if not child:
        store.put_many({"other": b"y"})
        os._exit(0 if open_store("memory:hammered").get_many(["other"]) == [b"y"] else 1)
    assert os.waitpid(child, 0)[1] == 0
done.set()
for thread in threads:
    thread.join()
print("done")
"""


def test_a_child_is_not_held_by_locks_of_threads_that_it_has_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HAMMERED], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stdout == "done\n", done.stderr
