"""Worked examples of every monoid, against the standard library and NumPy."""

import collections
import math
import operator
import pickle
import random
import statistics

import numpy as np
import pytest

from mta import monoids as m
from mta.core.states import layout_of
from mta.monoids.laws import fold

NUMBERS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
REALS = [2.5, -1.25, 8.0, 0.5, 8.0]
PAIRS = list(zip(NUMBERS, [2.5, -1.25, 8.0, 0.5, 8.0, 3, 4, 0, 1, -7, 2], strict=True))


def result(monoid, values):
    """The aggregate of some elements, one by one, and by way of runs."""
    plain = monoid.lower(fold(monoid, [monoid.lift(value) for value in values]))
    if values:
        layout = layout_of(monoid)
        states = layout.lift(layout.elements(values))
        by_runs = monoid.lower(layout.fold(states))
        by_prefix = monoid.lower(layout.at(layout.prefixes(states), len(values) - 1))
        by_suffix = monoid.lower(layout.at(layout.suffixes(states), 0))
        for other in (by_runs, by_prefix, by_suffix):
            assert other == pytest.approx(plain, nan_ok=True) if isinstance(plain, float) else other == plain
            assert type(other) is type(plain)
    return plain


@pytest.mark.parametrize(
    ("monoid", "values", "expected"),
    [
        (m.Count(), NUMBERS, 11),
        (m.Count(), ["a", None, {}], 3),
        (m.Sum(), NUMBERS, sum(NUMBERS)),
        (m.Sum(), REALS, sum(REALS)),
        (m.Sum(), [True, True, False], 2),
        (m.Product(), NUMBERS, math.prod(NUMBERS)),
        (m.Product(), REALS, math.prod(REALS)),
        (m.Min(), NUMBERS, 1),
        (m.Max(), NUMBERS, 9),
        (m.Max(), REALS, 8.0),
        (m.Max(), [-math.inf, math.inf], math.inf),
        (m.Mean(), NUMBERS, statistics.fmean(NUMBERS)),
        (m.Mean(), REALS, statistics.mean(REALS)),
        (m.GeometricMean(), NUMBERS, statistics.geometric_mean(NUMBERS)),
        (m.GeometricMean(), [4, 0, 9], 0.0),
        (m.GeometricMean(), [1e300] * 5, 1e300),
        (m.SampleStdDev(), NUMBERS, statistics.stdev(NUMBERS)),
        (m.PopulationStdDev(), NUMBERS, statistics.pstdev(NUMBERS)),
        (m.SampleStdDev(), [7], math.nan),
        (m.PopulationStdDev(), [7], 0.0),
        (m.SampleStdDev(), [1.0, math.inf, 2.0], math.nan),
        (m.Variance(), NUMBERS, statistics.variance(map(float, NUMBERS))),
        (m.Variance(ddof=0), NUMBERS, statistics.pvariance(map(float, NUMBERS))),
        (m.Variance(), [7], math.nan),
        (m.Variance(ddof=0), [7], 0.0),
        (m.Covariance(), PAIRS, statistics.covariance(*zip(*PAIRS, strict=True))),
        (m.Covariance(), PAIRS[:1], math.nan),
        (m.Covariance(ddof=0), PAIRS[:1], 0.0),
        (m.Correlation(), PAIRS, statistics.correlation(*zip(*PAIRS, strict=True))),
        (m.Correlation(), [(1, 2), (1, 3)], math.nan),
        (m.Correlation(), [(1, 3), (2, 3)], math.nan),
        (m.Correlation(), [(0.1 * i, -0.3 * i) for i in range(9)], -1.0),
        (m.Slope(), PAIRS, statistics.linear_regression(*zip(*PAIRS, strict=True)).slope),
        (m.Slope(), [(1, 2), (1, 3)], math.nan),
        (m.Slope(), [(1, 5), (3, 5)], 0.0),
        (m.Slope(), [(1.0, 5.0), (math.inf, 5.0)], math.nan),
        (m.MinCount(), NUMBERS, 2),
        (m.MaxCount(), NUMBERS, 1),
        (m.MaxCount(), REALS, 2),
        (m.ArgMax(), [(1, "a"), (5, "b"), (5, "c"), (2, "d")], "b"),
        (m.ArgMin(), [(1.5, 10), (0.5, 20), (0.5, 30), (2.0, 40)], 20),
        (m.First(), NUMBERS, 3),
        (m.Last(), NUMBERS, 5),
        (m.First(), ["x", "y"], "x"),
        (m.Last(), [(1, 2), (3, 4)], (3, 4)),
        (m.LastK(2), NUMBERS, (3, 5)),
        (m.LastK(20), NUMBERS, tuple(NUMBERS)),
        (m.LastK(2), ["x", (1, 2), "z"], ((1, 2), "z")),
        (m.TopK(3), NUMBERS, (9, 6, 5)),
        (m.TopK(4), NUMBERS, (9, 6, 5, 5)),
        (m.TopK(9), REALS, (8.0, 8.0, 2.5, 0.5, -1.25)),
        (m.Concat(), ["ab", "", "c"], "abc"),
        (m.Collect(), ["b", 1, "b"], ["b", 1, "b"]),
        (m.CollectDistinct(), NUMBERS, set(NUMBERS)),
        (m.CountDistinct(), NUMBERS, len(set(NUMBERS))),
        (m.from_ufunc(np.gcd, 0), [12, 18, 30], 6),
        (m.from_ufunc(np.bitwise_xor, 0), [5, 3, 9], 5 ^ 3 ^ 9),
        (m.from_ufunc(np.add, 0.0, lift=np.square, lower=np.sqrt), [3.0, 4.0], 5.0),
        (m.from_function(operator.add, "", lift=str), [1, 2, 3], "123"),
    ],
    ids=str,
)
def test_result(monoid, values, expected):
    found = result(monoid, values)
    assert found == pytest.approx(expected, nan_ok=True) if isinstance(expected, float) else found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("monoid", "expected"),
    [
        (m.Count(), 0),
        (m.Sum(), 0),
        (m.Product(), 1),
        (m.Min(), None),
        (m.Max(), None),
        (m.Mean(), math.nan),
        (m.GeometricMean(), math.nan),
        (m.SampleStdDev(), math.nan),
        (m.PopulationStdDev(), math.nan),
        (m.Variance(), math.nan),
        (m.Covariance(), math.nan),
        (m.Correlation(), math.nan),
        (m.Slope(), math.nan),
        (m.MinCount(), 0),
        (m.MaxCount(), 0),
        (m.ArgMin(), None),
        (m.ArgMax(), None),
        (m.First(), None),
        (m.Last(), None),
        (m.LastK(3), ()),
        (m.TopK(3), ()),
        (m.Concat(), ""),
        (m.Collect(), []),
        (m.CollectDistinct(), set()),
        (m.CountDistinct(), 0),
        (m.LongestIncreasingRun(), (None, None, None, 0)),
        (m.DistinctCount(), 0.0),
        (m.HeavyHitters(), []),
        (m.Fields(n=m.Count(), peak=m.Max()), {"n": 0, "peak": None}),
    ],
    ids=str,
)
def test_of_nothing(monoid, expected):
    found = monoid.lower(monoid.identity)
    assert found == expected or (math.isnan(expected) and math.isnan(found))


def test_a_mixed_run_is_real():
    layout = layout_of(m.Max())
    assert layout.lower(layout.prefixes(layout.lift(layout.elements([1, 2.5, 2])))).tolist() == [
        1.0,
        2.5,
        2.5,
    ]
    assert layout.lower(layout.elements([1, 2])).dtype == np.int64


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.float32, np.float64, np.bool_, object])
def test_columns_of_any_number_type(kind):
    values = np.array([1, 0, 1], dtype=kind)
    layout = layout_of(m.Sum())
    found = layout.lower(layout.prefixes(layout.lift(layout.elements(values))))
    assert found.tolist() == [1, 1, 2]
    assert found.dtype in (np.int64, np.float64)


def test_argument_columns_keep_their_type():
    layout = layout_of(m.ArgMax())
    for arguments in (
        np.array(["x", "yy", "z"]),
        np.array([1, 2, 3]),
        np.array([0.5, 1.5, 2.5]),
        [b"a", b"b", b"c"],
    ):
        elements = layout.elements((np.array([1.0, 3.0, 2.0]), arguments))
        states = layout.prefixes(layout.lift(elements))
        expected = [arguments[0], arguments[1], arguments[1]]
        assert layout.lower(states).tolist() == expected
        assert [type(x) for x in layout.lower(states).tolist()] == [
            type(np.asarray(x).item()) for x in expected
        ]


def test_pairs_as_rows_as_columns_and_as_a_matrix():
    layout = layout_of(m.ArgMax())
    for batch in ([(1, 7), (2, 8)], ([1, 2], [7, 8]), np.array([[1, 7], [2, 8]])):
        assert layout.lower(layout.lift(layout.elements(batch))).tolist() == [7, 8]


@pytest.mark.parametrize("size", [1, 2, 7, 400])
def test_the_oldest_wins_a_tie_in_both_scans(size):
    rng = random.Random(size)
    pairs = [(rng.randrange(4), i) for i in range(size)]
    for monoid, best in ((m.ArgMax(), max), (m.ArgMin(), min)):
        layout = layout_of(monoid)
        states = layout.lift(layout.elements(pairs))
        prefixes = [best(pairs[: i + 1], key=operator.itemgetter(0))[1] for i in range(size)]
        suffixes = [best(pairs[i:], key=operator.itemgetter(0))[1] for i in range(size)]
        assert layout.lower(layout.prefixes(states)).tolist() == prefixes
        assert layout.lower(layout.suffixes(states)).tolist() == suffixes
        assert monoid.lower(layout.fold(states)) == prefixes[-1]


@pytest.mark.parametrize("order", [sorted, list])
def test_arguments_of_many_records(order):
    values = order(np.random.default_rng(3).random(500).tolist())
    layout = layout_of(m.ArgMax())
    states = layout.lift(layout.elements((values, np.arange(500))))
    assert layout.lower(layout.prefixes(states)).tolist() == [
        int(np.argmax(values[: i + 1])) for i in range(500)
    ]
    assert layout.lower(layout.suffixes(states)).tolist() == [
        i + int(np.argmax(values[i:])) for i in range(500)
    ]


def test_counts_of_extrema():
    values = [random.Random(1).randrange(5) for _ in range(200)]
    layout = layout_of(m.MaxCount())
    found = layout.lower(layout.prefixes(layout.lift(layout.elements(values)))).tolist()
    assert found == [collections.Counter(values[: i + 1])[max(values[: i + 1])] for i in range(200)]


def test_named_fields():
    rows = [{"amount": 5, "user": "ann", "x": 0}, {"amount": 7, "user": "bob", "x": None}]
    assert result(m.Max("amount"), rows) == 7
    assert result(m.ArgMax("amount", "user"), rows) == "bob"
    assert result(m.Concat("user"), rows) == "annbob"
    layout = layout_of(m.ArgMin("amount", "user"))
    table = {"user": np.array(["ann", "bob"]), "amount": [5, 7], "x": [0, 0]}
    assert layout.lower(layout.lift(layout.elements(table))).tolist() == ["ann", "bob"]


def test_results_do_not_share_their_state():
    collect, distinct = m.Collect(), m.CollectDistinct()
    state = collect.lift(1)
    collect.lower(state).append(2)
    assert collect.lower(state) == [1]
    state = distinct.lift(1)
    distinct.lower(state).add(2)
    assert distinct.lower(state) == {1}


def test_from_function_calls_once():
    calls = []

    def combine(older, younger):
        calls.append((older, younger))
        return older + younger

    monoid = m.from_function(combine, 0, name="plus")
    assert monoid.combine(monoid.identity, 5) == 5
    assert monoid.combine(2, 3) == 5
    assert calls == [(0, 5), (2, 3)]
    assert monoid.fingerprint() == "from_function(plus)"
    assert m.from_function(combine, 0, field="x").lift({"x": 4}) == 4


@pytest.mark.parametrize(
    "monoid",
    [
        m.Sum(),
        m.Max("temp"),
        m.SampleStdDev(),
        m.Variance("x", ddof=0),
        m.Covariance("a", "b"),
        m.LastK(3),
        m.TopK(2, "x"),
        m.DistinctCount("x", lg_k=5),
        m.ArgMax("a", "b"),
        m.Collect(),
        m.LongestIncreasingRun("a", time="t"),
        m.BloomFilter(bits=64),
        m.CountMin("a", width=64),
        m.Quantiles(q=0.5),
        m.from_ufunc(np.maximum, -math.inf),
        m.from_ufunc(np.logaddexp, None),
        m.from_function(operator.add, 0),
        m.Fields(a=m.Max("x"), b=m.Mean("y"), c=m.from_ufunc(np.add, 0, field="x")),
        m.Fields(a=m.Collect(), b=m.Count()),
    ],
    ids=str,
)
def test_a_monoid_travels_to_another_process(monoid):
    copy = pickle.loads(pickle.dumps(monoid))
    assert copy.fingerprint() == monoid.fingerprint() == repr(monoid)
    assert isinstance(copy, m.ColumnarMonoid) == isinstance(monoid, m.ColumnarMonoid)


def test_fingerprints_tell_monoids_apart():
    monoids = [
        m.Max(),
        m.Max("a"),
        m.Max("b"),
        m.LastK(3),
        m.LastK(4),
        m.LastK(3, "a"),
        m.TopK(3),
        m.Variance(),
        m.Variance(ddof=0),
        m.Covariance("a", "b"),
        m.Covariance("b", "a"),
        m.Covariance("a", "b", ddof=0),
        m.Correlation("a", "b"),
        m.Slope("a", "b"),
        m.Slope("b", "a"),
        m.Min(),
        m.BloomFilter(),
        m.BloomFilter(bits=64),
        m.BloomFilter("a"),
        m.CountMin(),
        m.CountMin(width=64),
        m.CountMin(depth=2),
        m.CountMin("a"),
        m.Quantiles(),
        m.Quantiles(q=0.5),
        m.Quantiles(k=100),
        m.DistinctCount(),
        m.DistinctCount(lg_k=10),
        m.HeavyHitters(top=3),
        m.HeavyHitters(),
        m.from_ufunc(np.maximum, None),
        m.from_ufunc(np.maximum, 0),
        m.from_ufunc(np.minimum, None),
        m.from_ufunc(np.maximum, None, lift=np.abs),
        m.from_function(operator.add, 0),
        m.from_function(operator.mul, 0),
        m.LongestIncreasingRun("a"),
        m.LongestIncreasingRun("a", time="t"),
        m.Fields(a=m.Max()),
        m.Fields(b=m.Max()),
        m.Fields(a=m.Min()),
    ]
    assert len({monoid.fingerprint() for monoid in monoids}) == len(monoids)


def test_all_names_are_exported():
    assert all(hasattr(m, name) for name in m.__all__)


def test_count_of_a_field() -> None:
    rows = [{"x": 1.0}, {"x": 2.0}]
    for monoid in (m.Count("x"), m.Fields(n=m.Count("x"), top=m.Max("x"))):
        found = monoid.lower(fold(monoid, [monoid.lift(row) for row in rows]))
        assert found in (2, {"n": 2, "top": 2.0})
    with pytest.raises(TypeError, match=r"Count takes 1 field name\(s\) or none"):
        m.Count("x", "y")
