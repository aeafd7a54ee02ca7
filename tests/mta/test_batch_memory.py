"""A batch goes with the call: a window keeps of it what is in the window, and a few pages."""

from __future__ import annotations

import gc
import tracemalloc
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pytest

from mta import AmortizedMTA, LogMTA, monoids
from mta.policies import CountWindow, TimeWindow
from stores import open_store

PAGE = 1 << 10
#: pages of the window, and of the batch, which is none of whole pages
WIDTH, BATCH = 4, 256
ROWS = BATCH * PAGE + 300
#: pages in memory beside the window: that of the head and the last one, their scans, and those of upper tiers
BESIDE = 10

MONOIDS: dict[str, Any] = {
    "sum": lambda: monoids.Sum("x"),
    "fields": lambda: monoids.Fields(x=monoids.Mean("x"), y=monoids.Max("y"), z=monoids.First("z")),
    "objects": lambda: monoids.Fields(x=monoids.Collect("x"), n=monoids.Count()),
}


def rows(start: int, count: int) -> tuple[dict[str, Any], Any]:
    values = np.arange(start, start + count)
    return {"x": values % 7, "y": values * 0.5, "z": values}, values


def arrays(window: Any) -> int:
    """Bytes of all arrays that the window leads to, and of those that they are views of."""
    seen: set[int] = set()
    owners: dict[int, int] = {}
    left = [window]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, FunctionType)):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            while isinstance(one.base, np.ndarray):
                one = one.base
            owners[id(one)] = one.nbytes
        elif isinstance(one, MethodType):
            left.append(one.__self__)
        else:
            left += gc.get_referents(one)
    return sum(owners.values())


def width(monoid: Any) -> int:
    """Bytes of an element with its time."""
    return 8 * (1 + len(monoid.fields))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("call", ["extend", "slide"])
@pytest.mark.parametrize("policy", [CountWindow, TimeWindow])
@pytest.mark.parametrize("label", MONOIDS)
@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_a_batch_larger_than_the_window(kind: Any, label: str, policy: Any, call: str, stored: bool) -> None:
    if label == "objects" and call == "slide":
        pytest.skip("the results would be the square of the window")
    monoid = MONOIDS[label]()
    store = open_store("memory:") if stored else None
    window = kind(monoid, policy(WIDTH * PAGE), page_size=PAGE, store=store)
    window.extend(*rows(0, 100))
    window.query()
    most = (WIDTH + BESIDE) * PAGE * width(monoid)
    start, count = 100, ROWS if label != "objects" else ROWS // 8
    getattr(window, call)(*rows(start, count))
    start += count
    assert arrays(window) <= most
    for _ in range(8 * WIDTH):
        getattr(window, call)(*rows(start, PAGE // 4))
        start += PAGE // 4
        window.query()
        assert arrays(window) <= most
    if stored:
        window.checkpoint()
        assert arrays(window) <= most
    assert len(window) == WIDTH * PAGE
    window.close()
    if store is not None:
        store.close()


@pytest.mark.parametrize("call", ["extend", "slide"])
@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_the_part_of_a_batch_that_has_left_a_window_in_memory(kind: Any, call: str) -> None:
    window = kind(monoids.Sum("x"), page_size=PAGE)
    getattr(window, call)(*rows(0, ROWS))
    window.evict(ROWS - WIDTH * PAGE)
    assert arrays(window) <= (WIDTH + BESIDE) * PAGE * width(window.monoid)


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_pages_of_a_batch_that_are_written_early(kind: Any) -> None:
    """Where checkpoints are made, pages of a batch are written while its results are computed."""
    with open_store("memory:") as store:
        window = kind(monoids.Sum("x"), CountWindow(2 * ROWS), page_size=PAGE, store=store)
        for start in range(0, 3 * ROWS, ROWS):
            window.slide(*rows(start, ROWS))
            window.checkpoint(start)
        window.slide(*rows(3 * ROWS, ROWS))
        window.checkpoint()
        assert arrays(window) <= 100 * PAGE * width(window.monoid)
        window.close()


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("size", [2, 4])
def test_upper_tiers_of_small_pages(kind: Any, size: int) -> None:
    """The aggregates of all pages of a batch are one array too."""
    window = kind(monoids.Sum("x"), CountWindow(40), page_size=size)
    window.extend(*rows(0, 1 << 12))
    window.query()
    assert arrays(window) <= 40 * 64


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
def test_what_is_allocated(kind: Any) -> None:
    """The same as the allocator counts it, with all that is no array."""
    window = kind(monoids.Sum("x"), CountWindow(WIDTH * PAGE), page_size=PAGE)
    window.extend(*rows(0, 100))
    batch = rows(100, ROWS)
    tracemalloc.start()
    try:
        window.extend(*batch)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= (WIDTH + BESIDE) * PAGE * width(window.monoid)
    # its own copy, with the times, and what is made of it for a moment
    assert peak <= 3 * ROWS * width(window.monoid)
