"""Jobs in Spark, with its Python workers as real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from frame_reference import assert_same
from pyspark.errors import PythonException
from pyspark.sql import Window
from pyspark.sql import functions as fn

from mta import monoids, policies
from mta.durability.operations import collect
from mta.durability.owners import this_process
from spark_integration import Metrics, rolling
from spark_integration.running.notes import host_digest
from spark_integration.running.storage import PREFIX, TaskStorage
from stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark 4.3 says so of every call; it works as far as these tests go

AGGREGATES = {
    "total": monoids.Sum("x"),
    "peak": monoids.Max("x"),
    "mean": monoids.Mean("x"),
    "top": monoids.Max("i"),
    "n": monoids.Count(),
}


@pytest.fixture
def leaves_nothing(local_directory: Path) -> Any:
    """No embedded store and no file of rows is left."""
    yield
    assert not list(local_directory.rglob(f"{PREFIX}*"))


@pytest.fixture(params=["rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def store(request: pytest.FixtureRequest) -> Any:
    """A store, in which a job leaves nothing behind."""
    if request.param == "rocksdb":
        request.getfixturevalue("leaves_nothing")
        yield "rocksdb"
        return
    url = request.getfixturevalue("redis_url")
    yield url
    with open_store(url) as opened:
        assert not list(opened.list_roots("spark/"))
        assert not [key for key in opened.list_keys("") if key.startswith("{spark/")]


def skewed(spark: SparkSession, rows: int = 20_000) -> DataFrame:
    """One hot key, keys of one row, ties, nulls and NaN."""
    ids = fn.col("id")
    return spark.range(rows, numPartitions=3).select(
        fn.when(ids % 2 == 0, 0).when(ids % 50 == 1, ids).when(ids % 50 != 3, ids % 7).alias("k"),
        fn.when(ids % 97 != 0, fn.timestamp_seconds((ids * 7919 % rows) / 4)).alias("ts"),
        fn.when(ids % 5 == 1, None)
        .when(ids % 101 == 2, float("nan"))
        .otherwise((ids * 31 % 1009) / 8 - 60)
        .alias("x"),
        fn.when(ids % 6 != 1, (ids % 11).cast("int")).alias("i"),
        ids.alias("id"),
    )


def collected(df: DataFrame, by: str = "id") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = df.toArrow().sort_by(by).to_pylist()
    return rows


def test_range_is_sparks_own(spark: SparkSession, store: str) -> None:
    df = skewed(spark)
    out = rolling(
        df,
        partition_by="k",
        order_by="ts",
        window="5 minutes",
        aggregates=AGGREGATES,
        store=store,
        page_size=64,
    )
    df.createOrReplaceTempView("skewed")
    wanted = spark.sql(
        """select *, sum(x) over w as total, max(x) over w as peak, avg(x) over w as mean,
        max(i) over w as top, count(*) over w as n from skewed
        window w as (partition by k order by ts range between interval 5 minutes preceding and current row)"""
    )
    assert [field.dataType for field in out.schema] == [field.dataType for field in wanted.schema]
    assert_same(collected(out), collected(wanted), df.columns + list(AGGREGATES))


@pytest.mark.usefixtures("leaves_nothing")
def test_rows_are_sparks_own(spark: SparkSession) -> None:
    df = skewed(spark, 5_000)
    out = rolling(df, partition_by=["k"], order_by=["ts", "id"], rows=40, aggregates=AGGREGATES, page_size=8)
    frame = Window.partitionBy("k").orderBy("ts", "id").rowsBetween(-39, Window.currentRow)
    wanted = df.select(
        "*",
        fn.sum("x").over(frame).alias("total"),
        fn.max("x").over(frame).alias("peak"),
        fn.avg("x").over(frame).alias("mean"),
        fn.max("i").over(frame).alias("top"),
        fn.count("*").over(frame).alias("n"),
    )
    assert_same(collected(out), collected(wanted), df.columns + list(AGGREGATES))


def test_a_long_key_against_duckdb(spark: SparkSession, store: str) -> None:
    """200,000 rows of one key, windows of about 50,000."""
    rng = np.random.default_rng(5)
    count = 200_000
    x = [None if value < -1 else value for value in rng.normal(size=count).tolist()]
    data = pa.table(
        {"k": [1] * count, "o": rng.integers(0, 400_000, count), "x": x, "r": range(count)},
    )
    metrics = Metrics()
    out = rolling(
        spark.createDataFrame(data),
        order_by="o",
        window=100_000,
        aggregates={"total": monoids.Sum("x"), "peak": monoids.Max("x"), "n": monoids.Count()},
        store=store,
        page_size=512,
        metrics=metrics,
    )
    assert out.columns == ["k", "o", "x", "r", "total", "peak", "n"]
    found = collected(out, "r")
    wanted = duckdb.sql(
        """select *, sum(x) over w as total, max(x) over w as peak, count(*) over w as n
        from data window w as (order by o range between 100000 preceding and current row) order by r"""
    ).to_arrow_table()
    assert_same(found, wanted.to_pylist(), out.columns)
    summary = metrics.summary
    assert (summary.rows, summary.windows) == (count, 1)
    assert 100_000 < summary.evictions < count
    assert 300 < summary.pages_written < 500
    assert summary.pages_read > 100
    assert summary.bytes_written > 300 * 512 * 8
    assert summary.peak_memory > 50 << 20


@pytest.mark.usefixtures("leaves_nothing")
def test_many_keys_and_no_store(spark: SparkSession) -> None:
    df = spark.range(60_000, numPartitions=2).select(
        (fn.col("id") % 20_000).alias("k"), fn.col("id").alias("o"), fn.lit(1).alias("one")
    )
    metrics = Metrics()
    out = rolling(
        df, partition_by="k", order_by="o", rows=2, aggregates={"s": monoids.Sum("one")}, metrics=metrics
    )
    assert out.groupBy("s").count().sort("s").collect() == [(1, 20_000), (2, 40_000)]
    assert (metrics.summary.rows, metrics.summary.pages_written) == (60_000, 0)


@pytest.mark.usefixtures("leaves_nothing")
def test_policy(spark: SparkSession) -> None:
    df = spark.range(100).select((fn.col("id") % 3).alias("k"), fn.col("id").alias("o"))
    policy = policies.While(lambda total, old: total["s"] - old["s"] > 50)
    out = rolling(df, partition_by="k", order_by="o", policy=policy, aggregates={"s": monoids.Sum("o")})
    found = {(row["k"], row["o"]): row["s"] for row in out.collect()}
    for key in range(3):
        held: list[int] = []
        for value in range(key, 100, 3):
            held.append(value)
            while sum(held) - held[0] > 50:
                held.pop(0)
            assert found[key, value] == sum(held)


@pytest.mark.usefixtures("leaves_nothing")
def test_odd_names_and_an_empty_frame(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 2, 3)], ["a.b", "time `s`", "größe"])
    how: dict[str, Any] = {"partition_by": "a.b", "order_by": "time `s`", "window": 5}
    out = rolling(df, aggregates={"max.größe": monoids.Max("größe")}, **how)
    assert out.collect()[0].asDict() == {"a.b": 1, "time `s`": 2, "größe": 3, "max.größe": 3}
    empty = rolling(df.limit(0), aggregates={"m": monoids.Max("größe")}, **how)
    assert empty.collect() == []
    assert empty.columns == [*df.columns, "m"]


@pytest.mark.usefixtures("leaves_nothing")
def test_types_in_spark(spark: SparkSession) -> None:
    df = spark.sql(
        """select 1 as k, timestamp'2020-01-01 00:00:01' as ts, timestamp_ntz'2020-01-01' as naive,
        date'2020-01-01' as day, 'a' as t, 1.5f as f, 1.10BD as price, array(1, 2) as list"""
    )
    aggregates = {
        "last_ts": monoids.Last("ts"),
        "naives": monoids.Collect("naive"),
        "day_of_max": monoids.ArgMax("f", "day"),
        "parts": monoids.Fields(f=monoids.Max("f"), t=monoids.First("t")),
        "run": monoids.LongestIncreasingRun("f", time="ts"),
        "q": monoids.Quantiles("f", q=(0.5,)),
        "top": monoids.HeavyHitters("t"),
    }
    row = rolling(df, partition_by="k", order_by="day", window="1 day", aggregates=aggregates).collect()[0]
    assert row["last_ts"] == row["ts"]
    assert row["naives"] == [row["naive"]]
    assert row["day_of_max"] == row["day"]
    assert row["parts"].asDict() == {"f": 1.5, "t": "a"}
    assert row["run"].asDict() == {"start": row["ts"], "end": row["ts"], "interval": 0, "count": 1}
    assert row["q"] == {0.5: 1.5}
    assert row["top"][0].asDict() == {"item": "a", "count": 1}
    assert (str(row["price"]), row["list"]) == ("1.10", [1, 2])


def test_an_error_in_a_worker(spark: SparkSession, store: str) -> None:
    """What only the data can show is an error of the job, with its cause in one line; nothing is left."""
    df = spark.range(10_000).select(fn.col("id").alias("o"), (fn.col("id") + 2**62).alias("x"))
    out = rolling(df, order_by="o", rows=500, aggregates={"s": monoids.Sum("x")}, store=store, page_size=64)
    with pytest.raises(
        PythonException, match=r"DataError: the row o=1: the result of Sum\('x'\).* does not fit in 64 bits"
    ):
        out.collect()


def test_a_worker_is_killed(spark: SparkSession, store: str, local_directory: Path, tmp_path: Path) -> None:
    """The task runs again: the same rows, and in the end nothing is left of the attempt that died."""
    marker = tmp_path / "killed"
    count, page_size = 100_000, 64

    def deadly(value: int) -> int:
        import os
        import signal

        if value == 90_000 and not marker.exists():
            marker.write_text(" ".join(path.name for path in local_directory.rglob(f"{PREFIX}*")))
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    total = monoids.from_ufunc(np.add, 0, lift=one_by_one(deadly), field="id")
    out = rolling(
        spark.range(count),
        order_by="id",
        rows=20_000,
        aggregates={"s": total},
        types={"s": "bigint"},
        store=store,
        page_size=page_size,
    )
    found = [row["s"] for row in out.sort("id").collect()]
    sums = np.concatenate([[0], np.cumsum(np.arange(count))])
    ends = np.arange(1, count + 1)
    assert found == (sums[ends] - sums[np.maximum(ends - 20_000, 0)]).tolist()
    assert marker.exists()
    if store == "rocksdb":
        assert marker.read_text().startswith(PREFIX)
    else:
        with open_store(store) as opened:
            assert collect(opened) == []


def one_by_one(function: Callable[[int], int]) -> Callable[[Any], Any]:
    return lambda column: np.array([function(each) for each in np.atleast_1d(column).tolist()])


def test_a_job_that_stops_early(spark: SparkSession, store: str) -> None:
    """What it leaves is cleared away, by the next task or by `mta gc`."""
    how: dict[str, Any] = {
        "order_by": "id",
        "rows": 100_000,
        "aggregates": {"s": monoids.Sum("id")},
        "store": store,
    }
    out = rolling(spark.range(300_000), page_size=1024, **how)
    assert [row["s"] for row in out.limit(3).collect()] == [0, 1, 3]
    assert rolling(spark.range(10), **how).count() == 10
    if store != "rocksdb":
        with open_store(store) as opened:
            collect(opened)


def test_metrics_go_with_one_frame(spark: SparkSession) -> None:
    metrics = Metrics()
    with pytest.raises(RuntimeError, match="given to no rolling"):
        _ = metrics.summary
    how: dict[str, Any] = {
        "order_by": "id",
        "rows": 2,
        "aggregates": {"n": monoids.Count()},
        "metrics": metrics,
    }
    rolling(spark.range(5), **how)
    with pytest.raises(RuntimeError, match="one call of rolling"):
        rolling(spark.range(5), **how)


def test_metrics_of_two_windows_in_one_query(spark: SparkSession) -> None:
    metrics = [Metrics(), Metrics()]
    count = {"n": monoids.Count()}
    short, long = (
        rolling(spark.range(10 * size), order_by="id", rows=size, aggregates=count, metrics=each)
        for size, each in zip((2, 3), metrics, strict=True)
    )
    assert short.join(long, "id").count() == 20
    assert [each.summary.rows for each in metrics] == [20, 30]


def test_leftovers_of_killed_workers(tmp_path: Path) -> None:
    """A task removes what processes that are gone have left, and nothing else."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    _, pid, start = this_process()
    gone = tmp_path / f"{PREFIX}-{host_digest()}-{ended.pid}-1-00"
    alive = tmp_path / f"{PREFIX}-{host_digest()}-{pid}-{start}-00"
    elsewhere = tmp_path / f"{PREFIX}-00000000-{ended.pid}-1-00"
    rows = tmp_path / f"{PREFIX}-{host_digest()}-{ended.pid}-1-01.arrow"
    for directory in (gone, alive, elsewhere):
        (directory / "inner").mkdir(parents=True)
    rows.touch()
    with TaskStorage(f"rocksdb://{tmp_path}", {}) as storage:
        storage.store.put_many({"a": b"b"})
        assert len(list(tmp_path.iterdir())) == 3
    assert set(tmp_path.iterdir()) == {alive, elsewhere}


@pytest.mark.usefixtures("leaves_nothing")
def test_two_million_rows_in_a_small_worker(spark: SparkSession) -> None:
    df = spark.range(2_000_000, numPartitions=2).select(
        fn.col("id").alias("o"), (fn.col("id") * 7919 % 1_000_003).cast("double").alias("x")
    )
    metrics = Metrics()
    aggregates = {"s": monoids.Sum("x"), "m": monoids.Max("x"), "a": monoids.Mean("x")}
    out = rolling(df, order_by="o", window=999_999, aggregates=aggregates, metrics=metrics)
    last = out.where(fn.col("o") == 1_999_999).select("s", "m").collect()[0]
    values = np.arange(1_000_000, 2_000_000) * 7919 % 1_000_003
    assert tuple(last) == (values.sum(), values.max())
    summary = metrics.summary
    assert summary.pages_written >= 100
    assert summary.peak_memory < 200 << 20
