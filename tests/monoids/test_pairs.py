"""Variances, covariances, correlations and slopes, against fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from monoids.through_windows import check_everywhere

from mta import AmortizedMTA, policies
from mta import monoids as m
from mta.core.states import layout_of
from mta.monoids.base import Monoid

Pairs = Sequence[tuple[float, float]]


def moments(pairs: Pairs) -> tuple[int, Fraction, Fraction, Fraction]:
    """The count, and the sums of squares of x, of squares of y, and of products, all around the means."""
    n = len(pairs)
    xs, ys = ([Fraction(pair[at]) for pair in pairs] for at in (0, 1))
    x, y = sum(xs) / n, sum(ys) / n
    return (
        n,
        sum(((each - x) ** 2 for each in xs), Fraction(0)),
        sum(((each - y) ** 2 for each in ys), Fraction(0)),
        sum(((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)), Fraction(0)),
    )


def variance(pairs: Pairs, freedom: int) -> float:
    n, xs, _, _ = moments(pairs)
    return float(xs / (n - freedom)) if n > freedom else math.nan


def covariance(pairs: Pairs, freedom: int) -> float:
    n, _, _, both = moments(pairs)
    return float(both / (n - freedom)) if n > freedom else math.nan


def correlation(pairs: Pairs) -> float:
    _, xs, ys, both = moments(pairs)
    return float(both) / math.sqrt(xs * ys) if xs and ys else math.nan


def slope(pairs: Pairs) -> float:
    _, xs, _, both = moments(pairs)
    return float(both / xs) if xs else math.nan


CASES: dict[str, tuple[Callable[[], Monoid], Callable[[Pairs], float]]] = {
    "variance": (lambda: m.Variance("x"), lambda pairs: variance(pairs, 1)),
    "population variance": (lambda: m.Variance("x", ddof=0), lambda pairs: variance(pairs, 0)),
    "covariance": (lambda: m.Covariance("x", "y"), lambda pairs: covariance(pairs, 1)),
    "population covariance": (lambda: m.Covariance("x", "y", ddof=0), lambda pairs: covariance(pairs, 0)),
    "correlation": (lambda: m.Correlation("x", "y"), correlation),
    "slope": (lambda: m.Slope("x", "y"), slope),
}


def records(pairs: Pairs) -> list[dict[str, float]]:
    return [{"x": x, "y": y} for x, y in pairs]


def same(found: Any, wanted: Any) -> bool:
    both_nan = math.isnan(found) and math.isnan(wanted)
    return both_nan or math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)


small = st.integers(-9, 9)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=examples(6))
@given(pairs=st.lists(st.tuples(small, st.integers(-9, 9).map(lambda y: y / 2)), min_size=1, max_size=90))
def test_windows_of_pairs(name: str, pairs: Pairs) -> None:
    make, of = CASES[name]

    def expected(some: Sequence[dict[str, float]]) -> float:
        return of([(each["x"], each["y"]) for each in some])

    check_everywhere(make, records(pairs), expected, same, width=13)


def far(count: int) -> Pairs:
    """Pairs a billion away from zero, whose naive sums of squares have no digit of the differences."""
    chance = np.random.default_rng(7)
    xs = chance.integers(-3, 4, count)
    ys = xs + chance.integers(-1, 2, count)
    return [(1e9 + x, -1e9 + y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]


RUNS: dict[str, Pairs] = {
    "far from zero": far(150),
    "an outlier first": [(1e6, 3.0), *[(x - 1e9, y + 1e9) for x, y in far(60)]],
    "constant": [(0.1, 0.3)] * 60,
    "a line": [(0.1 * i, 7 - 0.3 * i) for i in range(90)],
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", CASES)
def test_scans_against_fractions(name: str, run: str) -> None:
    (make, of), pairs = CASES[name], RUNS[run]
    monoid = make()
    layout = layout_of(monoid)
    states = layout.lift(layout.elements({"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}))
    prefixes = [of(pairs[: i + 1]) for i in range(len(pairs))]
    suffixes = [of(pairs[i:]) for i in range(len(pairs))]
    close = {"rel": 1e-7, "abs": 1e-9, "nan_ok": True}
    assert layout.lower(layout.prefixes(states)).tolist() == pytest.approx(prefixes, **close)
    assert layout.lower(layout.suffixes(states)).tolist() == pytest.approx(suffixes, **close)
    assert monoid.lower(layout.fold(states)) == pytest.approx(prefixes[-1], **close)
    halves = [layout.fold(layout.cut(states, a, b)) for a, b in ((0, 20), (20, len(pairs)))]
    assert monoid.lower(monoid.combine(*halves)) == pytest.approx(prefixes[-1], **close)


def test_the_slope_is_of_y_over_x() -> None:
    window = AmortizedMTA(m.Slope("hour", "price"), policies.CountWindow(3))
    assert window.slide({"price": [10, 30, 50], "hour": [1, 2, 3]}).tolist()[1:] == [20.0, 20.0]
    pairs = AmortizedMTA(m.Slope())
    pairs.extend([(1, 10), (2, 30)])
    assert pairs.query() == 20.0


def test_an_infinity_leaves_nothing_behind() -> None:
    for monoid in (m.Covariance(), m.Correlation(), m.Slope()):
        for bad in ((math.inf, 1.0), (1.0, -math.inf)):
            window = AmortizedMTA(monoid, policies.CountWindow(3), page_size=2)
            found = window.slide([(1.0, 2.0), bad, (2.0, 4.0), (3.0, 6.0), (4.0, 8.0)]).tolist()
            assert all(map(math.isnan, found[1:4]))
            assert math.isfinite(found[4])


def test_a_correlation_is_never_beyond_one() -> None:
    monoid = m.Correlation()
    chance = np.random.default_rng(3)
    for _ in range(50):
        xs = chance.random(30)
        pairs = list(zip(xs.tolist(), (xs * 3 + 1).tolist(), strict=True))
        found = AmortizedMTA(monoid, policies.CountWindow(9)).slide(pairs)
        assert np.nanmax(found) <= 1.0
        window = AmortizedMTA(monoid, policies.CountWindow(9))
        assert all(not abs(window.push(pair)) > 1.0 for pair in pairs)
