"""Leases of open windows, renewed in time for as long as their process lives and has not closed them."""

from __future__ import annotations

import _thread
import atexit
import logging
import math
import os
import threading
import time
from collections import Counter
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol
from weakref import WeakKeyDictionary

from mta.errors import WindowError
from stores import Store, StoreError
from stores.patience import at_most

#: A lease is renewed when this part of its time is over.
RENEWED_AFTER = 1 / 3

#: The longest pause in seconds between two looks for leases whose holds are gone.
LONGEST = 60.0

#: Seconds before a failed renewal is tried again; fewer for a short lease.
RETRY = 1.0

#: The most renewals of windows of one store that are under way at once.
MOST = 8

#: The least seconds for a renewal, however many wait, unless the lease is too short for that.
LEAST = 0.5

_log = logging.getLogger("stores")


def now() -> float:
    """The clock that leases are renewed by."""
    return time.monotonic()


class Leased(Protocol):
    """A hold on a window that ends if it is not renewed."""

    @property
    def store(self) -> Store: ...

    @property
    def lease(self) -> float:
        """The seconds that it lasts without a renewal."""

    def renewal(self) -> float:
        """The time of the next renewal, by the monotonic clock."""

    def renew_if_free(self) -> None:
        """Prolongs it, unless another thread has its root."""


class _Turn:
    """The renewals of one hold, which are made one at a time."""

    __slots__ = ("busy", "failed", "not_before")

    def __init__(self) -> None:
        self.busy = False
        self.failed = False
        self.not_before = -math.inf


class _Renewals:
    """One thread that knows the times of all renewals, and one thread for each renewal under way.

    A store that hangs delays only the leases of its own windows. Of these, renewals that failed take half of
    the store's threads at most, so that they delay no others.

    No `threading.Condition`: an interrupt while one is entered leaves it locked for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: SimpleQueue[None] = SimpleQueue()
        self._leases: WeakKeyDictionary[Leased, _Turn] = WeakKeyDictionary()
        self._running = False

    def keep(self, hold: Leased) -> None:
        with self._lock:
            self._leases.setdefault(hold, _Turn())
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
            self._leases.pop(hold, None)
        self._changed.put(None)

    def end_all(self) -> None:
        with self._lock:
            self._leases.clear()
        self._changed.put(None)

    def _run(self) -> None:
        while (pause := self._renew_what_is_due()) is not None:
            with suppress(Empty):
                self._changed.get(timeout=pause)

    def _renew_what_is_due(self) -> float | None:
        """Begins the renewals that are due. Returns the seconds until the next, or None without leases."""
        with self._lock:
            turns = list(self._leases.items())
            if not turns:
                self._running = False
                return None
        at_work: Counter[Store] = Counter(hold.store for hold, turn in turns if turn.busy)
        failing: Counter[Store] = Counter(hold.store for hold, turn in turns if turn.busy and turn.failed)
        free = [(max(hold.renewal(), turn.not_before), hold, turn) for hold, turn in turns if not turn.busy]
        moment = now()
        due = [each for each in free if each[0] <= moment]
        waiting: Counter[Store] = Counter(hold.store for _, hold, _ in due)
        for _, hold, turn in sorted(due, key=lambda each: (each[2].failed, each[0])):
            store = hold.store
            if at_work[store] < MOST and not (turn.failed and failing[store] >= MOST // 2):
                at_work[store] += 1
                failing[store] += turn.failed
                # so that all get their turn before their leases run out
                part = hold.lease * RENEWED_AFTER
                self._begin(hold, turn, max(part * MOST / max(MOST, waiting[store]), min(part, LEAST)))
        coming = min((when for when, _, _ in free if when > moment), default=math.inf)
        return min(max(coming - now(), 0.0), LONGEST)

    def _begin(self, hold: Leased, turn: _Turn, seconds: float) -> None:
        turn.busy = True
        try:
            _thread.start_new_thread(self._renew, (hold, turn, seconds))
        except (RuntimeError, MemoryError):  # no thread can start: it is renewed in this one
            self._renew(hold, turn, seconds)

    def _renew(self, hold: Leased, turn: _Turn, seconds: float) -> None:
        failed = True
        try:
            with at_most(seconds):
                hold.renew_if_free()
            failed = False
        except WindowError as error:  # another writer has it; the next checkpoint of this one is refused
            _log.info("a lease is given up: %s", error)
            self.end(hold)
        except StoreError as error:
            _log.warning("a lease could not be renewed: %s", error)
        except Exception:
            _log.exception("a lease could not be renewed")
        finally:
            turn.failed, turn.not_before = failed, now() + min(RETRY, hold.lease * RENEWED_AFTER)
            turn.busy = False
            self._changed.put(None)


_renewals = _Renewals()


def keep(hold: Leased) -> None:
    """Has a hold renewed from now on, until it is ended or garbage."""
    _renewals.keep(hold)


def end(hold: Leased) -> None:
    _renewals.end(hold)


def _forget_after_fork() -> None:
    global _renewals
    _renewals = _Renewals()


@atexit.register
def _end_at_exit() -> None:
    _renewals.end_all()


os.register_at_fork(after_in_child=_forget_after_fork)
