"""What checkpoints write and restoring reads, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.durability.coding import decode_root
from mta.durability.manifest import Root
from mta.window import MonoidTreeAggregator
from stores import open_store
from stores.testing import CountingStore

SMALL, LARGE = 1 << 10, 1 << 18


@pytest.fixture
def store() -> Iterator[CountingStore]:
    with CountingStore(open_store("memory:")) as store:
        yield store


def filled(store: CountingStore, rows: int, page_size: int | None = None) -> MonoidTreeAggregator:
    window = AmortizedMTA(
        monoids.Max(), policies.CountWindow(rows), store=store, name=f"w{rows}", page_size=page_size
    )
    window.extend(np.random.default_rng(1).random(rows))
    window.checkpoint()
    return window


def root_of(store: CountingStore, name: str) -> Root:
    found = store.inner.read_root(name)
    assert found is not None
    return decode_root(name, found[0])


def quiet(window: MonoidTreeAggregator) -> None:
    """Waits until nothing is under way in the background."""
    window._log.pages._writer.finish()  # type: ignore[attr-defined]


def cost(store: CountingStore, window: MonoidTreeAggregator, rows: int) -> tuple[int, dict[str, int]]:
    """Bytes written and calls of a checkpoint after so many new rows."""
    window.extend(np.random.default_rng(2).random(rows))
    window._log.pages.flush(window._log.tail)  # type: ignore[attr-defined]
    quiet(window)
    store.reset()
    window.checkpoint(offset=10**9)
    written, calls = store.bytes_written, dict(store.calls)
    quiet(window)
    return written, {call: count for call, count in calls.items() if not call.startswith("delete")}


@pytest.mark.parametrize("page_size", [None, 1024, 16])
def test_after_one_row_a_checkpoint_is_one_small_swap(store: CountingStore, page_size: int | None) -> None:
    costs = {}
    for rows in (SMALL, LARGE):
        window = filled(store, rows, page_size)
        costs[rows], calls = cost(store, window, 1)
        assert calls == {"swap_root": 1}
    assert max(costs.values()) <= 4096
    # but for a few entries of upper tiers that stand in the manifest
    assert abs(costs[SMALL] - costs[LARGE]) <= 640


@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_what_a_checkpoint_writes_goes_by_what_is_new(store: CountingStore, rows: int) -> None:
    window = filled(store, rows)
    written, calls = cost(store, window, 100)
    assert calls == {"put_many": 1, "swap_root": 1}
    assert written <= 100 * 16 + 2048
    window.extend(np.zeros(100_000))
    store.reset()
    window.checkpoint()
    assert store.bytes_written <= 100_000 * 16 * 1.05
    assert store.calls["swap_root"] == 1


def test_checkpoints_after_each_row_of_a_page_stay_small(store: CountingStore) -> None:
    window = AmortizedMTA(monoids.Max(), policies.CountWindow(LARGE), store=store, name="w", page_size=2048)
    written = []
    for row in range(3 * 2048):
        window.push(row * 0.5)
        store.reset()
        window.checkpoint(offset=row)
        quiet(window)
        written.append(store.bytes_written - (2048 * 16 + 200) * (row % 2048 == 2047))
    assert max(written) <= 4096
    assert sum(written) / len(written) <= 2048
    store.reset()
    with AmortizedMTA.restore(store, "w", monoids.Max(), policies.CountWindow(LARGE)) as restored:
        assert restored.query() == (3 * 2048 - 1) * 0.5
    assert store.calls["get_many"] <= 2


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("rows", [SMALL, LARGE])
@pytest.mark.parametrize("page_size", [4, 16, 256])
def test_restoring_reads_a_path(
    store: CountingStore, kind: type[MonoidTreeAggregator], rows: int, page_size: int
) -> None:
    filled(store, rows, page_size).close()
    policy = policies.CountWindow(rows)
    store.reset()
    window = kind.restore(store, f"w{rows}", monoids.Max(), policy)
    tails = [tail for tail in root_of(store, window.name).versions[-1].tails for _ in tail.parts]
    assert store.keys_read == len(tails)
    assert dict(store.calls) in (
        {"read_root": 2, "swap_root": 1, "get_many": 1},
        {"read_root": 2, "swap_root": 1},
    )
    assert store.bytes_read <= 8192 + 16 * page_size
    store.reset()
    window.push(0.5)
    quiet(window)
    tiers = math.ceil(math.log(rows, page_size))
    # two paths, as the new element may be behind a page's end
    assert store.keys_read <= 2 * tiers
    assert store.calls["get_many"] <= tiers + 1
    window.close()


def test_no_row_is_written_twice(store: CountingStore) -> None:
    """Many checkpoints cost what their rows do, whether they are in parts, in pages or in manifests."""
    window = filled(store, SMALL, 1024)
    total = 0
    for _ in range(200):
        total += cost(store, window, 100)[0]
    # each row is in a part and, later, in a page; and a manifest each
    assert total <= 200 * (2 * 100 * 16 + 2048)
