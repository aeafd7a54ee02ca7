"""Work in the background: a few threads for all windows of a store, and lanes of work in order for each.

Written by hand because of what the standard library's executors and `threading.Thread` do not promise: that
a thread which cannot start, or an interrupt at any point, loses no work and leaves nobody waiting. Whoever
waits for a lane does its work himself where no thread does.
"""

from __future__ import annotations

import _thread
import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from weakref import WeakKeyDictionary

from mta.errors import WindowError
from stores import Store, StoreError

#: Threads of one store: one that writes or deletes, and one that reads ahead.
MOST = 2

#: Seconds that a thread waits for more work before it ends.
LINGER = 0.1

#: Seconds that the end of the process waits for work that was begun.
PATIENCE = 10.0

_log = logging.getLogger("stores")


class Lane:
    """Work that is done one piece after the other, in the order it came.

    A piece that a store or a window refuses has said so to whom it concerns.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._work: deque[Callable[[], None]] = deque()
        self._at_work = threading.Lock()

    def submit(self, work: Callable[[], None]) -> None:
        """Adds a piece, unless the same piece waits already behind the one that is being done."""
        if self._work.count(work) < 2:
            self._work.append(work)
            self._pool.wake(self)

    def run(self) -> None:
        """Does what there is to do, unless somebody else is at it already."""
        while self._work and self._at_work.acquire(blocking=False):
            try:
                self._run_one()
            except Exception:
                _log.exception("work in the background failed")
                self._work.popleft()
            finally:
                self._at_work.release()

    def finish(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Returns when all that was submitted is done, or enough of it."""
        while self._work and not enough():
            with self._at_work:
                if not enough():
                    self._run_one()

    def _run_one(self) -> None:
        if self._work:
            try:
                self._work[0]()
            except (StoreError, WindowError) as error:
                _log.debug("work in the background was refused: %s", error)
            # not before it is done, so that an interrupt does not lose it
            self._work.popleft()


class Pool:
    """Threads that start when there is work, and end soon after there is none.

    No `threading.Condition`: an interrupt while one is entered leaves it locked for good.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._ready: SimpleQueue[Lane] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def wake(self, lane: Lane) -> None:
        self._ready.put(lane)
        with self._lock:
            if self._idle < self._ready.qsize() and self._threads < self._most:
                self._start()

    def _start(self) -> None:
        self._threads += 1
        try:
            _thread.start_new_thread(self._work, ())
        except (RuntimeError, MemoryError) as error:
            self._threads -= 1
            _log.debug("no thread for work in the background, which is done in the foreground: %s", error)
        except BaseException:
            self._threads -= 1
            raise

    def _work(self) -> None:
        while (lane := self._next()) is not None:
            lane.run()

    def _next(self) -> Lane | None:
        with self._lock:
            self._idle += 1
        lane = None
        with suppress(Empty):
            lane = self._ready.get(timeout=LINGER)
        with self._lock:
            self._idle -= 1
            if lane is None and self._ready.empty():
                self._threads = max(0, self._threads - 1)
                return None
        return lane or self._ready.get()

    def wait(self, deadline: float) -> None:
        """Returns when no thread is left, or at a deadline."""
        while self._threads and time.monotonic() < deadline:
            time.sleep(LINGER / 10)


_pools: WeakKeyDictionary[Store, Pool] = WeakKeyDictionary()
_lock = threading.Lock()


def pool_of(store: Store) -> Pool:
    """The threads that all windows of a store share."""
    with _lock:
        return _pools.setdefault(store, Pool())


def _forget_after_fork() -> None:
    global _pools, _lock
    _pools, _lock = WeakKeyDictionary(), threading.Lock()


@atexit.register
def _wait_at_exit() -> None:
    deadline = time.monotonic() + PATIENCE
    for pool in list(_pools.values()):
        pool.wait(deadline)


os.register_at_fork(after_in_child=_forget_after_fork)
