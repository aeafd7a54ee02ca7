"""Stores that are opened for reading only, also beside a process that writes."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stores import (
    CountingStore,
    Store,
    StoreClosed,
    StoreConfigError,
    StoreError,
    StoreUnavailable,
    open_store,
)

WRITES: dict[str, Callable[[Store], Any]] = {
    "put_many": lambda store: store.put_many({"key": b"other"}),
    "delete_many": lambda store: store.delete_many(["key"]),
    "delete_range": lambda store: store.delete_range("key", 0, 5),
    "swap_root": lambda store: store.swap_root("read-only", b"other", None),
    "delete_root": lambda store: store.delete_root("read-only", b"token"),
    "delete_roots": lambda store: store.delete_roots({"read-only": b"token"}),
}


def joined(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"


@pytest.mark.parametrize("how", ["option", "url"])
def test_a_store_for_reading_reads_and_refuses_to_write(store_url: str, how: str) -> None:
    with open_store(store_url) as writer:
        writer.put_many({"key": b"value"})
        before = writer.read_root("read-only")
        token = writer.swap_root("read-only", b"root", None if before is None else before[1])
        if how == "url":
            opened = open_store(joined(store_url, "read_only=true"))
        else:
            opened = open_store(store_url, read_only=True)
        with opened as reader:
            assert reader.read_only
            assert CountingStore(reader).read_only
            assert reader.get_many(["key", "none"]) == [b"value", None]
            assert reader.missing(["key", "none"]) == ["none"]
            assert reader.read_root("read-only") == (b"root", token)
            assert reader.read_roots(["read-only", "no-root"]) == [(b"root", token), None]
            assert "read-only" in list(reader.list_roots("read"))
            assert "key" in list(reader.list_keys("key"))
            for call, write in WRITES.items():
                with pytest.raises(StoreConfigError, match=f"^{call}: .*opened for reading only"):
                    write(reader)
                with pytest.raises(StoreConfigError, match="opened for reading only"):
                    write(CountingStore(reader))
            copied = pickle.loads(pickle.dumps(reader))
            assert copied.read_only
            token = writer.swap_root("read-only", b"newer", token)
            assert reader.read_root("read-only") == (b"newer", token)
            assert writer.get_many(["key"]) == [b"value"]
        with pytest.raises(StoreClosed):
            reader.get_many(["key"])
        writer.delete_root("read-only", token)


@pytest.mark.parametrize("value", [None, "perhaps", 2, []])
def test_the_option_is_true_or_false(value: Any) -> None:
    with pytest.raises(StoreConfigError, match="option read_only of memory"):
        open_store("memory:", read_only=value)
    with pytest.raises(StoreConfigError, match="option read_only of rocksdb"):
        open_store("rocksdb:///nowhere?read_only=")


# -- RocksDB -----------------------------------------------------------------------------------------------


def test_a_directory_without_a_database_is_not_made(tmp_path: Path) -> None:
    with (
        open_store(f"rocksdb://{tmp_path}/none", read_only=True) as reader,
        pytest.raises(StoreError, match="no RocksDB database"),
    ):
        reader.read_root("w")
    assert not (tmp_path / "none").exists()


WRITER = """
import sys
from stores import open_store
store = open_store(sys.argv[1])
token = None
for line in sys.stdin:
    number = int(line)
    if number == 50:
        store.close()
        store = open_store(sys.argv[1])
    store.put_many({f"page-{number}-{i}": bytes([number]) * 40_000 for i in range(10)})
    token = store.swap_root("w", b"%d" % number, token)
    store.delete_many([f"page-{number - 3}-{i}" for i in range(10)])
    print(number, flush=True)
store.close()
print("closed", flush=True)
"""


def test_a_directory_is_read_while_another_process_writes_it(tmp_path: Path) -> None:
    """With many more pages than fit into the engine's buffers, so that files come and go."""
    url = f"rocksdb://{tmp_path}/written"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with open_store(url, read_only=True) as reader, open_store(url) as second:
        for number in range(100):
            child.stdin.write(f"{number}\n")
            child.stdin.flush()
            assert child.stdout.readline() == f"{number}\n"
            data, _ = reader.read_root("w") or (b"", b"")
            assert data == b"%d" % number
            for each in range(max(0, number - 2), number + 1):
                keys = [f"page-{each}-{i}" for i in range(10)]
                assert reader.get_many(keys) == [bytes([each]) * 40_000] * 10
            if number == 10:
                with pytest.raises(StoreUnavailable, match="open in another process"):
                    second.read_root("w")
        child.stdin.close()
        assert child.stdout.readline() == "closed\n"
        assert child.wait(300) == 0
        child.stdout.close()
        assert reader.get_many(["page-99-0", "page-0-0"]) == [bytes([99]) * 40_000, None]
        assert (second.read_root("w") or (b"", b""))[0] == b"99"


def test_a_forked_child_reads_by_itself(tmp_path: Path) -> None:
    url = f"rocksdb://{tmp_path}/forked"
    with open_store(url) as writer:
        writer.swap_root("w", b"one", None)
    with open_store(url, read_only=True) as reader:
        assert (reader.read_root("w") or (b"", b""))[0] == b"one"
        fork = multiprocessing.get_context("fork")
        answers = fork.SimpleQueue()
        child = fork.Process(target=lambda: answers.put((reader.read_root("w") or (b"", b""))[0]))
        child.start()
        assert answers.get() == b"one"
        child.join(60)
        assert child.exitcode == 0
        child.close()
        answers.close()
        assert (reader.read_root("w") or (b"", b""))[0] == b"one"


def test_a_directory_that_was_replaced_is_opened_again(tmp_path: Path) -> None:
    url = f"rocksdb://{tmp_path}/place"
    with open_store(url) as writer:
        writer.swap_root("w", b"one", None)
    with open_store(url, read_only=True) as reader:
        assert (reader.read_root("w") or (b"", b""))[0] == b"one"
        (tmp_path / "place").rename(tmp_path / "elsewhere")
        with pytest.raises(StoreError, match="place"):
            reader.read_root("w")
        with open_store(url) as writer:
            writer.swap_root("w", b"two", None)
        assert (reader.read_root("w") or (b"", b""))[0] == b"two"


def test_a_directory_that_was_made_anew_is_noticed(tmp_path: Path) -> None:
    """It has fewer commits than the one that was read, and may have the same file numbers."""
    url = f"rocksdb://{tmp_path}/place"
    with open_store(url) as writer:
        token = writer.swap_root("w", b"one", None)
        for _ in range(5):
            token = writer.swap_root("w", b"one", token)
    with open_store(url, read_only=True) as reader:
        assert (reader.read_root("w") or (b"", b""))[0] == b"one"
        shutil.rmtree(tmp_path / "place")
        with open_store(url) as writer:
            writer.swap_root("w", b"two", None)
            assert (reader.read_root("w") or (b"", b""))[0] == b"two"
