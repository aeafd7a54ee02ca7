"""What windows add to a job: rows a second beside a `mapInArrow` that appends as many constant columns.

    python -m spark_integration.bench --rows 5_000_000 --window 1_000_000 --store rocksdb

Both jobs read, shuffle and sort the same rows, and throw them away. They take turns; ratios are medians over
the rounds of the ratio within one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mta import monoids
from spark_integration.metrics import Metrics
from spark_integration.rolling import rolling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGGREGATES = {"total": monoids.Sum("x"), "peak": monoids.Max("x"), "mean": monoids.Mean("x")}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m spark_integration.bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--window", type=int, default=1_000_000, help="rows in the window")
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--metrics", action="store_true", help="with metrics, which tell the memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", action="append", help='"rocksdb" or a URL; again for another')
    options = parser.parse_args(arguments)
    spark = _session()
    try:
        _run(spark, options)
    finally:
        spark.stop()


def _run(spark: SparkSession, options: argparse.Namespace) -> None:
    stores: list[str] = options.store or ["rocksdb"]
    df = _rows(spark, options.rows, options.keys)
    metrics: dict[str, Metrics] = {}

    def windows(store: str) -> DataFrame:
        metrics[store] = Metrics()
        return rolling(
            df,
            partition_by="k",
            order_by="ts",
            window=f"{options.window} milliseconds",
            aggregates=AGGREGATES,
            store=store,
            metrics=metrics[store] if options.metrics else None,
        )

    jobs: dict[str, Callable[[], DataFrame]] = {"constants": lambda: _constants(df)}
    for store in stores:
        jobs[store] = lambda store=store: windows(store)  # type: ignore[misc]
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(options.rounds + 1):
        for name, job in jobs.items():
            out = job()
            began = time.perf_counter()
            out.write.format("noop").mode("overwrite").save()
            if turn:  # the first round warms up
                seconds[name].append(time.perf_counter() - began)
    print(f"{options.rows:,} rows, {options.keys:,} keys, windows of {options.window:,} milliseconds")
    for name, times in seconds.items():
        speed = options.rows / statistics.median(times)
        ratios = [base / own for base, own in zip(seconds["constants"], times, strict=True)]
        peak = metrics[name].summary.peak_memory >> 20 if name in metrics and options.metrics else 0
        memory = f"  worker's peak {peak} MB" if peak else ""
        print(f"{name:40} {speed:12,.0f} rows/s  {statistics.median(ratios):6.1%} of constants{memory}")


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session: SparkSession = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def _rows(spark: SparkSession, count: int, keys: int) -> DataFrame:
    """One row a millisecond, and numbers without any order."""
    return spark.range(count, numPartitions=4).selectExpr(
        f"id % {keys} as k", "timestamp_millis(id) as ts", "cast(id * 7919 % 1000003 as double) as x"
    )


def _constants(df: DataFrame) -> DataFrame:
    def append(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            constants = [pa.repeat(pa.scalar(0.0), batch.num_rows) for _ in AGGREGATES]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *constants], names=[*batch.schema.names, *AGGREGATES]
            )

    schema: Any = df.selectExpr("*", *(f"cast(0 as double) as {name}" for name in AGGREGATES)).schema
    return df.repartition("k").sortWithinPartitions("k", "ts").mapInArrow(append, schema)


if __name__ == "__main__":
    main()
