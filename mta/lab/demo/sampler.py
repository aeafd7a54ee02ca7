"""The memory of a Spark's Python workers while a job runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mta.lab.processes import is_worker, members, resident
from mta.process_memory import memory_figure

#: Seconds between two samples.
INTERVAL = 0.25


class Sample(NamedTuple):
    seconds: float
    #: bytes of the largest worker at the time; 0 where there is none
    resident: int
    #: rows that each running task has brought out so far, by the number of its partition
    rows: dict[int, int]


class Sampler:
    """Memory of the workers and the rows that were done, again and again while a job runs."""

    def __init__(self, session: int, rows_of_tasks: Callable[[], dict[int, int]]) -> None:
        self._session, self._rows_of_tasks = session, rows_of_tasks
        self.samples: list[Sample] = []
        #: the most address space that any worker has taken, in bytes; 0 where Linux does not tell it
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
            workers = [pid for pid in members(self._session) if is_worker(pid)]
            self.address_space = max(
                [self.address_space, *(memory_figure("VmPeak", pid) or 0 for pid in workers)]
            )
            largest = max((resident(pid) for pid in workers), default=0)
            self.samples.append(Sample(time.perf_counter() - began, largest, self._rows_of_tasks()))
            if stop.wait(INTERVAL):
                return
