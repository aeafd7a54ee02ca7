"""One connection to a Redis server, and the INFO that the server gives."""

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

Check = Callable[[], None] | None
"""Called once the server is known that will get some commands; raises to keep them back."""

ServerCheck = Callable[[dict[str, str] | None], None] | None
"""Gets the INFO of a server, or None if this user may not ask; raises an error to refuse the server."""

# With the default of 64 KB redis-py reads values of 256 KB three times slower.
SOCKET_READ_SIZE = 1 << 20
INFO_COMMANDS = (("INFO", "server"), ("INFO", "memory"), ("INFO", "replication"))


@dataclass(frozen=True)
class ConnectionSettings:
    """How to connect to servers, and what to call when one is another server than before."""

    connection_class: type[redis.Connection]
    options: Mapping[str, Any]
    connect_timeout: float
    timeout: float
    max_connections: int
    check_server: ServerCheck
    #: called when acknowledged writes may be lost, because the server was replaced or restarted
    server_changed: Callable[[], None]


class Connection:
    """One connection, and the identity that its server had when it was last asked."""

    def __init__(self, host: str, port: int, settings: ConnectionSettings, budget: Budget) -> None:
        connect_timeout, timeout = budget.timeout(settings.connect_timeout), budget.timeout(settings.timeout)
        #: false if little time was left, since the connection keeps its short timeout
        self.reusable = timeout > settings.timeout / 2
        self.identity: tuple[str, str] | None = None
        self.replied_at = float("-inf")
        self._connection: Any = settings.connection_class(
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
        """Sends commands together; returns replies and error replies. Each may take `timeout` seconds."""
        connection, replies = self._connection, []
        connection.send_packed_command(connection.pack_commands(commands))
        for _ in commands:
            if not connection.can_read(timeout):
                raise redis.TimeoutError(f"no reply in {timeout:.1f} s")
            try:
                replies.append(connection.read_response())
            except ResponseError as error:
                replies.append(error)
        self.replied_at = time.monotonic()
        return replies

    def info(self, timeout: float) -> dict[str, str] | None:
        """The fields of INFO, or None if this user may not ask or the command was renamed."""
        replies = self.exchange(INFO_COMMANDS, timeout)
        for reply in replies:
            if isinstance(reply, ResponseError):
                if isinstance(reply, NoPermissionError) or str(reply).startswith("unknown command"):
                    return None
                raise reply
        text = b"".join(replies).decode(errors="replace")
        lines = (line.partition(":") for line in text.splitlines())
        return {key: value for key, colon, value in lines if colon}

    def is_clean(self) -> bool:
        """Whether the server has neither hung up nor sent anything that was not asked for."""
        try:
            return not self._connection.can_read(0)
        except (redis.RedisError, OSError) as error:
            if isinstance(error, OSError) and not is_os_error(error):
                raise
            return False

    def close(self) -> None:
        self._connection.disconnect()
