"""A case in a process of its own, seen from outside: it is watched, and ended with all that it started."""

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
from collections.abc import Callable
from contextlib import suppress
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
ABORTS = r"terminate called|Rust cannot catch foreign exceptions"


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
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, name, json.dumps(case), made],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **ENVIRONMENT, "TMPDIR": made},
            )
            try:
                peak, given_up = _watched(process, directory, seconds, case.get("limit"), tell)
            finally:
                end(process)
        signs = f"{NO_MEMORY_SIGNS}|{ABORTS}" if "limit" in case else NO_MEMORY_SIGNS
        record = _ended(_read(directory / RESULT), log.read_text(errors="replace"), process.returncode, signs)
        if record["outcome"] == FAILED:
            record |= given_up
        told = _read(directory / PROGRESS)
    peak = max(peak, record.pop("peak", 0))
    return {"case": case, "seconds": time.monotonic() - began, "peak_bytes": peak, "told": told, **record}


#: One thread each; and an arena of malloc for each thread would only blur what is measured.
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1"),
    "MALLOC_ARENA_MAX": "1",
    "PYTHONUNBUFFERED": "1",
}


def end(process: subprocess.Popen[bytes]) -> None:
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
    peak, began = 0, time.monotonic()
    told: dict[str, Any] = {}
    since = began
    while process.poll() is None:
        now, found = time.monotonic(), _read(directory / PROGRESS)
        if found != told:
            told, since = found, now
        # Python may try for ever to tell of a MemoryError, for which it has no memory
        late, silent = now > began + seconds, now > since + STUCK
        full = (late or silent) and _has_all_it_may(process, limit)
        if late or full:
            reason = f"not done after {now - began:.0f} s" + (", and at its limit" if full else "")
            return peak, {"outcome": NO_MEMORY if full else TOO_SLOW, "reason": reason}
        peak = max(peak, memory_figure("VmHWM", process.pid) or 0)
        tell(found)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)
    return peak, {}


def _has_all_it_may(process: subprocess.Popen[bytes], limit: int | None) -> bool:
    """Whether a process that is still there can have no more memory, but for what is too little to use."""
    data = memory_figure("VmData", process.pid)
    return limit is not None and data is not None and data > (limit << 20) - NEAR


def _read(file: Path) -> dict[str, Any]:
    with suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    return {}


def _ended(result: dict[str, Any], log: str, code: int, signs: str) -> dict[str, Any]:
    """How a run ended, by what it left behind."""
    if "rows" in result:
        return {"outcome": FINISHED, "reason": "", **result}
    said = result.get("error") or log.strip()
    last = said.splitlines()[-1:] or [f"the process ended with {code} and without a word"]
    short = re.search(signs, f"{said}\n{log}")
    return {"outcome": NO_MEMORY if short else FAILED, "reason": last[0].removesuffix(": "), "rows": []}
