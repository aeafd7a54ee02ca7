"""Which server gets a command: the only one, the one that Sentinels name, or the one with the key's slot."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import redis
from redis.crc import key_slot
from redis.exceptions import AskError, AuthenticationError, ClusterDownError, MovedError, ResponseError

from stores.errors import StoreConfigError
from stores.patience import Budget
from stores.redis_connections import Command, Server, Settings

Address = tuple[str, int]
Check = Callable[[], None] | None

SLOTS = 16384
REDIRECTS = 5
#: Seconds to ask one server where others are, at least, before the next one is asked.
ASKING_TIME = 1.0
#: A host that a server does not know of itself: it is the one that was asked.
UNTOLD = (None, b"", b"?")
ASKING: Command = ("ASKING",)
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


class Sentinel(OneServer):
    """The server that Sentinels name as the master of a service."""

    def __init__(
        self, sentinels: Iterable[Address], service: str, settings: Settings, asking: Settings
    ) -> None:
        self._sentinels = [Server(*address, asking) for address in sentinels]
        self._service = service
        self._settings = settings
        self._lock = threading.Lock()
        self._master: Server | None = None
        self._sure = False

    def servers(self, budget: Budget) -> list[Server]:
        with self._lock:
            if self._master is None or not self._sure:
                address = self._named(budget)
                if self._master is None or (self._master.host, self._master.port) != address:
                    if self._master is not None:
                        self._settings.changed()
                        self._master.close()
                    self._master = Server(*address, self._settings)
                self._sure = True
            return [self._master]

    def _named(self, budget: Budget) -> Address:
        unknown, failure = 0, None
        for sentinel in list(self._sentinels):
            question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            try:
                (answer,) = checked(sentinel.run([question], _share(budget, len(self._sentinels))))
            except AuthenticationError:
                raise
            except UNREACHABLE as error:
                failure = error
                continue
            if answer is not None:
                self._sentinels.remove(sentinel)  # the one that answers is asked first the next time
                self._sentinels.insert(0, sentinel)
                return answer[0].decode(), int(answer[1])
            unknown += 1
        if failure is None:
            raise StoreConfigError(f"none of {unknown} Sentinels knows a service {self._service!r}")
        raise redis.ConnectionError(f"no Sentinel names a master of {self._service!r}: {failure}")

    def failed(self) -> None:
        self._sure = False

    def close(self) -> None:
        for server in (*self._sentinels, self._master):
            if server is not None:
                server.close()


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
                (slots,) = self._server(address).run([("CLUSTER", "SLOTS")], _share(budget, len(to_ask)))
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
            random.shuffle(known)
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


def _share(budget: Budget, servers: int) -> Budget:
    """For one of several servers, any of which will do."""
    return budget.within(max(ASKING_TIME, budget.left / servers))


def _primaries(owners: Iterable[Address | None]) -> list[Address]:
    return sorted({owner for owner in owners if owner is not None})


def checked(replies: list[Any]) -> list[Any]:
    """Replies of which none is an error."""
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise reply
    return replies
