"""Which server gets a command: what all ways to find out have in common, and the way of one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import redis
from redis.exceptions import ResponseError

from stores.patience import Budget
from stores.redis.connection import Command, Settings
from stores.redis.server import Server

Address = tuple[str, int]
Check = Callable[[], None] | None

#: Seconds to ask one server where others are, at least, before the next one is asked.
ASKING_TIME = 1.0
UNREACHABLE = (redis.ConnectionError, redis.TimeoutError)


class Route(Protocol):
    """Where commands go. Their first key is what decides, and is their second word, or the fourth of EVAL."""

    one_key_each: bool

    def run(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        """The replies; raises the first that is an error."""

    def servers(self, budget: Budget) -> list[Server]:
        """Those that have all keys together."""

    def layout(self, budget: Budget) -> tuple[str, ...]:
        """Which server has what, to compare."""

    def verify(self, budget: Budget) -> None:
        """Sees whether the servers that were written to are still the same."""

    def failed(self) -> None:
        """After an error that passes: the servers may have other roles by now."""

    def close(self) -> None: ...


class OneServer:
    """A server whose address does not change."""

    one_key_each = False

    def __init__(self, address: Address, settings: Settings) -> None:
        self._server = Server(*address, settings)

    def run(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        (server,) = self.servers(budget)
        return checked(server.run(commands, budget, replicas=replicas, check=check))

    def servers(self, budget: Budget) -> list[Server]:  # noqa: ARG002
        return [self._server]

    def layout(self, budget: Budget) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def verify(self, budget: Budget) -> None:
        (server,) = self.servers(budget)
        server.run((), budget)

    def failed(self) -> None:
        pass

    def close(self) -> None:
        self._server.close()


def share(budget: Budget, servers: int) -> Budget:
    """For one of several servers, any of which will do."""
    return budget.within(max(ASKING_TIME, budget.left / servers))


def checked(replies: list[Any]) -> list[Any]:
    """Replies of which none is an error."""
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise reply
    return replies
