"""Running one case in processes of its own, and saying how it ended."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mta.lab.experiments.spark_memory.one_run import JobCase
from mta.lab.own_process import (
    ABORTS,
    FAILED,
    FINISHED,
    PROGRESS,
    RESULT,
    TOO_SLOW,
    looks,
    read_json,
    started,
)
from mta.lab.processes import Peaks, end_all, peaks
from mta.lab.servers import redis_server
from mta.lab.signals import terminable

#: How a run can end, beside the ways of `own_process`.
NO_HEAP, NO_WORKER = "out of heap", "out of worker memory"
PROGRAM = "mta.lab.experiments.spark_memory.one_run"

#: What is said where memory is short, the more telling first.
SIGNS = (
    # Arrow's buffers in the JVM may take as much as the heap may
    (NO_HEAP, r"OutOf(?:Direct)?MemoryError[^\n]*|GC overhead limit[^\n]*"),
    (NO_WORKER, r"[\w.]*MemoryError(?:: [^\n]*)?|std::bad_alloc|memory allocation of \d+ bytes failed"),
    (NO_WORKER, r"can't start new thread|Resource temporarily unavailable"),
)

#: An arena of malloc for each thread takes 64 MB of the address space, which is what Spark limits.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1", "PYTHONWARNINGS": "ignore"}


@dataclass
class JobRun:
    """A case and how it ended."""

    case: JobCase
    outcome: str
    reason: str = ""
    #: of the job without the start of Spark, if it finished
    seconds: float | None = None
    rows_out: int = 0
    #: of the whole job if it finished, else since its first row came out
    rows_a_second: float | None = None
    #: the largest resident size of a Python worker and of the JVM, in bytes
    worker_peak: int = 0
    jvm_peak: int = 0
    #: sums of the results, to compare contenders
    sums: list[float] = field(default_factory=list)
    #: those of `rolling`
    metrics: dict[str, Any] | None = None

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(record: dict[str, Any]) -> JobRun:
        return JobRun(**{**record, "case": JobCase(**record["case"])})


def run(case: JobCase, limit: float, looked: Callable[[dict[str, Any]], None]) -> JobRun:
    """Runs a case for at most so many seconds; `looked` gets its progress now and then."""
    with terminable(), ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mta-experiment-")))
        redis = stack.enter_context(redis_server()) if case.contender == "rolling-redis" else ""
        log = directory / "log"
        arguments = [json.dumps(asdict(case)), str(directory), redis]
        with started(PROGRAM, arguments, log, ENVIRONMENT, _end) as process:
            found, in_time = _watched(process, directory, limit, looked)
        told = read_json(directory / PROGRESS) | read_json(directory / RESULT)
        return _ended(case, told, log.read_text(errors="replace"), found, in_time, limit)


def _end(process: subprocess.Popen[bytes]) -> None:
    end_all(process.pid)
    process.wait()


def _watched(
    process: subprocess.Popen[bytes],
    directory: Path,
    limit: float,
    looked: Callable[[dict[str, Any]], None],
) -> tuple[Peaks, bool]:
    """The peaks that were seen until the process ended, and whether it did so in time."""
    found = Peaks()
    for passed, progress in looks(process, directory):
        if passed > limit:
            return found, False
        found = found.or_more(peaks(process.pid))
        looked(progress)
    return found, True


def _ended(
    case: JobCase, told: dict[str, Any], log: str, found: Peaks, in_time: bool, limit: float
) -> JobRun:
    if "sums" in told:
        found = found.or_more(Peaks(told["worker"], told["jvm"]))
        run = JobRun(case, FINISHED, seconds=told["seconds"], sums=told["sums"], metrics=told.get("metrics"))
        run.rows_a_second = told["rows_out"] / told["seconds"]
        if run.metrics:
            found = found.or_more(Peaks(worker=run.metrics["peak_memory"]))
    else:
        outcome, reason = (TOO_SLOW, f"not done after {limit:.0f} s") if not in_time else why(case, told, log)
        run = JobRun(case, outcome, reason)
        busy = told.get("seconds", 0.0) - told.get("seconds_before", 0.0)
        run.rows_a_second = told.get("rows_out", 0) / busy if busy > 0 else None
    run.rows_out = told.get("rows_out", 0)
    run.worker_peak, run.jvm_peak = found
    return run


def why(case: JobCase, told: dict[str, Any], log: str) -> tuple[str, str]:
    """Why a run ended before its job was done."""
    text = f"{log}\n{told.get('error', '')}"
    for outcome, pattern in SIGNS:
        if sign := re.search(pattern, text):
            return outcome, sign[0].strip()
    if case.worker is not None and (sign := re.search(ABORTS, text)):
        return NO_WORKER, f"the worker ended with: {sign[0].strip()}"
    lines = told.get("error", log).strip().splitlines()
    return FAILED, lines[0] if told.get("error") and lines else "".join(lines[-1:])
