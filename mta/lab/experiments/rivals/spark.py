"""Spark's own window function: what it takes by default, and with its segment tree, once Java is warm."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from mta.lab.bench.spark import jobs
from mta.lab.experiments.experiment import Row
from mta.lab.processes import peaks

HEAP = "2g"
#: Runs that are timed, and seconds after which no other one begins. One that warms Java up comes before them.
TIMES, ENOUGH = 3, 60.0


def spark(segment_tree: bool, rows: int, window: int) -> Row:
    """The maximum of each row's window, over one key; no result leaves Spark but their sum."""
    found: list[float] = []
    with tempfile.TemporaryDirectory(prefix="mta-spark-") as directory:
        setting = {"spark.sql.window.segmentTree.enabled": str(segment_tree).lower()}
        session = jobs.local_session(1, HEAP, Path(directory), setting)
        try:
            frame = f"partition by k order by ts rows between {window - 1} preceding and current row"
            results = jobs.numbered_rows(session, rows).selectExpr(f"max(x) over ({frame}) as peak")
            peak = results.selectExpr("sum(peak)")
            first, total = _run(peak)
            while len(found) < TIMES and sum(found) < ENOUGH:
                seconds, again = _run(peak)
                if again != total:
                    raise AssertionError(f"Spark has {again} where it had {total} before")
                found.append(seconds)
            occupied = peaks(os.getsid(0))
        finally:
            session.stop()
    return {
        "seconds": statistics.median(found), "first_seconds": first, "times": len(found),
        "last": float(total), "jvm_bytes": occupied.jvm, "stored_bytes": 0,
    }  # fmt: skip


def _run(job: Any) -> tuple[float, Any]:
    """Seconds that a job takes, and its one result. Planned anew each time, so that nothing of it is kept."""
    began = time.perf_counter()
    ((total,),) = job.select("*").collect()
    return time.perf_counter() - began, total
