"""How many elements wait for the store and are read ahead, where a user says so: the paper's buffers."""

from __future__ import annotations

from typing import Any

import pytest
from paging.parts import SIZE, OneWriter, Recorder, lane_of, page, writer_of

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.paging.bounds import Bounds
from mta.paging.buffer import Buffer
from mta.paging.read_ahead import ReadAhead
from stores import CountingStore, open_store


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, 1024])
@pytest.mark.parametrize(
    "bounds",
    [
        {"buffered": 0},
        {"cached": 0},
        {"buffered": 1, "cached": 1, "refill_below": 1},
        {"buffered": 512, "cached": 512, "refill_below": 256},
        {"buffered": 10_000, "cached": 5000, "refill_below": 5000},
    ],
)
def test_results_are_the_same(kind: Any, page_size: int, bounds: dict[str, int]) -> None:
    values = [(7919 * i) % 1009 for i in range(3000)]
    expected = [max(values[max(0, i - 699) : i + 1]) for i in range(len(values))]
    store = open_store("memory:")
    arguments = (monoids.Max(), policies.CountWindow(700))
    with kind(*arguments, store=store, name="w", page_size=page_size, **bounds) as window:
        assert window.slide(values[:1500]).tolist() == expected[:1500]
        assert [window.push(value) for value in values[1500:2000]] == expected[1500:2000]
        window.checkpoint()
    with kind.restore(store, "w", *arguments, **bounds) as again:
        assert again.slide(values[2000:]).tolist() == expected[2000:]


@pytest.mark.parametrize(("buffered", "pages"), [(0, 1), (3, 1), (4 * SIZE, 4), (10 * SIZE, 10)])
def test_pages_wait_until_they_are_so_many_and_go_in_one_call(buffered: int, pages: int) -> None:
    store = CountingStore(open_store("memory:"))
    buffer = Buffer(writer_of(store, OneWriter()), Recorder(), Recorder(), lane := lane_of(store), {})
    buffer.hold(Bounds(buffered=buffered).pages_buffered(SIZE.bit_length() - 1))
    for number in range(3 * pages):
        buffer.put(0, number, page(0, number))
        buffer.settle((number + 1) * SIZE)
        lane.finish()
        assert len(buffer) == (number + 1) % pages
        assert store.calls["put_many"] == (number + 1) // pages
    for number in range(3 * pages, 3 * pages + max(2 * pages, 1) + 1):  # more than may wait
        buffer.put(0, number, page(0, number))
    buffer.tail = (number + 1) * SIZE
    buffer.make_room()
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("cached", "shift", "pages"),
    [(None, 1, None), (0, 1, 0), (1, 14, 1), (512, 1, 511), (512, 2, 128 + 32 + 8 + 2), (1 << 16, 14, 4)],
)
def test_what_is_read_ahead_is_so_many_leaves_and_what_is_above(cached: Any, shift: int, pages: Any) -> None:
    bounds = Bounds(cached=cached)
    assert bounds.pages_cached(shift) == pages
    ahead = ReadAhead(shift, pages, bounds.refill)
    ahead.head_at(100)
    ahead.head_at(101)
    coming = ahead.coming(1 << 60)
    assert ahead.is_due() == (cached != 0)
    if cached:
        leaves = [name for name in coming if name[0] == 0]
        assert abs(len(leaves) - max(1, cached >> shift)) <= 1
        ahead.waited()
        assert ahead.depth == pages  # not further than the user said


def test_more_is_read_when_few_are_left() -> None:
    default = ReadAhead(14)
    assert [default.are_enough(missing, 8) for missing in (0, 3, 4, 8)] == [False, False, True, True]
    late = ReadAhead(14, 8, Bounds(cached=512, refill_below=64).refill)  # an eighth may be left
    assert [late.are_enough(missing, 8) for missing in (6, 7, 8)] == [False, True, True]
    early = ReadAhead(14, 8, Bounds(cached=512, refill_below=512).refill)
    assert [early.are_enough(missing, 8) for missing in (0, 1, 8)] == [False, True, True]


def test_nothing_is_read_ahead_without_a_cache() -> None:
    store = CountingStore(open_store("memory:"))
    with AmortizedMTA(
        monoids.Sum(), policies.CountWindow(200), store=store, page_size=4, cached=0, buffered=0
    ) as window:
        for value in range(1000):
            window.push(value)
        asked, hits = window.pages_read
        assert asked > 190
        assert hits < asked / 2  # what was read or written a moment ago may be there
        assert store.keys_read >= asked - hits


@pytest.mark.parametrize(
    ("bounds", "error", "text"),
    [
        ({"buffered": -1}, ValueError, "buffered is a number of elements from 0 to"),
        ({"buffered": 1 << 40}, ValueError, "got 1,099,511,627,776"),
        ({"buffered": 1.5}, TypeError, "buffered is a whole number of elements or None, got 1.5"),
        ({"cached": True}, TypeError, "cached is a whole number"),
        ({"cached": "512"}, TypeError, "got '512'"),
        ({"refill_below": 10}, ValueError, "refill_below goes with cached"),
        ({"cached": 10, "refill_below": 11}, ValueError, "refill_below=11 and cached=10"),
        ({"cached": 0, "refill_below": 0}, ValueError, "is at least 1"),
    ],
)
def test_bad_bounds(bounds: dict[str, Any], error: type[Exception], text: str) -> None:
    store = CountingStore(open_store("memory:"))
    with pytest.raises(error, match=text):
        AmortizedMTA(monoids.Sum(), store=store, name="w", **bounds)
    assert not store.calls  # nothing was touched
    with AmortizedMTA(monoids.Sum(), store=store, name="w") as window:
        window.checkpoint()
    with pytest.raises(error, match=text):
        AmortizedMTA.restore(store, "w", monoids.Sum(), **bounds)
    with AmortizedMTA.restore(store, "w", monoids.Sum()) as again:  # which was not taken over meanwhile
        assert again.version == 1
