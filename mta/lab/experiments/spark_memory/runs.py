"""Running one case in processes of its own, and saying how it ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mta.lab.bench.servers import redis_server
from mta.lab.experiments.spark_memory.one_run import Case
from mta.lab.processes import Peaks, end_all, peaks
from mta.lab.signals import terminable

#: How a run can end.
FINISHED, NO_HEAP, NO_WORKER, TOO_SLOW, FAILED = (
    "finished",
    "out of heap",
    "out of worker memory",
    "too slow",
    "failed",
)
PROGRAM = "mta.lab.experiments.spark_memory.one_run"

#: Seconds between two looks at the memory of a run.
LOOK = 0.25

#: What is said where memory is short, the more telling first.
SIGNS = (
    # Arrow's buffers in the JVM may take as much as the heap may
    (NO_HEAP, r"OutOf(?:Direct)?MemoryError[^\n]*|GC overhead limit[^\n]*"),
    (NO_WORKER, r"[\w.]*MemoryError(?:: [^\n]*)?|std::bad_alloc|memory allocation of \d+ bytes failed"),
    (NO_WORKER, r"can't start new thread|Resource temporarily unavailable"),
)
#: What a library written in C++ or Rust says when its worker's address space is used up, and it ends.
ABORTS = r"terminate called [^\n]*|Rust cannot catch foreign exceptions"


@dataclass
class Run:
    """A case and how it ended."""

    case: Case
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
    def of(record: dict[str, Any]) -> Run:
        return Run(**{**record, "case": Case(**record["case"])})


def run(case: Case, limit: float, looked: Callable[[dict[str, Any]], None]) -> Run:
    """Runs a case for at most so many seconds; `looked` gets its progress now and then."""
    with terminable(), ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mta-experiment-")))
        redis = stack.enter_context(redis_server()) if case.contender == "rolling-redis" else ""
        log = directory / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, json.dumps(asdict(case)), str(directory), redis],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=_environment(),
            )
            try:
                found, in_time = _watched(process, directory, limit, looked)
            finally:
                end_all(process.pid)
                process.wait()
        return _ended(case, _read(directory), log.read_text(errors="replace"), found, in_time, limit)


def _environment() -> dict[str, str]:
    # an arena of malloc for each thread takes 64 MB of the address space, which is what Spark limits
    return {**os.environ, "MALLOC_ARENA_MAX": "1", "PYTHONWARNINGS": "ignore"}


def _watched(
    process: subprocess.Popen[bytes],
    directory: Path,
    limit: float,
    looked: Callable[[dict[str, Any]], None],
) -> tuple[Peaks, bool]:
    """The peaks that were seen until the process ended, and whether it did so in time."""
    found, began = Peaks(), time.monotonic()
    while process.poll() is None:
        if time.monotonic() - began > limit:
            return found, False
        found = found.or_more(peaks(process.pid))
        looked(_read(directory))
        time.sleep(LOOK)
    return found, True


def _read(directory: Path) -> dict[str, Any]:
    """What the run has written so far; its result is the later word."""
    found: dict[str, Any] = {}
    for name in ("progress.json", "result.json"):
        if (directory / name).exists():
            found |= json.loads((directory / name).read_text())
    return found


def _ended(case: Case, told: dict[str, Any], log: str, found: Peaks, in_time: bool, limit: float) -> Run:
    if "sums" in told:
        found = found.or_more(Peaks(told["worker"], told["jvm"]))
        run = Run(case, FINISHED, seconds=told["seconds"], sums=told["sums"], metrics=told.get("metrics"))
        run.rows_a_second = told["rows_out"] / told["seconds"]
        if run.metrics:
            found = found.or_more(Peaks(worker=run.metrics["peak_memory"]))
    else:
        outcome, reason = (TOO_SLOW, f"not done after {limit:.0f} s") if not in_time else why(case, told, log)
        run = Run(case, outcome, reason)
        busy = told.get("seconds", 0.0) - told.get("seconds_before", 0.0)
        run.rows_a_second = told.get("rows_out", 0) / busy if busy > 0 else None
    run.rows_out = told.get("rows_out", 0)
    run.worker_peak, run.jvm_peak = found
    return run


def why(case: Case, told: dict[str, Any], log: str) -> tuple[str, str]:
    """Why a run ended before its job was done."""
    text = f"{log}\n{told.get('error', '')}"
    for outcome, pattern in SIGNS:
        if sign := re.search(pattern, text):
            return outcome, sign[0].strip()
    if case.worker is not None and (sign := re.search(ABORTS, text)):
        return NO_WORKER, f"the worker ended with: {sign[0].strip()}"
    lines = told.get("error", log).strip().splitlines()
    return FAILED, lines[0] if told.get("error") and lines else "".join(lines[-1:])
