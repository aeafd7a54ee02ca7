"""The same windows over the same rows, by `rolling` and by what a user would take instead of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mta import monoids
from spark_integration.metrics import Metrics
from spark_integration.rolling import rolling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AGGREGATES = {"total": monoids.Sum("x"), "peak": monoids.Max("x"), "mean": monoids.Mean("x")}
SQL = {"total": "sum(x)", "peak": "max(x)", "mean": "avg(x)"}


def local_session(cores: int, heap: str, directory: Path, settings: dict[str, str]) -> SparkSession:
    """Spark in this machine, with its files in a directory."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: Any = SparkSession.builder.master(f"local[{cores}]").appName("mta")
    fixed = {
        "spark.driver.memory": heap,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
    }
    for name, value in (fixed | settings).items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def numbered_rows(spark: SparkSession, count: int) -> DataFrame:
    """One key, one row a millisecond, and numbers without any order."""
    return spark.range(count, numPartitions=4).selectExpr(
        "id % 1 as k", "timestamp_millis(id) as ts", "cast(id * 7919 % 1000003 as double) as x"
    )


def with_rolling(
    df: DataFrame,
    window: int,
    store: str,
    *,
    algorithm: Literal["amta", "daba"] = "amta",
    page_size: int | None = None,
    metrics: Metrics | None = None,
) -> DataFrame:
    return rolling(
        df,
        partition_by="k",
        order_by="ts",
        window=f"{window} milliseconds",
        aggregates=AGGREGATES,
        store=store,
        algorithm=algorithm,
        page_size=page_size,
        metrics=metrics,
    )


def with_spark_window(df: DataFrame, window: int, *, segment_tree: bool) -> DataFrame:
    """Spark's own window function; the setting is the session's, and read when the job starts."""
    df.sparkSession.conf.set("spark.sql.window.segmentTree.enabled", str(segment_tree).lower())
    frame = (
        f"(partition by k order by ts range between interval {window} milliseconds preceding and current row)"
    )
    return df.selectExpr("*", *(f"{call} over {frame} as {name}" for name, call in SQL.items()))


def with_pandas(df: DataFrame, window: int) -> DataFrame:
    """A whole group in a data frame."""

    def roll(group: Any) -> Any:
        group = group.sort_values("ts")
        windows = group.rolling(f"{window}ms", on="ts", closed="both")["x"]
        return group.assign(total=windows.sum(), peak=windows.max(), mean=windows.mean())

    schema = with_results(df)
    return df.groupBy("k").applyInPandas(roll, schema)


def with_results(df: DataFrame) -> Any:
    """The schema of a DataFrame with a double for each aggregate."""
    return df.selectExpr("*", *(f"cast(0 as double) as {name}" for name in AGGREGATES)).schema
