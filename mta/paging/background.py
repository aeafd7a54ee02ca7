"""Work in the background: a few threads for all windows of a store, and lanes of work in order for each.

Executors of the standard library and `threading.Thread` may lose work, or leave a caller waiting, if a thread
cannot start, or after an interrupt at some points. These lanes do not: a caller that waits for a lane does
its work itself if no thread does.
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

#: The most threads of one store: one writes or deletes while one reads ahead.
MOST = 2

#: Seconds that a thread waits for more work before it ends.
LINGER = 0.1

#: Seconds that the end of the process waits for work that was begun.
PATIENCE = 10.0

_log = logging.getLogger("stores")


class Lane:
    """Work that is done one piece after the other, in the order it came.

    An error of a store or a window in a piece is only logged here: the piece has handed it on itself.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._work: deque[Callable[[], None]] = deque()
        self._at_work = threading.Lock()

    def submit(self, work: Callable[[], None]) -> None:
        """Adds a piece, unless the same piece waits already behind the piece that is being done."""
        if self._work.count(work) < 2:
            self._work.append(work)
            self._pool.wake(self)

    def run(self) -> None:
        """Does the pieces, unless another thread is doing them already."""
        while self._work and self._at_work.acquire(blocking=False):
            try:
                self._run_one()
            except Exception:
                _log.exception("work in the background failed")
                self._work.popleft()
            finally:
                self._at_work.release()

    def finish(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Returns when all pieces are done, or when `enough` says so."""
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
            # removed after it is done, so that an interrupt does not lose it
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
        """Returns when no thread is left, or at the deadline."""
        while self._threads and time.monotonic() < deadline:
            time.sleep(LINGER / 10)


_pools: WeakKeyDictionary[Store, Pool] = WeakKeyDictionary()
_lock = threading.Lock()


def pool_of(store: Store) -> Pool:
    """The threads that all windows of a store share."""
    with _lock:
        pool = _pools.get(store)
        if pool is None:
            pool = _pools[store] = Pool()
        return pool


def _forget_after_fork() -> None:
    global _pools, _lock
    _pools, _lock = WeakKeyDictionary(), threading.Lock()


@atexit.register
def _wait_at_exit() -> None:
    deadline = time.monotonic() + PATIENCE
    for pool in list(_pools.values()):
        pool.wait(deadline)


os.register_at_fork(after_in_child=_forget_after_fork)
