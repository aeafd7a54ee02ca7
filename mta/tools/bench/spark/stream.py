"""`mta bench stream`: seconds a micro-batch of one hot key as its window grows, and of many small keys.

Rows are in files, and a micro-batch takes one of them. The watermark has no delay, so the rows of a file come
out with the next one, and the micro-batch reads back what the one before put aside.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from mta.tools.bench.report import Section
from mta.tools.bench.runner import run_sections
from mta.tools.bench.setting import Setting
from mta.tools.bench.spark import jobs
from spark_integration.rolling import rolling

#: Rows of a micro-batch of the hot key, and of the window when the stream ends.
BATCH, WINDOW = 100_000, 10_000_000
KEYS, ROWS_A_KEY, KEY_BATCHES = 50_000, 3, 3
#: The window's sizes between which seconds a micro-batch should not grow, and by how much they may.
FIRST, FLAT = 1 << 16, 1.25
MOST_STATE = 64 << 10


@dataclass
class Batch:
    """What Spark told of a micro-batch."""

    seconds: float
    counts: dict[str, float]


def run(
    *,
    quick: bool = False,
    redis_url: str | None = None,
    json_file: Path | None = None,
    out: Console | None = None,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets."""
    with TemporaryDirectory(prefix="mta-bench-") as directory:
        # Spark forgets the progress of all micro-batches but the last 100
        settings = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
        spark = jobs.local_session(2, "1g", Path(directory), settings)
        bench = _Bench(spark, Path(directory))
        try:
            return run_sections(
                "stream",
                (bench.depth, bench.width),
                quick=quick,
                redis_url=redis_url,
                json_file=json_file,
                out=out,
            )
        finally:
            spark.stop()


class _Bench:
    def __init__(self, spark: Any, directory: Path) -> None:
        self._spark, self._directory = spark, directory

    def depth(self, setting: Setting) -> Section:
        """One key, whose window grows to its whole size and then slides."""
        rows, window = (2_000, 1 << 13) if setting.quick else (BATCH, WINDOW)
        section = Section("depth", f"one key, {rows:,} rows a micro-batch, a window of {window:,} rows")
        files = window // rows + (2 if setting.quick else 12)
        batches, state = self._stream(setting, "depth", files, rows, 1, window)
        # the first micro-batch starts the workers, and no row comes out of it
        lengths = [min(number * rows, window) for number in range(len(batches))]
        sizes = [size for size in (*(1 << power for power in range(16, 24)), WINDOW) if size <= window]
        medians = {size: _around(size, lengths, batches) for size in sizes}
        reference = medians.get(FIRST)
        for size, seconds in medians.items():
            section.add(
                "seconds a micro-batch",
                f"window of {size:,}" if size == WINDOW else f"window of 2^{size.bit_length() - 1}",
                seconds,
                "s",
                reference=None if size == FIRST or reference is None else "of 2^16",
                ratio=None if size == FIRST or reference is None else seconds / reference,
                target=FLAT if size == window and size > FIRST and not setting.quick else None,
            )
        section.add("state", "largest", state, "bytes", target=MOST_STATE)
        section.raw["seconds"] = [batch.seconds for batch in batches]
        section.raw["counts"] = [batch.counts for batch in batches]
        return section

    def width(self, setting: Setting) -> Section:
        """Many keys whose windows fit into Spark's state."""
        keys = 200 if setting.quick else KEYS
        rows = keys * ROWS_A_KEY
        section = Section("width", f"{keys:,} keys, {ROWS_A_KEY} rows of each in a micro-batch")
        batches, state = self._stream(setting, "width", KEY_BATCHES, rows, keys, 10 * rows)
        traffic = sum(batch.counts["pages_written"] + batch.counts["pages_read"] for batch in batches)
        seconds = statistics.median(batch.seconds for batch in batches[1:])
        section.add("a key", "time in a micro-batch", seconds / keys, "s")
        section.add("store", "pages written and read", traffic, "", target=0)
        section.add("state", "largest", state, "bytes", target=MOST_STATE)
        section.raw["seconds"] = [batch.seconds for batch in batches]
        return section

    def _stream(
        self, setting: Setting, name: str, files: int, rows: int, keys: int, window: int
    ) -> tuple[list[Batch], int]:
        """The micro-batches of a stream over files, and the bytes of the largest state."""
        directory = self._directory / name
        source, checkpoint = directory / "in", directory / "checkpoint"
        source.mkdir(parents=True)
        for number in range(files):
            setting.say(f"{name}: file {number + 1} of {files}")
            _write(source / f"{number:05}.parquet", number, rows, keys)
        df = self._spark.readStream.schema("k long, ts timestamp, x double")
        df = df.option("maxFilesPerTrigger", 1).parquet(str(source)).withWatermark("ts", "0 seconds")
        out = rolling(
            df,
            partition_by="k",
            order_by="ts",
            window=f"{window} milliseconds",
            aggregates=jobs.AGGREGATES,
            store=setting.redis_url,
        )
        writer = out.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        said = -1
        while not query.awaitTermination(1):
            progress = query.lastProgress
            if progress is not None and progress.batchId > said:
                said = progress.batchId
                setting.say(f"{name}: micro-batch {said} of {files}")
        batches = list(_told(query))
        states = self._spark.read.format("statestore").load(str(checkpoint))
        largest = states.selectExpr("max(length(value.groupState.window))").first()[0]
        return batches, largest or 0


def _write(path: Path, number: int, rows: int, keys: int) -> None:
    ids = np.arange(number * rows, (number + 1) * rows)
    rng = np.random.default_rng(number)
    rng.shuffle(ids)
    # not at the epoch, where Spark's watermark begins
    times = pa.array(ids * 1000 + 86_400_000_000, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": ids % keys, "ts": times, "x": rng.random(rows)}), path)
    os.utime(path, (1_000_000_000 + number,) * 2)


def _told(query: Any) -> Iterator[Batch]:
    for progress in query.recentProgress:
        for counts in progress.observedMetrics.values():
            yield Batch(
                progress.batchDuration / 1000,
                {name: count or 0 for name, count in counts.asDict().items()},
            )


def _around(size: int, lengths: list[int], batches: list[Batch]) -> float:
    """Seconds of the few micro-batches whose window had about so many rows."""
    nearest = sorted(range(1, len(batches) - 1), key=lambda number: abs(lengths[number] - size))[:5]
    return statistics.median(batches[number].seconds for number in nearest)
