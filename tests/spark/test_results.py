"""Result types, and results of each monoid of the catalogue."""

from __future__ import annotations

import datetime as dt
import math
import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as sql
from rolled import column, roll, schema_of

from mta import monoids
from mta.monoids import Monoid
from spark_integration.call.planning import make_plan, with_results
from spark_integration.errors import DataError

DAYS = [dt.date(2020, 1, 1 + i) for i in range(4)]
MOMENTS = [dt.datetime(2020, 1, 1, i, tzinfo=dt.UTC) for i in range(4)]
TABLE = pa.table(
    {
        "k": [1, 1, 1, 1],
        "o": [0, 1, 2, 3],
        "byte": pa.array([1, None, 3, 2], pa.int8()),
        "int": pa.array([1, None, 3, 2], pa.int32()),
        "long": pa.array([1, None, 3, 2], pa.int64()),
        "float": pa.array([0.1, None, 0.3, 0.2], pa.float32()),
        "double": pa.array([0.1, None, math.nan, 0.2], pa.float64(), from_pandas=False),
        "bool": [True, None, False, True],
        "day": pa.array([DAYS[0], None, *DAYS[2:]]),
        "moment": pa.array([MOMENTS[0], None, *MOMENTS[2:]], pa.timestamp("us", "UTC")),
        "naive": pa.array([0, None, 2, 3], pa.timestamp("us")),
        "text": ["a", None, "c", "b"],
        "bytes": [b"a", None, b"c", b"b"],
        "list": [[1], None, [], [2]],
        "odd": pa.array([math.nan, math.nan, 0.0, -0.0], from_pandas=False),
        "nans": pa.array([math.nan, math.nan, math.nan, 1.0], from_pandas=False),
    }
)
LOG = [float(np.logaddexp(1, 3)), float(np.logaddexp(3, 2))]
F3 = [float(np.float32(v)) for v in (0.1, 0.3, 0.2)]

#: the monoid, the type of its results, and its results over windows of three rows
CASES: list[tuple[Monoid, str, list[Any]]] = [
    (monoids.Count(), "bigint", [1, 2, 3, 3]),
    (monoids.Count("long"), "bigint", [1, 1, 2, 2]),
    (monoids.Count("double"), "bigint", [1, 1, 2, 2]),
    (monoids.Count("text"), "bigint", [1, 1, 2, 2]),
    (monoids.Count("list"), "bigint", [1, 1, 2, 2]),
    (monoids.CountDistinct("bool"), "bigint", [1, 1, 2, 2]),
    (monoids.CountDistinct("text"), "bigint", [1, 1, 2, 2]),
    (monoids.CountDistinct("moment"), "bigint", [1, 1, 2, 2]),
    (monoids.CountDistinct("odd"), "bigint", [1, 1, 2, 2]),
    (monoids.CollectDistinct("nans"), "array<double>", [[math.nan], [math.nan], [math.nan], [1, math.nan]]),
    (monoids.Sum("byte"), "bigint", [1, 1, 4, 5]),
    (monoids.Sum("long"), "bigint", [1, 1, 4, 5]),
    (monoids.Sum("float"), "double", [F3[0], F3[0], F3[0] + F3[1], F3[1] + F3[2]]),
    (monoids.Sum("double"), "double", [0.1, 0.1, math.nan, math.nan]),
    (monoids.Product("int"), "bigint", [1, 1, 3, 6]),
    (monoids.Max("byte"), "tinyint", [1, 1, 3, 3]),
    (monoids.Max("int"), "int", [1, 1, 3, 3]),
    (monoids.Max("long"), "bigint", [1, 1, 3, 3]),
    (monoids.Max("float"), "float", [F3[0], F3[0], F3[1], F3[1]]),
    (monoids.Max("double"), "double", [0.1, 0.1, math.nan, math.nan]),
    (monoids.Min("double"), "double", [0.1, 0.1, 0.1, 0.2]),
    (monoids.Max("bool"), "boolean", [True, True, True, True]),
    (monoids.Min("bool"), "boolean", [True, True, False, False]),
    (monoids.Max("day"), "date", [DAYS[0], DAYS[0], DAYS[2], DAYS[3]]),
    (monoids.Max("moment"), "timestamp", [MOMENTS[0], MOMENTS[0], MOMENTS[2], MOMENTS[3]]),
    (
        monoids.Min("naive"),
        "timestamp_ntz",
        [dt.datetime(1970, 1, 1)] * 3 + [dt.datetime(1970, 1, 1, 0, 0, 0, 2)],
    ),
    (monoids.Max("text"), "string", ["a", "a", "c", "c"]),
    (monoids.Min("bytes"), "binary", [b"a", b"a", b"a", b"b"]),
    (monoids.Mean("int"), "double", [1, 1, 2, 2.5]),
    (monoids.GeometricMean("int"), "double", [1, 1, math.sqrt(3), math.sqrt(6)]),
    (monoids.SampleStdDev("int"), "double", [None, None, math.sqrt(2), math.sqrt(0.5)]),
    (monoids.PopulationStdDev("int"), "double", [0, 0, 1, 0.5]),
    (monoids.Variance("int"), "double", [None, None, 2, 0.5]),
    (monoids.Variance("int", ddof=0), "double", [0, 0, 1, 0.25]),
    (monoids.Covariance("o", "int"), "double", [None, None, 2, -0.5]),
    (monoids.Covariance("o", "int", ddof=0), "double", [0, 0, 1, -0.25]),
    (monoids.Covariance("o", "double"), "double", [None, None, math.nan, math.nan]),
    (monoids.Correlation("o", "int"), "double", [None, None, 1, -1]),
    (monoids.Slope("o", "int"), "double", [None, None, 1, -1]),
    (monoids.Slope("int", "o"), "double", [None, None, 1, -1]),
    (monoids.MaxCount("double"), "bigint", [1, 1, 1, 1]),
    (monoids.MinCount("text"), "bigint", [1, 1, 1, 1]),
    (monoids.ArgMax("int", "text"), "string", ["a", "a", "c", "c"]),
    (monoids.ArgMax("o", "text"), "string", ["a", None, "c", "b"]),
    (monoids.ArgMax("o", "int"), "int", [1, None, 3, 2]),
    (monoids.ArgMax("o", "double"), "double", [0.1, None, math.nan, 0.2]),
    (monoids.ArgMax("double", "day"), "date", [DAYS[0], DAYS[0], DAYS[2], DAYS[2]]),
    (monoids.ArgMin("text", "moment"), "timestamp", [MOMENTS[0], MOMENTS[0], MOMENTS[0], MOMENTS[3]]),
    (monoids.First("text"), "string", ["a", "a", "a", "c"]),
    (monoids.First("double"), "double", [0.1, 0.1, 0.1, math.nan]),
    (monoids.Last("day"), "date", [DAYS[0], DAYS[0], DAYS[2], DAYS[3]]),
    (monoids.Last("bool"), "boolean", [True, True, False, True]),
    (monoids.LastK(2, "int"), "array<int>", [[1], [1], [1, 3], [3, 2]]),
    (monoids.LastK(2, "text"), "array<string>", [["a"], ["a"], ["a", "c"], ["c", "b"]]),
    (monoids.LastK(1, "odd"), "array<double>", [[math.nan], [math.nan], [0.0], [0.0]]),
    (monoids.LastK(3, "day"), "array<date>", [DAYS[:1], DAYS[:1], DAYS[0:3:2], DAYS[2:]]),
    (monoids.TopK(2, "int"), "array<int>", [[1], [1], [3, 1], [3, 2]]),
    (monoids.TopK(1, "float"), "array<float>", [F3[:1], F3[:1], F3[1:2], F3[1:2]]),
    (
        monoids.TopK(3, "moment"),
        "array<timestamp>",
        [MOMENTS[:1], MOMENTS[:1], MOMENTS[2::-2], MOMENTS[:1:-1]],
    ),
    (monoids.Collect("int"), "array<int>", [[1], [1], [1, 3], [3, 2]]),
    (monoids.Collect("moment"), "array<timestamp>", [MOMENTS[:1], MOMENTS[:1], MOMENTS[0:3:2], MOMENTS[2:]]),
    (monoids.CollectDistinct("text"), "array<string>", [["a"], ["a"], ["a", "c"], ["b", "c"]]),
    (monoids.CollectDistinct("day"), "array<date>", [DAYS[:1], DAYS[:1], DAYS[0:3:2], DAYS[2:]]),
    (monoids.Concat("text"), "string", ["a", "a", "ac", "cb"]),
    (
        monoids.LongestIncreasingRun("int"),
        "struct<start:bigint,end:bigint,interval:bigint,count:bigint>",
        [
            {"start": 0, "end": 0, "interval": 0, "count": 1},
            {"start": 0, "end": 0, "interval": 0, "count": 1},
            {"start": 0, "end": 1, "interval": 1, "count": 2},
            {"start": 0, "end": 0, "interval": 0, "count": 1},
        ],
    ),
    (
        monoids.LongestIncreasingRun("int", time="moment"),
        "struct<start:timestamp,end:timestamp,interval:bigint,count:bigint>",
        [
            {"start": MOMENTS[0], "end": MOMENTS[0], "interval": 0, "count": 1},
            {"start": MOMENTS[0], "end": MOMENTS[0], "interval": 0, "count": 1},
            {"start": MOMENTS[0], "end": MOMENTS[2], "interval": 7_200_000_000, "count": 2},
            {"start": MOMENTS[2], "end": MOMENTS[2], "interval": 0, "count": 1},
        ],
    ),
    (
        monoids.Fields(top=monoids.Max("int"), mean=monoids.Mean("double"), n=monoids.Count()),
        "struct<top:int,mean:double,n:bigint>",
        [
            {"top": 1, "mean": 0.1, "n": 1},
            {"top": 1, "mean": 0.1, "n": 2},
            {"top": 3, "mean": math.nan, "n": 3},
            {"top": 3, "mean": math.nan, "n": 3},
        ],
    ),
    (monoids.from_ufunc(np.gcd, 0, field="int"), "bigint", [1, 1, 1, 1]),
    (
        monoids.from_ufunc(np.maximum, None, lower=lambda x: x / 2, field="int"),
        "double",
        [0.5, 0.5, 1.5, 1.5],
    ),
    (monoids.from_ufunc(np.logaddexp, -math.inf, field="int"), "double", [1, 1, LOG[0], LOG[1]]),
]


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, (int, float)):
        return (a != a and b != b) or math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


@pytest.mark.parametrize("algorithm", ["amta", "daba"])
@pytest.mark.parametrize("chunk", [1, 100])
@pytest.mark.parametrize(("monoid", "kind", "results"), CASES, ids=[repr(case[0]) for case in CASES])
def test_catalogue(monoid: Monoid, kind: str, results: list[Any], chunk: int, algorithm: str) -> None:
    how: dict[str, Any] = {"partition_by": "k", "order_by": "o", "rows": 3, "algorithm": algorithm}
    schema = schema_of(TABLE)
    plan = make_plan(schema, aggregates={"new": monoid}, **how)
    assert with_results(schema, plan)["new"].dataType.simpleString() == kind
    found = column(roll(TABLE, aggregates={"new": monoid}, page_size=2, chunk=chunk, batch=1, **how), "new")
    assert len(found) == len(results)
    assert all(map(alike, found, results)), found


@pytest.mark.parametrize("chunk", [1, 100])
def test_sketches(chunk: int) -> None:
    aggregates = {
        "distinct": monoids.DistinctCount("text"),
        "quantiles": monoids.Quantiles("int", q=0.5),
        "hitters": monoids.HeavyHitters("text", top=1),
        "bloom": monoids.BloomFilter("text"),
        "often": monoids.CountMin("text"),
        "all": monoids.Collect("text"),
    }
    out = roll(TABLE, rows=2, aggregates=aggregates, chunk=chunk, batch=1).to_pylist()
    assert [round(row["distinct"]) for row in out] == [1, 1, 1, 2]
    assert [row["quantiles"] for row in out] == [[(0.5, 1.0)], [(0.5, 1.0)], [(0.5, 3.0)], [(0.5, 2.0)]]
    assert [row["hitters"][0]["item"] for row in out] == ["a", "a", "c", "b"]
    assert all(isinstance(row["bloom"], bytes) for row in out)
    sketch = monoids.CountMin("text")
    frequencies = [sketch.lower(sketch.unpack(row["often"])) for row in out]
    assert [each["a"] for each in frequencies] == [row["all"].count("a") for row in out]


def test_nothing_but_nulls() -> None:
    table = pa.table(
        {
            "k": [1] * 3,
            "o": [0, 1, 2],
            "x": pa.array([None] * 3, pa.int32()),
            "t": pa.array([None] * 3, pa.string()),
        }
    )
    aggregates = {
        "sum": monoids.Sum("x"),
        "max": monoids.Max("x"),
        "mean": monoids.Mean("x"),
        "most": monoids.MaxCount("x"),
        "first": monoids.First("t"),
        "all": monoids.Collect("t"),
        "text": monoids.Concat("t"),
        "n": monoids.Count(),
    }
    for chunk in (1, 100):
        for row in roll(table, rows=1, aggregates=aggregates, chunk=chunk, batch=1).to_pylist():
            kept = {name: row[name] for name in aggregates}
            assert kept == dict.fromkeys(aggregates) | {"most": 0, "all": [], "n": 1}


@pytest.mark.parametrize("algorithm", ["amta", "daba"])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_booleans(chunk: int, algorithm: str) -> None:
    """Of groups with nulls and without: where there are none, a run of them is one of whole numbers."""
    table = pa.table(
        {"k": [1, 1, 1, 2, 2, 2], "o": range(6), "b": [True, False, True, None, False, None], "x": [1] * 6}
    )
    aggregates = {
        "top": monoids.Max("b"),
        "last": monoids.Last("b"),
        "argument": monoids.ArgMax("o", "b"),
        "all": monoids.Collect("b"),
        "often": monoids.HeavyHitters("b", top=1),
        "run": monoids.LongestIncreasingRun("x", time="b"),
    }
    out = roll(table, rows=2, aggregates=aggregates, chunk=chunk, algorithm=algorithm)
    assert column(out, "top") == [True, True, True, None, False, False]
    assert column(out, "last") == [True, False, True, None, False, False]
    assert column(out, "argument") == [True, False, True, None, False, None]
    assert column(out, "all") == [[True], [True, False], [False, True], [], [False], [False]]
    assert [each[0]["item"] if each else None for each in column(out, "often")[3:]] == [None, False, False]
    assert column(out, "run")[4] == {"start": False, "end": False, "interval": 0, "count": 1}


def test_own_monoid_with_a_type() -> None:
    span = monoids.from_function(
        lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
        (math.inf, -math.inf),
        lift=lambda x: (x, x),
        lower=lambda s: s[1] - s[0],
        field="int",
    )
    for kind in ("int", sql.IntegerType()):
        out = roll(TABLE, rows=3, aggregates={"span": span}, types={"span": kind}, chunk=2, batch=1)
        assert column(out, "span") == [0, 0, 2, 1]
        assert out.schema.field("span").type == pa.int32()
    numbers = monoids.from_function(operator.add, 0, field="int")
    out = roll(TABLE, rows=3, aggregates={"s": numbers}, types={"s": "bigint"})
    assert column(out, "s") == [1, 1, 4, 5]


def test_a_sum_beyond_64_bits() -> None:
    table = pa.table({"k": [1, 1, 1], "o": [0, 1, 2], "x": [2**62, 2**62, 2**62]})
    for algorithm in ("amta", "daba"):
        with pytest.raises(DataError, match=r"the row k=1, o=1: the result of Sum.* does not fit in 64 bits"):
            roll(table, rows=3, aggregates={"s": monoids.Sum("x")}, algorithm=algorithm)
    assert column(roll(table, rows=1, aggregates={"s": monoids.Sum("x")}), "s") == [2**62] * 3


def test_a_run_longer_than_64_bits() -> None:
    table = pa.table({"k": [1, 1], "o": [0, 1], "x": [-(2**62), 2**62 + 1]})
    longest = monoids.LongestIncreasingRun("o", time="x")
    with pytest.raises(DataError, match=r"^the row k=1, o=1: a result does not fit in 64 bits$"):
        roll(table, rows=3, aggregates={"run": longest})


def test_memory_that_daba_does_not_have() -> None:
    def lift(_: int) -> int:
        raise MemoryError

    big = monoids.from_function(operator.add, 0, lift=lift, field="int")
    how: dict[str, Any] = {"rows": 3, "aggregates": {"s": big}, "types": {"s": "bigint"}}
    with pytest.raises(MemoryError, match=r'algorithm="daba" keeps all of it there. Use .* store="rocksdb"'):
        roll(TABLE, algorithm="daba", **how)


def test_the_least_bigint() -> None:
    """The one bigint that stands for null is refused, in columns that may have nulls."""
    table = pa.table({"k": [1, 1], "o": [0, 1], "x": [-(2**63), 0]})
    with pytest.raises(ValueError, match=r"column 'x' holds -9223372036854775808"):
        roll(table, rows=3, aggregates={"s": monoids.Max("x")})


def test_negative_numbers_have_no_geometric_mean() -> None:
    table = pa.table({"k": [1, 1], "o": [0, 1], "x": [1.0, -2.5]})
    with pytest.raises(ValueError, match=r"GeometricMean.*no negative numbers, got -2.5"):
        roll(table, rows=3, aggregates={"s": monoids.GeometricMean("x")})
