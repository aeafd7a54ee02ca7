"""Monoids over elements that may be missing obey the laws, and skip these elements."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from statistics import correlation, covariance, linear_regression
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import monoids as m
from mta.monoids.laws import LAWS, tolerant
from mta.monoids.missing import NO_VALUE
from mta.monoids.nulls import skipping_nulls
from tests.chance import examples, seeds
from tests.monoids.through_windows import check_everywhere

small, words, reals = st.integers(-9, 9), st.text(max_size=3), st.floats(-1e3, 1e3)
numbers = st.one_of(small, reals)
ABSENT = [None, math.nan, np.float64("nan"), np.datetime64("NaT")]
missing = st.sampled_from(ABSENT)


def or_missing(values: Any) -> Any:
    return st.one_of(missing, values, values)


number_pairs = st.tuples(or_missing(small), or_missing(reals))
LAWFUL: list[tuple[m.Monoid, Any]] = [
    *((monoid, or_missing(numbers)) for monoid in (m.Sum(), m.Mean(), m.Min(), m.Max(), m.MaxCount())),
    *((monoid, or_missing(small)) for monoid in (m.Product(), m.MinCount(), m.TopK(3))),
    *((monoid, or_missing(words)) for monoid in (m.First(), m.Last(), m.LastK(2), m.Concat(), m.Count())),
    *((monoid, or_missing(words)) for monoid in (m.Collect(), m.CollectDistinct(), m.CountDistinct())),
    *((monoid, or_missing(words)) for monoid in (m.DistinctCount(lg_k=4), m.BloomFilter(), m.CountMin())),
    (m.GeometricMean(), or_missing(st.integers(1, 9))),
    *((monoid, or_missing(small)) for monoid in (m.SampleStdDev(), m.PopulationStdDev(), m.Variance())),
    *((monoid, number_pairs) for monoid in (m.Covariance(), m.Correlation(), m.Slope())),
    *((monoid, st.tuples(or_missing(small), or_missing(words))) for monoid in (m.ArgMax(), m.ArgMin())),
    *((monoid, st.tuples(or_missing(small), or_missing(small))) for monoid in (m.ArgMax(), m.ArgMin())),
    (m.LongestIncreasingRun(), or_missing(small)),
    (m.LongestIncreasingRun(), number_pairs),
    (m.from_function(max, None, name="max"), or_missing(small)),
    (m.from_function(operator.add, "", lift=str, name="texts"), or_missing(small)),
    (m.from_ufunc(np.maximum, 0), or_missing(small)),
    (m.from_ufunc(np.logaddexp, -math.inf), or_missing(reals)),
]


@pytest.mark.parametrize("number", range(len(LAWFUL)), ids=lambda number: repr(LAWFUL[number][0]))
def test_laws(number: int) -> None:
    monoid, elements = LAWFUL[number]

    @settings(max_examples=examples(15))
    @given(st.lists(elements, min_size=1, max_size=30))
    def laws(values: list[Any]) -> None:
        for law in LAWS:
            law(skipping_nulls(monoid), values, tolerant(1e-6, 1e-3))

    laws()


# -- against plain recomputation ----------------------------------------------------------------------------

Reference = Callable[[Sequence[Any]], Any]


def deviation(ddof: int, root: bool) -> Reference:
    def found(xs: Sequence[float]) -> float:
        if len(xs) <= ddof:
            return math.nan
        mean = math.fsum(xs) / len(xs)
        variance = math.fsum((x - mean) ** 2 for x in xs) / (len(xs) - ddof)
        return math.sqrt(variance) if root else variance

    return found


def of_pairs(function: Callable[[Sequence[float], Sequence[float]], float], varied: str) -> Reference:
    """A function of statistics; NaN where it has too few values, or where those that have to vary do not."""

    def found(pairs: Sequence[tuple[float, float]]) -> float:
        columns = dict(zip("xy", zip(*pairs, strict=True), strict=True)) if pairs else {}
        if len(pairs) < 2 or any(len(set(columns[name])) == 1 for name in varied):
            return math.nan
        return function(columns["x"], columns["y"])

    return found


def mean(xs: Sequence[float]) -> float:
    return math.fsum(xs) / len(xs) if xs else math.nan


def best(sign: int) -> Reference:
    def found(pairs: Sequence[tuple[Any, Any]]) -> Any:
        ranked = sorted(range(len(pairs)), key=lambda at: (-sign * pairs[at][0], at))
        return pairs[ranked[0]][1] if pairs else None

    return found


def longest_run(xs: Sequence[float]) -> tuple[Any, ...]:
    runs = [
        (stop - start, -start)
        for start in range(len(xs))
        for stop in range(start + 1, len(xs) + 1)
        if all(a < b for a, b in zip(xs[start:stop], xs[start + 1 : stop], strict=False))
    ]
    if not runs:
        return (None, None, None, 0)
    count, start = max(runs)
    return (-start, count - start - 1, count - 1, count)


def many(xs: Sequence[Any]) -> list[tuple[Any, int]]:
    return sorted(Counter(xs).items(), key=lambda entry: (-entry[1], entry[0]))


#: by its name: the monoid, the inputs that an element needs, further inputs, the reference
Cases = dict[str, tuple[m.Monoid, tuple[str, ...], tuple[str, ...], Reference]]

COLUMNAR: Cases = {
    "n": (m.Count(), (), (), len),
    "n_x": (m.Count("x"), ("x",), (), len),
    "n_w": (m.Count("w"), ("w",), (), len),
    "n_any": (m.Count("any"), ("any",), (), len),
    "sum": (m.Sum("x"), ("x",), (), sum),
    "product": (m.Product("k"), ("k",), (), math.prod),
    "min": (m.Min("x"), ("x",), (), lambda xs: min(xs, default=None)),
    "max": (m.Max("x"), ("x",), (), lambda xs: max(xs, default=None)),
    "min_count": (m.MinCount("k"), ("k",), (), lambda xs: list(xs).count(min(xs, default=None))),
    "max_count": (m.MaxCount("k"), ("k",), (), lambda xs: list(xs).count(max(xs, default=None))),
    "mean": (m.Mean("x"), ("x",), (), mean),
    "geometric": (
        m.GeometricMean("k"),
        ("k",),
        (),
        lambda xs: math.prod(xs) ** (1 / len(xs)) if xs else math.nan,
    ),
    "sample": (m.SampleStdDev("x"), ("x",), (), deviation(1, root=True)),
    "population": (m.PopulationStdDev("x"), ("x",), (), deviation(0, root=True)),
    "variance": (m.Variance("x"), ("x",), (), deviation(1, root=False)),
    "covariance": (m.Covariance("x", "k"), ("x", "k"), (), of_pairs(covariance, "")),
    "correlation": (m.Correlation("k", "y"), ("k", "y"), (), of_pairs(correlation, "xy")),
    "slope": (m.Slope("k", "y"), ("k", "y"), (), of_pairs(lambda x, y: linear_regression(x, y).slope, "x")),
    "top_word": (m.ArgMax("x", "w"), ("x",), ("w",), best(1)),
    "low_number": (m.ArgMin("y", "k"), ("y",), ("k",), best(-1)),
    "first": (m.First("w"), ("w",), (), lambda ws: ws[0] if ws else None),
    "first_number": (m.First("y"), ("y",), (), lambda ys: ys[0] if ys else None),
    "last": (m.Last("w"), ("w",), (), lambda ws: ws[-1] if ws else None),
    "last_3": (m.LastK(3, "y"), ("y",), (), lambda ys: tuple(ys[-3:])),
    "top_3": (m.TopK(3, "x"), ("x",), (), lambda xs: tuple(sorted(xs, reverse=True)[:3])),
    "users": (m.DistinctCount("w"), ("w",), (), lambda ws: len(set(ws))),
    "gcd": (m.from_ufunc(np.gcd, 0, field="k"), ("k",), (), lambda ks: math.gcd(*ks)),
}
OBJECTS: Cases = {
    "text": (m.Concat("w"), ("w",), (), "".join),
    "all": (m.Collect("x"), ("x",), (), list),
    "some": (m.CollectDistinct("w"), ("w",), (), set),
    "different": (m.CountDistinct("k"), ("k",), (), lambda ks: len(set(ks))),
    "run": (m.LongestIncreasingRun("k"), ("k",), (), longest_run),
    "ends": (
        m.Quantiles("k", q=(0, 1)),
        ("k",),
        (),
        lambda ks: {0: min(ks, default=math.nan), 1: max(ks, default=math.nan)},
    ),
    "many": (m.HeavyHitters("w", top=99), ("w",), (), many),
    "in": (m.BloomFilter("w"), ("w",), (), set),
    "times": (m.CountMin("w"), ("w",), (), Counter),
    "greatest": (
        m.from_function(max, None, name="max", field="x"),
        ("x",),
        (),
        lambda xs: max(xs, default=None),
    ),
}


def some_elements(rng: Random, count: int) -> list[dict[str, Any]]:
    choices: dict[str, Callable[[], Any]] = {
        "x": lambda: rng.choice([rng.randint(-9, 9), rng.uniform(-9, 9)]),
        "y": lambda: rng.randint(-9, 9),
        "k": lambda: rng.randint(1, 5),
        "w": lambda: rng.choice(["a", "b", "cd", "e"]),
        "any": lambda: rng.choice([{1}, "x", -(2**63), np.datetime64("2026-01-01")]),
    }
    return [
        {name: rng.choice(ABSENT) if rng.random() < 0.4 else choose() for name, choose in choices.items()}
        for _ in range(count)
    ]


def absent(value: Any) -> bool:
    return value is None or value != value


def expected_by(cases: Cases) -> Reference:
    def expected(elements: Sequence[Any]) -> dict[str, Any]:
        results = {}
        for name, (_, needs, more, reference) in cases.items():
            there = [each for each in elements if not any(absent(each[field]) for field in needs)]
            rows = [tuple(None if absent(each[f]) else each[f] for f in (*needs, *more)) for each in there]
            results[name] = reference([row[0] for row in rows] if len((*needs, *more)) == 1 else rows)
        return results

    return expected


close = tolerant(1e-6, 1e-3)


def same(found: Any, wanted: Any) -> bool:
    for name, each in wanted.items():
        result = found[name]
        if isinstance(result, m.Membership):
            ok = all(value in result for value in each) and ("zz" not in result or not each)
        elif isinstance(result, m.Frequencies):
            ok = result.total == each.total() and all(result[value] >= each[value] for value in each)
        elif name == "users":
            ok = round(result) == each
        else:
            ok = close(result, each)
        if not ok:
            raise AssertionError(f"{name}: {result!r} for {each!r}")
    return True


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("cases", [COLUMNAR, {**OBJECTS, **COLUMNAR}], ids=["columns", "objects"])
def test_windows_of_all_monoids_skip_missing_values(cases: Cases, seed: int) -> None:
    rng = Random(seed)
    check_everywhere(
        lambda: skipping_nulls(m.Fields(**{name: case[0] for name, case in cases.items()})),
        some_elements(rng, 36),
        expected_by(cases),
        same,
        width=rng.randint(2, 12),
    )


@settings(max_examples=examples(10))
@given(st.lists(or_missing(numbers), min_size=1, max_size=40), st.integers(1, 12))
def test_windows_of_plain_elements(elements: list[Any], width: int) -> None:
    def present(some: Sequence[Any]) -> list[Any]:
        return [value for value in some if not absent(value)]

    def greatest(some: Sequence[Any]) -> Any:
        return max(present(some), default=None)

    check_everywhere(lambda: skipping_nulls(m.Max()), elements, greatest, close, width=width)


def test_every_monoid_is_tested() -> None:
    tested = {type(case[0]).__name__ for case in (COLUMNAR | OBJECTS).values()}
    catalogue = {
        name
        for name in m.__all__
        if isinstance(getattr(m, name), type)
        and issubclass(getattr(m, name), m.Monoid)
        and name not in ("Monoid", "ColumnarMonoid", "Fields")
    }
    assert catalogue <= tested


# -- what the identity of a monoid need not be --------------------------------------------------------------


def test_an_identity_that_is_none_is_not_combined() -> None:
    """The results of no elements may be no identities: windows never combine them."""
    for monoid in (m.from_ufunc(np.maximum, 0), m.from_function(max, 0, name="max")):
        some = skipping_nulls(monoid)
        states = [some.lift(value) for value in (None, -3, None, -5)]
        total = states[0]
        for state in states[1:]:
            total = some.combine(total, state)
        assert some.lower(total) == -3
        assert some.lower(some.combine(states[0], states[2])) == 0


def test_the_state_of_no_value_is_one_object() -> None:
    import copy
    import pickle

    assert copy.deepcopy({"x": NO_VALUE})["x"] is NO_VALUE
    assert pickle.loads(pickle.dumps(NO_VALUE)) is NO_VALUE
    assert repr(NO_VALUE) == "NO_VALUE"


def test_a_monoid_skips_once() -> None:
    some = skipping_nulls(m.Fields(a=m.Max("x"), n=m.Count()))
    assert skipping_nulls(some) is some
    assert some.fingerprint() == "skipping_nulls(Fields(a=Max('x'), n=Count()))"
    some = skipping_nulls(m.Count("x"))
    assert some.fingerprint() == "skipping_nulls(Count('x'))"
    assert repr(some) == "Count('x')"  # as in the errors that users see
