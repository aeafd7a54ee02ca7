"""Filters and sketches keep their promises on data that does not fit in them."""

import builtins
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mta import LogMTA
from mta import monoids as m
from mta.core.states import layout_of
from mta.monoids import sketches
from mta.monoids.laws import fold
from mta.policies import CountWindow
from stores import open_store


def aggregate(monoid, values):
    """As a tree would: neighbours first."""
    states = [monoid.lift(value) for value in values]
    while len(states) > 1:
        states = [fold(monoid, states[i : i + 2]) for i in range(0, len(states), 2)]
    return states[0]


def test_a_filter_never_misses_and_seldom_errs():
    bloom = m.BloomFilter()
    seen = bloom.lower(aggregate(bloom, [f"user-{i}" for i in range(1000)]))
    assert all(f"user-{i}" in seen for i in range(1000))
    wrong = sum(f"stranger-{i}" in seen for i in range(10_000)) / 10_000
    assert wrong < 0.02
    assert seen.false_positive_rate == pytest.approx(wrong, abs=0.005)
    assert 5 not in bloom.lower(bloom.identity)


def test_frequencies_are_never_too_low_and_seldom_too_high():
    counts = Counter(min(int(random.Random(i).paretovariate(0.7)), 5000) for i in range(20_000))
    monoid = m.CountMin()
    found = monoid.lower(sum(count * monoid.lift(value) for value, count in counts.items()))
    assert found.total == 20_000
    assert found.error == pytest.approx(20_000 * np.e / 256)
    over = [found[value] - count for value, count in counts.items()]
    assert min(over) >= 0
    assert max(over) > 0  # 256 counters are few
    assert sum(each > found.error for each in over) <= len(over) / np.e**4
    strangers = [found[f"stranger {i}"] for i in range(3000)]
    assert sum(each > found.error for each in strangers) <= 3000 / np.e**4
    small = m.CountMin(width=1 << 12)
    exact = small.lower(aggregate(small, ["a", "b", "a", 1, 1.0, (2, "c")]))
    assert [exact[value] for value in ("a", "b", 1, True, (2, "c"), "d")] == [2, 1, 2, 2, 1, 0]
    assert exact == small.lower(aggregate(small, [(2, "c"), 1, "a", 1, "a", "b"]))
    assert exact != found
    assert hash(exact) == hash(small.lower(aggregate(small, [(2, "c"), 1, "a", 1, "a", "b"])))
    assert m.CountMin().lower(0)["x"] == 0


def test_equal_numbers_are_one_element():
    bloom = m.BloomFilter()
    assert bloom.lower(bloom.lift(1)) == bloom.lower(bloom.lift(1.0)) == bloom.lower(bloom.lift(np.int8(1)))
    assert bloom.lower(bloom.lift(1)) != bloom.lower(bloom.lift("1"))
    assert hash(bloom.lower(bloom.lift(1))) == hash(bloom.lower(bloom.lift(True)))
    assert bloom.lower(bloom.lift((1, "a"))) != bloom.lower(bloom.lift(("a", 1)))


def test_hashes_are_the_same_in_every_process():
    code = "from mta.monoids import BloomFilter; print(hex(BloomFilter().lift('a')))"
    root = str(Path(m.__file__).parents[2])
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": root}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert int(run.stdout, 16) == m.BloomFilter().lift("a")


def test_distinct_count_does_not_depend_on_the_cut():
    monoid = m.DistinctCount()
    values = [i % 3000 for i in range(6000)]
    state = aggregate(monoid, values)
    assert monoid.lower(state) == pytest.approx(3000, rel=0.05)
    assert monoid.lower(fold(monoid, [monoid.lift(value) for value in values])) == monoid.lower(state)


def test_quantiles_are_within_their_rank():
    monoid = m.Quantiles(q=(0.1, 0.5, 0.99))
    values = list(range(10_000))
    random.Random(5).shuffle(values)
    found = monoid.lower(aggregate(monoid, values))
    assert list(found) == [0.1, 0.5, 0.99]
    assert all(abs(value - share * 10_000) < 400 for share, value in found.items())


def test_quantiles_of_few_are_exact():
    monoid = m.Quantiles(q=0.5)
    assert monoid.lower(aggregate(monoid, [5, 1, 3])) == {0.5: 3.0}
    assert np.isnan(monoid.lower(None)[0.5])


def test_heavy_hitters():
    rng = random.Random(4)
    values = [rng.choice(["a"] * 50 + ["b"] * 20 + list("cdefghij")) for _ in range(3000)]
    monoid = m.HeavyHitters(top=3)
    counts = Counter(values)
    found = monoid.lower(aggregate(monoid, values))
    assert [item for item, _ in found[:2]] == ["a", "b"]
    assert all(estimate == counts[item] for item, estimate in found)
    assert len(found) == 3
    small = m.HeavyHitters(top=2, lg_size=3)
    state = aggregate(small, [*values, *range(500)])
    assert small.lower(state)[0][0] == "a"


def test_combining_leaves_sketches_as_they_were():
    for monoid in (m.DistinctCount(), m.Quantiles(), m.HeavyHitters()):
        older, younger = monoid.lift(1), monoid.lift(2)
        before = monoid.pack(older), monoid.pack(younger)
        monoid.combine(older, younger)
        assert (monoid.pack(older), monoid.pack(younger)) == before


def test_without_the_library(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "datasketches":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    sketches._library.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'mta-windows\[sketches\]'"):
        m.Quantiles()


@pytest.mark.parametrize("monoid", [m.DistinctCount(), m.BloomFilter(), m.CountMin()], ids=str)
def test_numbers_of_numpy_in_tuples_are_numbers(monoid):
    plain = [(1, "a"), ((2, 0.5), True)]
    given = [(np.int64(1), np.str_("a")), ((np.uint8(2), np.float32(0.5)), np.bool_(True))]
    for one, other in zip(plain, given, strict=True):
        assert monoid.lift(one) == monoid.lift(other)
    layout = layout_of(monoid)
    for elements in (given, [*given, "text"]):
        states = layout.lift(layout.elements(elements))
        wanted = layout.lift(layout.elements([*plain, "text"][: len(elements)]))
        assert layout.fold(states) == layout.fold(wanted)
    store = open_store("memory:")
    with LogMTA(monoid, CountWindow(9), store=store, name="w", page_size=2) as window:
        window.extend(given * 3)
        window.push(given[0])
        window.checkpoint()
    with LogMTA.restore(store, "w", monoid, CountWindow(9)) as window:
        window.evict(6)
        assert len(window) == 1
    for call in (monoid.lift, lambda bad: layout.elements([bad])):
        with pytest.raises(TypeError, match="whole numbers first"):
            call((1, np.datetime64("2026-01-01")))
