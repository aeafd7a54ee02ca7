"""The Python workers of a Spark, found and measured in /proc."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
#: Seconds between two samples.
INTERVAL = 0.25


class Sample(NamedTuple):
    seconds: float
    #: bytes of the largest worker at the time; 0 where there is none, or no /proc
    resident: int
    #: rows that each running task has brought out so far, by the number of its partition
    rows: dict[int, int]


class Sampler:
    """Memory of the workers and the rows that were done, again and again while a job runs."""

    def __init__(self, session: int, rows_of_tasks: Callable[[], dict[int, int]]) -> None:
        self._session, self._rows_of_tasks = session, rows_of_tasks
        self.samples: list[Sample] = []
        #: the most address space that any worker has taken, in bytes
        self.address_space = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,), name="sampler", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    @property
    def resident(self) -> int:
        return self.samples[-1].resident if self.samples else 0

    def _run(self, stop: threading.Event) -> None:
        began = time.perf_counter()
        while True:
            found = [_memory(worker) for worker in _workers(self._session)]
            resident = max((each["VmRSS"] for each in found), default=0)
            self.address_space = max([self.address_space, *(each["VmPeak"] for each in found)])
            self.samples.append(Sample(time.perf_counter() - began, resident, self._rows_of_tasks()))
            if stop.wait(INTERVAL):
                return


def members(session: int) -> list[int]:
    """The processes of a session of the operating system's; workers stay in it when their Spark has died."""
    found = []
    for entry in PROC.glob("[0-9]*") if PROC.is_dir() else ():
        with suppress(OSError):
            if os.getsid(int(entry.name)) == session and not _is_zombie(entry):
                found.append(int(entry.name))
    return found


def end_all(session: int, patience: float) -> None:
    """Waits for the processes of a session to end, and kills those that do not."""
    deadline = time.monotonic() + patience
    while left := members(session):
        if time.monotonic() > deadline:
            for process in left:
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
        time.sleep(0.05)


def _is_zombie(entry: Path) -> bool:
    # the name before the state is in parentheses and may have anything in it
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _workers(session: int) -> list[int]:
    """The daemon that forks workers is among them, smaller than any of them."""
    found = []
    for process in members(session):
        with suppress(OSError):
            if b"pyspark.daemon" in (PROC / str(process) / "cmdline").read_bytes():
                found.append(process)
    return found


def _memory(process: int) -> dict[str, int]:
    """Bytes that a process has resident, and the most that it had mapped; nothing of one that has ended."""
    sizes = {"VmRSS": 0, "VmPeak": 0}
    with suppress(OSError):
        for line in (PROC / str(process) / "status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in sizes:
                sizes[name] = int(value.split()[0]) * 1024
    return sizes
