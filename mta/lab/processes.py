"""The processes of a Spark: which there are, what they occupy, and ending all of them.

A Spark that is watched is started in a session of the operating system's of its own, which all of its
processes stay in: Python workers too, which leave their process group, and outlive a Spark that was killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from mta.process_memory import memory_figure


def members(session: int) -> Iterator[int]:
    """Processes of a session that run, those that wait for their parent to take notice of their end aside."""
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if pid and os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                yield pid


def end_all(session: int, patience: float = 0.0) -> None:
    """Waits for the processes of a session to end, and kills those that do not."""
    deadline = time.monotonic() + patience
    while left := list(members(session)):
        if time.monotonic() > deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def is_java(pid: int) -> bool:
    return _named(pid, "java")


def is_worker(pid: int) -> bool:
    """Whether a process below a Spark is a Python worker, or the daemon that forks them, smaller than any."""
    return _named(pid, "python")


# -- peaks ------------------------------------------------------------------------------------------------


class Peaks(NamedTuple):
    """The largest resident sizes since their start, in bytes, of a Python worker and of the JVM."""

    worker: int = 0
    jvm: int = 0

    def or_more(self, other: Peaks) -> Peaks:
        return Peaks(max(self.worker, other.worker), max(self.jvm, other.jvm))


def peaks(session: int) -> Peaks:
    """Of the processes that now are in a session; its first one, which started the others, does not count."""
    return _peaks(pid for pid in members(session) if pid != session)


def peaks_of_children() -> Peaks:
    """Of the processes below this one."""
    return _peaks(process.pid for process in psutil.Process().children(recursive=True))


def forget_peaks() -> None:
    """Lets the peaks of the processes below this one begin anew, where the system can."""
    for process in psutil.Process().children(recursive=True):
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def _peaks(pids: Iterable[int]) -> Peaks:
    found = Peaks()
    for pid in pids:
        if is_java(pid):
            found = found.or_more(Peaks(jvm=_peak(pid)))
        elif is_worker(pid):
            found = found.or_more(Peaks(worker=_peak(pid)))
    return found


def _peak(pid: int) -> int:
    """Linux keeps the peak; elsewhere it is what the process occupies now."""
    return memory_figure("VmHWM", pid) or resident(pid)


def resident(pid: int) -> int:
    """Bytes that a process occupies now; 0 if it has ended."""
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _named(pid: int, name: str) -> bool:
    with suppress(psutil.Error):
        return bool(psutil.Process(pid).name().lower().startswith(name))
    return False
