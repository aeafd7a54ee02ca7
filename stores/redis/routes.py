"""Routes decide which server gets a command: their interface, and the route to a single server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import redis
from redis.exceptions import ResponseError

from stores.patience import Budget
from stores.redis.connection import Check, Command, ConnectionSettings
from stores.redis.server import Server

Address = tuple[str, int]

#: The least time to ask one server where the others are, before the next one is asked.
LEAST_SHARE_SECONDS = 1.0
UNREACHABLE = (redis.ConnectionError, redis.TimeoutError)


class Route(ABC):
    """Sends each command to the server that has its key: its second word, or the fourth word of EVAL."""

    one_key_per_command = False

    @abstractmethod
    def execute(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        """The replies; raises the first error among them."""

    @abstractmethod
    def servers(self, budget: Budget) -> list[Server]:
        """The servers that together have all keys."""

    def slot_layout(self, budget: Budget) -> tuple[str, ...]:  # noqa: ARG002
        """Which server has which slots, as texts to compare."""
        return ()

    def check_servers(self, budget: Budget) -> None:
        """Asks whether the servers that were connected to are still the same ones."""
        for server in self.servers(budget):
            server.execute((), budget)

    def servers_may_have_changed(self) -> None:  # noqa: B027
        """To be called after a transient error: other servers may be in charge by now."""

    @abstractmethod
    def close(self) -> None: ...


class OneServer(Route):
    """A server whose address does not change."""

    def __init__(self, address: Address, settings: ConnectionSettings) -> None:
        self._server = Server(*address, settings)

    def execute(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        (server,) = self.servers(budget)
        return without_errors(server.execute(commands, budget, replicas=replicas, check=check))

    def servers(self, budget: Budget) -> list[Server]:  # noqa: ARG002
        return [self._server]

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
