"""Runs a case of an experiment in a process of its own, and ends it with all that it started.

The process writes how far it is, and its result in the end, as JSON into a directory that it is given.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mta.process_memory import memory_figure

#: How a run can end.
FINISHED, NO_MEMORY, TOO_SLOW, FAILED = "finished", "out of memory", "too slow", "failed"
PROGRAM = "mta.lab.experiments.one_run"
PROGRESS, RESULT = "progress.json", "result.json"

#: Seconds between two looks at a run.
LOOK = 0.2

#: Bytes below its limit at which a process has all that it may.
NEAR = 1 << 20

#: Seconds without a word after which a process at its limit is taken for stuck.
STUCK = 60.0

#: What Python, the system and the libraries under it say where memory is short.
NO_MEMORY_SIGNS = (
    r"MemoryError|bad_alloc|Unable to allocate|memory allocation of \d+ bytes failed"
    rf"|{os.strerror(errno.ENOMEM)}|failed to map segment"
)
#: What a library written in C++ or Rust says when it ends, which under a limit is for want of memory.
ABORTS = r"terminate called [^\n]*|Rust cannot catch foreign exceptions"


#: One thread each; and an arena of malloc for each thread would only blur what is measured.
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
    "MALLOC_ARENA_MAX": "1",
    "PYTHONUNBUFFERED": "1",
}


# -- any program ------------------------------------------------------------------------------------------


@contextmanager
def started(
    program: str,
    arguments: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    end: Callable[[subprocess.Popen[bytes]], None],
) -> Iterator[subprocess.Popen[bytes]]:
    """A Python module that runs in a session of its own, until the block ends. Its output goes to `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        try:
            yield process
        finally:
            end(process)


def looks(process: subprocess.Popen[bytes], directory: Path) -> Iterator[tuple[float, dict[str, Any]]]:
    """Looks at a process until it ends: the seconds since its start, and how far it says that it is."""
    began = time.monotonic()
    while process.poll() is None:
        yield time.monotonic() - began, read_json(directory / PROGRESS)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)


def read_json(file: Path) -> dict[str, Any]:
    """The content of a file, empty if there is none."""
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    return {}


def write_json(file: Path, content: dict[str, Any], indent: int | None = None) -> None:
    """Replaces a file at once, so that a reader never finds half of it."""
    beside = file.with_suffix(".tmp")
    beside.write_text(json.dumps(content, indent=indent) + "\n")
    beside.replace(file)


# -- a case -----------------------------------------------------------------------------------------------


def in_own_process(
    name: str, case: dict[str, Any], seconds: float, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Runs a case of the experiment with this name for at most so many seconds, and says how it ended.

    A case with a `limit`, in MiB, sets itself one on its data.
    """
    with tempfile.TemporaryDirectory(prefix="mta-experiment-", ignore_cleanup_errors=True) as made:
        directory = Path(made)
        log = directory / "log"
        began = time.monotonic()
        environment = {**ENVIRONMENT, "TMPDIR": made}
        with started(PROGRAM, [name, json.dumps(case), made], log, environment, end_group) as process:
            peak, given_up = _watched(process, directory, seconds, case.get("limit"), tell)
        signs = f"{NO_MEMORY_SIGNS}|{ABORTS}" if "limit" in case else NO_MEMORY_SIGNS
        result = read_json(directory / RESULT)
        record = _ended(result, log.read_text(errors="replace"), process.returncode, signs)
        if record["outcome"] == FAILED:
            record |= given_up
        told = read_json(directory / PROGRESS)
    peak = max(peak, record.pop("peak", 0))
    return {"case": case, "seconds": time.monotonic() - began, "peak_bytes": peak, "told": told, **record}


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with all that it started and that stayed in its group, as a server of its own does."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _watched(
    process: subprocess.Popen[bytes],
    directory: Path,
    seconds: float,
    limit: int | None,
    tell: Callable[[dict[str, Any]], None],
) -> tuple[int, dict[str, Any]]:
    """The peak of its resident memory that was seen; and how it ended, if it is not waited for any longer."""
    peak, since = 0, 0.0
    known: dict[str, Any] = {}
    for passed, progress in looks(process, directory):
        if progress != known:
            known, since = progress, passed
        # Python may try for ever to tell of a MemoryError, for which it has no memory
        late, silent = passed > seconds, passed > since + STUCK
        full = (late or silent) and _has_all_it_may(process, limit)
        if late or full:
            reason = f"not done after {passed:.0f} s" + (", and at its limit" if full else "")
            return peak, {"outcome": NO_MEMORY if full else TOO_SLOW, "reason": reason}
        peak = max(peak, memory_figure("VmHWM", process.pid) or 0)
        tell(progress)
    return peak, {}


def _has_all_it_may(process: subprocess.Popen[bytes], limit: int | None) -> bool:
    """Whether a process that is still there can have no more memory, but for what is too little to use."""
    data = memory_figure("VmData", process.pid)
    return limit is not None and data is not None and data > (limit << 20) - NEAR


def _ended(result: dict[str, Any], log: str, code: int, signs: str) -> dict[str, Any]:
    """How a run ended, by what it left behind."""
    if "rows" in result:
        return {"outcome": FINISHED, "reason": "", **result}
    said = result.get("error") or log.strip()
    last = said.splitlines()[-1:] or [f"the process ended with {code} and without a word"]
    short = re.search(signs, f"{said}\n{log}")
    return {"outcome": NO_MEMORY if short else FAILED, "reason": last[0].removesuffix(": "), "rows": []}
