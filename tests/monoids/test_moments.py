"""Means and standard deviations where naive formulas fail."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest

from mta import monoids as m
from mta.core.states import layout_of


def exact_deviation(values, freedom):
    numbers = [Fraction(value) for value in values]
    if len(numbers) <= freedom:
        return math.nan
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((number - mean) ** 2 for number in numbers) / (len(numbers) - freedom))


def around(centre, spread, size, seed):
    return (centre + spread * np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], size)).tolist()


RUNS = {
    "a billion and one": around(1e9, 1, 150, 1),
    "then around nothing": around(1e9, 1, 60, 2) + around(0, 1e-3, 90, 3),
    "after around nothing": around(0, 1e-3, 90, 4) + around(1e9, 1, 60, 5),
    "an outlier first": [1e9, *around(0, 1, 100, 6)],
    "an outlier last": [*around(0, 1, 100, 7), 1e9],
    "constant": [0.1] * 100,
    "huge": [1e200, -1e200, 3e200],
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(("monoid", "freedom"), [(m.SampleStdDev(), 1), (m.PopulationStdDev(), 0)], ids=str)
def test_deviation_against_fractions(name, monoid, freedom):
    values = RUNS[name]
    if name == "huge":
        layout = layout_of(monoid)
        assert layout.lower(layout.prefixes(layout.lift(layout.elements(values))))[-1] == math.inf
        return
    layout = layout_of(monoid)
    states = layout.lift(layout.elements(values))
    prefixes = [exact_deviation(values[: i + 1], freedom) for i in range(len(values))]
    suffixes = [exact_deviation(values[i:], freedom) for i in range(len(values))]
    close = {"rel": 1e-9, "abs": 1e-15, "nan_ok": True}
    assert layout.lower(layout.prefixes(states)).tolist() == pytest.approx(prefixes, **close)
    assert layout.lower(layout.suffixes(states)).tolist() == pytest.approx(suffixes, **close)
    assert monoid.lower(layout.fold(states)) == pytest.approx(prefixes[-1], **close)


def test_deviation_of_combined_runs():
    values = around(1e9, 1, 500, 8)
    monoid = m.SampleStdDev()
    layout = layout_of(monoid)
    states = layout.lift(layout.elements(values))
    runs = [layout.fold(layout.cut(states, start, start + 50)) for start in range(0, 500, 50)]
    whole = monoid.identity
    for run in runs:
        whole = monoid.combine(whole, run)
    assert monoid.lower(whole) == pytest.approx(statistics.stdev(map(Fraction, values)), rel=1e-6)


def test_deviation_of_a_long_run():
    values = around(1e9, 1, 65536, 9)
    layout = layout_of(m.SampleStdDev())
    found = layout.lower(layout.prefixes(layout.lift(layout.elements(values))))
    assert found[-1] == pytest.approx(np.std(values, ddof=1), rel=1e-9)


def test_infinities_end_as_nan_and_not_before():
    layout = layout_of(m.PopulationStdDev())
    states = layout.lift(layout.elements([1.0, 3.0, math.inf, 2.0]))
    assert layout.lower(layout.prefixes(states)).tolist() == pytest.approx(
        [0, 1, math.nan, math.nan], nan_ok=True
    )
    assert layout.lower(layout.suffixes(states))[-1] == 0.0


def test_sums_of_reals_forget_nothing():
    layout = layout_of(m.Sum())
    states = layout.lift(layout.elements([1e17, 1.0, 1.0]))
    assert layout.lower(layout.suffixes(states)).tolist()[1:] == [2.0, 1.0]
