"""The job of the demo, and what is known of it afterwards."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from mta.encoding.arrow import one_row
from mta.lab.demo.data import AGGREGATES, DemoStream, in_spark
from mta.lab.demo.expected import MARK, Expected, mistakes, sampled_rows
from mta.process_memory import memory_figure
from spark_integration.metrics import Metrics, Summary
from spark_integration.rolling import rolling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Worker(NamedTuple):
    """A Python worker before its first row."""

    #: what it may have of address space, and what it has taken of it, in bytes
    limit: int
    taken: int
    #: whether an array as large as the longest window can be had there
    holds_window: bool


def fresh_worker(spark: SparkSession, window_bytes: int) -> Worker:
    """Looks at a worker that has all libraries loaded, and tries what the demo does without."""

    def look(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import spark_integration.partition.task  # noqa: F401

        taken = memory_figure("VmSize") or 0
        try:
            holds = len(np.empty(window_bytes, dtype=np.uint8)) == window_bytes
        except MemoryError:
            holds = False
        found = f"{resource.getrlimit(resource.RLIMIT_AS)[0]} {taken} {int(holds)}"
        yield pa.RecordBatch.from_arrays([one_row(1, 0, found)], names=["found"])

    row = spark.range(1, numPartitions=1).mapInArrow(look, "found string").collect()[0]
    limit, taken, holds = (int(text) for text in row["found"].split())
    return Worker(limit, taken, bool(holds))


def sensors_of_partitions(spark: SparkSession, sensors: int, partitions: int) -> list[list[int]]:
    """Which sensors Spark puts into each partition, in the order of its rows."""
    found: list[list[int]] = [[] for _ in range(partitions)]
    for row in spark.range(sensors).selectExpr("id", f"pmod(hash(id), {partitions}) AS place").collect():
        found[row["place"]].append(row["id"])
    return [sorted(each) for each in found]


class Job:
    """Runs in a thread, so that the main one can show how far it is, and be interrupted."""

    def __init__(self, spark: SparkSession, stream: DemoStream, store: str) -> None:
        from pyspark.sql import Observation
        from pyspark.sql import functions as fn

        self._metrics = Metrics()
        self._marks: Any = Observation("marks")
        windows = rolling(
            in_spark(spark, stream.rows),
            partition_by="sensor",
            order_by="time",
            window=stream.duration,
            aggregates=AGGREGATES,
            store=store,
            metrics=self._metrics,
        )
        marks = [fn.expr(MARK.format(column=name)).alias(name) for name in ("readings", "energy")]
        # every row is looked at, and a few of them are brought to the driver
        self._wanted = windows.observe(self._marks, fn.count(fn.lit(1)).alias("rows"), *marks).where(
            fn.col("id").isin(sampled_rows(stream))
        )
        self._found: list[Any] = []
        self._marked: dict[str, Any] = {}
        self._error: Exception | None = None
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def done_within(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        began = time.perf_counter()
        try:
            self._found = self._wanted.collect()
            self._marked = self._marks.get
        except Exception as error:
            self._error = error
        self.seconds = time.perf_counter() - began

    @property
    def error(self) -> Exception | None:
        return self._error

    @property
    def summary(self) -> Summary:
        return self._metrics.summary

    def mistakes(self, expected: Expected) -> list[str]:
        return mistakes(expected, self._marked, {row["id"]: row.asDict() for row in self._found})
