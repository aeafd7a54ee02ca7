"""What the processes of a run occupy, and ending all of them.

A run is started in a session of the operating system's of its own, which all of its processes stay in: Python
workers too, which leave their process group, and outlive a Spark that was killed.
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


class Peaks(NamedTuple):
    """The largest resident sizes since their start, in bytes, of a Python worker and of the JVM."""

    worker: int = 0
    jvm: int = 0

    def or_more(self, other: Peaks) -> Peaks:
        return Peaks(max(self.worker, other.worker), max(self.jvm, other.jvm))


def peaks(session: int) -> Peaks:
    """Of the processes that now are in a session; its first one, which started the others, does not count."""
    return _peaks(pid for pid in members(session) if pid != session)


def _peaks(pids: Iterable[int]) -> Peaks:
    found = Peaks()
    for pid in pids:
        with suppress(psutil.Error, OSError):
            name = psutil.Process(pid).name()
            if name.startswith("java"):
                found = found.or_more(Peaks(jvm=_peak(pid)))
            elif name.startswith("python"):
                found = found.or_more(Peaks(worker=_peak(pid)))
    return found


def end_all(session: int) -> None:
    """Kills what is left in a session, until nothing is."""
    for _ in range(100):
        left = list(members(session))
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def members(session: int) -> Iterator[int]:
    """Processes of a session that run, those that wait for their parent to take notice of their end aside."""
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):
            if pid and os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                yield pid


def _peak(pid: int) -> int:
    """Linux keeps the peak; elsewhere it is what the process occupies now."""
    with suppress(FileNotFoundError), open(f"/proc/{pid}/status") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
    return int(psutil.Process(pid).memory_info().rss)


# -- below this process -----------------------------------------------------------------------------------


def forget_peaks() -> None:
    """Lets the peaks of the processes below this one begin anew, where the system can."""
    for process in psutil.Process().children(recursive=True):
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")


def peaks_of_children() -> Peaks:
    return _peaks(process.pid for process in psutil.Process().children(recursive=True))
