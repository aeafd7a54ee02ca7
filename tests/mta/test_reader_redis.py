"""Readers over Redis: thousands of windows in a few round trips, and a user who may only read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from chance import fresh

from mta import AmortizedMTA, Reader, monoids, policies
from stores import Store, StoreConfigError, open_store
from stores.redis.connection import Connection

pytestmark = pytest.mark.redis

POLICY = policies.TimeWindow(100)
FEATURES = monoids.Fields(n=monoids.Count(), mean=monoids.Mean("amount"), peak=monoids.Max("amount"))


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands in each round trip."""
    found: list[int] = []
    exchange = Connection.exchange

    def counted(self: Connection, commands: list[object], timeout: float) -> list[object]:
        found.append(len(commands))
        return exchange(self, commands, timeout)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "exchange", counted)
    return found


def write_windows(store: Store, names: list[str]) -> None:
    """Windows with parts of their tails, made in memory and copied, which takes a tenth of the time."""
    with open_store("memory:") as made:
        for i, name in enumerate(names):
            with AmortizedMTA(FEATURES, POLICY, store=made, name=name) as window:
                window._stored.checkpoints._inline = 0  # type: ignore[union-attr]
                window.extend({"amount": [float(i + j) for j in range(5)]}, range(5))
                window.checkpoint(i)
        keys = list(made.list_keys(""))
        store.put_many(dict(zip(keys, [each or b"" for each in made.get_many(keys)], strict=True)))
        for name in names:
            store.swap_root(name, (made.read_root(name) or (b"", b""))[0], None)


@pytest.fixture
def names(redis_url: str, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    prefix = fresh("many")
    names = [f"{prefix}-{i}" for i in range(request.param)]
    with open_store(redis_url) as store:
        write_windows(store, names)
        yield names
        store.delete_many(store.list_keys(f"{{{prefix}"))
        roots = store.read_roots(names)
        store.delete_roots({name: root[1] for name, root in zip(names, roots, strict=True) if root})


@pytest.mark.parametrize("names", [1000, pytest.param(10_000, marks=pytest.mark.long)], indirect=True)
def test_many_windows_are_opened_in_at_most_ten_round_trips(
    redis_url: str, names: list[str], trips: list[int]
) -> None:
    with open_store(redis_url) as store:
        store.read_root(names[0])
        del trips[:]
        readers = Reader.open_many(store, names, FEATURES, POLICY)
        assert len(trips) <= 10
        del trips[:]
        for i, reader in enumerate(readers.values()):
            assert reader.query() == {"n": 5, "mean": i + 2.0, "peak": i + 4.0}
            assert reader.offset == i
        assert trips == []


def test_a_user_who_may_only_read(redis_url: str) -> None:
    name = fresh("acl")
    with open_store(redis_url) as store, redis.from_url(redis_url) as admin:
        admin.acl_setuser(
            "reader", enabled=True, passwords=["+secret"], keys=["*"], categories=["-@all"],
            commands=["+get", "+hmget"],
        )  # fmt: skip
        try:
            address = redis_url.partition("://")[2].rpartition("@")[2]
            with (
                AmortizedMTA(
                    monoids.Sum(), policies.CountWindow(50), store=store, name=name, page_size=4
                ) as window,
                open_store(f"redis://reader:secret@{address}", read_only=True) as reading,
            ):
                window.extend(range(100))
                window.checkpoint()
                readers = [
                    Reader.open(reading, name, monoids.Sum(), policies.CountWindow(50)),
                    Reader.open_many(reading, [name], monoids.Sum(), policies.CountWindow(50))[name],
                    Reader.open(
                        reading.url.replace("reader@", "reader:secret@"),
                        name,
                        monoids.Sum(),
                        policies.CountWindow(50),
                    ),
                ]
                for reader in readers:
                    assert reader.query() == sum(range(50, 100))
                window.extend(range(100, 200))
                window.checkpoint()
                for reader in readers:
                    assert reader.refresh()
                    assert reader.query() == sum(range(150, 200))
                    assert reader.range_query(160, 161) == 321
                with pytest.raises(StoreConfigError, match="opened for reading only"):
                    readers[0].pin(10)
                for reader in readers:
                    reader.close()
        finally:
            admin.acl_deluser("reader")
