"""Where keys change, of all types that Spark can partition by."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa
import pytest
from rolled import column, roll

from mta import monoids
from spark_integration.partition.key_changes import differences

KEYS = {
    "bigint": pa.array([None, None, 1, 1, 2]),
    "text": pa.array([None, None, "", "", "a"]),
    "large text": pa.array([None, None, "", "", "a"], pa.large_string()),
    "bytes": pa.array([None, None, b"", b"", b"a"]),
    "boolean": pa.array([None, None, False, False, True]),
    "double": pa.array([None, None, -0.0, 0.0, math.nan], from_pandas=False),
    "nan": pa.array([1.0, 1.0, math.nan, math.nan, None], from_pandas=False),
    "float": pa.array([None, None, 0.5, 0.5, 1.5], pa.float32()),
    "date": pa.array([None, None, dt.date(1, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": pa.array([None, None, 0, 0, 1], pa.timestamp("us", "UTC")),
    "decimal": pa.array([None, None, *map(decimal.Decimal, ("0.10", "0.10", "0.11"))]),
    "struct": pa.array([None, None, {"a": None, "b": 1.0}, {"a": None, "b": 1.0}, {"a": "", "b": 1.0}]),
    "nulls in a struct": pa.array(
        [None, None, {"a": None}, {"a": None}, {"a": 1}], pa.struct([("a", pa.int64())])
    ),
    "array": pa.array([None, None, [math.nan, None], [math.nan, None], []], pa.list_(pa.float64())),
    # of streams only; the order of their entries means nothing
    "map": pa.array(
        [None, None, [("a", 0.0), ("b", math.nan)], [("b", math.nan), ("a", -0.0)], [("a", 0.0)]],
        pa.map_(pa.string(), pa.float64()),
    ),
    "map of nan": pa.array(
        [None, None, [(math.nan, 1), (-0.0, 2)], [(0.0, 2), (math.nan, 1)], [(math.nan, 2), (0.0, 1)]],
        pa.map_(pa.float64(), pa.int64()),
    ),
    "maps in arrays": pa.array(
        [None, None, [[("a", None), ("b", 1)]], [[("b", 1), ("a", None)]], [[("a", 1), ("b", None)]]],
        pa.list_(pa.map_(pa.string(), pa.int64())),
    ),
    "struct of arrays": pa.array([None, None, {"a": []}, {"a": []}, {"a": [1]}]),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_groups(kind: str, chunk: int) -> None:
    keys = KEYS[kind]
    assert differences(keys).tolist() == [False, True, False, True]
    assert differences(keys.slice(1, 3)).tolist() == [True, False]
    table = pa.table({"k": keys, "o": list(range(5))})
    out = roll(table, window=100, aggregates={"n": monoids.Count()}, chunk=chunk, batch=1)
    assert column(out, "n") == [1, 2, 1, 2, 1]


def test_several_keys() -> None:
    table = pa.table({"a": [1, 1, 1, 2, 2], "b": ["x", "x", "y", "y", "y"], "o": [0, 1, 0, 0, 1]})
    out = roll(table, partition_by=["a", "b"], rows=9, aggregates={"n": monoids.Count()}, chunk=2, batch=1)
    assert column(out, "n") == [1, 2, 1, 1, 2]


def test_no_key() -> None:
    table = pa.table({"o": list(range(9))})
    for keys in (None, []):
        out = roll(table, partition_by=keys, rows=5, aggregates={"n": monoids.Count()}, chunk=2, batch=1)
        assert column(out, "n") == [1, 2, 3, 4, 5, 5, 5, 5, 5]


def test_empty_partition() -> None:
    table = pa.table({"k": pa.array([], pa.int64()), "o": pa.array([], pa.int64())})
    assert roll_nothing(table) == 0


def roll_nothing(table: pa.Table) -> int:
    from rolled import schema_of

    from spark_integration.call.planning import make_plan
    from spark_integration.partition.task import roll_partition

    plan = make_plan(
        schema_of(table), partition_by="k", order_by="o", rows=3, aggregates={"n": monoids.Count()}
    )
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.int64())] * 2, schema=table.schema)
    return sum(batch.num_rows for batch in roll_partition(plan, [empty, empty]))


def test_a_key_of_nothing_but_nulls() -> None:
    table = pa.table({"k": pa.nulls(5), "o": range(5)})
    out = roll(table, rows=3, aggregates={"n": monoids.Count()}, chunk=2)
    assert column(out, "n") == [1, 2, 3, 3, 3]
