"""`mta bench spark`: what windows add to a Spark job, and what Spark's own window function takes for them.

All jobs read, shuffle and sort the same rows of one key, and throw away what comes out. They take turns in
a round; a ratio is the median over the rounds of the ratio within one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from rich.console import Console

from mta.encoding.arrow import from_numpy
from mta.lab.bench.report import Section
from mta.lab.bench.spark import jobs
from mta.lab.harness import Setting, run_benchmark
from mta.lab.machine import load_average, versions
from mta.lab.processes import forget_peaks, peaks_of_children
from mta.lab.turns import back_and_forth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS, WINDOW = 10_000_000, 1_000_000
QUICK_ROWS, QUICK_WINDOW, QUICK_PAGE = 100_000, 2_000, 256
#: What part of the rows warms up Spark's window function, which takes minutes for all of them.
WARMING = 20
#: Rows a second, of those of a job that appends constants; and of those of Spark's segment tree.
OF_CONSTANTS = {"RocksDB": 0.8, "Redis": 0.7}
OF_SEGMENT_TREE = 3.0
#: The segment tree needs it at this size; all jobs run in the same process.
HEAP = "6g"

PEAKS = "resident, of a Python process that all jobs use in turn"

Job = Callable[[], "DataFrame"]


def run(
    *,
    rows: int | None = None,
    window: int | None = None,
    rounds: int = 3,
    quick: bool = False,
    redis_url: str | None = None,
    json_file: Path | None = None,
    out: Console | None = None,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets."""
    size = (rows or (QUICK_ROWS if quick else ROWS), window or (QUICK_WINDOW if quick else WINDOW))
    with (
        TemporaryDirectory(prefix="mta-bench-") as directory,
        _Bench(*size, rounds, Path(directory)) as bench,
    ):
        measures = (bench.of_constants, bench.of_spark)
        return run_benchmark(
            "spark", measures, quick=quick, redis_url=redis_url, json_file=json_file, out=out
        )


class _Bench:
    """The Spark of all jobs starts with the first one, when all that the user named has been looked at."""

    def __init__(self, rows: int, window: int, rounds: int, directory: Path) -> None:
        self.rows, self.window, self.rounds, self._directory = rows, window, rounds, directory
        self.df: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.df is not None:
            self.df.sparkSession.stop()

    def of_constants(self, setting: Setting) -> Section:
        """Rolling over each store against constants."""
        spark = jobs.local_session(2, "1g" if setting.quick else HEAP, self._directory, {})
        self.df = jobs.numbered_rows(spark, self.rows)
        sizes = f"{self.rows:,} rows of one key, window of {self.window:,}"
        section = Section("rolling", f"{sizes}: Sum, Max and Mean, beside constants")
        found = self._rounds(
            setting,
            {
                "constants": lambda: with_constants(self.df),
                "RocksDB": lambda: self._rolling("rocksdb", setting),
                "Redis": lambda: self._rolling(setting.redis_url, setting),
            },
            self.rounds,
        )
        self._add(section, found, "constants", None if setting.quick else OF_CONSTANTS)
        for name in OF_CONSTANTS:
            peak = max(found[name]["worker_peaks"])
            if peak:
                section.add("the worker's peak", name, peak / (1 << 20), "MiB", note=PEAKS)
        return section

    def of_spark(self, setting: Setting) -> Section:
        """Rolling against Spark's own window function: one round, since that takes minutes.

        What warms up is a part of the rows.
        """
        title = "the same windows by Spark's window function with its segment tree, one round"
        section = Section("window function", title)
        spark = self.df.sparkSession
        fewer = jobs.numbered_rows(spark, max(self.rows // WARMING, min(self.rows, self.window // 4)))

        def jobs_over(df: DataFrame) -> dict[str, Job]:
            return {
                "segment tree": lambda: jobs.with_spark_window(df, self.window, segment_tree=True),
                "RocksDB": lambda: self._rolling("rocksdb", setting, df),
            }

        self._rounds(setting, jobs_over(fewer), 0)
        found = self._rounds(setting, jobs_over(self.df), 1, warm_up=False)
        targets = None if setting.quick else {"RocksDB": OF_SEGMENT_TREE}
        self._add(section, found, "segment tree", targets)
        return section

    def _rolling(self, store: str, setting: Setting, df: DataFrame | None = None) -> DataFrame:
        page_size = QUICK_PAGE if setting.quick else None
        return jobs.with_rolling(self.df if df is None else df, self.window, store, page_size=page_size)

    def _rounds(
        self, setting: Setting, contenders: dict[str, Job], rounds: int, *, warm_up: bool = True
    ) -> dict[str, dict[str, list[float]]]:
        """Seconds, and peaks of the workers, of each contender in each round; every other round backwards."""
        found: dict[str, dict[str, list[float]]] = {
            name: {"seconds": [], "worker_peaks": []} for name in contenders
        }
        for turn in range(rounds + warm_up):
            for name in back_and_forth(contenders, turn):
                warming = warm_up and turn == 0
                setting.say(f"{name}, " + ("to warm up" if warming else f"round {turn + 1 - warm_up}"))
                out = contenders[name]()
                forget_peaks()
                began = time.perf_counter()
                out.write.format("noop").mode("overwrite").save()
                if not warming:
                    found[name]["seconds"].append(time.perf_counter() - began)
                    found[name]["worker_peaks"].append(peaks_of_children().worker)
        return found

    def _add(
        self,
        section: Section,
        found: dict[str, dict[str, list[float]]],
        base: str,
        targets: dict[str, float] | None,
    ) -> None:
        section.raw = {
            **{"rows": self.rows, "window": self.window, "rounds": found, "load_average": load_average()},
            "versions": versions(("pyspark", "pyarrow", "pandas")),
        }
        for name, measured in found.items():
            speed = self.rows / statistics.median(measured["seconds"])
            if name == base:
                section.add("rows a second", name, speed / 1000, "k/s")
                continue
            pairs = zip(found[base]["seconds"], measured["seconds"], strict=True)
            ratio = statistics.median(other / own for other, own in pairs)
            section.add(
                "rows a second", f"rolling, {name}", speed / 1000, "k/s",
                reference=base, ratio=ratio, sense=">=", target=(targets or {}).get(name),
            )  # fmt: skip


def with_constants(df: DataFrame) -> DataFrame:
    """The same shuffle and sort, and as many columns that take no work."""

    def append(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            constants = [from_numpy(np.zeros(batch.num_rows)) for _ in jobs.AGGREGATES]
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *constants], names=[*batch.schema.names, *jobs.AGGREGATES]
            )

    return df.repartition("k").sortWithinPartitions("k", "ts").mapInArrow(append, jobs.with_results(df))
