"""The connections to one address, and the identity of the Redis server there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

import redis
from redis.exceptions import ResponseError

from stores.patience import Budget
from stores.redis.connection import Check, Command, Connection, ConnectionSettings

#: After so long without a reply, a connection is asked whether its server is still the same.
FRESH_SECONDS = 1.0
#: WAIT may take this much longer than its timeout, because a server looks at its clock a few times a second.
WAIT_GRACE_SECONDS = 0.5
#: How often a thread that waits for a connection looks by itself whether one is free.
WAKE_UP_SECONDS = 0.1
#: The replies of SET, and of a script that has written.
WRITTEN = (b"OK", 1)


class TooFewReplicas(Exception):
    """A write that fewer replicas acknowledged than `min_replicas` asks for."""


class NoFreeConnection(Exception):
    """All `max_connections` connections were in use for as long as the call could wait."""


class Server:
    """Gives each thread that calls it a connection of its own, up to a limit; further threads wait.

    An interrupt may come at any point, and must leave no lock held and no connection counted for ever. So the
    pool counts threads, not connections: a thread has the same name again in its next call. Threads wait
    without `threading.Condition`, which an interrupt can leave locked.
    """

    def __init__(self, host: str, port: int, settings: ConnectionSettings) -> None:
        self.host, self.port = host, port
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        #: the threads that have a connection or are about to open one
        self._busy: set[int] = set()
        self._freed: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        self._identity: tuple[str, str] | None = None
        #: whether it was ever connected to, so that pages may have been written there
        self.reached = False

    def execute(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        """The replies in order. Error replies are among them; other errors are raised.

        Raises TooFewReplicas if fewer than `replicas` acknowledge a write. Without commands only finds
        out which server answers.
        """
        with self._connection(budget) as connection:
            if check is not None:
                check()
            if not commands:
                return []
            timeout = budget.timeout(self._settings.timeout)
            if not replicas:
                return connection.exchange(commands, timeout)
            wait = ("WAIT", replicas, round(timeout * 1000))
            *replies, acknowledged = connection.exchange([*commands, wait], timeout + WAIT_GRACE_SECONDS)
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
    def _connection(self, budget: Budget) -> Iterator[Connection]:
        thread, connection, kept = threading.get_ident(), None, False
        try:
            connection = self._acquire(thread, budget) or Connection(
                self.host, self.port, self._settings, budget
            )
            self._identify(connection, budget)
            yield connection
            if connection.identity != self._identity:  # the earlier server's writes may be lost
                raise redis.ConnectionError(f"{self.host}:{self.port} is another server than before")
            kept = True
        except (redis.ConnectionError, redis.TimeoutError):
            self._connection_lost()
            raise
        finally:
            self._release(thread, connection, kept)

    def _acquire(self, thread: int, budget: Budget) -> Connection | None:
        """An idle connection, or None if the thread may open one. Waits while neither is possible."""
        while True:
            with self._lock:
                if self._closed:
                    raise redis.ConnectionError(f"the connections to {self.host}:{self.port} were closed")
                connection = self._idle_connection()
                others = len(self._busy - {thread})
                if connection is not None or len(self._idle) + others < self._settings.max_connections:
                    self._busy.add(thread)
                    return connection
            if not budget.left:
                raise NoFreeConnection(f"all {others} connections to {self.host}:{self.port} are in use")
            with suppress(Empty):
                self._freed.get(timeout=min(budget.left, WAKE_UP_SECONDS))

    def _idle_connection(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            current = connection.identity == self._identity
            if current and connection.is_clean():
                return connection
            if current:
                self._connection_lost()
            connection.close()
        return None

    def _release(self, thread: int, connection: Connection | None, kept: bool) -> None:
        with self._lock:
            self._busy.discard(thread)
            if connection is not None and kept and connection.reusable and not self._closed:
                self._idle.append(connection)
            elif connection is not None:
                connection.close()
        if self._freed.empty():  # one token is enough: a thread that misses it looks again soon
            self._freed.put(None)

    def _identify(self, connection: Connection, budget: Budget) -> None:
        """Asks which server a connection leads to, if the connection is new or was idle."""
        check_server = self._settings.check_server
        if check_server is None or time.monotonic() - connection.replied_at < FRESH_SECONDS:
            return
        info = connection.info(budget.timeout(self._settings.timeout))
        check_server(info)
        run_id = info and info.get("run_id")
        identity = (run_id, info.get("master_replid", "")) if info and run_id else None
        with self._lock:
            changed = self.reached and identity != self._identity
            connection.identity = self._identity = identity
            self.reached = True
        if changed:
            self._settings.server_changed()

    def _connection_lost(self) -> None:
        """After a connection broke. A server that does not identify itself may be another one by now."""
        if self.reached and self._identity is None:
            self._settings.server_changed()
