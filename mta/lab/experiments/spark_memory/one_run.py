"""One Spark job in a process of its own, which may run out of memory: `python -m ….one_run CASE DIRECTORY`.

CASE is a `JobCase` as JSON. DIRECTORY gets progress.json now and then, and result.json in the end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mta.lab.bench.spark import jobs
from mta.lab.own_process import PROGRESS, RESULT, write_json
from mta.lab.processes import peaks
from spark_integration.metrics import Metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Seconds between two looks at how far a job is.
LOOK = 1.0

SETTINGS = {
    # so that a job that is too slow still tells how far it is
    "spark.executor.heartbeatInterval": "5s",
    # a large sort with a small heap has many files, and reads each ahead with 2 MB that Spark does not count
    "spark.unsafe.sorter.spill.read.ahead.enabled": "false",
}


@dataclass(frozen=True)
class JobCase:
    """What is run; memory in MiB, as Spark counts it."""

    contender: str
    rows: int
    window: int
    heap: int
    #: None for jobs without Python workers
    worker: int | None
    cores: int = 1
    page_size: int | None = None


Job = Callable[["DataFrame", JobCase, str, Metrics], "DataFrame"]

JOBS: dict[str, Job] = {
    "rolling-rocksdb": lambda df, case, _, metrics: jobs.with_rolling(
        df, case.window, "rocksdb", page_size=case.page_size, metrics=metrics
    ),
    "rolling-redis": lambda df, case, redis, metrics: jobs.with_rolling(
        df, case.window, redis, page_size=case.page_size, metrics=metrics
    ),
    "rolling-daba": lambda df, case, _, metrics: jobs.with_rolling(
        df, case.window, "rocksdb", algorithm="daba", metrics=metrics
    ),
    "pandas": lambda df, case, *_: jobs.with_pandas(df, case.window),
    "spark-window": lambda df, case, *_: jobs.with_spark_window(df, case.window, segment_tree=False),
    "spark-segment-tree": lambda df, case, *_: jobs.with_spark_window(df, case.window, segment_tree=True),
}


def main(case: JobCase, directory: Path, redis: str) -> None:
    limits = {} if case.worker is None else {"spark.executor.pyspark.memory": f"{case.worker}m"}
    try:
        spark = jobs.local_session(case.cores, f"{case.heap}m", directory / "spark", SETTINGS | limits)
        result = _measured(spark, case, directory, redis)
    except BaseException as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    write_json(directory / RESULT, result)
    # Spark is ended with all other processes of the run: one that is out of memory may never stop
    os._exit(0)


def _measured(spark: SparkSession, case: JobCase, directory: Path, redis: str) -> dict[str, Any]:
    from pyspark.sql import functions as fn

    metrics = Metrics()
    out = JOBS[case.contender](jobs.numbered_rows(spark, case.rows), case, redis, metrics)
    # a filter counts the rows that come out, and the sums need every column
    counted = out.where(fn.monotonically_increasing_id() >= 0)
    sums = counted.agg(fn.count("*"), *(fn.sum(name) for name in jobs.AGGREGATES))
    began = time.perf_counter()
    threading.Thread(target=_watch, args=(spark, directory, began), daemon=True).start()
    row = sums.collect()[0]
    seconds = time.perf_counter() - began
    found: dict[str, Any] = {"seconds": seconds, "rows_out": row[0], "sums": list(row[1:])}
    found |= peaks(os.getsid(0))._asdict()
    if case.contender.startswith("rolling"):
        found["metrics"] = asdict(metrics.summary)
    return found


# -- how far a job is -------------------------------------------------------------------------------------


def _watch(spark: SparkSession, directory: Path, began: float) -> None:
    """Writes how many rows came out after how many seconds, and when the last moment without any was."""
    first, parent = 0.0, os.getppid()
    while True:
        time.sleep(LOOK)
        if os.getppid() != parent:
            os._exit(1)  # the experiment was killed, and Spark ends with its driver
        rows, now = _rows_out(spark), time.perf_counter() - began
        if not rows:
            first = now
        write_json(directory / PROGRESS, {"rows_out": rows, "seconds": now, "seconds_before": first})


def _rows_out(spark: SparkSession) -> int:
    """What the filter of the job under way has counted, as Spark's own pages would show it."""
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    if not executions.size():
        return 0
    number = executions.last().executionId()
    counts = store.executionMetrics(number)
    nodes = store.planGraph(number).allNodes()
    for place in range(nodes.size()):
        node = nodes.apply(place)
        if node.name() != "Filter":
            continue
        metrics = node.metrics()
        for each in range(metrics.size()):
            metric = metrics.apply(each)
            count = counts.get(metric.accumulatorId())
            if metric.name() == "number of output rows" and count.isDefined():
                return int(count.get().replace(",", ""))
    return 0


if __name__ == "__main__":
    main(JobCase(**json.loads(sys.argv[1])), Path(sys.argv[2]), sys.argv[3])
