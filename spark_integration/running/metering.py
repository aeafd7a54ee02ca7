"""Counts of one task, in a column of its rows."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from mta.encoding.arrow import one_row
from mta.process_memory import memory_figure
from stores import Store, WrapperStore

T = TypeVar("T")

#: The column of a task's counts.
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
#: What a batch job counts.
SUMS = ("tasks", "rows", "windows", *_STORE_SUMS)

#: What a stream counts, in each micro-batch.
STREAM_SUMS = ("rows", "late", *_STORE_SUMS)


class Meter:
    """The counts of one task."""

    def __init__(self, on: bool, sums: Sequence[str] = SUMS) -> None:
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


def _with_column(batch: pa.RecordBatch, text: str | None) -> pa.RecordBatch:
    """The text goes into the first row, which is read if any is."""
    count = batch.num_rows
    column = pa.nulls(count, pa.string()) if text is None else one_row(count, 0, text)
    return pa.RecordBatch.from_arrays(
        [*batch.columns, column], schema=batch.schema.append(pa.field(COLUMN, pa.string()))
    )


class MeteredStore(WrapperStore):
    """Counts and times the calls of a store."""

    def __init__(self, inner: Store, meter: Meter) -> None:
        super().__init__(inner)
        self._meter = meter

    def _around(self, call: str, action: Callable[[], T]) -> T:  # noqa: ARG002
        began = time.perf_counter()
        try:
            return action()
        finally:
            self._meter.add("seconds_in_store", time.perf_counter() - began)

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        super()._put_many(items)
        self._meter.add("pages_written", len(items))
        self._meter.add("bytes_written", sum(len(value) for _, value in items))

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        found = super()._get_many(keys)
        self._meter.add("pages_read", len(keys))
        self._meter.add("bytes_read", sum(len(value) for value in found if value is not None))
        return found
