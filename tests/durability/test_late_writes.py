"""Writes and deletions that arrive after their caller was told that they had failed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import servers
from chance import fresh, seeds
from proxy import proxy

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.durability.attempts import AttemptHold
from mta.durability.coding import decode_root
from mta.durability.manifest import PART, Version
from mta.durability.operations import collect, verify
from mta.versioned import open_version, save_version
from mta.window import MonoidTreeAggregator
from stores import Store, StoreError, StoreUnavailable, open_store, pages_of, parse_page_key
from stores.testing import FaultyStore, LateStore, WriteOnceStore

OUTAGE = Path(__file__).with_name("outage.py")
TESTS = Path(__file__).parent.parent
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.fixture
def name() -> str:
    return fresh("late")


def text_of(store: Store, name: str, policy: policies.Policy) -> str:
    """What is committed, all of it read."""
    with AmortizedMTA.restore(store, name, monoids.Concat(), policy) as window:
        found: str = window.range_query(-1, 10**9)
        assert found == window.query()
        return found


# -- the two that were found in the field -------------------------------------------------------------------


def test_a_part_that_comes_late_spoils_no_checkpoint(any_store: Store, name: str) -> None:
    numbers = np.arange(6000) ** 2
    late = False
    store = WriteOnceStore(LateStore(any_store, lambda call, _: late and call == "put_many"))
    policy = policies.CountWindow(100_000)
    window = AmortizedMTA(monoids.Sum(), policy, store=store, name=name)
    window.extend(numbers[:2000])
    window.checkpoint()
    window.extend(numbers[2000:4000])
    late = True
    with pytest.raises(StoreUnavailable):
        window.checkpoint()
    late = False
    window.extend(numbers[4000:])
    window.checkpoint()
    assert store.inner.waiting  # type: ignore[attr-defined]
    store.inner.deliver()  # type: ignore[attr-defined]
    assert verify(any_store, name).problems == []
    assert store.refused == []
    with AmortizedMTA.restore(any_store, name, monoids.Sum(), policy) as again:
        assert again.query() == int(numbers.sum())


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_pages_of_a_batch_that_failed_come_late(any_store: Store, name: str, kind: Any) -> None:
    page, span = 256, 20 * 256
    policy = policies.CountWindow(span)
    fails = False

    def fails_when_pages_are_on_their_way(call: str, _: int) -> bool:
        deadline = time.monotonic() + 300
        while fails and call == "get_many" and not slow.waiting and time.monotonic() < deadline:
            time.sleep(0.001)
        return fails and call == "get_many"

    faulty = FaultyStore(any_store, fails_when_pages_are_on_their_way)
    slow = LateStore(faulty, lambda call, _: fails and call == "put_many")
    store = WriteOnceStore(slow)
    stream = np.random.default_rng(1).integers(0, 1000, 3 * span)
    window = kind(monoids.Sum(), policy, store=store, page_size=page, name=name)
    window.slide(stream[:span])
    window.checkpoint()
    for _ in range(3):
        fails = True
        window._log.pages._cache.clear()
        with pytest.raises(StoreUnavailable):
            window.slide(np.full(span // 2, 7))
        fails = False
    assert slow.waiting
    window.slide(stream[span : 2 * span])
    slow.deliver()
    window.checkpoint()
    assert store.refused == []
    assert verify(any_store, name).problems == []
    with kind.restore(any_store, name, monoids.Sum(), policy) as again:
        assert again.query() == int(stream[span : 2 * span].sum())
        assert again.range_query(span, span + page) == int(stream[span : span + page + 1].sum())
        again.slide(stream[2 * span :])
        again.checkpoint()
    collect(any_store)
    held = set(any_store.list_keys(pages_of(name)))
    found = any_store.read_root(name)
    assert found is not None
    assert held == {key for version in decode_root(name, found[0]).versions for key in version.keys(name)}


# -- at random ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [2, 4, 256, None])
@pytest.mark.parametrize("seed", seeds(8))
def test_at_random(page_size: int | None, seed: int) -> None:
    rng = random.Random(f"{page_size} {seed}")
    batch = 700 if page_size == 256 else 3000 if page_size is None else 40
    for number in range(6):
        with open_store("memory:") as inner:
            Late(inner, f"w{number}", page_size, batch, rng).run()


class Late:
    """A window whose store is late at random; what it commits is read past that store."""

    def __init__(
        self, inner: Store, name: str, page_size: int | None, batch: int, rng: random.Random
    ) -> None:
        self.inner, self.name, self.rng, self.batch = inner, name, rng, batch
        self.slow = LateStore(inner, 0.0, seed=rng.getrandbits(32))
        self.store = WriteOnceStore(self.slow)
        self.span = rng.choice([batch // 4 + 1, 2 * batch, 5 * batch])
        self.policy = policies.CountWindow(self.span)
        self.kind = rng.choice([AmortizedMTA, LogMTA])
        self.window: MonoidTreeAggregator = self.kind(
            monoids.Concat(), self.policy, store=self.store, name=name, page_size=page_size
        )
        self.text = ""
        self.committed: str | None = None

    def run(self) -> None:
        for _ in range(40):
            self.slow.late = self.rng.choice([0.0, 0.0, 0.3, 0.8])
            with suppress(StoreUnavailable):
                self.step()
            self.slow.late = 0.0
            if self.committed is not None and self.rng.random() < 0.2:
                self.slow.deliver(1)
                assert verify(self.inner, self.name).problems == []
        with suppress(StoreError):
            self.window.close()
        self.slow.deliver()
        assert self.store.refused == []
        if self.committed is not None:
            assert verify(self.inner, self.name).problems == []
            assert text_of(self.inner, self.name, self.policy) == self.committed

    def step(self) -> None:
        rng, window = self.rng, self.window
        items = [rng.choice(LETTERS) for _ in range(rng.randrange(1, self.batch))]
        after = (self.text + "".join(items))[-self.span :]
        kind = rng.choice(["extend", "slide", "slide", "push", "checkpoint", "checkpoint", "restore"])
        if kind == "extend":
            window.extend(items)
        elif kind == "slide":
            assert window.slide(items)[-1] == after
        elif kind == "push":
            for item in items[:30]:
                assert window.push(item) == (self.text + item)[-self.span :]
                self.text = (self.text + item)[-self.span :]
            return
        elif kind == "checkpoint":
            # which of the two counts is not known until the call has returned
            try:
                window.checkpoint()
            except StoreUnavailable:
                self.slow.late = 0.0
                self.slow.deliver()
                window.checkpoint()
            self.committed = self.text
            return
        elif self.committed is not None:
            self.slow.late = 0.0
            window.close()
            self.window = self.kind.restore(self.store, self.name, monoids.Concat(), self.policy)
            self.text = self.committed
            return
        else:
            return
        self.text = after


@pytest.mark.parametrize("seed", seeds(4))
def test_attempts_at_random(seed: int) -> None:
    """Micro-batches whose attempts fail, are killed, and come again, one after the other."""
    rng = random.Random(seed)
    for number in range(6):
        with open_store("memory:") as inner:
            slow = LateStore(inner, 0.0, seed=rng.getrandbits(32))
            store, name = WriteOnceStore(slow), f"w{number}"
            base: Version | None = None
            text, policy = "", policies.CountWindow(60)
            for batch in range(12):
                while True:
                    slow.late = rng.choice([0.0, 0.2, 0.6])
                    hold = AttemptHold(store, name, 4, base, batch=batch, run=str(rng.random()), lease=3600.0)
                    window = open_version(
                        AmortizedMTA, monoids.Concat(), policy, hold,
                        store=store, name=name, page_size=4, base=base, inline=0,
                    )  # fmt: skip
                    items = [rng.choice(LETTERS) for _ in range(rng.randrange(1, 40))]
                    try:
                        window.slide(items)
                        version = save_version(window, batch)
                    except StoreError:
                        slow.late = 0.0
                        if rng.random() < 0.5:
                            with suppress(StoreError):
                                hold.let_go()
                        continue
                    finally:
                        slow.late = 0.0
                        hold.end()
                    base, text = version, (text + "".join(items))[-60:]
                    break
                slow.deliver(rng.choice([0, 1, None]))
                assert _held(inner, name, base, policy) == text
            slow.deliver()
            assert base is not None
            assert _held(inner, name, base, policy) == text
            assert store.refused == []


def _held(store: Store, name: str, version: Version, policy: policies.Policy) -> str:
    hold = AttemptHold(store, name, 4, version, batch=version.number + 1, run="reader", lease=3600.0)
    window = open_version(
        AmortizedMTA, monoids.Concat(), policy, hold,
        store=store, name=name, page_size=4, base=version, inline=0,
    )  # fmt: skip
    found: str = window.query()
    assert window.range_query(-1, 10**9) == found
    window._log.pages.close()
    return found


def test_serial_numbers_of_parts_are_given_once() -> None:
    with open_store("memory:") as inner:
        fails = False
        store = FaultyStore(inner, lambda call, _: fails and call == "swap_root")
        window = AmortizedMTA(monoids.Concat(), store=store, name="w", page_size=4096)
        seen: set[str] = set()
        for number in range(20):
            window.extend(["some text that is no shorter than this"] * 40)
            fails = number % 3 == 2
            with suppress(StoreError):
                window.checkpoint()
            parts = {key for key in inner.list_keys(pages_of("w")) if parse_page_key(key).tier & PART}
            assert len(parts - seen) == 1
            seen |= parts
        fails = False
        window.checkpoint()
        window.close()
        assert verify(inner, "w").problems == []
        # what failed, and so was never named, has gone
        collect(inner)
        root = decode_root("w", inner.read_root("w")[0])  # type: ignore[index]
        assert set(inner.list_keys("")) == {key for version in root.versions for key in version.keys("w")}


# -- real connections ---------------------------------------------------------------------------------------


def persist(call: Callable[[], object]) -> None:
    """A store of so little patience may fail on a machine with much to do: then the call has not happened."""
    while True:
        with suppress(StoreUnavailable):
            call()
            return


@pytest.mark.redis
@pytest.mark.parametrize("page_size", [16, 256])
def test_a_line_that_delivers_late(redis_server: servers.RedisServer, name: str, page_size: int) -> None:
    """What a client sent before it hung up arrives when the client has gone on by another line."""
    rng = random.Random(page_size)
    span = 20 * page_size
    policy = policies.CountWindow(span)
    with proxy(redis_server.port) as line, open_store(redis_server.url) as direct:
        with open_store(f"{line.url}&patience=0.5&socket_timeout=0.2") as store:
            window = AmortizedMTA(monoids.Concat(), policy, store=store, name=name, page_size=page_size)
            text = ""
            for number in range(25):
                items = [rng.choice(LETTERS) for _ in range(rng.randrange(1, 4 * page_size))]
                line.hold = number % 3 == 2
                with suppress(StoreUnavailable):
                    if rng.random() < 0.7:
                        window.slide(items)
                    else:
                        window.extend(items)
                    text = (text + "".join(items))[-span:]
                if line.hold:
                    with suppress(StoreUnavailable):
                        window.checkpoint()
                    line.hold = False
                    persist(lambda: window.slide(items))  # noqa: B023
                    text = (text + "".join(items))[-span:]
                persist(window.checkpoint)
                line.deliver()
                assert verify(direct, name).problems == []
            persist(window.close)
        assert line.delivered
        assert text_of(direct, name, policy) == text


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[servers.RedisServer]:
    with servers.redis_server(tmp_path / "redis") as server:
        yield server


@pytest.mark.redis
def test_a_network_that_drops_packets_for_a_while(tmp_path: Path) -> None:
    """In a network of its own, of which the kernel drops packets: it sends them again when it may."""
    if not all(map(shutil.which, ("unshare", "ip", "nft"))):
        pytest.skip("needs unshare, ip (iproute2) and nft (nftables)")
    inside = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*inside, "nft", "list", "ruleset"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no network namespaces")
    done = subprocess.run(
        [*inside, sys.executable, str(OUTAGE), str(tmp_path)],
        capture_output=True, text=True, timeout=1800, check=False,
        # the packages before the tests, which have folders of the same names
        env={**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the network dropped packets" in done.stdout
