"""SubtractOnEvict where an aggregate is infinite, and has no inverse."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import monoids
from mta.baselines import SubtractOnEvict
from mta.policies import CountWindow

NUMBERS = st.one_of(st.integers(0, 9), st.sampled_from([0.5, 0, math.inf, 1e308, 1.7e308]))
SIGNED = st.one_of(NUMBERS, st.sampled_from([-math.inf, -1e308, -2.5]))


def total(some: list[Any]) -> Any:
    found = 0
    for value in some:
        found = found + value
    return found


def geometric(some: list[Any]) -> float:
    if not some:
        return math.nan
    if 0 in some:
        return math.nan if math.inf in some else 0.0
    logs = [math.log(value) for value in some]
    return math.inf if math.inf in logs else math.exp(min(sum(logs) / len(logs), 709.782712893384))


def alike(found: Any, wanted: Any) -> bool:
    return (
        (found != found and wanted != wanted) or found == wanted or math.isclose(found, wanted, rel_tol=1e-9)
    )


@given(st.lists(st.one_of(st.none(), SIGNED), max_size=40), st.integers(1, 6))
def test_sums(calls: list[Any], width: int) -> None:
    """Elements to push, or None to evict one; large ones leave nothing of small ones."""
    for monoid in (monoids.Sum(), monoids.Mean()):
        window, held = SubtractOnEvict(monoid, CountWindow(width)), []
        for value in calls:
            if value is None:
                if held:
                    del held[0]
                    window.evict()
            else:
                held = [*held, value][-width:]
                window.push(value)
            wanted = total(held)
            if isinstance(monoid, monoids.Mean):
                wanted = wanted / len(held) if held else math.nan
            found = window.query()
            assert alike(found, wanted) if not math.isfinite(wanted) else math.isfinite(found)


@given(st.lists(st.one_of(st.none(), NUMBERS), max_size=40), st.integers(1, 6))
def test_geometric_means(calls: list[Any], width: int) -> None:
    window, held = SubtractOnEvict(monoids.GeometricMean(), CountWindow(width)), []
    for value in calls:
        if value is None:
            if held:
                del held[0]
                window.evict()
        else:
            held = [*held, value][-width:]
            window.push(value)
        assert alike(window.query(), geometric(held))


@pytest.mark.parametrize("special", [math.inf, -math.inf])
def test_nothing_stays_of_an_infinity(special: float) -> None:
    window = SubtractOnEvict(monoids.Sum(), CountWindow(3))
    found = [window.push(value) for value in [1, special, 2, 3, 4, 5, special, -special, 6, 7, 8, 9]]
    assert found[:6] == [1, special, special, special, 9, 12]
    assert math.isnan(found[7])
    assert found[10:] == [21, 24]


def test_an_overflow_that_leaves() -> None:
    window = SubtractOnEvict(monoids.Sum(), CountWindow(2))
    found = [window.push(value) for value in [1.5e308, 1.5e308, 1.0, 2.0, 3.0]]
    assert found[1:3] == [math.inf, 1.5e308]
    assert math.isfinite(found[4])


def test_folding_costs_once_a_query() -> None:
    calls = 0

    def add(a: float, b: float) -> float:
        nonlocal calls
        calls += 1
        return a + b

    window = SubtractOnEvict(monoids.from_function(add, 0, name="add"), inverse=lambda state: -state)
    window.extend([math.inf, *range(99)])
    calls = 0
    window.evict(50)
    assert calls == 0
    assert window.query() == window.query() == sum(range(49, 99))
    assert calls == 49
    window.evict()
    assert (window.query(), calls) == (sum(range(50, 99)), 50)
