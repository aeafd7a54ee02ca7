"""The end of Spark, for its workers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds that a worker has to clean up, when its Spark has ended.
TO_CLEAN_UP = 20


class HangUp:
    """In a worker: when Spark ends, it hangs up; the task then ends as by an error, and not at once."""

    def __init__(self) -> None:
        #: the task is cleaning up already, and is not to be interrupted
        self.cleaning = False
        self._came = False

    @contextmanager
    def awaited(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGHUP"):
            yield
            return
        before = signal.signal(signal.SIGHUP, self._end), signal.getsignal(signal.SIGALRM)
        try:
            yield
        finally:
            self.cleaning = True
            if self._came:
                signal.alarm(0)
                signal.signal(signal.SIGALRM, before[1])
            signal.signal(signal.SIGHUP, before[0])
            if self._came:
                signal.raise_signal(signal.SIGHUP)

    def _end(self, *_: Any) -> None:
        if not self._came:
            self._came = True
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(TO_CLEAN_UP)  # nobody is left to end a worker that hangs
            if not self.cleaning:
                raise SystemExit("Spark has ended")
