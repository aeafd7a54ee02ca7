"""The connections to one Redis server, and which server it is that they lead to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, ResponseError
from redis.retry import Retry

from stores.patience import Budget

Command = tuple[bytes | str | int, ...]

#: A connection that was idle for longer is asked whether the server at its end is still the same.
FRESH = 1.0
# With the default of 64 KB redis-py reads values of 256 KB three times slower.
SOCKET_READ_SIZE = 1 << 20
#: A server looks at the time a few times a second, so WAIT may take this much longer than it was told to.
WAIT_LATE = 0.5
#: What SET and a script reply that have written something.
WRITTEN = (b"OK", 1)
WHO = (("INFO", "server"), ("INFO", "memory"), ("INFO", "replication"))


class TooFewReplicas(Exception):
    """Written, and not acknowledged by as many replicas as were asked for."""


class AllBusy(Exception):
    """Every connection that there may be was in use for as long as the call could wait."""


@dataclass(frozen=True)
class Settings:
    """How to connect, and whom to tell about it."""

    kind: type[redis.Connection]
    options: Mapping[str, Any]
    connect_timeout: float
    timeout: float
    max_connections: int
    #: gets what INFO says of a server that was connected to, or None if it does not say; may raise
    greet: Callable[[dict[str, str] | None], None] | None
    #: what was acknowledged may be lost: the server is another one, or was started again
    changed: Callable[[], None]


class _Line:
    """One connection, and the server that was at its end when it was last asked."""

    def __init__(self, host: str, port: int, settings: Settings, budget: Budget) -> None:
        connect_timeout, timeout = budget.timeout(settings.connect_timeout), budget.timeout(settings.timeout)
        #: not one that was made in a hurry, since it would be as hasty later
        self.lasting = timeout > settings.timeout / 2
        self.identity: tuple[str, str] | None = None
        self.heard = float("-inf")
        self._connection: Any = settings.kind(
            host=host,
            port=port,
            socket_connect_timeout=connect_timeout,
            socket_timeout=timeout,
            socket_keepalive=True,
            socket_read_size=SOCKET_READ_SIZE,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            **settings.options,
        )

    def exchange(self, commands: Sequence[Command], timeout: float) -> list[Any]:
        connection, replies = self._connection, []
        connection.send_packed_command(connection.pack_commands(commands))
        for _ in commands:
            if not connection.can_read(timeout):
                raise redis.TimeoutError(f"no reply in {timeout:.1f} s")
            try:
                replies.append(connection.read_response())
            except ResponseError as error:
                replies.append(error)
        self.heard = time.monotonic()
        return replies

    def info(self, timeout: float) -> dict[str, str] | None:
        """What INFO says, or None if this user may not ask or the command has another name."""
        replies = self.exchange(WHO, timeout)
        for reply in replies:
            if isinstance(reply, ResponseError):
                if isinstance(reply, NoPermissionError) or str(reply).startswith("unknown command"):
                    return None
                raise reply
        text = b"".join(replies).decode(errors="replace")
        lines = (line.partition(":") for line in text.splitlines())
        return {key: value for key, colon, value in lines if colon}

    def is_quiet(self) -> bool:
        """Whether the server has neither hung up nor said something that was not asked for."""
        try:
            return not self._connection.can_read(0)
        except (redis.RedisError, OSError):
            return False

    def close(self) -> None:
        self._connection.disconnect()


class Server:
    """One address. It has as many connections as threads use it at once; past a limit they wait."""

    def __init__(self, host: str, port: int, settings: Settings) -> None:
        self.host, self.port = host, port
        self._settings = settings
        self._free = threading.Condition()
        self._idle: list[_Line] = []
        self._count = 0
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
        with self._free:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
                self._count -= 1
            self._free.notify_all()

    @contextmanager
    def _line(self, budget: Budget) -> Iterator[_Line]:
        line, kept = self._take(budget), False
        try:
            if line is None:
                line = _Line(self.host, self.port, self._settings, budget)
            self._verify(line, budget)
            yield line
            if line.identity != self._identity:  # what it acknowledged may be lost already
                raise redis.ConnectionError(f"{self.host}:{self.port} is another server by now")
            kept = True
        except (redis.ConnectionError, redis.TimeoutError):
            self._lost()
            raise
        finally:
            self._give(line, kept)

    def _take(self, budget: Budget) -> _Line | None:
        """A connection that is idle, or None if there may be one more."""
        with self._free:
            while not self._closed:
                while self._idle:
                    line = self._idle.pop()
                    current = line.identity == self._identity
                    if current and line.is_quiet():
                        return line
                    if current:
                        self._lost()
                    line.close()
                    self._count -= 1
                if self._count < self._settings.max_connections:
                    self._count += 1
                    return None
                if not budget.left or not self._free.wait(budget.left):
                    raise AllBusy(f"all {self._count} connections to {self.host}:{self.port} are in use")
        raise redis.ConnectionError(f"the connections to {self.host}:{self.port} were closed")

    def _give(self, line: _Line | None, kept: bool) -> None:
        with self._free:
            if line is not None and kept and line.lasting and not self._closed:
                self._idle.append(line)
            else:
                self._count -= 1
                if line is not None:
                    line.close()
            self._free.notify()

    def _verify(self, line: _Line, budget: Budget) -> None:
        """Asks at the other end of a connection that is new, or was idle, which server is there."""
        greet = self._settings.greet
        if greet is None or time.monotonic() - line.heard < FRESH:
            return
        info = line.info(budget.timeout(self._settings.timeout))
        greet(info)
        told = info if info and info.get("run_id") else None
        identity = None if told is None else (told["run_id"], told.get("master_replid", ""))
        with self._free:
            changed = self.reached and identity != self._identity
            line.identity = self._identity = identity
            self.reached = True
        if changed:
            self._settings.changed()

    def _lost(self) -> None:
        """A connection ended. Of a server that does not say who it is, the next one may be another."""
        if self.reached and self._identity is None:
            self._settings.changed()
