"""Ctrl-C and a polite kill, for commands that have processes to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Ctrl-C while compiled modules are imported is lost, and numpy would import these when they are first used
import numpy.random  # noqa: F401


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
def undivided() -> Iterator[None]:
    """Ctrl-C and a polite kill come before it or after it, and none to a process that is forked in it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # raises after it has blocked them, if one came just before
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
