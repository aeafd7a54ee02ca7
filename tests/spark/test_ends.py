"""What a task leaves on a server when it ends in the middle: nothing, or what the next one there removes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext
from rolled import roll

from mta import AmortizedMTA, monoids
from spark_integration.running import notes
from spark_integration.running.notes import Note, sweep
from spark_integration.running.storage import TaskStorage
from stores import Store, StoreUnavailable, open_store
from stores.names import check_name

#: A task of a worker that never comes to an end. Its arguments: the store's URL, and where it notes windows.
TASK = """
import signal, sys, tempfile, time
from unittest import mock
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as sql
from mta import monoids
from spark_integration.call.planning import make_plan
from spark_integration.partition.task import roll_partition
from stores.redis import RedisStore

tempfile.tempdir = sys.argv[2]
schema = sql.StructType([sql.StructField("o", sql.LongType())])
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup has ignored
plan = make_plan(schema, partition_by=None, order_by="o", rows=20_000, page_size=64,
                 aggregates={"s": monoids.Sum("o")}, store=sys.argv[1])

def batches():
    start = 0
    while True:
        yield pa.record_batch({"o": pa.array(range(start, start + 10_000))})
        start += 10_000

if len(sys.argv) > 3:
    # Spark is gone, which is noticed, and hangs up while the task cleans up

    def until_the_end(batches=batches()):
        for _ in range(30):
            yield next(batches)
        raise EOFError

    def slowly(self, *arguments, really=RedisStore.delete_root):
        print("cleaning", flush=True)
        time.sleep(1)
        really(self, *arguments)

    batches, RedisStore.delete_root = until_the_end, slowly

context = mock.Mock(stageId=lambda: 1, partitionId=lambda: 2, taskAttemptId=lambda: 3)
context.getLocalProperty.return_value = "test-ends"
with mock.patch.object(TaskContext, "get", return_value=context):
    for _ in roll_partition(plan, batches()):
        print("on", flush=True)
"""


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where windows are noted."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def server(redis_url: str) -> Iterator[Store]:
    with open_store(redis_url) as store:
        yield store
        assert not list(store.list_roots("spark/"))
        assert not list(store.list_keys("{spark/"))


def task(url: str, noted: Path, *arguments: str) -> subprocess.Popen[str]:
    """A task with pages on the server."""
    process = subprocess.Popen(
        [sys.executable, "-c", TASK, url, str(noted), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(20):
        assert process.stdout.readline() == "on\n"
    return process


def notes_in(directory: Path) -> list[Path]:
    return list(directory.glob(f"{notes.PREFIX}-*"))


def kill(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)
    process.communicate()


@pytest.mark.redis
def test_the_end_of_spark(redis_url: str, server: Store, noted: Path) -> None:
    """Spark hangs up on its workers."""
    for _ in range(3):
        process = task(redis_url, noted)
        assert list(server.list_roots("spark/test-ends/"))
        kill(process, signal.SIGHUP)
        assert process.returncode == -signal.SIGHUP
        assert not list(server.list_keys("{spark/test-ends/"))
        assert not list(server.list_roots("spark/test-ends/"))
        assert not notes_in(noted)


@pytest.mark.redis
def test_the_end_of_spark_while_a_task_cleans_up(redis_url: str, server: Store, noted: Path) -> None:
    process = task(redis_url, noted, "until the end")
    assert list(server.list_roots("spark/test-ends/"))
    assert process.stdout is not None
    while process.stdout.readline() != "cleaning\n":
        pass
    kill(process, signal.SIGHUP)
    assert process.returncode == -signal.SIGHUP
    assert not notes_in(noted)


@pytest.mark.redis
def test_the_next_task_sweeps(redis_url: str, server: Store, noted: Path) -> None:
    """What killed tasks have left, and nothing of those that live."""
    alive = task(redis_url, noted)
    (lives,) = server.list_roots("spark/test-ends/")
    killed = [task(redis_url, noted) for _ in range(2)]
    for process in killed:
        kill(process, signal.SIGKILL)
    assert len(list(server.list_roots("spark/test-ends/"))) == 3
    assert len(notes_in(noted)) == 3
    data = pa.table({"k": [1] * 50, "o": range(50)})
    for _ in range(2):  # the second finds nothing to do
        roll(
            data,
            rows=20,
            page_size=2,
            batch=10,
            chunk=10,
            store=redis_url,
            aggregates={"n": monoids.Max("o")},
        )
        assert list(server.list_roots("spark/")) == [lives]
        assert len(notes_in(noted)) == 1
    assert alive.stdout is not None
    assert alive.stdout.readline() == "on\n"
    kill(alive, signal.SIGHUP)


@pytest.mark.redis
def test_where_nothing_was_left_nothing_is_listed(redis_url: str, noted: Path) -> None:
    with (
        mock.patch.object(Store, "list_roots", side_effect=AssertionError),
        mock.patch.object(Store, "list_keys", side_effect=AssertionError),
        TaskStorage(redis_url, {}) as storage,
    ):
        assert not notes_in(noted)
        storage.next_name()
        assert len(notes_in(noted)) == 1
    assert not notes_in(noted)


def test_names_have_room_whatever_the_application_is_called() -> None:
    context = mock.Mock(getLocalProperty=lambda _: "気温" * 60)
    context.configure_mock(stageId=lambda: 10**6, partitionId=lambda: 10**6, taskAttemptId=lambda: 10**9)
    with (
        mock.patch.object(TaskContext, "get", return_value=context),
        TaskStorage("memory:names", {}) as storage,
    ):
        assert check_name(storage.next_name()).startswith("spark/気温気温")


def of_the_dead(directory: Path, text: str) -> Path:
    """A note of a process that is gone."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = directory / f"{notes.PREFIX}-{notes.host_digest()}-{ended.pid}-1-00.json"
    path.write_text(text)
    return path


def test_what_is_not_swept(noted: Path) -> None:
    url = "memory:notes"
    with open_store(url) as store:
        window = AmortizedMTA(monoids.Sum(), store=store, name="spark/mine/1", page_size=2)
        window.extend(list(range(20)))
        kept = AmortizedMTA(monoids.Sum(), store=store, name="spark/kept/1", page_size=2)
        kept.extend(list(range(20)))
        kept.checkpoint()
        before = set(store.list_keys(""))
        # a window that lives, one with a checkpoint, a note that is none, and one of another server
        for text in (
            json.dumps({"store": url, "name": "spark/mine"}),
            json.dumps({"store": url, "name": "spark/kept"}),
            "[]",
            "{",
            json.dumps({"store": url}),
        ):
            of_the_dead(noted, text)
            assert sweep(store, url) == []
            for path in notes_in(noted):
                path.unlink()
        elsewhere = of_the_dead(noted, json.dumps({"store": "redis://other", "name": "spark/mine"}))
        assert sweep(store, url) == []
        assert elsewhere.exists()
        os.utime(elsewhere, (0, time.time() - notes.OLD - 60))
        assert sweep(store, url) == []
        assert not elsewhere.exists()
        Note(url, "spark/mine")
        assert sweep(store, url) == []
        assert len(notes_in(noted)) == 1
        assert before <= set(store.list_keys(""))
        window.close()


def test_a_task_looks_after_a_few_notes(noted: Path) -> None:
    for number in range(notes.MOST + 3):
        path = of_the_dead(noted, json.dumps({"store": "memory:few", "name": f"spark/{number}"}))
        path.rename(path.with_name(path.name.replace("-00.json", f"-{number:02}.json")))
    with open_store("memory:few") as store:
        sweep(store, "memory:few")
        assert len(notes_in(noted)) == 3


def test_a_store_that_fails_keeps_the_note(noted: Path) -> None:
    storage = TaskStorage("redis://127.0.0.1:1/0", {"max_tries": 1})
    storage.next_name()
    storage.__exit__(StoreUnavailable, StoreUnavailable("gone"), None)
    assert len(notes_in(noted)) == 1
