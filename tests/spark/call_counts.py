"""How many functions of this project one micro-batch of a bucket calls, as `sys.setprofile` sees them.

    python tests/spark/call_counts.py [URL of a store]

A stream of 50 keys, of which one is hot, so that its window has pages in the store. Each function counts
once, however often it is called; comprehensions and generators count as functions where Python calls them.
"""

from __future__ import annotations

import statistics
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
from rolled import schema_of
from simulated import StateOfSpark

from mta import monoids
from spark_integration.call.planning import make_plan
from spark_integration.streaming import function
from spark_integration.streaming.function import StreamFunction
from spark_integration.streaming.packing import QUERY_KEY, pack
from spark_integration.streaming.query import stream_plan
from spark_integration.streaming.schema import RowSchema
from spark_integration.streaming.storage import TaskAttempt
from stores import Store, open_store

ROOT = Path(function.__file__).parents[2]
PACKAGES = tuple(f"{ROOT / package}/" for package in ("mta", "stores", "spark_integration"))

KEYS, HOT_ROWS, WINDOW = 50, 10_000, 60_000_000
#: Micro-batches until the hot key's window has its pages and the others have moved into segments, and those
#: that are counted.
WARM, COUNTED = 6, 18


def micro_batch(number: int) -> pa.Table:
    """A row of each key, and many of the hot one."""
    keys = np.concatenate([np.arange(1, KEYS), np.zeros(HOT_ROWS, dtype=np.int64)])
    times = number * 1_000_000 + np.arange(len(keys))
    return pa.table({"k": keys, "o": times, "x": times % 97 / 4.0})


class Bucket:
    """One bucket of a query, micro-batch by micro-batch, without Spark."""

    def __init__(self, store: Store) -> None:
        self._store = store
        schema = schema_of(micro_batch(0).schema.empty_table())
        self._plan = make_plan(
            schema, partition_by="k", order_by="o", window=WINDOW, aggregates={"s": monoids.Sum("x")},
            store="rocksdb:///unused",
        )  # fmt: skip
        self._rows = RowSchema(schema, "UTC")
        self._call = StreamFunction(
            stream_plan(self._plan, self._rows, False, None, False, buckets=1, gathered=0)
        )
        self._state = StateOfSpark(None, 0, False)
        self._query, self._number = uuid.uuid4().hex, 0

    def play(self, table: pa.Table) -> Counter[CodeType]:
        key, arrived = b"", []
        for packed in pack(self._plan.keys, self._rows, 1, False, 0, table.to_batches()):
            for row in packed.to_pylist():
                if row["key"] != QUERY_KEY:
                    key = row["key"]
                    arrived.append((row["position"], row["packed"]))
        frames = [pd.DataFrame(arrived, columns=["position", "packed"])]
        attempt = TaskAttempt(self._query, "0", self._number, 0)
        stores = mock.Mock(store=lambda *_: nullcontext(self._store))
        self._number += 1
        with (
            mock.patch.object(TaskAttempt, "current", return_value=attempt),
            mock.patch.object(function, "OPEN_STORES", stores),
        ):
            return called(lambda: list(self._call((key,), iter(frames), self._state)))  # type: ignore[arg-type]


def called(work: Callable[[], Any]) -> Counter[CodeType]:
    """How often each function of the project is called while `work` runs in this thread."""
    found: Counter[CodeType] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            found[frame.f_code] += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def counts(store: Store) -> list[Counter[CodeType]]:
    bucket = Bucket(store)
    found = [bucket.play(micro_batch(number)) for number in range(WARM + COUNTED)]
    return found[WARM:]


def main(url: str) -> None:
    with open_store(url) as store:
        found = counts(store)
    functions, modules = (
        [len(each) for each in found],
        [len({code.co_filename for code in each}) for each in found],
    )
    print(f"functions {min(functions)} to {max(functions)}, in the middle {statistics.median(functions)}")
    print(f"modules {max(modules)}, calls {statistics.median(sum(each.values()) for each in found)}")
    for code in sorted(found[-1], key=lambda each: (each.co_filename, each.co_firstlineno)):
        print(f"{found[-1][code]:6} {Path(code.co_filename).relative_to(ROOT)} {code.co_qualname}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "memory:")
