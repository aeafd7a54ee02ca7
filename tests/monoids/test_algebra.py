"""Which monoids commute, and which can be undone: tables 1 and 2 of the paper of the Reactive Aggregator."""

from __future__ import annotations

import math
import operator
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import monoids as m
from mta.baselines import Recalculate, SubtractOnEvict
from mta.monoids.base import LOST, Monoid
from mta.monoids.laws import exactly, fold, tolerant
from mta.policies import CountWindow

small = st.integers(-9, 9)
words = st.text("abc", max_size=2)
pairs = st.tuples(st.integers(0, 3), words)
reals = st.floats(-1e6, 1e6)

#: Table 2 of the paper: invertible, commutes. All operations are associative (tests/monoids/test_laws.py).
TABLE_2 = {
    "Count": (True, True),
    "Sum": (True, True),
    "Max": (False, True),
    "Min": (False, True),
    "Mean": (True, True),  # the paper's ArithmeticMean
    "GeometricMean": (True, True),
    "MaxCount": (False, True),
    "MinCount": (False, True),
    "SampleStdDev": (True, True),
    "PopulationStdDev": (True, True),
    "ArgMax": (False, False),
    "ArgMin": (False, False),
    "Collect": (True, False),
}

#: What we have beyond it. Sketches commute but for chance: of few elements they are exact.
OURS = {
    "Product": (False, True),
    "Variance": (True, True),
    "Covariance": (False, True),
    "Correlation": (False, True),
    "Slope": (False, True),
    "LastK": (False, False),
    "TopK": (False, True),
    "First": (False, False),
    "Last": (False, False),
    "Concat": (True, False),
    "CollectDistinct": (False, True),
    "CountDistinct": (False, True),
    "LongestIncreasingRun": (False, False),
    "BloomFilter": (False, True),
    "CountMin": (True, True),
    "DistinctCount": (False, True),
    "Quantiles": (False, True),
    "HeavyHitters": (False, True),
}

ELEMENTS: dict[str, st.SearchStrategy[Any]] = {
    "GeometricMean": st.one_of(st.integers(0, 9), st.floats(0.5, 100)),
    "ArgMax": pairs,
    "ArgMin": pairs,
    "Concat": words,
    "Sum": st.one_of(small, reals),
    "Mean": st.one_of(small, reals),
    "SampleStdDev": reals,
    "PopulationStdDev": reals,
    "Variance": reals,
    "Covariance": st.tuples(small, small),
    "Correlation": st.tuples(small, small),
    "Slope": st.tuples(small, small),
}


#: Results of these are rounded, or estimates.
ROUNDED = ("Sum", "Mean", "GeometricMean", "SampleStdDev", "PopulationStdDev", "Variance", "Covariance")
ROUNDED += ("Correlation", "Slope")


def monoid_of(name: str) -> Monoid:
    arguments = (3,) if name in ("LastK", "TopK") else ()
    made: Monoid = getattr(m, name)(*arguments)
    return made


def elements_of(name: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(ELEMENTS.get(name, small), min_size=1, max_size=12)


def close_of(name: str) -> Any:
    return tolerant(1e-6, 1e-3) if name in ROUNDED else exactly


def test_every_monoid_of_the_catalogue_is_in_the_table() -> None:
    kinds = {
        name
        for name in m.__all__
        if isinstance(getattr(m, name), type) and issubclass(getattr(m, name), Monoid)
    }
    assert kinds - {"Monoid", "ColumnarMonoid", "Fields"} == TABLE_2.keys() | OURS.keys()


@pytest.mark.parametrize(("name", "flags"), [*TABLE_2.items(), *OURS.items()])
def test_the_flags_are_those_of_the_table(name: str, flags: tuple[bool, bool]) -> None:
    monoid = monoid_of(name)
    assert (monoid.invertible, monoid.commutes) == flags


@pytest.mark.parametrize("name", [name for name, flags in {**TABLE_2, **OURS}.items() if flags[1]])
@given(data=st.data())
def test_these_commute(name: str, data: Any) -> None:
    monoid, close = monoid_of(name), close_of(name)
    a, b = (fold(monoid, [monoid.lift(v) for v in data.draw(elements_of(name))]) for _ in range(2))
    one, other = monoid.lower(monoid.combine(a, b)), monoid.lower(monoid.combine(b, a))
    assert close(one, other), (one, other)


DOES_NOT_COMMUTE = {
    "ArgMax": ((1, "a"), (1, "b")),
    "ArgMin": ((1, "a"), (1, "b")),
    "Collect": (1, 2),
    "Concat": ("a", "b"),
    "First": (1, 2),
    "Last": (1, 2),
    "LastK": (1, 2),
    "LongestIncreasingRun": (1, 2),
}


@pytest.mark.parametrize("name", DOES_NOT_COMMUTE)
def test_these_do_not(name: str) -> None:
    monoid = monoid_of(name)
    a, b = map(monoid.lift, DOES_NOT_COMMUTE[name])
    assert monoid.lower(monoid.combine(a, b)) != monoid.lower(monoid.combine(b, a))


INVERTIBLE = [name for name, flags in {**TABLE_2, **OURS}.items() if flags[0]]


@pytest.mark.parametrize("name", INVERTIBLE)
@given(data=st.data())
def test_what_leaves_is_undone(name: str, data: Any) -> None:
    monoid, close = monoid_of(name), close_of(name)
    older, younger = (fold(monoid, [monoid.lift(v) for v in data.draw(elements_of(name))]) for _ in range(2))
    left = monoid.without(monoid.combine(older, younger), older)
    if left is LOST:
        assert name in ("GeometricMean", "SampleStdDev", "PopulationStdDev", "Variance")
    else:
        assert close(monoid.lower(left), monoid.lower(younger)), (left, younger)


@pytest.mark.parametrize("name", [name for name in {**TABLE_2, **OURS} if name not in INVERTIBLE])
def test_from_others_nothing_can_be_taken(name: str) -> None:
    monoid = monoid_of(name)
    with pytest.raises(TypeError, match=f"^{name}.* is not invertible"):
        monoid.without(monoid.identity, monoid.identity)
    with pytest.raises(TypeError, match=f"^{name}.* is not invertible"):
        SubtractOnEvict(monoid)


@pytest.mark.parametrize("name", INVERTIBLE)
@given(data=st.data(), width=st.integers(1, 6))
def test_subtracting_is_recomputing(name: str, data: Any, width: int) -> None:
    close = close_of(name)
    values = data.draw(st.lists(ELEMENTS.get(name, small), max_size=30))
    subtracted, folded = (
        kind(monoid_of(name), CountWindow(width)) for kind in (SubtractOnEvict, Recalculate)
    )
    for value in values:
        assert close(subtracted.push(value), folded.push(value))
        if data.draw(st.integers(0, 4)) == 0:
            subtracted.evict()
            folded.evict()
            assert close(subtracted.query(), folded.query())


@pytest.mark.parametrize("kind", [m.SampleStdDev, m.PopulationStdDev, m.Variance])
@pytest.mark.parametrize("spike", [1e9, 1e150, 1e300, math.inf, -1e12])
def test_nothing_is_left_of_a_spike(kind: Any, spike: float) -> None:
    subtracted, folded = (each(kind(), CountWindow(5)) for each in (SubtractOnEvict, Recalculate))
    chance = random.Random(1)
    for i in range(100):
        value = spike if i % 11 == 5 else chance.random()
        found, expected = subtracted.push(value), folded.push(value)
        assert found == pytest.approx(expected, rel=1e-6, nan_ok=True), i


@pytest.mark.parametrize("kind", [m.SampleStdDev, m.PopulationStdDev])
def test_deviations_far_from_zero(kind: Any) -> None:
    subtracted, folded = (each(kind(), CountWindow(7)) for each in (SubtractOnEvict, Recalculate))
    for i in range(300):
        found, expected = (window.push(1e9 + i * 7 % 5) for window in (subtracted, folded))
        assert found == pytest.approx(expected, rel=1e-4, nan_ok=True), i


def test_fields_are_what_all_of_theirs_are() -> None:
    both = m.Fields(total=m.Sum(), all=m.Collect())
    assert both.invertible
    assert not both.commutes
    window = SubtractOnEvict(both, CountWindow(2))
    assert [window.push(v) for v in (1, 2, 3)][-1] == {"total": 5, "all": [2, 3]}
    columns = m.Fields(total=m.Sum(), mean=m.Mean())
    assert columns.invertible
    assert columns.commutes
    found = SubtractOnEvict(columns, CountWindow(2)).slide([math.inf, 2.0, 3.0, 4.0])
    assert found["total"].tolist() == [math.inf, math.inf, 5.0, 7.0]
    assert not m.Fields(total=m.Sum(), peak=m.Max()).invertible


def test_made_monoids_promise_what_is_known_of_them() -> None:
    assert not m.from_function(operator.add, 0).commutes
    assert m.from_function(operator.add, 0, commutes=True).commutes
    assert not m.from_function(operator.add, 0).invertible
    assert m.from_ufunc(np.gcd, 0).commutes
    assert m.from_ufunc(np.logaddexp, -math.inf).commutes
    assert not m.from_ufunc(np.frompyfunc(lambda older, _: older, 2, 1), None).commutes
