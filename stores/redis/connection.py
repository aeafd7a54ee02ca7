"""One connection to a Redis server, and what a server says of itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, ResponseError
from redis.retry import Retry

from stores.os_errors import is_os_error
from stores.patience import Budget

Command = tuple[bytes | str | int, ...]

Greeting = Callable[[dict[str, str] | None], None] | None
"""Gets what INFO says of a server that was connected to, or None if it does not say; may raise."""

# With the default of 64 KB redis-py reads values of 256 KB three times slower.
SOCKET_READ_SIZE = 1 << 20
WHO = (("INFO", "server"), ("INFO", "memory"), ("INFO", "replication"))


@dataclass(frozen=True)
class Settings:
    """How to connect, and whom to tell about it."""

    kind: type[redis.Connection]
    options: Mapping[str, Any]
    connect_timeout: float
    timeout: float
    max_connections: int
    greet: Greeting
    #: what was acknowledged may be lost: the server is another one, or was started again
    changed: Callable[[], None]


class Line:
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
        except (redis.RedisError, OSError) as error:
            if isinstance(error, OSError) and not is_os_error(error):
                raise
            return False

    def close(self) -> None:
        self._connection.disconnect()
