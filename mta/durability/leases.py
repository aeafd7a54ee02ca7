"""Leases of open windows, renewed by time for as long as their process lives and has not closed them."""

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

#: A lease is renewed when this part of it is over.
RENEWED_AFTER = 1 / 3

#: Seconds after which it is looked for leases that nobody has any more.
LONGEST = 60.0

#: Seconds between two tries to renew a lease that could not be renewed, or less where the lease is short.
RETRY = 1.0

#: Renewals of windows of one store that are under way at once.
MOST = 8

#: Seconds that a renewal has at least, however many wait, unless that is more than a part of the lease.
LEAST = 0.5

_log = logging.getLogger("stores")


def now() -> float:
    """The clock that leases are renewed by."""
    return time.monotonic()


class Leased(Protocol):
    """A hold on a window that ends when nobody renews it."""

    @property
    def store(self) -> Store: ...

    @property
    def lease(self) -> float:
        """Seconds that it lasts when nobody renews it."""

    def renewal(self) -> float:
        """When it is to be renewed, by the monotonic clock."""

    def renew_if_free(self) -> None:
        """Makes it last from now on, unless another thread is at its root."""


class _Turn:
    """The renewals of one hold, which are made one at a time."""

    __slots__ = ("busy", "failed", "not_before")

    def __init__(self) -> None:
        self.busy = False
        self.failed = False
        self.not_before = -math.inf


class _Keeper:
    """One thread that knows when leases are to be renewed, and one for each renewal under way.

    A store that hangs keeps nobody waiting but its own windows, and those of them that were not renewed keep
    no others from it: they have half of the threads of a store.

    No `threading.Condition`: an interrupt while one is entered leaves it locked for good.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: SimpleQueue[None] = SimpleQueue()
        self._kept: WeakKeyDictionary[Leased, _Turn] = WeakKeyDictionary()
        self._running = False

    def keep(self, hold: Leased) -> None:
        with self._lock:
            self._kept.setdefault(hold, _Turn())
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
            self._kept.pop(hold, None)
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
        """Begins what there is to do. Returns how long there is nothing more, or None at the end."""
        with self._lock:
            turns = list(self._kept.items())
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
                # so that all get their turn while what is left of their leases lasts
                part = hold.lease * RENEWED_AFTER
                self._begin(hold, turn, max(part * MOST / max(MOST, waiting[store]), min(part, LEAST)))
        coming = min((when for when, _, _ in free if when > moment), default=math.inf)
        return min(max(coming - now(), 0.0), LONGEST)

    def _begin(self, hold: Leased, turn: _Turn, seconds: float) -> None:
        turn.busy = True
        try:
            _thread.start_new_thread(self._renew, (hold, turn, seconds))
        except (RuntimeError, MemoryError):  # no thread can start: then one after the other
            self._renew(hold, turn, seconds)

    def _renew(self, hold: Leased, turn: _Turn, seconds: float) -> None:
        failed = True
        try:
            with at_most(seconds):
                hold.renew_if_free()
            failed = False
        except WindowError as error:  # it is another's now, and its writer hears it at the next checkpoint
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
