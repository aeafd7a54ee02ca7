"""The log: covers, folds, searches, however it grew."""

from __future__ import annotations

import bisect
import math
import random
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import monoids
from mta.core.log import Log
from mta.core.states import NOTHING, layout_of
from mta.paging.local import LocalPages

SIZES = (2, 4, 8)


class Viewer:
    """A view, as far as its log asks."""

    def __init__(self, head: int) -> None:
        self.head = head


class Grown:
    """A log that was extended by runs and by single elements, and its elements."""

    def __init__(self, page_size: int, sizes: list[int], seed: int = 0) -> None:
        chance = random.Random(seed)
        layout = layout_of(monoids.Concat())
        self.log = Log(layout, LocalPages(), page_size)
        self.items: list[str] = []
        self.times: list[int] = []
        time = 0
        for size in sizes:
            items = [f"{len(self.items) + i}." for i in range(max(1, size))]
            times = [time := time + chance.choice([0, 0, 1, 2]) for _ in items]
            if size:
                self.log.tails = self.log.extended(np.array(times), items)
            elif (self.log.tail + 1) % page_size:
                self.log.tails[0].times.append(times[0])
                self.log.tails[0].entries.append(items[0])
            else:
                self.log.tails = self.log.appended(times[0], items[0])
            self.log.tail = self.log.tails[0].stop
            self.items += items
            self.times += times


GROWTH = st.lists(st.one_of(st.just(0), st.integers(0, 30)), max_size=25)


@given(st.sampled_from(SIZES), GROWTH, st.data())
def test_any_range_folds(page_size: int, sizes: list[int], data: Any) -> None:
    grown = Grown(page_size, sizes)
    log, n = grown.log, len(grown.items)
    assert log.tail == n
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    wanted = "".join(grown.items[start:stop]) if start < stop else NOTHING
    assert log.fold(start, stop) == wanted
    assert log.fold_nodes(start, stop) == wanted


@given(st.sampled_from(SIZES), GROWTH, st.data())
def test_a_cover_is_two_paths(page_size: int, sizes: list[int], data: Any) -> None:
    grown = Grown(page_size, sizes)
    n = len(grown.items)
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n))
    at = start
    pieces = grown.log.cover(start, stop)
    for tier, first, last in pieces:
        assert first < last
        assert first // page_size == (last - 1) // page_size, "all in one page"
        assert first * page_size**tier == at
        at = last * page_size**tier
    assert at == (stop if pieces else start)
    assert len(pieces) <= 2 * max(1, math.ceil(math.log(max(n, 2), page_size))) + 1


@given(st.sampled_from(SIZES), GROWTH, st.data())
def test_searches_by_time(page_size: int, sizes: list[int], data: Any) -> None:
    grown = Grown(page_size, sizes, seed=len(sizes))
    n = len(grown.times)
    head = data.draw(st.integers(0, n))
    time = data.draw(st.integers(-1, (grown.times or [0])[-1] + 1)) + data.draw(st.sampled_from([0, 0.5]))
    assert grown.log.first_position(head, time, "left") == bisect.bisect_left(grown.times, time, head)
    assert grown.log.first_position(head, time, "right") == bisect.bisect_right(grown.times, time, head)


@given(st.sampled_from(SIZES), GROWTH, st.data())
def test_searches_by_predicate(page_size: int, sizes: list[int], data: Any) -> None:
    grown = Grown(page_size, sizes)
    n = len(grown.items)
    head = data.draw(st.integers(0, n))
    kept = data.draw(st.integers(head, n))
    limit = len("".join(grown.items[head:kept]))

    def rejects(prefix: str) -> bool:
        assert "".join(grown.items[head:]).startswith(prefix)
        return len(prefix) <= limit

    found, prefix = grown.log.longest_prefix(head, rejects)
    assert found == kept
    assert (prefix is NOTHING) == (head == kept)
    assert prefix is NOTHING or prefix == "".join(grown.items[head:kept])


@given(st.sampled_from(SIZES), GROWTH, GROWTH)
def test_how_it_grew_does_not_matter(page_size: int, sizes: list[int], others: list[int]) -> None:
    """The same entries in the same pages, one by one or at once."""
    one = Grown(page_size, sizes)
    n = len(one.items)
    layout = one.log.layout
    two = Log(layout, LocalPages(), page_size)
    at = 0
    for size in [*others, n]:
        stop = min(n, at + size)
        two.tails = two.extended(np.array(one.times[at:stop], dtype=np.int64), one.items[at:stop])
        at = stop
    tiers = max(len(one.log.tails), len(two.tails))
    for tier in range(tiers):
        for log in (one.log, two):
            if tier < len(log.tails):
                tail = log.tails[tier]
                assert tail.stop == n // page_size**tier
                assert tail.start == tail.stop // page_size * page_size
        for number in range(n // page_size ** (tier + 1)):
            a, b = one.log.page(tier, number), two.page(tier, number)
            assert a.times.tolist() == b.times.tolist()
            assert list(a.run) == list(b.run)
            width = page_size**tier
            firsts = range(number * page_size * width, (number + 1) * page_size * width, width)
            assert list(a.run) == ["".join(one.items[first : first + width]) for first in firsts]
            assert a.times.tolist() == [one.times[first + width - 1] for first in firsts]


@pytest.mark.parametrize("page_size", SIZES)
def test_dropping_keeps_what_is_needed(page_size: int) -> None:
    for head in range(0, 200, 7):
        grown = Grown(page_size, [200])
        view = Viewer(head)
        grown.log.views = [ref(view)]
        grown.log.drop_behind_views()
        for start in range(head, 201, 3):
            assert grown.log.fold(start, 200) == ("".join(grown.items[start:]) or NOTHING)
        kept = [key for key in grown.log.pages._pages if (key[1] + 1) * page_size ** (key[0] + 1) <= head]
        assert kept == []
