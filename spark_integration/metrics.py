"""What a job did: counted in its tasks, carried by a column of its rows, gathered by Spark's `observe`.

So it needs no accumulator, works over Spark Connect, and costs a column of nulls. The last batch of a task
has what the task did, as JSON; so have some before it, for actions such as `take` that do not read so far.
The column is dropped right after it was observed.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as sql

from mta.process_memory import memory_figure
from spark_integration.buffers import one_row
from stores import Store, Token

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The column that carries what a task did.
COLUMN = "__rolling_metrics"

_STORE_SUMS = (
    "evictions",
    "pages_written",
    "pages_read",
    "bytes_written",
    "bytes_read",
    "cache_hits",
    "cache_misses",
    "seconds_in_store",
)
_SUMS = ("tasks", "rows", "windows", *_STORE_SUMS)

#: What a stream counts, in each micro-batch.
STREAM_SUMS = ("rows", "late", *_STORE_SUMS)


@dataclass(frozen=True)
class Summary:
    """What all tasks did together; retried and speculative attempts whose rows did not count are left out."""

    tasks: int
    rows: int
    #: groups that did not end in the chunk of rows where they began; the others need no window
    windows: int
    #: rows that left those windows while they were open
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
    """What a job did: give it to `rolling`, run an action, and look at `summary`.

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
        sums = {name: sum(task[name] for task in tasks) for name in _SUMS}
        return Summary(**sums, peak_memory=max((task["peak_memory"] for task in tasks), default=0))

    def observe(self, df: DataFrame) -> DataFrame:
        """The DataFrame without the column of metrics, which are observed on the way."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as fn

        if self._observation is not None:
            raise RuntimeError("metrics go with one call of rolling(); make another Metrics()")
        # without a name it has one of its own, so that several can be in one query
        self._observation = Observation(self.name) if self.name else Observation()
        # one aggregate of texts that are nearly all null, which Spark skips, and not one for each number
        tasks = fn.listagg(df[COLUMN], fn.lit("\n")).alias("tasks")
        return df.observe(self._observation, tasks).drop(COLUMN)


def with_metrics(schema: sql.StructType) -> sql.StructType:
    return sql.StructType([*schema.fields, sql.StructField(COLUMN, sql.StringType())])


# -- in a task --------------------------------------------------------------------------------------------


class Meter:
    """Counts what one task does."""

    def __init__(self, on: bool, sums: Sequence[str] = _SUMS) -> None:
        self._on = on
        self._lock = threading.Lock()
        self._counts: dict[str, float] = dict.fromkeys(sums, 0)
        if "tasks" in sums:
            self._counts["tasks"] = 1

    def __getitem__(self, name: str) -> float:
        return self._counts[name]

    def add(self, name: str, count: float) -> None:
        with self._lock:
            self._counts[name] += count

    def metered(self, store: Store) -> Store:
        return MeteredStore(store, self) if self._on else store

    def attach(self, batches: Iterator[pa.RecordBatch], done: Callable[[], Any]) -> Iterator[pa.RecordBatch]:
        """The batches, with the counts in the last one; `done` is called when there are no more."""
        if not self._on:
            yield from batches
            return
        task, number, before = secrets.token_hex(8), 0, None
        for batch in batches:
            if before is not None:
                # in the first, second, fourth, eighth … batch
                report = number & (number - 1) == 0
                yield _with_column(before, self._report(task, number) if report else None)
            before, number = batch, number + 1
        done()
        if before is not None:
            yield _with_column(before, self._report(task, number))

    def _report(self, task: str, number: int) -> str:
        with self._lock:
            counts = dict(self._counts)
        return json.dumps(
            {"task": task, "number": number, "peak_memory": memory_figure("VmHWM") or 0, **counts}
        )

    @contextmanager
    def timed(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add("seconds_in_store", time.perf_counter() - began)


def _with_column(batch: pa.RecordBatch, text: str | None) -> pa.RecordBatch:
    """The text goes into the first row, which is read if any is."""
    count = batch.num_rows
    column = pa.nulls(count, pa.string()) if text is None else one_row(count, 0, text)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, column], schema=batch.schema.append(pa.field(COLUMN, pa.string()))
    )


class MeteredStore(Store):
    """Counts and times what goes through it."""

    def __init__(self, inner: Store, meter: Meter) -> None:
        super().__init__(inner.url)
        self._inner, self._meter = inner, meter

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        with self._meter.timed():
            self._inner.put_many(items)
        self._meter.add("pages_written", len(items))
        self._meter.add("bytes_written", sum(len(value) for _, value in items))

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        with self._meter.timed():
            found = self._inner.get_many(keys)
        self._meter.add("pages_read", len(keys))
        self._meter.add("bytes_read", sum(len(value) for value in found if value is not None))
        return found

    def _delete_many(self, keys: list[str]) -> None:
        with self._meter.timed():
            self._inner.delete_many(keys)

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        with self._meter.timed():
            self._inner.delete_range(prefix, start, stop)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        return self._inner.list_keys(prefix)

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        return self._inner.read_root(name)

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        with self._meter.timed():
            return self._inner.swap_root(name, data, expected_token)

    def _delete_root(self, name: str, expected_token: Token) -> None:
        with self._meter.timed():
            self._inner.delete_root(name, expected_token)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        return self._inner.list_roots(prefix)

    def _close(self) -> None:
        self._inner.close()
