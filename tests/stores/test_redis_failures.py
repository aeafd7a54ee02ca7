"""Servers that hang, fail over by Sentinel, refuse what a user may not do, or hear of things too late."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis
from redis_servers import Service, ask, info, service
from servers import HOST, RedisServer, free_port, redis_server

from stores import (
    Conflict,
    Store,
    StoreChanged,
    StoreClosed,
    StoreConfigError,
    StoreUnavailable,
    open_store,
    page_key,
    page_prefix,
)
from stores.patience import Budget
from stores.redis.server import FRESH_SECONDS, Server
from stores.testing import StoreContract

pytestmark = pytest.mark.redis
T = TypeVar("T")
KEYS = [page_key(page_prefix("window", 1, 0), number) for number in range(3)]


def persist(call: Callable[[], T]) -> T:
    """What a store gives that has less patience than a busy machine takes."""
    while True:
        with suppress(StoreUnavailable):
            return call()


@pytest.fixture
def server(server_executable: str, tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path / "server", executable=server_executable) as started:
        yield started


@pytest.fixture(scope="module")
def lasting(server_executable: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("server"), executable=server_executable) as started:
        yield started


class TestByTheNameOfValkey(StoreContract):
    @pytest.fixture
    def store(self, lasting: RedisServer) -> Iterator[Store]:
        with open_store(lasting.url.replace("redis:", "valkey:")) as store:
            yield store


class TestSpreadWithoutACluster(StoreContract):
    @pytest.fixture
    def store(self, lasting: RedisServer) -> Iterator[Store]:
        with open_store(lasting.url, spread=4) as store:
            yield store


# One deadline


def test_a_server_that_hangs_fails_every_call_within_its_patience(server: RedisServer) -> None:
    url = f"{server.url}?patience=0.4&socket_timeout=600"
    with (
        open_store(server.url) as patient,
        open_store(url) as store,
        open_store(url) as unconnected,
    ):
        patient.put_many({KEYS[0]: b"x"})
        token = patient.swap_root("window", b"one", None)
        persist(lambda: store.get_many(KEYS))
        server.pause()
        calls = (
            lambda: store.put_many({KEYS[0]: bytes(32 << 20)}),  # more than the line takes
            lambda: store.get_many(KEYS),
            lambda: store.delete_many(KEYS),
            lambda: list(store.list_keys("")),
            lambda: store.read_root("window"),
            lambda: store.swap_root("window", b"two", token),
            lambda: unconnected.get_many(KEYS),
            unconnected.incarnation,
        )
        for call in calls:
            # it comes to its end: one wait for a reply is ten minutes without it
            with pytest.raises(
                StoreUnavailable, match=r"did not answer after \d+ tr(y|ies) in .*; patience gives"
            ):
                call()
        server.resume()
        assert persist(lambda: store.get_many(KEYS)) is not None
        assert persist(lambda: unconnected.get_many(KEYS[1:])) == [None, None]


def test_patience_is_ten_seconds_unless_told(lasting: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    class Watched(Budget):
        def __init__(self, seconds: float, **how: Any) -> None:
            given.append(seconds)
            super().__init__(seconds, **how)

    monkeypatch.setattr("stores.patience.Budget", Watched)
    for url in (lasting.url, f"{lasting.url}?patience=3"):
        with open_store(url) as store:
            store.get_many(KEYS)
    assert given == [10, 3]


def test_refused_connections_are_waited_for(tmp_path: Path, server_executable: str) -> None:
    late = RedisServer(tmp_path / "late", (), executable=server_executable)
    with ThreadPoolExecutor(1) as threads, open_store(late.url, patience=60) as store:
        waiting = threads.submit(store.get_many, KEYS)
        time.sleep(2.5)
        assert not waiting.done()
        late.start()
        try:
            assert waiting.result(60) == [None, None, None]
        finally:
            late.stop()


def test_a_call_of_many_parts_has_patience_for_each(lasting: RedisServer, monkeypatch: Any) -> None:
    run = Server.execute

    late, monotonic = 0.0, time.monotonic

    def slowly(*arguments: Any, **how: Any) -> Any:
        nonlocal late
        late += 40
        return run(*arguments, **how)

    keys = [page_key(page_prefix("parts", 1, 0), number) for number in range(40)]
    with open_store(lasting.url, patience=100) as store:
        store.get_many(keys[:1])
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + late)
        monkeypatch.setattr(Server, "execute", slowly)
        assert store.get_many(keys) == [None] * 40  # 5 parts


# Connections


def test_threads_wait_for_a_pool_that_is_smaller_than_they_are_many(lasting: RedisServer) -> None:
    name = "threads"
    # one try: they wait for a connection, and do not come back to ask for it
    with open_store(lasting.url, max_connections=2, max_tries=1, patience=120) as store:

        def work(tier: int) -> None:
            prefix = page_prefix(name, 1, tier)
            for number in range(20):
                store.put_many({page_key(prefix, number): b"%d" % number * 10_000})
                assert store.get_many([page_key(prefix, number)]) == [b"%d" % number * 10_000]

        with ThreadPoolExecutor(24) as threads:
            list(threads.map(work, range(24)))
        with redis.Redis(port=lasting.port) as client:
            ours = [each for each in client.client_list() if each["cmd"] in ("get", "set")]
        assert 1 <= len(ours) <= 2
        store.delete_many(list(store.list_keys("")))


def test_a_pool_that_stays_busy_is_not_a_server_that_does_not_answer(lasting: RedisServer) -> None:
    held, release = threading.Event(), threading.Event()
    with open_store(lasting.url, max_connections=1, patience=2) as store:
        persist(lambda: store.get_many(KEYS))

        def hold() -> None:
            def check() -> None:
                held.set()
                release.wait(300)

            store._client.call("hold", lambda route, budget: route.execute((), budget, check=check))  # type: ignore[attr-defined]

        holder = threading.Thread(target=hold)
        holder.start()
        assert held.wait(300)
        with pytest.raises(
            StoreUnavailable, match=r"all 1 connections .* in use .*max_connections"
        ) as caught:
            store.get_many(KEYS)
        assert "did not answer" not in str(caught.value)
        release.set()
        holder.join()
        assert persist(lambda: store.get_many(KEYS)) == [None] * 3


def test_connections_that_a_server_closed_are_not_used_again(lasting: RedisServer) -> None:
    with open_store(lasting.url, max_tries=1) as store:
        for _ in range(3):
            store.put_many({"key": b"x"})
            ask(lasting, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert store.incarnation() == 0  # the server is the same
        store.delete_many(["key"])


def test_a_connection_is_used_again_however_short_the_patience(lasting: RedisServer) -> None:
    def received() -> int:
        return int(info(lasting, "stats")["total_connections_received"])

    with open_store(lasting.url, patience=1.5) as store:
        persist(lambda: store.get_many(KEYS))
        start = received()
        for _ in range(20):
            store.get_many(KEYS)
        assert received() - start == 1  # of asking


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_others_connect_does_not_hang(lasting: RedisServer) -> None:
    with open_store(lasting.url) as store, ThreadPoolExecutor(4) as threads:
        stop = threading.Event()

        def churn() -> None:
            while not stop.is_set():
                store._client.server_changed()  # type: ignore[attr-defined]
                store.get_many(KEYS[:1])

        busy = [threads.submit(churn) for _ in range(4)]
        try:
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    signal.alarm(60)  # ends it if it hangs
                    os._exit(store.get_many(KEYS) != [None] * 3)
                assert os.waitpid(child, 0)[1] == 0
        finally:
            stop.set()
        for each in busy:
            each.result()


# Whether anything may be lost


def test_a_restart_is_noticed_and_nothing_is_swapped_over_it(server: RedisServer) -> None:
    with open_store(server.url) as store:
        store.put_many({KEYS[0]: b"x"})
        token = store.swap_root("window", b"one", None)
        before = store.incarnation()
        assert store.incarnation() == before
        server.kill()
        server.start()
        with pytest.raises(StoreChanged, match="pages put before may be gone"):
            store.swap_root("window", b"two", token)
        assert store.read_root("window") is None
        after = store.incarnation()
        assert after != before
        store.swap_root("window", b"two", None)
        assert store.incarnation() == after


def test_a_restart_between_two_calls_is_noticed_without_another_call(server: RedisServer) -> None:
    with open_store(server.url) as store:
        store.put_many({KEYS[0]: b"x"})
        before = store.incarnation()
        server.kill()
        server.start()
        assert store.incarnation() != before


def test_asking_for_the_incarnation_takes_no_call_while_others_are_made(lasting: RedisServer) -> None:
    def processed() -> int:
        return int(info(lasting, "stats")["total_commands_processed"])

    with open_store(lasting.url) as store:
        store.get_many(KEYS)
        start = processed()
        mine = processed() - start  # of asking itself
        began = time.monotonic()
        start = processed()
        for _ in range(50):
            store.incarnation()
        asked = processed() - start - mine
        if time.monotonic() - began < FRESH_SECONDS:
            assert asked == 0
        time.sleep(FRESH_SECONDS)
        start = processed()
        store.incarnation()
        assert processed() - start - mine == 3


def test_a_server_that_does_not_say_who_it_is_changes_with_every_lost_connection(
    lasting: RedisServer,
) -> None:
    with redis.Redis(port=lasting.port) as admin:
        admin.acl_setuser(
            "silent", enabled=True, nopass=True, categories=["+@all"], commands=["-info"], keys="*"
        )
        address = f"{HOST}:{lasting.port}"
        with (
            open_store(f"redis://silent:x@{address}") as store,
            pytest.raises(StoreConfigError, match=r"INFO.*allow_eviction"),
        ):
            store.get_many(KEYS)
        with open_store(f"redis://silent:x@{address}", allow_eviction=True) as store:
            store.get_many(KEYS)
            before = store.incarnation()
            assert store.incarnation() == before
            admin.client_kill_filter(_type="normal", skipme=True)
            assert store.incarnation() != before
        admin.acl_deluser("silent")


def test_the_clock_is_that_of_the_server(lasting: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(lasting.url) as store, open_store(lasting.url, spread=4) as other:
        seconds, _ = ask(lasting, "TIME")
        monkeypatch.setattr(time, "time", lambda: 1.0)
        assert abs(store.now() - int(seconds)) < 30
        assert abs(store.now() - other.now()) < 30
        assert store.now() <= store.now()
    with pytest.raises(StoreClosed):
        store.now()


# Who may do what


def test_a_renamed_info_names_the_option(tmp_path: Path, server_executable: str) -> None:
    with redis_server(tmp_path, "--rename-command", "INFO", "", executable=server_executable) as server:
        with (
            open_store(server.url) as store,
            pytest.raises(StoreConfigError, match=r"INFO.*allow_eviction=True"),
        ):
            store.get_many(KEYS)
        with open_store(server.url, allow_eviction=True) as store:
            assert store.get_many(KEYS) == [None] * 3


def test_what_a_user_may_not_do_is_named(lasting: RedisServer) -> None:
    with redis.Redis(port=lasting.port) as admin:
        admin.acl_setuser(
            "few", enabled=True, passwords=["+secret"], categories=["+@all"], commands=["-unlink", "-wait"],
            keys=["mta:*"],
        )  # fmt: skip
        with open_store(f"redis://few:secret@{HOST}:{lasting.port}", min_replicas=1) as store:
            store.put_many({"key": b"x"})
            for call, refused in (
                (lambda: store.delete_many(["key"]), "unlink"),
                (lambda: store.swap_root("window", b"x", None), "wait"),
            ):
                with pytest.raises(StoreConfigError, match=f"(?i)'?{refused}'? command") as caught:
                    call()
                assert "secret" not in str(caught.value)
            assert store.get_many(["key"]) == [b"x"]
        admin.acl_deluser("few")
        admin.delete("mta:page:key", "mta:root:{window}")


def test_a_user_who_may_do_what_the_docs_say_and_no_more(lasting: RedisServer) -> None:
    allowed = ["get", "set", "unlink", "scan", "hmget", "hget", "eval", "hset", "del", "time", "info"]
    with redis.Redis(port=lasting.port) as admin:
        admin.acl_setuser(
            "least", enabled=True, passwords=["+x"], categories=["-@all"], keys=["mta:*"],
            commands=[f"+{command}" for command in allowed],
        )  # fmt: skip
        with open_store(f"redis://least:x@{HOST}:{lasting.port}") as store:
            store.put_many({KEYS[0]: b"x"})
            assert store.get_many(KEYS) == [b"x", None, None]
            token = store.swap_root("least", b"one", None)
            assert list(store.list_roots("least")) == ["least"]
            assert KEYS[0] in set(store.list_keys(""))
            store.delete_root("least", store.swap_root("least", b"two", token))
            store.delete_many(KEYS)
            assert store.now() > 1
            assert store.incarnation() == store.incarnation()
        admin.acl_deluser("least")


def test_a_file_of_tls_that_is_not_there_is_named_at_once() -> None:
    with (
        open_store(f"rediss://{HOST}:1", ssl_ca_certs="/nowhere.pem") as store,
        pytest.raises(StoreConfigError, match=r"ssl_ca_certs names no file: /nowhere\.pem"),
    ):
        store.get_many(KEYS)


# What comes late


def test_swaps_and_deletions_that_arrive_late_change_nothing(lasting: RedisServer, monkeypatch: Any) -> None:
    """Their bytes stay in a buffer of the network after the connection was given up, and come once more."""
    sent: list[tuple[Any, ...]] = []
    run = Server.execute

    def record(self: Server, commands: Any, *arguments: Any, **how: Any) -> Any:
        sent.extend(command for command in commands if command[0] == "EVAL")
        return run(self, commands, *arguments, **how)

    def late() -> list[Any]:
        return [ask(lasting, *command) for command in sent]

    with open_store(lasting.url) as store:
        monkeypatch.setattr(Server, "execute", record)
        first = store.swap_root("late", b"one", None)
        assert late() == [1]
        assert store.read_root("late") == (b"one", first)
        second = store.swap_root("late", b"two", first)
        with pytest.raises(Conflict):
            store.swap_root("late", b"never", first)
        assert late() == [0, 1, 0]
        assert store.read_root("late") == (b"two", second)
        third = store.swap_root("late", b"three", second)
        with pytest.raises(Conflict):
            store.delete_root("late", second)
        assert late() == [0, 0, 0, 1, 0]
        assert store.read_root("late") == (b"three", third)
        store.delete_root("late", third)
        again = store.swap_root("late", b"again", None)
        assert late() == [0, 0, 0, 0, 0, 0, 1]
        assert store.read_root("late") == (b"again", again)
        store.delete_root("late", again)


# Sentinel


@pytest.fixture(scope="module")
def watched(server_executable: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("service"), 1, executable=server_executable) as made:
        yield made


def test_a_service_that_no_sentinel_knows_is_named(watched: Service) -> None:
    with (
        open_store(watched.url.replace("/windows", "/window")) as store,
        pytest.raises(StoreConfigError, match="none of 3 Sentinels knows a service 'window'"),
    ):
        store.get_many(KEYS)


def test_what_a_commit_names_is_on_as_many_replicas_as_wanted(watched: Service) -> None:
    (replica,) = watched.replicas
    with open_store(watched.url, min_replicas=1, patience=4) as store, ThreadPoolExecutor(3) as threads:
        token = None
        for number in range(20):
            key = page_key(page_prefix("waited", 1, 0), number)
            # by other connections than the one that waits
            list(threads.map(lambda each: store.put_many({each: bytes(100_000)}), [key, key, key]))
            token = store.swap_root("waited", b"%d" % number, token)
            assert ask(replica, "STRLEN", f"mta:page:{key}") == 100_000
            assert ask(replica, "HGET", "mta:root:{waited}", "token") == token
        replica.pause()
        try:
            with pytest.raises(StoreUnavailable, match=r"swap_root: .* 0 of 1 replicas acknowledged after"):
                store.swap_root("waited", b"late", token)
            with pytest.raises(Conflict):
                store.swap_root("waited", b"later", token)  # it is there all the same
        finally:
            replica.resume()
        current = store.read_root("waited")
        assert current is not None
        store.delete_root("waited", store.swap_root("waited", b"in time", current[1]))
        store.delete_range(page_prefix("waited", 1, 0), 0, 20)


def test_the_master_that_sentinels_name_is_followed(watched: Service) -> None:
    with open_store(watched.url, patience=240, min_replicas=1) as store:
        store.put_many({KEYS[0]: b"x"})
        token = store.swap_root("window", b"one", None)
        before = store.incarnation()
        watched.sentinels[0].kill()
        watched.master.kill()
        assert store.get_many(KEYS[:1]) == [b"x"]
        assert store.read_root("window") == (b"one", token)
        assert store.incarnation() != before
        store.put_many({KEYS[1]: b"y"})
        assert set(store.list_keys("")) == set(KEYS[:2])
    with open_store(watched.url, patience=240) as store:
        store.delete_root("window", store.swap_root("window", b"two", token))


def test_sentinels_that_cannot_be_reached_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"redis+sentinel://:hunter2@{HOST}:{free_port()}/service"
    with (
        open_store(url, patience=0.3, sentinel_password="hunter3") as store,
        pytest.raises(StoreUnavailable, match="no Sentinel names a master of 'service'") as caught,
    ):
        store.get_many(KEYS)
    assert "hunter" not in f"{caught.value}{caught.value.__cause__}{caplog.text}"
