"""The client of one store: sends commands to the servers that have their keys, and retries."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

from stores.patience import Budget, Patient
from stores.redis.connection import Check, Command
from stores.redis.failures import RedisFailures
from stores.redis.routes import Route, without_errors
from stores.redis.server import Server
from stores.redis.settings import Settings

T = TypeVar("T")

SCAN_COUNT = 1000


class Client:
    """Connects when it is first used, and again in the child of a fork."""

    def __init__(self, settings: Settings, check_open: Callable[[str], None]) -> None:
        self._settings, self._check_open = settings, check_open
        self._failures = RedisFailures(settings.url, settings.location.topology == "cluster")
        self._patient = Patient(settings.patience, self._failures, check_open)
        self._route: Route | None = None
        self._lock = threading.Lock()
        #: how often a server was replaced or restarted, and may have lost acknowledged writes
        self.server_changes = 0
        _clients.add(self)

    def call(self, call: str, action: Callable[[Route, Budget], T]) -> T:
        """Runs `action` until it succeeds. It must be idempotent: after a lost reply it runs again.

        The budget is for one step of a call: the next 8 MB or 1,000 keys have a budget of their own.
        """

        def attempt(budget: Budget) -> T:
            route = self._connected()
            try:
                return action(route, budget)
            except self._failures.errors:
                route.servers_may_have_changed()
                raise

        return self._patient.call(call, attempt)

    def execute(
        self, call: str, commands: Sequence[Command], *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        """The replies to commands that are sent together."""
        return self.call(
            call, lambda route, budget: route.execute(commands, budget, replicas=replicas, check=check)
        )

    def scan(self, call: str, pattern: bytes, kind: str) -> Iterator[list[bytes]]:
        """The keys that match a pattern and have one kind of value.

        If slots moved between servers meanwhile, all servers are scanned again, to find the keys that moved.
        """
        before = self.call(call, lambda route, budget: route.slot_layout(budget))
        yield from self._scan_once(call, pattern, kind)
        after = self.call(call, lambda route, budget: route.slot_layout(budget))
        if before != after or any("[" in line for line in after):
            yield from self._scan_once(call, pattern, kind)

    def _scan_once(self, call: str, pattern: bytes, kind: str) -> Iterator[list[bytes]]:
        """Scans all servers, and begins anew if one is replaced: a cursor means nothing to another server."""
        which: Command = ("MATCH", pattern, "TYPE", kind)
        changes = None
        while changes != self.server_changes:
            servers = self.call(call, lambda route, budget: route.servers(budget))
            changes = self.server_changes
            for server in servers:
                cursor: bytes | None = b"0"
                while cursor is not None and changes == self.server_changes:
                    self._check_open(call)
                    cursor, keys = self._scan_step(call, server, cursor, which)
                    if keys:
                        yield keys

    def _scan_step(
        self, call: str, server: Server, cursor: bytes, which: Command
    ) -> tuple[bytes | None, list[bytes]]:
        """One step of a scan: the cursor of the next step or None, and the keys."""
        scan = ("SCAN", cursor, *which, "COUNT", SCAN_COUNT)
        ((following, keys),) = self.call(
            call, lambda _, budget: without_errors(server.execute([scan], budget))
        )
        return (None if following == b"0" else following), keys

    def server_changed(self) -> None:
        with self._lock:
            self.server_changes += 1

    def close(self) -> None:
        with self._lock:
            route, self._route = self._route, None
        if route is not None:
            route.close()

    def reset_after_fork(self) -> None:
        """Runs in the child of a fork, in which neither connections nor locks can be used."""
        self._route, self._lock = None, threading.Lock()
        self.server_changes += 1

    def _connected(self) -> Route:
        with self._lock:
            self._check_open("connect")
            if self._route is None:
                self._route = self._settings.route(self.server_changed)
            return self._route


_clients: WeakSet[Client] = WeakSet()


def _reset_after_fork() -> None:
    for client in list(_clients):
        client.reset_after_fork()


os.register_at_fork(after_in_child=_reset_after_fork)
