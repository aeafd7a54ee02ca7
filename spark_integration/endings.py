"""A worker that is told to end clears away first.

When a driver ends, by Ctrl-C, by a polite kill or because it died, Spark's daemon hangs up on its workers.
They would end on the spot and leave what they wrote. Here they end by an exception instead.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from pyspark import TaskContext

_SIGNALS = (signal.SIGHUP, signal.SIGTERM)


def end_tidily() -> None:
    """From now on, this worker of Spark ends by SystemExit when it is told to."""
    if TaskContext.get() is None or threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: Any) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)
