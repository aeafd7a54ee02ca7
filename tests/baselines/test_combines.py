"""How often each algorithm combines: the papers' bounds, and that they are reached."""

from __future__ import annotations

import math
import random

import pytest
from baselines.tiny import ALGORITHMS, Concat, Counting, Make, Matrices, Max, SubtractOnEvict, cached_daba

from mta.baselines import (
    DABA,
    BaseIntervals,
    FunctionalOkasaki,
    ImperativeOkasaki,
    ReactiveAggregator,
    Recalculate,
    TwoStacks,
)
from mta.policies import CountWindow


def worst(make: Make, steps: int = 20_000) -> tuple[int, int, int]:
    """The most combines of a query, an insertion and an eviction, in windows that grow, shrink and slide."""
    chance = random.Random(5)
    monoid = Counting(Max())
    window = make(monoid, None)
    query = insert = evict = 0
    while steps > 0:
        trend = chance.choice([0.0, 0.3, 0.5, 0.7, 1.0])
        for _ in range(chance.choice([1, 2, 3, 50, 600])):
            steps -= 1
            if len(window) and chance.random() < trend:
                evict = max(evict, monoid.during(window.evict))
            else:
                insert = max(insert, monoid.during(window.insert, chance.random()))
            query = max(query, monoid.during(window.query))
    return query, insert, evict


def average(make: Make, size: int) -> tuple[float, float]:
    """The average combines of insertions and of evictions in a window that slides."""
    monoid = Counting(Max())
    window = make(monoid, None)
    for i in range(size):
        window.insert(i)
    rounds = 8 * size
    inserts = evicts = 0
    for i in range(rounds):
        evicts += monoid.during(window.evict)
        inserts += monoid.during(window.insert, i)
    return inserts / rounds, evicts / rounds


@pytest.mark.parametrize(
    ("make", "bounds"),
    [
        (DABA, (1, 4, 3)),
        (cached_daba, (1, 3, 2)),
        # `cons` of the back list is 1; the one `rot` of a call of makeq is 1 in line 14 and 2 in line 18.
        (FunctionalOkasaki, (1, 4, 3)),
        (ImperativeOkasaki, (1, 4, 3)),
    ],
)
def test_worst_case_constants(make: Make, bounds: tuple[int, int, int]) -> None:
    assert worst(make) == bounds


@pytest.mark.parametrize("size", [2, 3, 10, 100, 1001])
@pytest.mark.parametrize(("make", "bounds"), [(DABA, (2.5, 1.5)), (cached_daba, (2.0, 1.0))])
def test_daba_averages(make: Make, bounds: tuple[float, float], size: int) -> None:
    inserts, evicts = average(make, size)
    assert inserts + evicts <= sum(bounds)
    if size >= 100:
        # The first shrink after a flip finds l_A empty and saves a combine or two.
        assert bounds[0] - 8 / size < inserts <= bounds[0]
        assert bounds[1] - 8 / size < evicts <= bounds[1]


def test_two_stacks() -> None:
    monoid = Counting(Max())
    window = TwoStacks(monoid)
    for size in (1, 2, 3, 10, 1000):
        assert [monoid.during(window.insert, i) for i in range(size)] == [0] + [1] * (size - 1)
        assert monoid.during(window.query) == 0
        assert monoid.during(window.evict) == size - 1
        assert [monoid.during(window.evict) for _ in range(size - 1)] == [0] * (size - 1)
    inserts, evicts = average(TwoStacks, 1000)
    assert inserts <= 1
    assert evicts <= 1
    assert worst(TwoStacks)[:2] == (1, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_recalculate(size: int) -> None:
    monoid = Counting(Max())
    window = Recalculate(monoid, CountWindow(size))
    assert sum(monoid.during(window.insert, i) for i in range(size)) == 0
    assert monoid.during(window.query) == size - 1
    assert monoid.during(window.push, 0) == size - 1
    assert monoid.during(window.evict) == 0


def test_subtract_on_evict() -> None:
    monoid = Counting(Matrices())
    window = SubtractOnEvict(monoid, inverse=Matrices().inverse)
    assert [monoid.during(window.insert, i) for i in range(5)] == [0, 1, 1, 1, 1]
    assert [monoid.during(window.query) for _ in range(3)] == [0, 0, 0]
    assert [monoid.during(window.evict) for _ in range(5)] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100, 1000])
def test_base_intervals(size: int) -> None:
    monoid = Counting(Max())
    window = BaseIntervals(monoid, CountWindow(size))
    inserts = []
    for i in range(5 * size):
        inserts.append(monoid.during(window.insert, i))
        assert inserts[-1] <= math.log2(len(window))
        assert monoid.during(window.enforce) == 0
        n = len(window)
        assert monoid.during(window.query) <= max(0, 2 * math.log2(n) - 1)
        live = window.intervals()
        assert sum(live) <= 2 * n
        assert len(live) <= math.log2(n) + 1
    assert sum(inserts) < len(inserts)


def test_base_intervals_look_up_any_interval() -> None:
    monoid = Counting(Concat())
    window = BaseIntervals(monoid)
    for i in range(83):
        window.insert(i)
    window.evict(13)
    for start in range(71):
        for stop in range(start, 71):
            before = monoid.calls
            assert window.lookup(start, stop) == f"<{''.join(f'{13 + i}.' for i in range(start, stop))}>"
            assert monoid.calls - before <= max(0, 2 * math.log2(max(1, stop - start)) - 1)
    with pytest.raises(IndexError, match="elements 3 to 71 are not all in a window that holds 70"):
        window.lookup(3, 71)
    with pytest.raises(TypeError, match="whole numbers"):
        window.lookup(0, 1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("slide", [1, 2, 5, 16, 64])
def test_reactive_aggregator_updates_in_one_go(slide: int) -> None:
    """m insertions and m evictions between two queries are one update of 2m leaves."""
    monoid = Counting(Max())
    window = ReactiveAggregator(monoid)
    for i in range(200):
        window.insert(i)
    window.query()
    n = window.capacity
    assert n == 256
    for _ in range(100):
        assert sum(monoid.during(window.insert, i) for i in range(slide // 2)) == 0
        for i in range(slide):
            assert monoid.during(window.evict) == 0
            assert monoid.during(window.insert, i) == 0
        assert sum(monoid.during(window.evict) for _ in range(slide // 2)) == 0
        m = min(n, 2 * slide + 2 * (slide // 2))
        around = 2 * math.log2(n) - 1
        assert monoid.during(window.query) <= m * (1 + math.ceil(math.log2(n / m))) + around
        assert monoid.during(window.query) <= around
    assert window.capacity == n


def test_reactive_aggregator_writes_no_leaf_for_what_leaves_at_the_front() -> None:
    """Section 5.2 of its paper: of a window that is first in, first out, what is outside is not read."""
    monoid = Counting(Max())
    window = ReactiveAggregator(monoid)
    for i in range(200):
        window.insert(i if i % 2 else 1000 - i)
    window.query()
    tree = list(window.fat.tree)
    for gone in range(1, 130):
        assert monoid.during(window.evict) == 0
        assert monoid.during(window.query) <= 2 * math.log2(window.capacity) - 1
        assert window.query() == max(i if i % 2 else 1000 - i for i in range(gone, 200))
        assert window.fat.tree == tree
    # one that leaves in the middle is written, as a hole
    handle = window.insert(7)
    window.insert(8)
    window.query()
    window.evict_handle(handle)
    window.query()
    assert window.fat.tree != tree


def test_reactive_aggregator_amortises_resizing() -> None:
    monoid = Counting(Max())
    window = ReactiveAggregator(monoid)
    steps = 4000
    for i in range(steps):
        window.insert(i)
    assert window.capacity == 4096
    window.query()
    assert monoid.calls <= 4096
    window.evict(steps - 3)
    assert window.capacity == 8
    assert monoid.during(window.query) <= 3


@pytest.mark.parametrize("label", ALGORITHMS)
def test_nothing_is_combined_where_there_is_nothing_to_combine(label: str) -> None:
    monoid = Counting(Max())
    window = ALGORITHMS[label](monoid, None)
    assert monoid.during(window.query) == 0
    assert monoid.during(window.insert, 1) == 0
    assert monoid.during(window.query) == 0
    assert monoid.during(window.evict) == 0
    assert monoid.during(window.query) == 0
