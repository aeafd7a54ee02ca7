"""How often the store is asked, and for how much."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from chance import fresh
from reference import matrices

from mta import AmortizedMTA, LogMTA, monoids
from mta.policies import CountWindow, TimeWindow, While
from stores import open_store, pages_of, parse_page_key
from stores.testing import CountingStore

LARGE = 1 << 20
SMALL = 1 << 12
#: elements, page size; None for the default
CASES = [(LARGE, None), (SMALL, 2), (SMALL, 4), (SMALL - 1, 4), (SMALL + 5, 2)]
IDS = ["2**20", "2**12 by 2", "2**12 by 4", "2**12 - 1 by 4", "2**12 + 5 by 2"]


@pytest.fixture
def store() -> Iterator[CountingStore]:
    with CountingStore(open_store("memory:")) as store:
        yield store


class Filled:
    """A window of n elements, whose pages are all in the store and none in the process."""

    def __init__(
        self, store: CountingStore, n: int, page_size: int | None, policy: Any = None, gap: int = 1
    ) -> None:
        self.store, self.n = store, n
        self.values = np.random.default_rng(n).integers(-1000, 1000, n)
        self.times = np.arange(n) * gap
        self.window = AmortizedMTA(
            monoids.Max(), policy, store=store, name=fresh("trips"), page_size=page_size
        )
        self.window.extend(self.values, self.times)
        self.window._log.pages.flush(self.window._log.tail)
        self.window._log.pages._cache.clear()
        store.reset()
        self.tiers = math.ceil(math.log(n, self.window.page_size) - 1e-9)

    def check(self, times: int = 1) -> None:
        assert self.store.keys_read <= times * self.tiers, "pages"
        assert self.store.calls["get_many"] <= times * self.tiers, "round trips"

    def close(self) -> None:
        self.window.close()


def counts(n: int, page_size: int | None, some: int) -> list[int]:
    """Powers of two and ends of pages, and one off them, and a few at random."""
    size = page_size or 1 << 14
    places = {2**j for j in range(n.bit_length())} | {size * i for i in (1, 2, 3, n // size // 2, n // size)}
    places |= {n - place for place in places}
    chance = random.Random(n)
    everything = {place + off for place in places for off in (-1, 0, 1)} | {
        chance.randrange(n) for _ in range(20)
    }
    fitting = sorted(k for k in everything if 0 < k < n)
    return fitting if len(fitting) <= some else sorted([*chance.sample(fitting, some), 1, n - 1])


@pytest.mark.parametrize("how", ["evict", "evict_until", "push"])
@pytest.mark.parametrize(("n", "page_size"), CASES, ids=IDS)
def test_bulk_eviction_reads_a_page_a_tier(
    store: CountingStore, n: int, page_size: int | None, how: str
) -> None:
    for k in counts(n, page_size, 60 if how == "evict" and n == SMALL else 14):
        filled = Filled(store, n, page_size, TimeWindow(n) if how == "push" else None)
        window = filled.window
        kept = filled.values[k:]
        if how == "evict":
            window.evict(k)
        elif how == "evict_until":
            assert window.evict_until(k - 1) == k
        else:
            result = window.push(-5000, n - 1 + k)
            assert result == (kept.max() if k < n else -5000)
        filled.check()
        assert window.query() == kept.max(), k
        filled.check()
        assert len(window) == n - k + (how == "push")
        filled.close()


@pytest.mark.parametrize("how", ["evict", "evict_until"])
@pytest.mark.parametrize(("n", "page_size"), CASES[1:], ids=IDS[1:])
def test_a_second_bulk_eviction_is_as_cheap(store: CountingStore, n: int, page_size: int, how: str) -> None:
    chance = random.Random(n)
    for _ in range(8):
        filled = Filled(store, n, page_size)
        window, head = filled.window, 0
        while head < n - 2:
            k = chance.choice([1, 2, page_size, 100, n // 3, chance.randrange(1, n)])
            head = min(n - 1, head + k)
            window._log.pages._reader.finish()
            window._log.pages._cache.clear()
            store.reset()
            if how == "evict":
                window.evict(head - (n - len(window)))
            else:
                window.evict_until(head - 1)
            window._log.pages._reader.finish()
            # what the head will come to next is read ahead, by one call
            ahead = max(3, min(64, 4096 // page_size))
            assert store.keys_read <= filled.tiers + ahead
            assert store.calls["get_many"] <= filled.tiers + 1
            assert window.query() == filled.values[head:].max()
            assert window.oldest == head
        filled.close()


class Remaining:
    """A predicate that keeps so many of the youngest, as the paper's listing 3 does."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __call__(self, total: int, old: int) -> bool:
        return total - old >= self.most


def counted(store: CountingStore, n: int, page_size: int, most: int) -> tuple[Any, Remaining]:
    """A window of n ones, whose pages are all in the store and none in the process."""
    remaining = Remaining(most)
    window = AmortizedMTA(
        monoids.Count(), While(remaining, name="remaining"), store=store, page_size=page_size
    )
    window.extend([1] * n)
    window._log.pages.flush(window._log.tail)
    forget(window)
    store.reset()
    return window, remaining


def forget(window: Any) -> None:
    window._log.pages._reader.finish()
    window._log.pages._cache.clear()


@pytest.mark.parametrize("how", ["enforce", "push"])
@pytest.mark.parametrize("page_size", [2, 4])
def test_bulk_eviction_by_predicate(store: CountingStore, page_size: int, how: str) -> None:
    """At most 2·log2(n) pages, and no more round trips than `evict_until` takes for the same elements."""
    n = SMALL
    for k in counts(n, page_size, 20):
        by_time, _ = counted(store, n, page_size, n + 1)
        assert by_time.evict_until(k - 1) == k
        trips = store.calls["get_many"]
        window, remaining = counted(store, n, page_size, n + 1)
        remaining.most = n - k
        if how == "enforce":
            assert window.enforce() == k
        else:
            assert window.push(1) == n - k
            k += 1
        assert window.query() == len(window) == n - k + (how == "push")
        assert store.keys_read <= 2 * math.log2(n)
        assert how == "push" or store.calls["get_many"] <= trips
        assert store.calls["get_many"] <= trips + 1
        for each in (by_time, window):
            each.close()


@pytest.mark.parametrize("page_size", [2, 4])
def test_bulk_evictions_by_predicate_one_after_another(store: CountingStore, page_size: int) -> None:
    """Also where the head is anywhere in its page, and the search has the whole left spine to read."""
    n, chance = SMALL, random.Random(page_size)
    for _ in range(6):
        window, remaining = counted(store, n, page_size, n + 1)
        left = n
        while left > 2:
            left -= min(left - 1, chance.choice([1, 2, 3, 100, n // 3, chance.randrange(1, n)]))
            forget(window)
            store.reset()
            remaining.most = left
            gone = len(window) - left
            assert window.enforce() == gone
            assert window.query() == left
            window._log.pages._reader.finish()
            ahead = max(3, min(64, 4096 // page_size))  # what the head will come to next, by one call
            assert store.keys_read <= 2 * math.log2(n) + ahead
            assert store.calls["get_many"] <= math.log2(n) + 2
        window.close()


@pytest.mark.parametrize(("n", "page_size"), CASES, ids=IDS)
def test_range_query_reads_two_pages_a_tier(store: CountingStore, n: int, page_size: int | None) -> None:
    filled = Filled(store, n, page_size)
    window = filled.window
    edges = counts(n, page_size, 200)
    chance = random.Random(5)
    ranges = [(0, n - 1), (0, 0), (n - 1, n - 1), (1, n - 2), (-5, 3), (n // 2, n + 5)]
    ranges += [tuple(sorted(chance.sample(edges, 2))) for _ in range(40)]
    ranges += [(edge, edge) for edge in chance.sample(edges, 20)]
    for t0, t1 in ranges:
        window._log.pages._cache.clear()
        store.reset()
        assert window.range_query(t0, t1) == filled.values[max(t0, 0) : t1 + 1].max(), (t0, t1)
        filled.check(times=2)
    window._log.pages._cache.clear()
    store.reset()
    assert window.range_query(0.25, 0.75) is None
    filled.check(times=2)
    filled.close()


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("make", [monoids.Max, matrices], ids=["columns", "objects"])
def test_a_window_smaller_than_a_page_never_touches_the_store(
    store: CountingStore, kind: Any, make: Any
) -> None:
    for page_size, pushes in ((8, 80), (64, 640), (None, 10 * 16_384 if make is monoids.Max else 10 * 1024)):
        window = kind(make(), CountWindow(5), store=store, page_size=page_size)
        element = 1 if make is monoids.Max else (1, 1, 1, 0)
        for _ in range(pushes):
            window.push(element)
        window.slide([element] * 7)
        window.extend([element] * 3)
        window.evict(2)
        window.range_query(0, 10**9)
        window.close()
        assert store.round_trips == 0, page_size


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_a_batch_of_many_pages_through_a_small_window_is_not_written(store: CountingStore, kind: Any) -> None:
    with kind(monoids.Max(), CountWindow(5), store=store, page_size=16) as window:
        for _ in range(10):
            window.slide(list(range(30)))
    assert store.keys_written <= 2


def live_pages(window: Any) -> set[tuple[int, int]]:
    """Tier and number of the full pages that hold something not before the head."""
    shift = window.page_size.bit_length() - 1
    head, tail = window._view.head, window._log.tail
    return {
        (tier, number)
        for tier in range(tail.bit_length() // shift + 1)
        for number in range(head >> shift * (tier + 1), tail >> shift * (tier + 1))
    }


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, 16])
def test_pages_behind_the_head_are_deleted(store: CountingStore, kind: Any, page_size: int) -> None:
    window = kind(monoids.Sum(), CountWindow(700), store=store, name="deleted", page_size=page_size)
    chance = random.Random(3)
    while window._log.tail < 6000:
        for _ in range(chance.choice([1, 30, 200])):
            window.push(1)
        window.slide([1] * chance.choice([1, 300]))
        if chance.random() < 0.1:
            window.evict(len(window) // 2)
    window._log.pages.flush(window._log.tail)
    stored = {parse_page_key(key)[2:] for key in store.list_keys(pages_of("deleted"))}
    assert live_pages(window) <= stored
    behind = stored - live_pages(window)
    # not one call a page: some are let to gather
    assert len(behind) <= 40 * 13
    live = live_pages(window)
    window.close()
    stored = {parse_page_key(key)[2:] for key in store.list_keys(pages_of("deleted"))}
    assert stored <= live


def test_deleting_is_done_a_range_at_a_time(store: CountingStore) -> None:
    with AmortizedMTA(monoids.Sum(), store=store, page_size=4) as window:
        window.extend([1] * 40_000)
        window._log.pages.flush(window._log.tail)
        store.reset()
        window.evict(39_990)
        window._log.pages._writer.finish()
        assert 1 <= store.calls["delete_range"] <= 2 * 8
        assert store.calls["delete_many"] == 0


def test_bytes_in_the_store_are_those_of_the_elements(store: CountingStore) -> None:
    n = 1 << 18
    with AmortizedMTA(monoids.Max(), store=store, name="bytes") as window:
        window.extend(np.random.default_rng(1).random(n), np.arange(n) * 0.5)
        window._log.pages.flush(window._log.tail)
        size = sum(len(value) for value in store.get_many(list(store.list_keys(pages_of("bytes")))))
    assert size <= 1.05 * 16 * n


def test_a_page_is_written_once_and_several_a_call(store: CountingStore) -> None:
    with AmortizedMTA(monoids.Max(), store=store, page_size=16) as window:
        for _ in range(100):
            window.extend(list(range(100)))
        window._log.pages.flush(window._log.tail)
        pages = sum(10_000 // 16**tier for tier in (1, 2, 3))
        assert store.keys_written == pages
        assert store.calls["put_many"] <= pages


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_a_window_that_walks_reads_each_page_about_once(store: CountingStore, kind: Any) -> None:
    n, size = 1 << 13, 64
    window = kind(monoids.Max(), CountWindow(n), store=store, page_size=size)
    window.extend(list(range(n)))
    window._log.pages.flush(window._log.tail)
    window._log.pages._cache.clear()
    store.reset()
    for i in range(n, 2 * n):
        window.push(i)
    window.close()
    assert store.keys_read <= 1.5 * n / size + 20
    assert store.calls["get_many"] <= 1.1 * n / size
