"""A stream over files, through `rolling` or through a function that does nothing, and what it took."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mta.lab.bench.spark import jobs
from mta.lab.processes import forget_peaks, peaks_of_children
from spark_integration.rolling import rolling

#: Writes a file of this number.
WriteFile = Callable[[Path, int], None]


@dataclass
class Batch:
    """What Spark told of a micro-batch."""

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


class Streams:
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
