"""Bad elements are refused, one by one and in batches, with the value and the row in the error."""

import math

import numpy as np
import pytest

from mta import monoids as m
from mta.core.states import layout_of

NUMERIC = [
    m.Sum(),
    m.Product(),
    m.Min(),
    m.Max(),
    m.Mean(),
    m.GeometricMean(),
    m.SampleStdDev(),
    m.PopulationStdDev(),
    m.Variance(),
    m.TopK(2),
    m.MinCount(),
    m.MaxCount(),
    m.LongestIncreasingRun(),
    m.Quantiles(),
    m.from_ufunc(np.maximum, None),
    m.Fields(a=m.Max(), b=m.Count(), c=m.Mean()),
]
VALUES = [
    m.First(),
    m.Last(),
    m.LastK(2),
    m.Collect(),
    m.CollectDistinct(),
    m.BloomFilter(),
    m.CountMin(),
    m.DistinctCount(),
    m.HeavyHitters(),
]


@pytest.mark.parametrize("monoid", NUMERIC, ids=str)
@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (None, TypeError, "takes an int or a float, got None of type NoneType|takes a number"),
        (math.nan, ValueError, "got NaN.*; drop or replace missing values"),
        ("7", TypeError, "takes an int or a float, got '7' of type str"),
        (2**63, OverflowError, "9223372036854775808.*does not fit in 64 bits"),
        (1j, TypeError, "got 1j of type complex"),
    ],
)
def test_no_number(monoid, value, error, text):
    with pytest.raises(error, match=text):
        monoid.lift(value)
    with pytest.raises(error, match=text):
        monoid.row(value)
    batch = np.array([1, 2, value, 3], dtype=object)
    for values in (batch, batch.tolist()):
        with pytest.raises(error, match="row 2"):
            layout_of(monoid).elements(values)


def test_a_number_too_long_to_print():
    with pytest.raises(OverflowError, match="got a whole number of 16610 bits, which does not fit"):
        m.Sum().lift(-(10**5000))


def test_nan_in_a_column_of_floats():
    with pytest.raises(ValueError, match=r"Max\(\) got NaN in row 1; drop or replace"):
        layout_of(m.Max()).elements(np.array([1.0, math.nan]))


@pytest.mark.parametrize("monoid", VALUES, ids=str)
@pytest.mark.parametrize("value", [None, math.nan, np.float64("nan")])
def test_missing_values(monoid, value):
    with pytest.raises((TypeError, ValueError), match=r"got (None|NaN); drop or replace missing values"):
        monoid.lift(value)
    with pytest.raises((TypeError, ValueError), match=r"row 1: .* got (None|NaN); drop or replace"):
        layout_of(monoid).elements(["a", value])


@pytest.mark.parametrize(
    ("monoid", "value", "error", "text"),
    [
        (m.GeometricMean(), -1, ValueError, "takes no negative numbers, got -1"),
        (m.Concat(), 5, TypeError, r"Concat\(\) takes str, got 5 of type int"),
        (m.CollectDistinct(), [1], TypeError, r"got \[1\] of type list, which cannot be in a set"),
        (m.BloomFilter(), [1], TypeError, r"takes str, bytes, int, float or tuples of them, got \[1\]"),
        (m.CountMin(), [1], TypeError, r"takes str, bytes, int, float or tuples of them, got \[1\]"),
        (m.DistinctCount(), {}, TypeError, "takes str, bytes, int, float or tuples of them, got {}"),
        (m.HeavyHitters(), (1,), TypeError, "takes str, bytes, int or float"),
        (m.ArgMax(), 5, TypeError, r"takes a pair \(value, argument\), got 5"),
        (m.ArgMax(), (1, 2, 3), TypeError, r"takes a pair \(value, argument\), got \(1, 2, 3\)"),
        (m.ArgMax(), (None, 1), TypeError, "takes an int or a float, got None"),
        (m.ArgMax(), (1, None), TypeError, "got None; drop or replace"),
        (m.Covariance(), 5, TypeError, r"takes a pair \(x, y\), got 5"),
        (m.Correlation(), (1, 2, 3), TypeError, r"takes a pair \(x, y\), got \(1, 2, 3\)"),
        (m.Slope(), (1, None), TypeError, "takes an int or a float, got None"),
        (m.Slope(), (math.nan, 1), ValueError, "got NaN.*; drop or replace missing values"),
        (m.Covariance("x", "y"), {"x": 1}, KeyError, r"needs the field 'y', got only \['x'\]"),
        (m.LongestIncreasingRun(), (1, 2, 3), TypeError, r"takes a number or a pair \(time, number\)"),
        (m.Max("temp"), 5, TypeError, "takes a mapping with 'temp', got 5"),
        (m.Max("temp"), {"load": 1}, KeyError, r"needs the field 'temp', got only \['load'\]"),
        (m.Concat("name"), {"load": 1}, KeyError, "needs the field 'name'"),
        (m.First(), np.datetime64("2024-01-01"), TypeError, "make them whole numbers first"),
        (m.from_ufunc(np.bitwise_or, 0), 1.5, TypeError, "takes whole numbers only, got 1.5"),
    ],
    ids=str,
)
def test_one_element(monoid, value, error, text):
    with pytest.raises(error, match=text):
        monoid.lift(value)
    with pytest.raises(error, match=text):
        layout_of(monoid).elements([value])


def test_rows_of_batches_are_numbered():
    with pytest.raises(ValueError, match=r"no negative numbers, got -3.0 in row 1"):
        layout_of(m.GeometricMean()).elements(np.array([1.0, -3.0]))
    with pytest.raises(TypeError, match=r"row 1: .* got 'x'"):
        layout_of(m.ArgMax()).elements([(1, "a"), ("x", "b")])
    with pytest.raises(TypeError, match=r"row 1: .*got None"):
        layout_of(m.ArgMax()).elements(([1, 2], ["a", None]))
    with pytest.raises(TypeError, match=r"row 1: .*got 'x'"):
        layout_of(m.Max("temp")).elements([{"temp": 1}, {"temp": "x"}])
    with pytest.raises(TypeError, match="no named fields"):
        layout_of(m.Count()).elements({"a": [1, 2]})
    with pytest.raises(TypeError, match="shape"):
        layout_of(m.Max()).elements(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: m.Max("a", "b"), TypeError, r"Max takes 1 field name\(s\) or none"),
        (lambda: m.ArgMax("a"), TypeError, r"ArgMax takes 2 field name\(s\) or none"),
        (lambda: m.LastK(0), ValueError, r"LastK\(k=...\) is a whole number from 1 to 1000, got 0"),
        (lambda: m.LastK("x"), ValueError, r"LastK\(k=...\) is a whole number from 1 to 1000, got 'x'"),
        (m.LastK, TypeError, r'^LastK takes k, from 1 to 1000: LastK\(3\), or LastK\("x", k=3\)$'),
        (m.TopK, TypeError, r'^TopK takes k, from 1 to 1000: TopK\(3\), or TopK\("x", k=3\)$'),
        (lambda: m.LastK("x", k="y"), ValueError, r"LastK\(k=...\) is a whole number .*, got 'y'"),
        (lambda: m.LastK(3, k=3), TypeError, "LastK takes field names, got 3"),
        (lambda: m.TopK(3, "x", k=3), TypeError, r"TopK takes 1 field name\(s\) or none, got \(3, 'x'\)"),
        (lambda: m.TopK(1001), ValueError, r"TopK\(k=...\) is a whole number from 1 to 1000, got 1001"),
        (lambda: m.TopK(3, "x", "y"), TypeError, r"TopK takes 1 field name\(s\) or none"),
        (lambda: m.Slope("x"), TypeError, r"Slope takes 2 field name\(s\) or none"),
        (
            lambda: m.Variance(ddof=2),
            ValueError,
            r"Variance\(ddof=...\) is a whole number from 0 to 1, got 2",
        ),
        (
            lambda: m.Covariance(ddof=None),
            ValueError,
            r"Covariance\(ddof=...\) is a whole number from 0 to 1",
        ),
        (lambda: m.Max(5), TypeError, "Max takes field names, got 5"),
        (lambda: m.Collect("a", "b"), TypeError, "Collect takes one field name or none"),
        (lambda: m.LongestIncreasingRun(time="t"), TypeError, "a time field together with a value field"),
        (lambda: m.from_ufunc(np.sin, 0), TypeError, "a ufunc of two inputs and one output"),
        (lambda: m.from_ufunc(max, 0), TypeError, "a ufunc of two inputs and one output"),
        (
            lambda: m.from_function(None, 0),
            TypeError,
            r"from_function\(combine=...\) takes a function, got None",
        ),
        (lambda: m.from_function(max, 0, lift=5), TypeError, r"from_function\(lift=...\) takes a function"),
        (lambda: m.from_function(max, 0, pack=str), TypeError, "both of pack and unpack"),
        (
            lambda: m.BloomFilter(bits=0),
            ValueError,
            r"BloomFilter\(bits=...\) is a whole number of at least 1",
        ),
        (
            lambda: m.CountMin(width=0),
            ValueError,
            r"CountMin\(width=...\) is a whole number of at least 1, got 0",
        ),
        (lambda: m.CountMin(depth=2.0), ValueError, r"CountMin\(depth=...\) is a whole number"),
        (lambda: m.CountMin(width=1 << 19, depth=3), ValueError, "at most 1048576 counters of 6 bytes"),
        (lambda: m.Quantiles(q=[]), ValueError, "at least one share"),
        (lambda: m.Quantiles(q=[0.5, 7]), ValueError, "takes shares from 0 to 1, got 7"),
        (lambda: m.DistinctCount(lg_k=99), ValueError, "a whole number from 4 to 26, got 99"),
        (
            lambda: m.DistinctCount(sketch="cpc"),
            ValueError,
            "is 'hll', the only sketch .* got 'cpc'",
        ),
    ],
)
def test_bad_parameters(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_times_come_with_all_or_none():
    run = m.LongestIncreasingRun()
    with pytest.raises(TypeError, match="cannot mix elements with times and elements without"):
        run.combine(run.lift(1), run.lift((0, 1)))


@pytest.mark.parametrize("monoid", [m.BloomFilter(bits=64), m.CountMin(width=4, depth=2)], ids=repr)
def test_bytes_that_no_filter_packed(monoid):
    state = monoid.combine(monoid.lift("a"), monoid.lift("b"))
    assert monoid.unpack(monoid.pack(state)) == state
    assert monoid.unpack(bytearray(monoid.pack(state))) == state  # as Spark gives it back
    assert monoid.unpack(b"") == monoid.identity
    for packed in (None, 5, "a", [1, 2], {}):
        with pytest.raises(TypeError, match="has bytes as its state, got one of type"):
            monoid.unpack(packed)
    with pytest.raises(ValueError, match=r"has states of \d+ bits, got one of 8000"):
        monoid.unpack(b"\xff" * 1000)


@pytest.mark.parametrize(
    ("make", "plain"),
    [
        (lambda: m.LastK(np.int64(3)), m.LastK(3)),
        (lambda: m.TopK(np.uint8(3), "x"), m.TopK(3, "x")),
        (lambda: m.LastK(k=np.int64(3)), m.LastK(3)),
        (lambda: m.LastK("x", k=3), m.LastK(3, "x")),
        (lambda: m.TopK("x", k=np.uint8(3)), m.TopK(3, "x")),
        (lambda: m.Variance(ddof=np.int64(0)), m.Variance(ddof=0)),
        (lambda: m.Covariance(ddof=np.int8(0)), m.Covariance(ddof=0)),
        (lambda: m.CountMin(width=np.uint8(128), depth=np.uint8(3)), m.CountMin(width=128, depth=3)),
        (lambda: m.BloomFilter(bits=np.uint8(64), hashes=np.int64(2)), m.BloomFilter(bits=64, hashes=2)),
        (lambda: m.DistinctCount(lg_k=np.uint8(8)), m.DistinctCount(lg_k=8)),
        (lambda: m.Quantiles(k=np.int64(100)), m.Quantiles(k=100)),
        (lambda: m.HeavyHitters(top=np.int64(3)), m.HeavyHitters(top=3)),
    ],
)
def test_options_may_be_whole_numbers_of_numpy(make, plain):
    assert make().fingerprint() == plain.fingerprint()
    element = {"x": 5} if plain.fields else (5, 5) if getattr(plain, "arity", 1) == 2 else 5
    assert str(make().lower(make().lift(element))) == str(plain.lower(plain.lift(element)))
