"""`mta experiment spark-memory`: which jobs finish at which memory limits.

The paper's figure of windows by heap size, for Spark: one key, a window of half the rows, and limits on the
heap of the JVM and on the Python worker. One limit goes through its sizes while the other one is at its most;
and once both are at their least.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mta.lab.experiments.experiment import Disagreement, Exhibit, Experiment, Record, Scale, Tell
from mta.lab.experiments.spark_memory import report
from mta.lab.experiments.spark_memory.figure import LEGEND, draw
from mta.lab.experiments.spark_memory.one_run import JOBS, JobCase
from mta.lab.experiments.spark_memory.runs import JobRun, run
from mta.lab.own_process import FINISHED

if TYPE_CHECKING:
    from rich.console import Console

HEAPS = (512, 1024, 2048, 4096)
WORKERS = (512, 1024, 2048, 4096, 8192)
ROWS = 20_000_000
CONTENDERS = tuple(JOBS)
#: Jobs that the JVM does alone.
IN_JVM = ("spark-window", "spark-segment-tree")
#: Seconds that a run may take; those of Spark's default frame, which would take days, tell its rate.
MICROSECONDS_A_ROW, START, SHORT = 15, 240, 90
#: Bytes of disk for a row: Spark's shuffle, its sort, and the window.
DISK = 150


class SparkMemory(Experiment):
    name = "spark-memory"
    told = ("pyspark", "pyarrow")
    adds_up = True

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[dict[str, Any]]:
        names = [name for name in CONTENDERS if not options.only or name in options.only]
        if scale.quick:
            todo = [_quick(name) for name in names]
        else:
            todo = [
                case
                for count in options.rows or [ROWS]
                for case in cases(names, count, options.heaps or HEAPS, options.workers or WORKERS)
            ]
        _check_disk(max(case.rows for case in todo))
        return [asdict(case) for case in todo]

    def seconds(self, case: dict[str, Any], options: argparse.Namespace) -> float:
        return options.seconds or time_limit(JobCase(**case))

    def perform(self, case: dict[str, Any], seconds: float, tell: Tell) -> Record:
        """A Spark of its own, with all its processes."""
        return run(JobCase(**case), seconds, tell).record()

    def title(self, case: dict[str, Any]) -> str:
        return report.title(JobCase(**case))

    def ended(self, record: Record) -> str:
        return report.ended(JobRun.of(record))

    def check(self, records: Sequence[Record]) -> None:
        compare([JobRun.of(record) for record in records])

    def rows(self, record: Record) -> list[dict[str, Any]]:
        plain = {name: value for name, value in record.items() if not isinstance(value, (dict, list))}
        return [{**record["case"], **plain}]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        runs = [JobRun.of(record) for record in records]
        return [
            _exhibit([run for run in runs if run.case.rows == rows])
            for rows in dict.fromkeys(run.case.rows for run in runs)
        ]

    def show(self, console: Console, records: Sequence[Record], scale: Scale) -> None:
        report.show(console, [JobRun.of(record) for record in records], judged=not scale.quick)


EXPERIMENT = SparkMemory()


def _exhibit(runs: Sequence[JobRun]) -> Exhibit:
    rows = runs[0].case.rows
    finished = Counter(run.case.contender for run in runs if run.outcome == FINISHED)
    tried = Counter(run.case.contender for run in runs)
    seen = "; ".join(
        f"{report.TITLES[name]} finished {finished[name]} of {tried[name]}"
        for name in report.TITLES
        if tried[name]
    )
    return Exhibit(
        report.count(rows).replace(" ", "").replace(",", ""),
        f"Which jobs finish: {report.count(rows)} rows of one key",
        lambda figure: draw(figure, runs),
        f"{seen}.",
        cut=LEGEND,
    )


def cases(names: Sequence[str], rows: int, heaps: Sequence[int], workers: Sequence[int]) -> list[JobCase]:
    """Each contender at its most memory first, since that tells most."""
    most_heap, most_worker = max(heaps), max(workers)
    pairs = [(heap, most_worker) for heap in sorted(heaps, reverse=True)]
    pairs += [(most_heap, worker) for worker in sorted(workers, reverse=True)]
    pairs += [(min(heaps), min(workers))]
    found = []
    for name in names:
        limits = [(heap, None if name in IN_JVM else worker) for heap, worker in pairs]
        found += [JobCase(name, rows, rows // 2, heap, worker) for heap, worker in dict.fromkeys(limits)]
    return found


def _quick(name: str) -> JobCase:
    return JobCase(name, 100_000, 10_000, 512, None if name in IN_JVM else 2048, page_size=256)


def time_limit(case: JobCase) -> float:
    if case.contender == "spark-window":
        return SHORT + case.rows * 2e-6
    return START + case.rows * MICROSECONDS_A_ROW * 1e-6


def compare(runs: Sequence[JobRun]) -> None:
    """All that finished with as many rows have the same results, but for the rounding of sums."""
    firsts: dict[int, JobRun] = {}
    for each in runs:
        if each.outcome != FINISHED:
            continue
        first = firsts.setdefault(each.case.rows, each)
        pairs = zip(each.sums, first.sums, strict=True)
        if each.rows_out != each.case.rows or any(abs(a - b) > 1e-6 * abs(b) for a, b in pairs):
            raise Disagreement(
                f"{each.case.contender} has other results than {first.case.contender}: "
                f"{each.rows_out} rows, sums {each.sums}, and not {first.sums}"
            )


def _check_disk(rows: int) -> None:
    directory = tempfile.gettempdir()
    free, needed = shutil.disk_usage(directory).free, rows * DISK
    if free < needed:
        raise OSError(
            f"{rows:,} rows need some {needed / 1e9:.0f} GB of disk, and {directory} has "
            f"{free / 1e9:.0f} GB: set TMPDIR to a directory that has more"
        )
