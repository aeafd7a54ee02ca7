"""A driver: runs jobs that standard input names, a line of JSON each, and answers in their directories."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession

from mta import monoids
from spark_integration import rolling
from spark_integration.errors import RollingError

#: Seconds that an attempt waits at a gate before it gives up.
PATIENCE = 300.0


def with_gates(directory: str, gates: list[int]) -> Callable[[Any], Any]:
    """The rows as they are. An attempt that comes to a gate says so, and waits until a file lets it on."""

    def lift(rows: Any) -> Any:
        for gate in gates:
            if np.isin(gate, rows):
                wait_at(gate)
        return rows

    def wait_at(gate: int) -> None:
        context = TaskContext.get()
        if context is None:  # on the driver, where values are tried
            return
        attempt, task = context.attemptNumber(), context.taskAttemptId()
        window = f"{context.stageId()}.{context.partitionId()}.{task}"
        here = Path(directory, f"at-{gate}-{attempt}")
        unfinished = here.with_suffix(f".{task}")
        unfinished.write_text(json.dumps({"pid": os.getpid(), "task": task, "window": window}))
        unfinished.rename(here)
        keys = [Path(directory, f"open-{name}") for name in (gate, f"{gate}-{attempt}", "all")]
        deadline = time.monotonic() + PATIENCE
        while not any(key.exists() for key in keys):
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody opened the gate at row {gate}")
            time.sleep(0.01)

    return lift


def run(spark: SparkSession, job: dict[str, Any]) -> dict[str, Any]:
    """Rolls over rows 0, 1, 2, ... of some keys, with as many of them at each time as `rows_a_time` says."""
    context = spark.sparkContext._jsc.sc()
    # the share of a stage's tasks that end before others are attempted again; looked up for each stage
    context.conf().set("spark.speculation.quantile", "0.5" if job["speculation"] else "1.0")
    while context.getExecutorMemoryStatus().size() < 3:  # two executors and the driver
        time.sleep(0.05)
    began = time.monotonic()
    keys = ", ".join(map(str, job["keys"]))
    df = spark.range(job["rows"], numPartitions=2).selectExpr(
        f"array({keys})[id % {len(job['keys'])}] as k",
        f"id div {job['rows_a_time']} as o",
        "id * 7919 % 10007 as x",
        "id as r",
    )
    try:
        out = rolling(
            df,
            partition_by="k",
            order_by="o",
            window=job["window"],
            aggregates={
                "total": monoids.Sum("x"),
                "peak": monoids.Max("x"),
                "n": monoids.Count(),
                "rows": monoids.from_ufunc(
                    np.add, 0, lift=with_gates(job["directory"], job["gates"]), field="r"
                ),
            },
            types={"rows": "bigint"},
            store=job["store"],
            page_size=job["page_size"],
        )
    except RollingError as error:
        return {"error": type(error).__name__, "message": str(error), "seconds": time.monotonic() - began}
    path = f"{job['directory']}/out.parquet"
    pq.write_table(out.toArrow(), path)
    return {"path": path}


def main() -> None:
    builder = SparkSession.builder.appName("tests of failures")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        job = json.loads(line)
        answer = Path(job["directory"], "answer.json")
        unfinished = answer.with_suffix(".part")
        unfinished.write_text(json.dumps(run(spark, job)))
        unfinished.rename(answer)
    spark.stop()


if __name__ == "__main__":
    main()
