from __future__ import annotations

import math
import random

import pytest
from baselines.tiny import Concat, Counting, fold

from mta.baselines import FlatFAT
from mta.baselines.flatfat import EMPTY

SIZES = [1, 2, 4, 8, 32, 128]


def states(n: int) -> list[str]:
    return [f"{i}." for i in range(n)]


@pytest.mark.parametrize("n", SIZES)
def test_new_takes_n_minus_1_combines(n: int) -> None:
    monoid = Counting(Concat())
    fat = FlatFAT(monoid, states(n))
    assert monoid.calls == n - 1
    assert monoid.during(fat.aggregate) == 0
    assert fat.aggregate() == "".join(states(n))
    assert len(fat) == fat.capacity == n


@pytest.mark.parametrize("n", SIZES)
def test_prefix_and_suffix_take_log_n_combines(n: int) -> None:
    monoid = Counting(Concat())
    fat = FlatFAT(monoid, states(n))
    for i in range(n):
        assert fat.prefix(i) == "".join(states(n)[: i + 1])
        assert fat.suffix(i) == "".join(states(n)[i:])
        assert monoid.during(fat.prefix, i) <= math.log2(n)
        assert monoid.during(fat.suffix, i) <= math.log2(n)
    assert monoid.during(fat.prefix, n - 1) == math.log2(n)
    assert monoid.during(fat.suffix, 0) == math.log2(n)


@pytest.mark.parametrize("n", SIZES)
def test_update_takes_m_times_1_plus_log_n_by_m_combines(n: int) -> None:
    chance = random.Random(n)
    monoid = Counting(Concat())
    held = states(n)
    fat = FlatFAT(monoid, held)
    for m in range(1, n + 1):
        for _ in range(5):
            writes = [(slot, f"{chance.randrange(1000)}.") for slot in chance.sample(range(n), m)]
            for slot, state in writes:
                held[slot] = state
            assert monoid.during(fat.update, writes) <= m * (1 + math.ceil(math.log2(n / m)))
            assert fat.aggregate() == "".join(held)
    assert monoid.during(fat.update, [(0, "x")]) == math.log2(n)
    assert monoid.during(fat.update, list(enumerate(held))) == n - 1
    assert monoid.during(fat.update, []) == 0


@pytest.mark.parametrize("n", SIZES)
def test_empty_slots_cost_nothing(n: int) -> None:
    monoid = Counting(Concat())
    fat = FlatFAT(monoid, n)
    assert fat.aggregate() == fat.prefix(n - 1) == fat.suffix(0) == monoid.identity
    chance = random.Random(n)
    held: list[str | None] = [None] * n
    for step in range(60):
        slot = chance.randrange(n)
        held[slot] = f"{step}." if chance.random() < 0.6 else None
        fat.update([(slot, EMPTY if held[slot] is None else held[slot])])
        some = [state for state in held if state is not None]
        assert fat.aggregate() == fold(monoid.inner, some)
        assert fat[slot] is EMPTY if held[slot] is None else fat[slot] == held[slot]
        for i in range(n):
            assert fat.prefix(i) == "".join(state for state in held[: i + 1] if state)
            assert fat.suffix(i) == "".join(state for state in held[i:] if state)
    fresh = Counting(Concat())
    FlatFAT(fresh, [state or EMPTY for state in held])
    assert fresh.calls == max(0, len(some) - 1)


def test_slots_beyond_the_values_are_empty() -> None:
    monoid = Counting(Concat())
    fat = FlatFAT(monoid, states(5))
    assert fat.capacity == 8
    assert monoid.calls == 4
    assert fat.aggregate() == "0.1.2.3.4."
    assert fat[5] is EMPTY
    assert repr(fat[5]) == "⊥"


def test_bad_slots_are_refused_and_change_nothing() -> None:
    fat = FlatFAT(Concat(), states(4))
    for bad in (-1, 4):
        with pytest.raises(IndexError, match=f"no slot {bad} in a FlatFAT of 4"):
            fat.update([(0, "x"), (bad, "y")])
        with pytest.raises(IndexError, match=f"no slot {bad}"):
            fat.prefix(bad)
        with pytest.raises(IndexError, match=f"no slot {bad}"):
            fat.suffix(bad)
    assert fat.aggregate() == "0.1.2.3."
    with pytest.raises(ValueError, match="at least 1 slot"):
        FlatFAT(Concat(), 0)
    with pytest.raises(ValueError, match="at least 1 slot"):
        FlatFAT(Concat(), [])
