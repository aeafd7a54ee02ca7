"""Clusters of three masters: slots that move, pages that are spread, masters that fail. Redis and Valkey."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from redis_servers import Cluster, Move, ask, cluster, info, slot_of, take_over, wait_for

from mta import AmortizedMTA, monoids, policies
from stores import (
    Conflict,
    Store,
    StoreChanged,
    StoreConfigError,
    StoreUnavailable,
    open_store,
    page_key,
    page_prefix,
    pages_of,
)
from stores.redis.server import FRESH_SECONDS, Server
from stores.testing import StoreContract

pytestmark = pytest.mark.redis


def keys_of(name: str, pages: int = 10) -> list[str]:
    prefix = page_prefix(name, 1, 0)
    return [page_key(prefix, number) for number in range(pages)]


def values(keys: list[str]) -> dict[str, bytes]:
    return {key: key.encode() * 10 for key in keys}


@pytest.fixture(scope="module")
def masters(server_executable: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), 3, executable=server_executable) as made:
        yield made


class TestCluster(StoreContract):
    @pytest.fixture(params=[0, 16], ids=["one slot", "spread"])
    def store(self, masters: Cluster, request: pytest.FixtureRequest) -> Iterator[Store]:
        with open_store(masters.url, spread=request.param) as store:
            yield store


def test_a_window_is_in_one_slot_or_in_as_many_as_wanted(masters: Cluster) -> None:
    def sizes() -> list[int]:
        return [int(ask(server, "DBSIZE")) for server in masters.masters]

    name, keys = "huge", keys_of("huge", 300)

    def in_its_slot() -> int:
        slot = slot_of(name)
        return int(ask(masters.owner(slot), "CLUSTER", "COUNTKEYSINSLOT", slot))

    # other tests may have left something, also there
    before, there = sizes(), in_its_slot()
    with open_store(masters.url) as store:
        store.put_many(values(keys))
        grown = [now - then for now, then in zip(sizes(), before, strict=True)]
        assert sorted(grown) == [0, 0, 300]
        store.delete_many(keys)
    with open_store(masters.url, spread=64) as store:
        store.put_many(values(keys))
        token = store.swap_root(name, b"root", None)
        grown = [now - then for now, then in zip(sizes(), before, strict=True)]
        assert sum(grown) == 301
        assert min(grown) > 50
        assert in_its_slot() == there + 1
        assert set(store.list_keys(pages_of(name))) == set(store.list_keys("")) == set(keys)
        assert store.get_many(keys) == list(values(keys).values())
        store.delete_range(page_prefix(name, 1, 0), 0, 299)
        assert list(store.list_keys(pages_of(name))) == keys[299:]
        store.delete_many(keys)
        store.delete_root(name, token)
    assert sizes() == before


@pytest.mark.parametrize(("written", "opened"), [(0, 16), (16, 0), (16, 8)])
def test_a_window_that_was_spread_otherwise_is_refused_and_loses_nothing(
    masters: Cluster, written: int, opened: int
) -> None:
    name = f"mixed-{written}-{opened}"
    policy = policies.CountWindow(1000)
    with (
        open_store(f"{masters.url}?spread={written}") as store,
        open_store(masters.url, spread=opened) as other,
    ):

        def begin_anew() -> None:
            with AmortizedMTA(monoids.Sum(), policy, store=other, name=name, page_size=16) as second:
                second.extend(range(3000))
                second.checkpoint()

        with AmortizedMTA(monoids.Sum(), policy, store=store, name=name, page_size=16) as window:
            window.extend(range(3000))
            window.checkpoint(3000)
            current = store.read_root(name)
            assert current is not None
            kept = set(store.list_keys(""))
            message = f"{name}.*written with spread={written}.*opened with spread={opened}"
            for call in (
                lambda: AmortizedMTA.restore(other, name, monoids.Sum(), policy),
                lambda: other.read_root(name),
                begin_anew,
            ):
                with pytest.raises(StoreConfigError, match=message):
                    call()
            for token in (current[1], None):
                with pytest.raises(StoreConfigError, match="written with another spread"):
                    other.swap_root(name, b"mine", token)
            assert name not in set(other.list_roots())
            assert not kept & set(other.list_keys(""))
            assert store.read_root(name) == current
            window.extend(range(3000))
            assert window.query() == sum(range(2000, 3000))
        store.delete_root(name, store.read_root(name)[1])  # type: ignore[index]
        other.delete_root(name, other.swap_root(name, b"free again", None))
        store.delete_many(kept)


@pytest.mark.parametrize("spread", [0, 16])
def test_every_call_works_while_a_slot_is_half_moved(masters: Cluster, spread: int) -> None:
    name = f"half-{spread}"
    keys, late = keys_of(name)[:8], keys_of(name)[8:]
    with open_store(masters.url, spread=spread, max_tries=1) as store:
        store.put_many(values(keys))
        token = store.swap_root(name, b"one", None)
        source = masters.owner(slot_of(name))
        target = next(each for each in masters.masters if each is not source)
        move = Move(source, target, slot_of(name))
        for step in range(4):
            move.some(3)
            assert store.get_many([*keys, late[0]]) == [*values(keys).values(), None]
            store.put_many(values([*keys, late[1]]))
            store.delete_many(late)
            store.delete_range(page_prefix(name, 1, 0), 8, 12)
            current = store.read_root(name)
            assert current == (b"%d" % step if step else b"one", token)
            with pytest.raises(Conflict):
                store.swap_root(name, b"other", None)
            token = store.swap_root(name, b"%d" % (step + 1), token)
            assert set(store.list_keys(pages_of(name))) == set(keys)
            assert list(store.list_roots(name))[:1] == [name]
        move.finish()
        assert store.get_many(keys) == list(values(keys).values())
        assert store.read_root(name) == (b"4", token)
        assert store.incarnation() == 0  # moved, and nothing lost
        store.delete_many(keys)
        store.delete_root(name, token)
        assert list(store.list_keys(pages_of(name))) == []
    Move(target, source, slot_of(name)).finish()


def test_keys_that_move_while_they_are_listed_are_found(masters: Cluster, monkeypatch: Any) -> None:
    name, keys = "listed", keys_of("listed", 40)
    with open_store(masters.url) as store:
        store.put_many(values(keys))
        source = masters.owner(slot_of(name))
        target = next(each for each in masters.masters if each is not source)
        move = None
        run = Server.execute

        def moves_behind_the_back(server: Server, commands: Any, *arguments: Any, **how: Any) -> Any:
            nonlocal move
            replies = run(server, commands, *arguments, **how)
            if move is None and commands and commands[0][0] == "SCAN" and server.port == target.port:
                move = Move(source, target, slot_of(name))
                move.some(25)
            return replies

        monkeypatch.setattr(Server, "execute", moves_behind_the_back)
        assert set(store.list_keys(pages_of(name))) == set(keys)
        monkeypatch.undo()
        assert move is not None
        move.finish()
        assert set(store.list_keys(pages_of(name))) == set(keys)
        store.delete_many(keys)
    Move(target, source, slot_of(name)).finish()


def test_a_window_works_while_its_slot_goes_to_and_fro(masters: Cluster) -> None:
    policy, rows = policies.CountWindow(3000), np.random.default_rng(5).integers(0, 1 << 40, 12_000)
    source = masters.owner(slot_of("moving"))
    target = next(each for each in masters.masters if each is not source)
    done = threading.Event()

    def move() -> None:
        try:
            for one, other in ((source, target), (target, source)):
                moving = Move(one, other, slot_of("moving"))
                while moving.some(1):
                    pass
                moving.finish()
        finally:
            done.set()

    with open_store(masters.url) as store:
        with AmortizedMTA(monoids.Sum(), policy, store=store, name="moving", page_size=16) as window:
            mover = threading.Thread(target=move)
            results: list[int] = []
            for start in range(0, 12_000, 100):
                if start == 3000:
                    mover.start()
                results.extend(window.slide(rows[start : start + 100]))
                window.checkpoint(start)
            assert done.wait(300)
            mover.join()
            window.checkpoint(12_000)
        expected = [int(rows[max(0, row - 3000) : row].sum()) for row in range(1, 12_001)]
        assert results == expected
        with AmortizedMTA.restore(store, "moving", monoids.Sum(), policy) as window:
            assert window.query() == expected[-1]


def test_any_seed_will_do(masters: Cluster) -> None:
    last = masters.url.rpartition(",")[2]
    with open_store(f"redis+cluster://127.0.0.1:1,127.0.0.1:2,{last}", max_tries=1) as store:
        store.put_many(values(keys_of("seed")))
        assert len(list(store.list_keys(pages_of("seed")))) == 10
        store.delete_many(keys_of("seed"))


def test_a_node_and_a_cluster_are_told_apart(masters: Cluster, redis_url: str) -> None:
    node = masters.owner(slot_of("a"))
    other = next(each for each in masters.masters if each is not node)
    single = redis_url.partition("://")[2].rpartition("/")[0]
    for url, told in (
        (other.url, r"open it as redis\+cluster://"),
        (other.url.replace("redis:", "valkey:"), r"open it as valkey\+cluster://"),
        (f"redis+cluster://{single}", "not a cluster: open it as redis://"),
    ):
        with open_store(url) as store, pytest.raises(StoreConfigError, match=told):
            store.read_root("a")


@pytest.fixture(scope="module")
def replicated(server_executable: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(
        tmp_path_factory.mktemp("replicated"), 3, replicas=True, executable=server_executable
    ) as made:
        yield made


def test_a_master_that_was_away_is_noticed_by_who_did_nothing_meanwhile(replicated: Cluster) -> None:
    """Two failovers, forth and back, between two calls: the connections stayed."""
    keys, name = keys_of("quiet"), "quiet"
    master, replica = replicated.pair(slot_of(name))
    with open_store(replicated.url) as store:
        store.put_many(values(keys))
        before = store.incarnation()
        time.sleep(FRESH_SECONDS)
        take_over(replica)
        wait_for("its master follows it", lambda: info(master, "replication")["role"] == "slave")
        take_over(master)
        assert store.incarnation() != before
        assert store.get_many(keys) == list(values(keys).values())
        store.delete_many(keys)


def test_a_failover_is_waited_for_and_noticed(replicated: Cluster) -> None:
    keys, name = keys_of("failing"), "failing"
    with open_store(replicated.url, patience=120, spread=16, min_replicas=1) as store:
        store.put_many(values(keys))
        token = store.swap_root(name, b"one", None)
        before = store.incarnation()
        replicated.pair(slot_of(name))[0].kill()
        with pytest.raises(StoreChanged, match="pages put before may be gone"):
            store.swap_root(name, b"two", token)
        assert store.incarnation() != before
        assert store.read_root(name) == (b"one", token)
        assert store.get_many(keys) == list(values(keys).values())
        assert set(store.list_keys(pages_of(name))) == set(keys)
        assert list(store.list_roots()) == [name]
    with open_store(replicated.url, spread=16, min_replicas=1, patience=3) as store:
        with pytest.raises(StoreUnavailable, match=r"swap_root: .* 0 of 1 replicas acknowledged"):
            store.swap_root(name, b"three", token)
        current = store.read_root(name)
        assert current is not None
        assert current[0] == b"three"  # it is in doubt, as after a lost reply
    with open_store(replicated.url, spread=16) as store:
        store.put_many(values(keys))
        store.delete_root(name, store.swap_root(name, b"four", current[1]))
