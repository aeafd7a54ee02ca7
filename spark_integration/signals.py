"""Ctrl-C and a polite kill, for commands that have a Spark to end, and the end of Spark for its workers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds that a worker has to clean up, when its Spark has ended.
TO_CLEAN_UP = 20


@contextmanager
def terminable() -> Iterator[None]:
    """A polite kill ends the command as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt), signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])  # Spark has put its own there


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Keeps Ctrl-C back until it is known which Java there is to end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda number, _: kept.append(number)) for each in signals]
    try:
        yield
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)
    if kept:
        raise KeyboardInterrupt


@contextmanager
def not_interrupted() -> Iterator[None]:
    """A second Ctrl-C does not leave half of it behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
