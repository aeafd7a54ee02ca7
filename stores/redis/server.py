"""The connections to one Redis server, and which server it is that they lead to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import redis
from redis.exceptions import ResponseError

from stores.patience import Budget
from stores.redis.connection import Command, Line, Settings

#: A connection that was idle for longer is asked whether the server at its end is still the same.
FRESH = 1.0
#: A server looks at the time a few times a second, so WAIT may take this much longer than it was told to.
WAIT_LATE = 0.5
#: Seconds until a thread that waits for a connection looks by itself whether there is one.
LONGEST_WAIT = 0.1
#: What SET and a script reply that have written something.
WRITTEN = (b"OK", 1)


class TooFewReplicas(Exception):
    """Written, and not acknowledged by as many replicas as were asked for."""


class AllBusy(Exception):
    """Every connection that there may be was in use for as long as the call could wait."""


class Server:
    """One address. It has as many connections as threads use it at once; past a limit they wait.

    An interrupt may fall anywhere, and must leave neither a lock held nor a connection counted for ever. So
    threads are counted and not connections, each by a name that it has again in its next call; and they wait
    without `threading.Condition`, which an interrupt breaks.
    """

    def __init__(self, host: str, port: int, settings: Settings) -> None:
        self.host, self.port = host, port
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: list[Line] = []
        #: the threads that have a connection, or are about to make one
        self._busy: set[int] = set()
        self._freed: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        self._identity: tuple[str, str] | None = None
        #: whether it was ever connected to, so that something may have been written there
        self.reached = False

    def run(
        self,
        commands: Sequence[Command],
        budget: Budget,
        *,
        replicas: int = 0,
        check: Callable[[], None] | None = None,
    ) -> list[Any]:
        """The replies in order. An error that the server replied is one of them, others are raised.

        So many replicas have to acknowledge what was written. `check` may raise, and is called when it is
        known which server will get the commands. No commands are a way to know that.
        """
        with self._line(budget) as line:
            if check is not None:
                check()
            if not commands:
                return []
            timeout = budget.timeout(self._settings.timeout)
            if not replicas:
                return line.exchange(commands, timeout)
            wait = ("WAIT", replicas, round(timeout * 1000))
            *replies, acknowledged = line.exchange([*commands, wait], timeout + WAIT_LATE)
        if any(reply in WRITTEN for reply in replies):
            if isinstance(acknowledged, ResponseError):
                raise acknowledged
            if acknowledged < replicas:
                raise TooFewReplicas(f"{acknowledged} of {replicas} replicas acknowledged")
        return replies

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def _line(self, budget: Budget) -> Iterator[Line]:
        thread, line, kept = threading.get_ident(), None, False
        try:
            line = self._take(thread, budget) or Line(self.host, self.port, self._settings, budget)
            self._verify(line, budget)
            yield line
            if line.identity != self._identity:  # what it acknowledged may be lost already
                raise redis.ConnectionError(f"{self.host}:{self.port} is another server by now")
            kept = True
        except (redis.ConnectionError, redis.TimeoutError):
            self._lost()
            raise
        finally:
            self._give(thread, line, kept)

    def _take(self, thread: int, budget: Budget) -> Line | None:
        """A connection that is idle, or None if there may be one more."""
        while True:
            with self._lock:
                if self._closed:
                    raise redis.ConnectionError(f"the connections to {self.host}:{self.port} were closed")
                line = self._idle_line()
                others = len(self._busy - {thread})
                if line is not None or len(self._idle) + others < self._settings.max_connections:
                    self._busy.add(thread)
                    return line
            if not budget.left:
                raise AllBusy(f"all {others} connections to {self.host}:{self.port} are in use")
            with suppress(Empty):
                self._freed.get(timeout=min(budget.left, LONGEST_WAIT))

    def _idle_line(self) -> Line | None:
        while self._idle:
            line = self._idle.pop()
            current = line.identity == self._identity
            if current and line.is_quiet():
                return line
            if current:
                self._lost()
            line.close()
        return None

    def _give(self, thread: int, line: Line | None, kept: bool) -> None:
        with self._lock:
            self._busy.discard(thread)
            if line is not None and kept and line.lasting and not self._closed:
                self._idle.append(line)
            elif line is not None:
                line.close()
        if self._freed.empty():  # one is enough: who does not hear it looks again soon
            self._freed.put(None)

    def _verify(self, line: Line, budget: Budget) -> None:
        """Asks at the other end of a connection that is new, or was idle, which server is there."""
        greet = self._settings.greet
        if greet is None or time.monotonic() - line.heard < FRESH:
            return
        info = line.info(budget.timeout(self._settings.timeout))
        greet(info)
        told = info if info and info.get("run_id") else None
        identity = None if told is None else (told["run_id"], told.get("master_replid", ""))
        with self._lock:
            changed = self.reached and identity != self._identity
            line.identity = self._identity = identity
            self.reached = True
        if changed:
            self._settings.changed()

    def _lost(self) -> None:
        """A connection ended. Of a server that does not say who it is, the next one may be another."""
        if self.reached and self._identity is None:
            self._settings.changed()
