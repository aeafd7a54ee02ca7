"""Routes decide which server gets a command: their interface, and the route to a single server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import redis
from redis.exceptions import ResponseError

from stores.patience import Budget
from stores.redis.connection import Check, Command, ConnectionSettings
from stores.redis.server import Server

Address = tuple[str, int]

#: The least time to ask one server where the others are, before the next one is asked.
LEAST_SHARE_SECONDS = 1.0
UNREACHABLE = (redis.ConnectionError, redis.TimeoutError)


class Route(Protocol):
    """Sends each command to the server that has its key: its second word, or the fourth word of EVAL."""

    one_key_per_command: bool

    def execute(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        """The replies; raises the first error among them."""

    def servers(self, budget: Budget) -> list[Server]:
        """The servers that together have all keys."""

    def slot_layout(self, budget: Budget) -> tuple[str, ...]:
        """Which server has which slots, as texts to compare."""

    def check_servers(self, budget: Budget) -> None:
        """Asks whether the servers that were connected to are still the same ones."""

    def servers_may_have_changed(self) -> None:
        """To be called after a transient error: other servers may be in charge by now."""

    def close(self) -> None: ...


class OneServer:
    """A server whose address does not change."""

    one_key_per_command = False

    def __init__(self, address: Address, settings: ConnectionSettings) -> None:
        self._server = Server(*address, settings)

    def execute(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        (server,) = self.servers(budget)
        return without_errors(server.execute(commands, budget, replicas=replicas, check=check))

    def servers(self, budget: Budget) -> list[Server]:  # noqa: ARG002
        return [self._server]

    def slot_layout(self, budget: Budget) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def check_servers(self, budget: Budget) -> None:
        (server,) = self.servers(budget)
        server.execute((), budget)

    def servers_may_have_changed(self) -> None:
        pass

    def close(self) -> None:
        self._server.close()


def share_of(budget: Budget, servers: int) -> Budget:
    """The budget to ask one of several servers, of which any will do."""
    return budget.within(max(LEAST_SHARE_SECONDS, budget.left / servers))


def without_errors(replies: list[Any]) -> list[Any]:
    """Returns the replies, or raises the first error among them."""
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise reply
    return replies
