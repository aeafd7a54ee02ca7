"""Streams that are joined before `rolling`: their rows without a partner come behind the watermark."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from chance import seeds
from pyspark.sql import functions as fn
from simulated import Simulated
from streams import START, configured, rows_of, write_file

from mta import monoids
from spark_integration import rolling
from spark_integration.streaming import of_outer_joins
from stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

FILES, ROWS = 4, 20
SCHEMA = pa.schema([("r", pa.int64()), ("k", pa.int64()), ("o", pa.timestamp("us", "UTC"))])

#: A payment comes up to five minutes after its order, a minute before at most.
MATCH = "r = order and paid >= o - interval 1 minute and paid <= o + interval 5 minutes"


def instants(seconds: list[int]) -> pa.Array:
    return pa.array([(START + each) * 10**6 for each in seconds], pa.timestamp("us", "UTC"))


class Joined:
    """Orders, and payments of half of them; each file has ten minutes."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark, self.directory = spark, directory
        rng = np.random.default_rng(3)
        numbers = list(range(FILES * ROWS))
        self.seconds = [each * 30 + int(rng.integers(0, 50)) for each in numbers]
        paid = [each for each in numbers if rng.random() < 0.5]
        #: the results: of the last ten minutes of orders with the same last digit of their numbers
        self.wanted = {number: self._result(number, set(paid)) for number in numbers}
        for side in ("orders", "payments"):
            (directory / side).mkdir()
        for file in range(FILES):
            mine = range(file * ROWS, (file + 1) * ROWS)
            orders = {"r": list(mine), "o": instants([self.seconds[each] for each in mine])}
            own = [each for each in mine if each in set(paid)]
            payments = {"order": own, "paid": instants([self.seconds[each] + 60 for each in own])}
            write_file(directory / "orders", file, pa.table(orders))
            write_file(directory / "payments", file, pa.table(payments))

    def _result(self, number: int, paid: set[int]) -> tuple[int, int]:
        now = self.seconds[number]
        inside = [
            each
            for each, second in enumerate(self.seconds)
            if each % 3 == number % 3 and now - 600 <= second <= now
        ]
        return len(inside), len(paid.intersection(inside))

    def source(self, side: str, schema: str, time: str | None = None) -> DataFrame:
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        df = reader.parquet(str(self.directory / side))
        return df if time is None else df.withWatermark(time, "1 minute")

    def orders(self) -> DataFrame:
        return self.source("orders", "r bigint, o timestamp", "o")

    def payments_without_watermark(self) -> DataFrame:
        return self.source("payments", "`order` bigint, paid timestamp")

    def payments(self) -> DataFrame:
        return self.source("payments", "`order` bigint, paid timestamp", "paid")

    def joined(self, how: str) -> DataFrame:
        columns = ("r", "o", "order", fn.expr("r % 3").alias("k"))
        return self.orders().join(self.payments(), fn.expr(MATCH), how).select(*columns)


def played(joined: Joined, df: DataFrame) -> tuple[dict[int, Any], float]:
    """The rows that came out, and how many were late."""
    aggregates = {"n": monoids.Count(), "paid": monoids.Count("order")}
    rows, late = rolled(joined, df, aggregates, window="10 minutes")
    return {number: (row["n"], row["paid"]) for number, row in rows.items()}, late


def rolled(
    joined: Joined, df: DataFrame, aggregates: dict[str, Any], **frame: Any
) -> tuple[dict[int, dict[str, Any]], float]:
    store = f"rocksdb://{joined.directory}/store"
    out = rolling(
        df, partition_by="k", order_by=["o", "r"], aggregates=aggregates, store=store, buckets=2, **frame
    )
    query = (
        out.writeStream.format("parquet")
        .trigger(availableNow=True)
        .start(str(joined.directory / "out"), checkpointLocation=str(joined.directory / "checkpoint"))
    )
    query.awaitTermination()
    counts = [
        next(iter(each.observedMetrics.values())) for each in query.recentProgress if each.observedMetrics
    ]
    return rows_of(joined.directory / "out"), sum(each["late"] for each in counts)


def test_rows_without_a_partner_are_not_late(spark: SparkSession, tmp_path: Path) -> None:
    joined = Joined(spark, tmp_path)
    with configured(spark, shuffle_partitions=1):
        found, late = played(joined, joined.joined("leftOuter"))
    assert late == 0
    # the join keeps those of the last minutes until more comes
    assert len(found) > 0.6 * len(joined.wanted)
    assert sum(joined.seconds[number] < 1500 for number in found) == sum(
        each < 1500 for each in joined.seconds
    )
    assert {number: joined.wanted[number] for number in found} == found


def test_which_rows_come_out_of_outer_joins(spark: SparkSession, tmp_path: Path) -> None:
    joined = Joined(spark, tmp_path)
    orders, payments, left = joined.orders(), joined.payments(), joined.joined("leftOuter")
    table = spark.range(9).withColumnRenamed("id", "r")

    def all_are(df: DataFrame, column: str = "o") -> bool:
        return of_outer_joins(df, df.columns.index(column))

    assert all_are(left)
    assert all_are(left.where("r > 0").withColumn("x", fn.lit(1)).withColumnRenamed("o", "at"), "at")
    assert all_are(left.dropDuplicates(["r", "o"]))
    assert all_are(left.union(joined.joined("fullOuter")))
    assert all_are(left.join(table, "r", "left"))
    assert all_are(table.join(left, "r"))
    assert all_are(payments.join(orders, fn.expr(MATCH), "rightOuter"))
    # what an outer join may fill with nulls, or what is made of columns, may be as late as it likes
    assert not all_are(orders.join(payments, fn.expr(MATCH), "leftOuter"), "paid")
    assert not all_are(left.withColumn("o", fn.expr("o - interval 1 hour")))
    assert not all_are(joined.joined("inner"))
    assert not all_are(orders)
    assert not all_are(orders.join(table, "r", "left"))
    assert not all_are(orders.union(left.select("r", "o")))
    assert not all_are(left.select("r", "o").union(orders))


@pytest.mark.parametrize("frame", [{"rows": 3}, {"window": "5 minutes"}], ids=["rows", "window"])
def test_rows_that_a_join_gives_out_of_order_are_late(
    spark: SparkSession, tmp_path: Path, frame: dict[str, Any]
) -> None:
    """The watermark is on a key of the join, and the join keeps orders until it has passed that."""
    joined = Joined(spark, tmp_path)
    orders = joined.orders().withColumn("half", fn.expr("window(o, '20 minutes').end"))
    payments = (
        joined.payments_without_watermark()
        .withColumn("paid_half", fn.expr("window(paid, '20 minutes').end"))
        .withWatermark("paid_half", "1 minute")
    )
    df = orders.join(payments, fn.expr("r = order and half = paid_half"), "leftOuter")
    df = df.select("r", "o", "order", fn.expr("r % 3").alias("k"))
    aggregates = {"n": monoids.Count(), "of": monoids.Collect("r")}
    with configured(spark, shuffle_partitions=1):
        found, late = rolled(joined, df, aggregates, **frame)
    assert late > 0
    assert len(found) + late <= len(joined.wanted)
    for number, row in found.items():
        now = joined.seconds[number]
        before = [
            each
            for each in sorted((joined.seconds[each], each) for each in found if each % 3 == number % 3)
            if each[0] <= now and ("rows" in frame or each[0] >= now - 300)
        ]
        before = before[-3:] if "rows" in frame else before
        assert (row["n"], row["of"]) == (len(before), [each for _, each in before])


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("how", [{"rows": 3}, {"window": "5 minutes"}], ids=["rows", "window"])
def test_behind_outer_joins_rows_are_late_where_later_ones_came_out(how: dict[str, Any], seed: int) -> None:
    """Whatever order a join gives them in, and however long ago the bucket had its last row."""
    rng = np.random.default_rng(seed)
    aggregates = {"n": monoids.Count(), "of": monoids.Collect("r")}
    seconds: list[int] = []
    taken: list[int] = []
    late = 0
    with open_store(f"memory:{uuid.uuid4().hex}") as store:
        stream = Simulated(
            SCHEMA, store, seed, partition_by="k", order_by=["o", "r"], aggregates=aggregates,
            buckets=1, after_outer_joins=True, **how,
        )  # fmt: skip
        mark, now = None, 1000
        for _ in range(12):
            count = int(rng.integers(1, 20))
            came = rng.integers(now - 400, now + 100, count).tolist()
            numbers = list(range(len(seconds), len(seconds) + count))
            seconds += came
            taken += [number for number in numbers if mark is None or seconds[number] > mark]
            late += sum(mark is not None and each <= mark for each in came)
            mark = now
            stream.play(rows_at(numbers, came), (START + mark) * 1000)
            # after a long silence nothing is left of any key
            now += int(rng.choice([50, 200, 5000]))
        stream.play(rows_at([len(seconds)], [now + 9000]), (START + now + 9000) * 1000)
    assert late > 0
    assert sum(stream.late) == late
    wanted = {}
    for number in taken:
        own = sorted((seconds[each], each) for each in taken if each % 3 == number % 3)
        upto = own[: own.index((seconds[number], number)) + 1]
        if "rows" in how:
            inside = upto[-3:]
        else:
            # rows of one time see each other
            inside = [each for each in own if seconds[number] - 300 <= each[0] <= seconds[number]]
        wanted[number] = [each for _, each in inside]
    assert {number: row["of"] for number, row in stream.rows.items() if number < len(seconds)} == wanted


def rows_at(numbers: list[int], seconds: list[int]) -> pa.Table:
    columns = {
        "r": numbers,
        "k": [number % 3 for number in numbers],
        "o": instants(seconds),
    }
    return pa.table(columns, schema=SCHEMA)
