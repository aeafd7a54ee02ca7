"""`mta experiment spark-memory`: which jobs finish at which memory limits.

The paper's figure of windows by heap size, for Spark: one key, a window of half the rows, and limits on the
heap of the JVM and on the Python worker. One limit goes through its sizes while the other one is at its most;
and once both are at their least.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from mta.bench.measure import PACKAGES, machine, versions
from spark_integration.experiments import memory_report
from spark_integration.experiments.memory_figure import draw
from spark_integration.experiments.one_run import JOBS, Case
from spark_integration.experiments.runs import FINISHED, Run, run

FORMAT = 1
NAME = "spark-memory"
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


class Disagreement(Exception):
    """Two contenders have other results."""


def start(
    rows: Sequence[int] = (),
    *,
    out: Path = Path("out"),
    quick: bool = False,
    only: Sequence[str] = (),
    heaps: Sequence[int] = (),
    workers: Sequence[int] = (),
    seconds: float | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs all cases that DIR/spark-memory.json does not have yet, and shows what it has then."""
    console = console or Console()
    names = [name for name in CONTENDERS if not only or name in only]
    if quick:
        todo = [_quick(name) for name in names]
    else:
        todo = [
            case
            for count in rows or [ROWS]
            for case in cases(names, count, heaps or HEAPS, workers or WORKERS)
        ]
    out.mkdir(parents=True, exist_ok=True)
    _check_disk(max(case.rows for case in todo))
    stem = out / (f"{NAME}-quick" if quick else NAME)
    record = _run_all(todo, stem.with_suffix(".json"), quick, seconds, console)
    runs = [Run.of(each) for each in record["runs"]]
    memory_report.show(console, runs, judged=not quick)
    figures = [draw(runs, count, stem) for count in dict.fromkeys(each.case.rows for each in runs)]
    for file in (stem.with_suffix(".json"), *figures):
        console.print(f"wrote {file}", markup=False, highlight=False)
    return record


def cases(names: Sequence[str], rows: int, heaps: Sequence[int], workers: Sequence[int]) -> list[Case]:
    """Each contender at its most memory first, since that tells most."""
    most_heap, most_worker = max(heaps), max(workers)
    pairs = [(heap, most_worker) for heap in sorted(heaps, reverse=True)]
    pairs += [(most_heap, worker) for worker in sorted(workers, reverse=True)]
    pairs += [(min(heaps), min(workers))]
    found = []
    for name in names:
        limits = [(heap, None if name in IN_JVM else worker) for heap, worker in pairs]
        found += [Case(name, rows, rows // 2, heap, worker) for heap, worker in dict.fromkeys(limits)]
    return found


def _quick(name: str) -> Case:
    return Case(name, 100_000, 10_000, 512, None if name in IN_JVM else 2048, page_size=256)


def time_limit(case: Case) -> float:
    if case.contender == "spark-window":
        return SHORT + case.rows * 2e-6
    return START + case.rows * MICROSECONDS_A_ROW * 1e-6


def _run_all(
    todo: Sequence[Case], file: Path, quick: bool, seconds: float | None, console: Console
) -> dict[str, Any]:
    record = _resumed(file, quick)
    done = {Run.of(each).case for each in record["runs"]}
    for number, case in enumerate(todo, 1):
        say = memory_report.Progress(console, number, len(todo), case)
        if case in done:
            say.had_before()
            continue
        with say:
            found = run(case, seconds or time_limit(case), say.looked)
            say.done(found)
        record["runs"].append(found.record())
        file.write_text(json.dumps(record, indent=1) + "\n")
        _compare([Run.of(each) for each in record["runs"]])
    return record


def _resumed(file: Path, quick: bool) -> dict[str, Any]:
    """What an earlier run has written, so that this one goes on with it; quick runs start anew."""
    if file.exists() and not quick:
        record: dict[str, Any] = json.loads(file.read_text())
        if record.get("format") == FORMAT and record.get("experiment") == NAME:
            return record
        raise FileExistsError(f"{file} is not of this experiment: remove it, or name another --out DIR")
    return {
        "format": FORMAT,
        "experiment": NAME,
        "quick": quick,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions((*PACKAGES, "pyspark", "pyarrow")),
        "runs": [],
    }


def _compare(runs: Sequence[Run]) -> None:
    """All that finished with as many rows have the same results, but for the rounding of sums."""
    firsts: dict[int, Run] = {}
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
