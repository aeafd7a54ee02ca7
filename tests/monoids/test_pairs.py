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


EDGE = 2**53
NANOSECONDS = 1_767_225_600_000_000_100


@pytest.mark.parametrize(
    "bad", [EDGE + 1, -EDGE - 1, NANOSECONDS, 2**63 - 1, np.int64(NANOSECONDS)], ids=repr
)
@pytest.mark.parametrize(
    ("make", "element"),
    [
        (m.Variance, lambda bad: bad),
        (m.Covariance, lambda bad: (1, bad)),
        (m.Covariance, lambda bad: (bad, 1)),
        (m.Correlation, lambda bad: (0.5, bad)),
        (m.Slope, lambda bad: (bad, 2)),
    ],
)
def test_whole_numbers_that_a_float_would_round_are_refused(make: Any, element: Any, bad: Any) -> None:
    text = (
        rf"got {int(bad)}{{}}, a whole number beyond 2\^53 that a float would round; subtract a start first"
    )
    window = AmortizedMTA(make(), policies.CountWindow(9))
    window.push(element(1))
    before = len(window), window.query()
    for call in (window.push, window.insert):
        with pytest.raises(ValueError, match=text.format("")):
            call(element(bad))
    for good in (1, 0.5):  # the second makes a column of objects
        with pytest.raises(ValueError, match=rf"^row 1: .*{text.format('')}|{text.format(' in row 1')}"):
            window.slide([element(good), element(bad), element(good)])
    assert (len(window), str(window.query())) == (before[0], str(before[1]))
    fields = AmortizedMTA(m.Fields(a=make(*"xy"[: make().arity]), b=m.Sum("x")))
    columns = {"x": [1, int(bad), 1], "y": [1, int(bad), 1]}
    with pytest.raises(ValueError, match=text.format(" in row 1")):
        fields.extend(columns)
    with pytest.raises(ValueError, match="subtract a start first"):
        fields.push({"x": int(bad), "y": int(bad)})


def test_whole_numbers_that_a_float_holds_are_taken() -> None:
    for far in (EDGE, -EDGE, EDGE + 2, -(2**63), 2**62):
        xs = [far, far + 4096] if far < 0 else [far - 4096, far]
        found = AmortizedMTA(m.Slope(), policies.CountWindow(9)).slide([(x, i) for i, x in enumerate(xs)])
        assert found[1] == 1 / 4096
        window = AmortizedMTA(m.Variance(), policies.CountWindow(9))
        assert [window.push(x) for x in xs][1] == 4096**2 / 2


def test_the_slope_in_nanoseconds_since_a_start() -> None:
    xs = np.array([NANOSECONDS + 100 * i for i in range(50)])
    window = AmortizedMTA(m.Slope("x", "y"), policies.CountWindow(10))
    found = window.slide({"x": xs - xs[0], "y": np.arange(50)})
    assert found[1:] * 100 == pytest.approx(1)
