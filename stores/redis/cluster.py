"""The route to the servers of a cluster, by the slots that each of them owns."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.crc import key_slot
from redis.exceptions import AskError, AuthenticationError, ClusterDownError, MovedError

from stores.patience import RANDOM, Budget
from stores.redis.connection import Check, Command, ConnectionSettings
from stores.redis.routes import UNREACHABLE, Address, Route, share_of, without_errors
from stores.redis.server import Server

SLOTS = 16384
REDIRECTS = 5
#: The host in CLUSTER SLOTS of a server that does not know its own address: the server that was asked.
UNKNOWN_HOSTS = (None, b"", b"?")
ASKING: Command = ("ASKING",)


class Cluster(Route):
    """Sends each command to the owner of its key's slot, and follows redirections."""

    one_key_per_command = True

    def __init__(self, seeds: Iterable[Address], settings: ConnectionSettings) -> None:
        self._seeds = list(seeds)
        self._settings = settings
        self._lock = threading.Lock()
        self._servers: dict[Address, Server] = {}
        self._owners: list[Address | None] = []
        self._stale = True
        #: the server to ask first for the slots: the one that a redirection named
        self._best_informed: Address | None = None
        self._closed = False

    def execute(
        self, commands: Sequence[Command], budget: Budget, *, replicas: int = 0, check: Check = None
    ) -> list[Any]:
        self._refresh_owners(budget)
        replies: list[Any] = [None] * len(commands)
        targets = {number: (self._owner(command), False) for number, command in enumerate(commands)}
        for _ in range(REDIRECTS):
            groups: dict[Address, list[int]] = {}
            for number, (address, _) in targets.items():
                groups.setdefault(address, []).append(number)
            for address, numbers in groups.items():
                sent: list[Command] = []
                for number in numbers:
                    sent += [ASKING, commands[number]] if targets[number][1] else [commands[number]]
                got = self._server(address).execute(sent, budget, replicas=replicas, check=check)
                answers = [reply for reply, command in zip(got, sent, strict=True) if command != ASKING]
                for number, reply in zip(numbers, answers, strict=True):
                    replies[number] = reply
                    if isinstance(reply, MovedError):
                        self._stale, self._best_informed = True, (reply.host or address[0], reply.port)
            # a redirection may mean that another server took over, so ask for the owners before sending again
            self._refresh_owners(budget)
            targets = {
                number: self._redirection(replies[number], targets[number][0], commands[number])
                for number in targets
                if isinstance(replies[number], AskError)
            }
            if not targets:
                break
        return without_errors(replies)

    def servers(self, budget: Budget) -> list[Server]:
        self._refresh_owners(budget)
        return [self._server(address) for address in _primaries(self._owners)]

    def slot_layout(self, budget: Budget) -> tuple[str, ...]:
        """The slots of each server, and the marks of slots that are moving."""
        self.servers_may_have_changed()
        lines = []
        for server in self.servers(budget):
            (nodes,) = without_errors(server.execute([("CLUSTER", "NODES")], budget))
            fields = next(line.split() for line in nodes.decode().splitlines() if "myself" in line)
            lines.append(" ".join([fields[0], *fields[8:]]))
        return tuple(sorted(lines))

    def check_servers(self, budget: Budget) -> None:
        for server in self.servers(budget):
            if server.reached:
                server.execute((), budget)

    def servers_may_have_changed(self) -> None:
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

    def _redirection(self, reply: AskError, asked: Address, command: Command) -> tuple[Address, bool]:
        """The server that a redirected command has to go to, and whether ASKING has to come before it."""
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

    def _refresh_owners(self, budget: Budget) -> None:
        """Asks a server which server owns which slots, if that is not known or may have changed."""
        if not self._stale:
            return
        failure: Exception | None = None
        to_ask = self._servers_to_ask()
        for address in to_ask:
            try:
                (slots,) = self._server(address).execute(
                    [("CLUSTER", "SLOTS")], share_of(budget, len(to_ask))
                )
            except AuthenticationError:
                raise
            except UNREACHABLE as error:
                failure = error
                continue
            without_errors([slots])
            self._set_owners(slots, address)
            return
        raise redis.ConnectionError(f"no server of the cluster can be reached: {failure}")

    def _servers_to_ask(self) -> list[Address]:
        with self._lock:
            known = list(dict.fromkeys([*self._servers, *self._seeds]))
            RANDOM.shuffle(known)
            first = [self._best_informed] if self._best_informed else []
            return list(dict.fromkeys([*first, *known]))

    def _set_owners(self, slots: list[Any], asked: Address) -> None:
        owners: list[Address | None] = [None] * SLOTS
        nodes: set[Address] = {asked, *self._seeds}
        for start, stop, *copies in slots:
            found = [
                (asked[0] if host in UNKNOWN_HOSTS else host.decode(), port) for host, port, *_ in copies
            ]
            nodes.update(found)
            owners[start : stop + 1] = [found[0]] * (stop + 1 - start)
        with self._lock:
            before = _primaries(self._owners)
            self._owners, self._stale, self._best_informed = owners, False, None
            gone = [address for address in self._servers if address not in nodes]
            for address in gone:
                self._servers.pop(address).close()
        if before and before != _primaries(owners):
            self._settings.server_changed()


def _primaries(owners: Iterable[Address | None]) -> list[Address]:
    return sorted({owner for owner in owners if owner is not None})
