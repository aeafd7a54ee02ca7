"""Settings of Spark that reach Python, with columns of types that are odd to one of the two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as fn
from streams import configured, write_file

from mta import monoids
from spark_integration import rolling

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

SETTINGS = {
    "a zone of Java's": {"session_timeZone": "GMT+1"},
    "large types, few rows": {
        "execution_arrow_useLargeVarTypes": "true",
        "execution_arrow_maxRecordsPerBatch": "2",
    },
    "times without a zone": {"timestampType": "TIMESTAMP_NTZ", "ansi_enabled": "false"},
}

FAR = "timestamp_micros(9223372036854775807 - id)"

#: Each of them passes through, and those that Spark can group by are keys too.
COLUMNS = {
    "text": "cast(unhex(hex(254 + id % 2)) as string)",
    "texts": "array(cast(unhex(hex(254 + id % 2)) as string), null)",
    "time": FAR.replace("id", "id % 2"),
    "times": f"array({FAR.replace('id', 'id % 2')})",
    "day": "date_add(date'9999-12-31', cast(id % 2 as int))",
    "record": "struct(cast(unhex('FF') as string) as a, id % 2 as b, double('NaN') as c)",
    "amount": "cast(id % 2 as decimal(38, 18))",
    "span": "make_dt_interval(106751991) - make_dt_interval(cast(id % 2 as int))",
    "by_text": "map(cast(unhex(hex(254 + id % 2)) as string), timestamp'2020-01-01')",
    "anything": "parse_json(cast(id % 2 as string))",
    "nothing": "null",
}
KEYS = [name for name in COLUMNS if name not in ("by_text", "anything")]

WINDOW = "over (partition by id % 2 order by o range between interval 3 seconds preceding and current row)"
AGGREGATES = {
    "n": (monoids.Count(), "count(1)"),
    "there": (monoids.Count("text"), "count(text)"),
    "latest": (monoids.Max("time"), "max(time)"),
    "first_day": (monoids.First("day"), "first(day)"),
    "times_of": (monoids.Collect("o"), "collect_list(o)"),
}


def with_columns(df: DataFrame) -> DataFrame:
    time = "timestamp_seconds(1600000000 + id) as o"
    return df.selectExpr("id", time, *(f"{text} as {name}" for name, text in COLUMNS.items()))


def as_text(df: DataFrame) -> dict[int, tuple[str, ...]]:
    """Each row as Spark shows it, and the bytes of its text."""

    def shown(name: str) -> Column:
        return fn.expr(f"to_json(named_struct('v', `{name}`))")

    columns = [*(shown(name) for name in (*COLUMNS, *AGGREGATES)), fn.hex("text"), fn.hex(fn.col("texts")[0])]
    return {row[0]: tuple(row)[1:] for row in df.select("id", *columns).collect()}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_job_and_a_stream(settings: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    how: dict[str, Any] = {
        "partition_by": KEYS,
        "order_by": "o",
        "window": "3 seconds",
        "aggregates": {name: monoid for name, (monoid, _) in AGGREGATES.items()},
        "page_size": 2,
    }
    with configured(spark, shuffle_partitions=1, **settings):
        wanted = with_columns(spark.range(20))
        for name, (_, text) in AGGREGATES.items():
            wanted = wanted.withColumn(name, fn.expr(f"{text} {WINDOW}"))
        rows = as_text(wanted)
        assert as_text(rolling(with_columns(spark.range(20)), **how)) == rows

        (tmp_path / "in").mkdir()
        for file in range(2):
            write_file(tmp_path / "in", file, pa.table({"id": range(file * 10, file * 10 + 10)}))
        reader = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
        stream = with_columns(reader.parquet(str(tmp_path / "in"))).withWatermark("o", "2 seconds")
        out = rolling(stream, **how, buckets=2, store=f"rocksdb://{tmp_path}/store")
        found: dict[int, tuple[str, ...]] = {}
        query = (
            out.writeStream.foreachBatch(lambda batch, _: found.update(as_text(batch)))
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        query.awaitTermination()
    assert len(found) >= 16
    assert found == {number: rows[number] for number in found}


def test_a_stream_of_columns_with_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    names = [
        "",
        "a.b",
        "c`d",
        "l\nm",
        "x" * 300,
        "key",
        "packed",
        "column_0",
        "__ROLLING_counts",
        "%{}",
        "ä'",
    ]
    write_file(tmp_path, 0, pa.table({"id": range(9)}))
    stream = spark.readStream.schema("id bigint").parquet(str(tmp_path))
    df = stream.select("id", *((fn.col("id") % 3).alias(name) for name in names))
    aggregates = {f"{name}!": monoids.Sum(name) for name in names}
    store = f"rocksdb://{tmp_path}/store"
    with configured(spark, shuffle_partitions=1):
        out = rolling(
            df, partition_by=names, order_by="id", rows=2, aggregates=aggregates, store=store, buckets=1
        )
        found: list[tuple[Any, ...]] = []
        query = (
            out.writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        query.awaitTermination()
    assert out.columns == ["id", *names, *aggregates]
    sums = [(number % 3) * (2 if number > 2 else 1) for number in range(9)]
    wanted = [(n, *[n % 3] * len(names), *[sums[n]] * len(names)) for n in range(9)]
    assert sorted(found) == wanted
