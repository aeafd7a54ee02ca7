"""A stream over files, through `rolling` or through a function that does nothing, and what it took."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mta.lab.bench.spark import jobs
from mta.lab.processes import forget_peaks, peaks_of_children
from mta.monoids.base import Array
from spark_integration.rolling import rolling

#: Rows of each key in a file.
ROWS_A_KEY = 3

#: Milliseconds of a file; the rows of the next one come after all of it.
MILLISECONDS = 10_000_000

#: Not at the epoch, where Spark's watermark begins.
_FIRST = 86_400_000

#: Writes a file of this number.
WriteFile = Callable[[Path, int], None]


@dataclass
class Batch:
    """The figures of Spark on a micro-batch."""

    seconds: float
    counts: dict[str, float]

    @property
    def traffic(self) -> float:
        """Bytes of documents and pages that were written and read."""
        return self.counts["bytes_written"] + self.counts["bytes_read"]


@dataclass
class Played:
    batches: list[Batch]
    #: bytes of all states, and of the largest
    state: int
    largest: int
    #: bytes of the largest worker
    memory: int

    def last(self, count: int) -> list[Batch]:
        """Those of the last files. In the micro-batch behind the last file nothing comes in."""
        return self.batches[-count - 1 : -1]

    def seconds(self, count: int) -> float:
        return statistics.median(batch.seconds for batch in self.last(count))

    def traffic(self, count: int) -> float:
        return statistics.median(batch.traffic for batch in self.last(count))


class StreamPlayer:
    """Runs streams over files in one Spark, one after the other."""

    def __init__(self, spark: Any, directory: Path, say: Callable[[str], None]) -> None:
        self._spark, self._directory, self._say = spark, directory, say

    def play(self, name: str, store: str, files: Sequence[WriteFile], **how: Any) -> Played:
        """`rolling` over files; the watermark has no delay, so the rows of one come out with the next."""
        df = self._source(name, files).withWatermark("ts", "0 seconds")
        forget_peaks()
        out = rolling(df, partition_by="k", order_by="ts", aggregates=jobs.AGGREGATES, store=store, **how)
        batches = [
            Batch(progress.batchDuration / 1000, {key: count or 0 for key, count in counts.asDict().items()})
            for progress in self._run(name, out, len(files))
            for counts in progress.observedMetrics.values()
        ]
        memory = peaks_of_children().worker
        states = self._spark.read.format("statestore").load(str(self._directory / name / "checkpoint"))
        lengths = states.selectExpr("length(value.groupState.window) AS n")
        total, largest = lengths.selectExpr("sum(n)", "max(n)").first()
        return Played(batches, total or 0, largest or 0, memory)

    def play_nothing(self, name: str, files: Sequence[WriteFile]) -> list[float]:
        """Seconds of micro-batches that call a function which does nothing, for each key."""
        grouped = self._source(name, files).groupBy("k")
        out = grouped.applyInPandasWithState(nothing, "x double", "x double", "append", "NoTimeout")
        return [progress.batchDuration / 1000 for progress in self._run(name, out, len(files))]

    def _source(self, name: str, files: Sequence[WriteFile]) -> Any:
        source = self._directory / name / "in"
        source.mkdir(parents=True)
        for number, write in enumerate(files):
            self._say(f"{name}: file {number + 1} of {len(files)}")
            write(source / f"{number:05}.parquet", number)
        reader = self._spark.readStream.schema("k long, ts timestamp, x double")
        return reader.option("maxFilesPerTrigger", 1).parquet(str(source))

    def _run(self, name: str, out: Any, files: int) -> Iterator[Any]:
        checkpoint = str(self._directory / name / "checkpoint")
        writer = out.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        said = -1
        while not query.awaitTermination(1):
            progress = query.lastProgress
            if progress is not None and progress.batchId > said:
                said = progress.batchId
                self._say(f"{name}: micro-batch {said} of {files}")
        return iter(query.recentProgress)


def nothing(_key: Any, frames: Any, state: Any) -> Any:
    """What `play_nothing` calls for a key."""
    for _ in frames:
        pass
    state.update((0.0,))
    return iter(())


# -- files ------------------------------------------------------------------------------------------------


def write_hot(path: Path, number: int, rows: int) -> None:
    """A row a millisecond, of one key, in no order."""
    ids = np.arange(number * rows, (number + 1) * rows)
    _write(path, number, np.zeros(rows, dtype=np.int64), ids)


def write_keys(path: Path, number: int, keys: Array, *, hot: int = 0) -> None:
    """Three rows of each of some keys, and so many of key 0."""
    ids = np.concatenate([np.repeat(keys, ROWS_A_KEY), np.zeros(hot, dtype=np.int64)])
    times = number * MILLISECONDS + np.arange(len(ids)) * MILLISECONDS // max(1, len(ids))
    np.random.default_rng(number).shuffle(ids)
    _write(path, number, ids, times)


def _write(path: Path, number: int, keys: Array, milliseconds: Array) -> None:
    rng = np.random.default_rng(number)
    order = rng.permutation(len(keys))
    times = pa.array((milliseconds[order] + _FIRST) * 1000, pa.timestamp("us", "UTC"))
    table = pa.table({"k": keys[order], "ts": times, "x": rng.random(len(keys))})
    pq.write_table(table, path)
    os.utime(path, (1_000_000_000 + number,) * 2)
