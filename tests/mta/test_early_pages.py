"""Pages that are written while a batch's results are computed, where checkpoints are made."""

from __future__ import annotations

import numpy as np
import pytest

from mta import AmortizedMTA, LogMTA, monoids, policies
from stores import StoreError, StoreUnavailable, open_store
from stores.testing import CountingStore, FaultyStore

PAGE = 256
POLICY = policies.CountWindow(20 * PAGE)


def rows(count: int, start: int = 0) -> np.ndarray:
    return np.random.default_rng(start).integers(0, 1000, count)


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("loose", [0, 100])
def test_a_checkpoint_after_a_batch_finds_its_pages_written(kind, loose):
    store = CountingStore(open_store("memory:"))
    with kind(monoids.Sum(), POLICY, store=store, page_size=PAGE, name="w") as window:
        window.slide(rows(20 * PAGE + loose))
        window.checkpoint()
        for batch in range(1, 6):
            window.slide(rows(4 * PAGE, batch))
            window._log.pages._writer.finish()  # what was started early is done without a flush
            assert len(window._log.pages._buffer) <= 2
            window.checkpoint()
        everything = np.concatenate(
            [rows(20 * PAGE + loose), *(rows(4 * PAGE, batch) for batch in range(1, 6))]
        )
        assert window.query() == everything[-20 * PAGE :].sum()
    with kind.restore(store, "w", monoids.Sum(), POLICY) as window:
        assert window.query() == everything[-20 * PAGE :].sum()


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
def test_a_batch_that_fails_takes_its_pages_back(kind):
    down = False
    store = FaultyStore(open_store("memory:"), lambda call, _: down and call == "get_many")
    with kind(monoids.Sum(), POLICY, store=store, page_size=PAGE, name="w") as window:
        window.slide(rows(20 * PAGE))
        window.checkpoint()
        window._log.pages._cache.clear()
        down = True
        with pytest.raises(StoreError) as failure:
            window.slide(rows(4 * PAGE, start=1))
        assert failure.type is StoreUnavailable
        assert window._log.tail == 20 * PAGE
        assert not window._log.pages._buffer.early
        down = False
        # other rows take the numbers of those that failed
        again = rows(4 * PAGE, start=2)
        everything = np.concatenate([rows(20 * PAGE), again])
        results = window.slide(again)
        expected = [everything[i - 20 * PAGE : i].sum() for i in range(20 * PAGE + 1, 24 * PAGE + 1)]
        assert results.tolist() == expected
        window.checkpoint()
    with kind.restore(store, "w", monoids.Sum(), POLICY) as window:
        assert window.query() == everything[-20 * PAGE :].sum()
        assert window.range_query(21 * PAGE, 22 * PAGE - 1) == again[PAGE : 2 * PAGE].sum()


def test_a_small_window_writes_nothing_early():
    store = CountingStore(open_store("memory:"))
    with AmortizedMTA(monoids.Sum(), policies.CountWindow(9), store=store, page_size=PAGE) as window:
        window.slide(rows(10))
        window.checkpoint()
        store.reset()
        window.slide(rows(20 * PAGE))
        assert not store.round_trips
