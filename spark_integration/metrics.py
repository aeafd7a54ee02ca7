"""What a job did: counted in its tasks, carried by a column of its rows, gathered by Spark's `observe`.

So it needs no accumulator, works over Spark Connect, and costs a column of nulls. The last batch of a task
has what the task did, as JSON; so have some before it, for actions such as `take` that do not read so far.
The column is dropped right after it was observed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as fn
from pyspark.sql import types as sql

from spark_integration.running.metering import COLUMN, SUMS


@dataclass(frozen=True)
class Summary:
    """What all tasks did together; retried and speculative attempts whose rows did not count are left out."""

    tasks: int
    rows: int
    #: groups that did not end in the chunk of rows where they began; the others need no window
    windows: int
    #: rows that left windows while these were open
    evictions: int
    pages_written: int
    pages_read: int
    bytes_written: int
    bytes_read: int
    #: pages that a window asked for and had, or had to wait for
    cache_hits: int
    cache_misses: int
    #: spent in calls of the store, most of it in the background
    seconds_in_store: float
    #: the largest resident size of a Python worker, in bytes, since it started
    peak_memory: int


class Metrics:
    """The counts of a job: give it to `rolling`, run an action, and look at `summary`.

        metrics = Metrics()
        rolling(df, order_by="ts", rows=9, aggregates=aggregates, metrics=metrics).write.parquet(path)
        print(metrics.summary.pages_written, metrics.summary.peak_memory)

    It goes with one DataFrame, and describes the first action that runs on it. An action that does not read
    all rows, such as `take`, learns what its tasks had done when they last said so. Of a stream, the progress
    of each micro-batch has the counts in `observedMetrics`, under the name of the metrics.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._observation: Any = None

    @property
    def summary(self) -> Summary:
        """Waits for an action on the DataFrame, which must have begun."""
        if self._observation is None:
            raise RuntimeError("these metrics were given to no rolling(..., metrics=...)")
        texts = self._observation.get["tasks"] or ""
        # of the reports of a task, the one that says most
        reports = sorted(map(json.loads, texts.splitlines()), key=lambda report: report["number"])
        tasks = {report["task"]: report for report in reports}.values()
        sums = {name: sum(task[name] for task in tasks) for name in SUMS}
        return Summary(**sums, peak_memory=max((task["peak_memory"] for task in tasks), default=0))

    def observe(self, df: DataFrame) -> DataFrame:
        """The DataFrame without the column of metrics, which are observed on the way."""
        if self._observation is not None:
            raise RuntimeError("metrics go with one call of rolling(); make another Metrics()")
        # without a name it has one of its own, so that several can be in one query
        self._observation = Observation(self.name) if self.name else Observation()
        # one aggregate of texts that are nearly all null, which Spark skips, and not one for each number
        tasks = fn.listagg(df[COLUMN], fn.lit("\n")).alias("tasks")
        return df.observe(self._observation, tasks).drop(COLUMN)


def with_metrics(schema: sql.StructType) -> sql.StructType:
    return sql.StructType([*schema.fields, sql.StructField(COLUMN, sql.StringType())])
