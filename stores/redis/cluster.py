"""The servers of a cluster, and which of them has which slots."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.crc import key_slot
from redis.exceptions import AskError, AuthenticationError, ClusterDownError, MovedError

from stores.patience import RANDOM, Budget
from stores.redis.connection import Command, Settings
from stores.redis.routes import UNREACHABLE, Address, Check, checked, share
from stores.redis.server import Server

SLOTS = 16384
REDIRECTS = 5
#: A host that a server does not know of itself: it is the one that was asked.
UNTOLD = (None, b"", b"?")
ASKING: Command = ("ASKING",)


class Cluster:
    """The servers of a cluster, and which of them has which slots."""

    one_key_each = True

    def __init__(self, seeds: Iterable[Address], settings: Settings) -> None:
        self._seeds = list(seeds)
        self._settings = settings
        self._lock = threading.Lock()
        self._servers: dict[Address, Server] = {}
        self._owners: list[Address | None] = []
        self._stale = True
        #: who knows best where slots are
        self._informed: Address | None = None
        self._closed = False

    def run(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        self._settle(budget)
        replies: list[Any] = [None] * len(commands)
        places = {number: (self._owner(command), False) for number, command in enumerate(commands)}
        for _ in range(REDIRECTS):
            groups: dict[Address, list[int]] = {}
            for number, (address, _) in places.items():
                groups.setdefault(address, []).append(number)
            for address, numbers in groups.items():
                sent: list[Command] = []
                for number in numbers:
                    sent += [ASKING, commands[number]] if places[number][1] else [commands[number]]
                got = self._server(address).run(sent, budget, replicas=replicas, check=check)
                answers = [reply for reply, command in zip(got, sent, strict=True) if command != ASKING]
                for number, reply in zip(numbers, answers, strict=True):
                    replies[number] = reply
                    if isinstance(reply, MovedError):
                        self._stale, self._informed = True, (reply.host or address[0], reply.port)
            # a move may mean that another server took over, so it is looked at before the command goes there
            self._settle(budget)
            places = {
                number: self._elsewhere(replies[number], places[number][0], commands[number])
                for number in places
                if isinstance(replies[number], AskError)
            }
            if not places:
                break
        return checked(replies)

    def servers(self, budget: Budget) -> list[Server]:
        self._settle(budget)
        return [self._server(address) for address in _primaries(self._owners)]

    def layout(self, budget: Budget) -> tuple[str, ...]:
        """The slots of each server, and the marks of those that move."""
        self.failed()
        lines = []
        for server in self.servers(budget):
            (nodes,) = checked(server.run([("CLUSTER", "NODES")], budget))
            fields = next(line.split() for line in nodes.decode().splitlines() if "myself" in line)
            lines.append(" ".join([fields[0], *fields[8:]]))
        return tuple(sorted(lines))

    def verify(self, budget: Budget) -> None:
        for server in self.servers(budget):
            if server.reached:
                server.run((), budget)

    def failed(self) -> None:
        self._stale = True

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for server in self._servers.values():
                server.close()

    def _owner(self, command: Command) -> Address:
        key = command[3] if command[0] == "EVAL" else command[1]
        assert isinstance(key, bytes)
        slot = key_slot(key)
        owner = self._owners[slot]
        if owner is None:
            raise ClusterDownError(f"CLUSTERDOWN no server has slot {slot}")
        return owner

    def _elsewhere(self, reply: AskError, asked: Address, command: Command) -> tuple[Address, bool]:
        """Where a command has to go that a server did not take, and whether only this once."""
        if isinstance(reply, MovedError):
            return self._owner(command), False
        return (reply.host or asked[0], reply.port), True

    def _server(self, address: Address) -> Server:
        with self._lock:
            server = self._servers.get(address)
            if server is None:
                if self._closed:
                    raise redis.ConnectionError("the connections to the cluster were closed")
                server = self._servers[address] = Server(*address, self._settings)
            return server

    def _settle(self, budget: Budget) -> None:
        """Asks where slots are, if that is not known or may have changed."""
        if not self._stale:
            return
        failure: Exception | None = None
        to_ask = self._to_ask()
        for address in to_ask:
            try:
                (slots,) = self._server(address).run([("CLUSTER", "SLOTS")], share(budget, len(to_ask)))
            except AuthenticationError:
                raise
            except UNREACHABLE as error:
                failure = error
                continue
            checked([slots])
            self._adopt(slots, address)
            return
        raise redis.ConnectionError(f"no server of the cluster can be reached: {failure}")

    def _to_ask(self) -> list[Address]:
        with self._lock:
            known = list(dict.fromkeys([*self._servers, *self._seeds]))
            RANDOM.shuffle(known)
            first = [self._informed] if self._informed else []
            return list(dict.fromkeys([*first, *known]))

    def _adopt(self, slots: list[Any], asked: Address) -> None:
        owners: list[Address | None] = [None] * SLOTS
        nodes: set[Address] = {asked, *self._seeds}
        for start, stop, *copies in slots:
            found = [(asked[0] if host in UNTOLD else host.decode(), port) for host, port, *_ in copies]
            nodes.update(found)
            owners[start : stop + 1] = [found[0]] * (stop + 1 - start)
        with self._lock:
            before = _primaries(self._owners)
            self._owners, self._stale, self._informed = owners, False, None
            gone = [address for address in self._servers if address not in nodes]
            for address in gone:
                self._servers.pop(address).close()
        if before and before != _primaries(owners):
            self._settings.changed()


def _primaries(owners: Iterable[Address | None]) -> list[Address]:
    return sorted({owner for owner in owners if owner is not None})
