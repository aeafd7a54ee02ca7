"""The calls of one store: to whichever servers have the keys, and again until they succeed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from weakref import WeakSet

from stores.patience import Budget, Patient
from stores.redis.connection import Command
from stores.redis.failures import RedisFailures
from stores.redis.routes import Check, Route, checked
from stores.redis.server import Server
from stores.redis.settings import Setup

T = TypeVar("T")

SCAN_COUNT = 1000


class Calls:
    """Connects when it is first needed, and anew in the child of a fork."""

    def __init__(self, setup: Setup, check_open: Callable[[str], None]) -> None:
        self._setup, self._check_open = setup, check_open
        self._failures = RedisFailures(setup.url, setup.place.form == "cluster")
        self._patient = Patient(setup.patience, self._failures, check_open)
        self._opened: Route | None = None
        self._opening = threading.Lock()
        #: how often what was acknowledged may have been lost
        self.changes = 0
        _all.add(self)

    def call(self, call: str, action: Callable[[Route, Budget], T]) -> T:
        """Every action given here may be done twice: a lost reply does not tell whether it was done.

        The budget is that of one part of a call: the next 8 MB or 1,000 keys have another.
        """

        def attempt(budget: Budget) -> T:
            route = self._route()
            try:
                return action(route, budget)
            except self._failures.errors:
                route.failed()
                raise

        return self._patient.call(call, attempt)

    def run(
        self, call: str, commands: Sequence[Command], *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        """The replies to commands that go together."""
        return self.call(
            call, lambda route, budget: route.run(commands, budget, replicas=replicas, check=check)
        )

    def scan(self, call: str, pattern: bytes, kind: str) -> Iterator[list[bytes]]:
        """The keys of one kind of value.

        Those that move between servers while these are asked are found the second time at the latest.
        """
        layout = self.call(call, lambda route, budget: route.layout(budget))
        yield from self._scan_once(call, pattern, kind)
        now = self.call(call, lambda route, budget: route.layout(budget))
        if now != layout or any("[" in line for line in now):
            yield from self._scan_once(call, pattern, kind)

    def _scan_once(self, call: str, pattern: bytes, kind: str) -> Iterator[list[bytes]]:
        """A cursor means nothing to another server: if one is replaced, all are asked again."""
        which: Command = ("MATCH", pattern, "TYPE", kind)
        changes = None
        while changes != self.changes:
            servers = self.call(call, lambda route, budget: route.servers(budget))
            changes = self.changes
            for server in servers:
                cursor: bytes | None = b"0"
                while cursor is not None and changes == self.changes:
                    self._check_open(call)
                    cursor, keys = self.call(call, _scanning(server, cursor, which))
                    if keys:
                        yield keys

    def changed(self) -> None:
        with self._opening:
            self.changes += 1

    def close(self) -> None:
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def forget(self) -> None:
        """In the child of a fork, which neither connections nor locks survive."""
        self._opened, self._opening = None, threading.Lock()
        self.changes += 1

    def _route(self) -> Route:
        with self._opening:
            self._check_open("connect")
            if self._opened is None:
                self._opened = self._setup.route(self.changed)
            return self._opened


_all: WeakSet[Calls] = WeakSet()


def _forget_after_fork() -> None:
    for calls in list(_all):
        calls.forget()


os.register_at_fork(after_in_child=_forget_after_fork)


def _scanning(
    server: Server, cursor: bytes, which: Command
) -> Callable[[Route, Budget], tuple[bytes | None, list[bytes]]]:
    """One step of a scan, and the cursor of the next one or None."""

    def scan(_: Route, budget: Budget) -> tuple[bytes | None, list[bytes]]:
        (reply,) = checked(server.run([("SCAN", cursor, *which, "COUNT", SCAN_COUNT)], budget))
        following, keys = reply
        return (None if following == b"0" else following), keys

    return scan
