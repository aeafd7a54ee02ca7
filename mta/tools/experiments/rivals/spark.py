"""Spark's own window function: what it takes by default, and with its segment tree."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from mta.tools.bench.spark import jobs
from mta.tools.experiments.experiment import Row
from mta.tools.processes import peaks

HEAP = "2g"


def spark(segment_tree: bool, rows: int, window: int) -> Row:
    """The maximum of each row's window, over one key; no result leaves Spark but their sum."""
    with tempfile.TemporaryDirectory(prefix="mta-spark-") as directory:
        setting = {"spark.sql.window.segmentTree.enabled": str(segment_tree).lower()}
        session = jobs.local_session(1, HEAP, Path(directory), setting)
        try:
            frame = f"partition by k order by ts rows between {window - 1} preceding and current row"
            results = jobs.numbered_rows(session, rows).selectExpr(f"max(x) over ({frame}) as peak")
            began = time.perf_counter()
            total = results.selectExpr("sum(peak)").collect()[0][0]
            spent = time.perf_counter() - began
            occupied = peaks(os.getsid(0))
        finally:
            session.stop()
    return {"seconds": spent, "last": float(total), "jvm_bytes": occupied.jvm, "stored_bytes": 0}
