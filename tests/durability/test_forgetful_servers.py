"""Servers that come back, or are replaced, without the last of what they had acknowledged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis
import servers

from mta import AmortizedMTA, LogMTA, PagesLost, monoids, policies
from mta.durability.coding import decode_root
from mta.durability.operations import verify
from stores import CountingStore, Store, WrapperStore, open_store

POLICY = policies.CountWindow(3000)


@pytest.mark.redis
@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("lost", ["pages", "parts", "nothing"])
def test_a_checkpoint_of_pages_that_a_server_forgot(tmp_path: Path, kind: Any, lost: str) -> None:
    """The root is as it was, so that a swap would go through."""
    with servers.redis_server(tmp_path / "redis") as server, open_store(server.url) as store:
        window = kind(monoids.Sum(), POLICY, store=store, name="w", page_size=256)
        window.extend([i * i for i in range(2000)])
        window.checkpoint(offset="kept")
        with redis.Redis(port=server.port) as client:
            if lost != "nothing":
                client.save()
            window.extend([i * i for i in range(2000, 2000 + (1500 if lost != "parts" else 40))])
            window._log.pages.flush(window._log.tail)
            if lost == "nothing":
                client.save()
        server.kill()
        server.start()
        if lost == "pages":
            for _ in range(2):
                with pytest.raises(PagesLost, match="restarted or taken over by another server"):
                    window.checkpoint(offset="not kept")
        else:
            window.checkpoint(offset="kept")
        assert verify(store, "w").problems == []
        window.close()
        with kind.restore(store, "w", monoids.Sum(), POLICY) as again:
            assert again.offset == "kept"
            again.query()


class Forgetful(WrapperStore):
    """Another server takes its place in the middle of a call, and lacks some keys."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.place = 0
        self.looked_for = 0

    def _incarnation(self) -> object:
        return self.place

    def _missing(self, keys: list[str]) -> list[str]:
        self.looked_for += len(keys)
        return super()._missing(keys)


def test_all_that_a_version_names_is_looked_for_once() -> None:
    with open_store("memory:") as inner:
        store = Forgetful(inner)
        window = AmortizedMTA(
            monoids.Sum(), policies.CountWindow(100_000), store=store, name="w", page_size=16
        )
        for _ in range(20):
            window.extend(range(1000))
            window.checkpoint()
        assert store.looked_for == 0
        store.place += 1
        window.extend(range(100))
        window.checkpoint()
        found = inner.read_root("w")
        assert found is not None
        assert store.looked_for == len(set(decode_root("w", found[0]).versions[-1].keys("w")))
        before = store.looked_for
        window.extend(range(100))
        window.checkpoint()
        assert store.looked_for == before


@pytest.mark.redis
def test_a_store_that_stays_costs_no_more_calls(redis_url: str) -> None:
    with open_store(redis_url) as inner:
        store = CountingStore(inner)
        with AmortizedMTA(monoids.Sum(), POLICY, store=store, page_size=256) as window:
            window.extend(range(2000))
            window.checkpoint()
            window.extend(range(2000))
            window.checkpoint()
            assert store.calls["missing"] == 0
