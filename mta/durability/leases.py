"""Leases of open windows, renewed by time for as long as their process lives and has not closed them."""

from __future__ import annotations

import _thread
import atexit
import logging
import os
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol
from weakref import WeakSet

from mta.errors import WindowError
from stores import StoreError

#: A lease is renewed when this part of it is over.
RENEWED_AFTER = 1 / 3

#: Seconds after which it is looked for leases that nobody has any more.
LONGEST = 60.0

#: Seconds between two tries to renew a lease that could not be renewed.
RETRY = 1.0

_log = logging.getLogger("stores")


def now() -> float:
    """The clock that leases are renewed by."""
    return time.monotonic()


class Leased(Protocol):
    """A hold on a window that ends when nobody renews it."""

    def renewal(self) -> float:
        """When it is to be renewed, by the monotonic clock."""

    def renew(self) -> None: ...


class _Keeper:
    """One thread for all leases of a process, while there are any.

    No `threading.Condition`: an interrupt while one is entered leaves it locked for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: SimpleQueue[None] = SimpleQueue()
        self._kept: WeakSet[Leased] = WeakSet()
        self._running = False

    def keep(self, hold: Leased) -> None:
        with self._lock:
            self._kept.add(hold)
            if not self._running:
                self._start()
        self._changed.put(None)

    def _start(self) -> None:
        self._running = True
        try:
            _thread.start_new_thread(self._run, ())
        except (RuntimeError, MemoryError) as error:
            self._running = False
            _log.warning("no thread to renew leases, which are renewed by writing only: %s", error)
        except BaseException:
            self._running = False
            raise

    def end(self, hold: Leased) -> None:
        with self._lock:
            self._kept.discard(hold)
        self._changed.put(None)

    def end_all(self) -> None:
        with self._lock:
            self._kept.clear()
        self._changed.put(None)

    def _run(self) -> None:
        while (pause := self._renew_what_is_due()) is not None:
            with suppress(Empty):
                self._changed.get(timeout=pause)

    def _renew_what_is_due(self) -> float | None:
        """Returns how long there is nothing to do then, or None at the end."""
        with self._lock:
            holds = list(self._kept)
            if not holds:
                self._running = False
                return None
        failed = [hold for hold in holds if hold.renewal() <= now() and not self._renew(hold)]
        if failed:
            return RETRY
        first = min(hold.renewal() for hold in holds)
        return min(max(first - now(), 0.0), LONGEST)

    def _renew(self, hold: Leased) -> bool:
        try:
            hold.renew()
        except WindowError as error:  # it is another's now, and its writer hears it at the next checkpoint
            _log.info("a lease is given up: %s", error)
            self.end(hold)
        except StoreError as error:
            _log.warning("a lease could not be renewed: %s", error)
            return False
        return True


_keeper = _Keeper()


def keep(hold: Leased) -> None:
    """Renews a hold from now on, until it is ended or nobody else has it any more."""
    _keeper.keep(hold)


def end(hold: Leased) -> None:
    _keeper.end(hold)


def _forget_after_fork() -> None:
    global _keeper
    _keeper = _Keeper()


@atexit.register
def _end_at_exit() -> None:
    _keeper.end_all()


os.register_at_fork(after_in_child=_forget_after_fork)
