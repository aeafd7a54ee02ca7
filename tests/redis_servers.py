"""Redis servers that belong together: clusters, and services that Sentinels watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis
from redis.crc import key_slot
from servers import HOST, RedisServer, free_port

SLOTS = 16384


def wait_for(what: str, happened: Callable[[], object], seconds: float = 300) -> None:
    """Waits for a condition; the seconds are for what never happens, on a machine however busy."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not in {seconds} s: {what}")
        time.sleep(0.05)


def ask(server: RedisServer, *command: object) -> object:
    with redis.Redis(port=server.port, protocol=2) as client:
        return client.execute_command(*command)


def info(server: RedisServer, section: str) -> dict[str, str]:
    with redis.Redis(port=server.port, protocol=2) as client:
        return client.info(section)


#: Seconds after which a server gives up a failover that it was asked for.
ASKED_AGAIN = 6.0


def take_over(heir: RedisServer) -> None:
    """Makes a replica the master, once it knows that it is a replica and has what its master has."""
    asked = 0.0

    def took_over() -> bool:
        nonlocal asked
        told = info(heir, "replication")
        if told["role"] == "master":
            return True
        if told["master_link_status"] == "up" and time.monotonic() > asked + ASKED_AGAIN:
            # not yet a replica in the eyes of its cluster, or a master already: the next look tells
            with suppress(redis.ResponseError):
                ask(heir, "CLUSTER", "FAILOVER")
                asked = time.monotonic()
        return False

    wait_for("the replica takes over", took_over)


@dataclass
class Cluster:
    masters: list[RedisServer]
    replicas: list[RedisServer]
    scheme: str = "redis"

    @property
    def url(self) -> str:
        seeds = ",".join(f"{HOST}:{server.port}" for server in self.masters)
        return f"{self.scheme}+cluster://{seeds}"

    def owner(self, slot: int) -> RedisServer:
        """The server that has a slot at the start."""
        count = len(self.masters)
        return next(self.masters[number] for number in range(count) if slot < SLOTS * (number + 1) // count)

    def pair(self, slot: int) -> tuple[RedisServer, RedisServer]:
        """The master and the replica of a slot, whichever is which by now."""
        first = self.owner(slot)
        second = self.replicas[self.masters.index(first)]
        return (first, second) if info(first, "replication")["role"] == "master" else (second, first)


@contextmanager
def cluster(
    directory: Path,
    masters: int = 3,
    *arguments: str,
    replicas: bool = False,
    executable: str | None = None,
) -> Iterator[Cluster]:
    """Masters that share the slots, each with a replica if wanted."""
    with ExitStack() as stack:
        servers = []
        for number in range(masters * (1 + replicas)):
            # milliseconds after which a master is taken for dead: where one has no replica it need not be
            timeout = "3000" if replicas else "60000"
            settings = ("--cluster-enabled", "yes", "--cluster-node-timeout", timeout, *arguments)
            server = RedisServer(directory / str(number), settings, executable=executable)
            stack.callback(server.stop)
            _start_in_cluster(server)
            servers.append(server)
        made = Cluster(servers[:masters], servers[masters:])
        bounds = [SLOTS * number // masters for number in range(masters + 1)]
        for number, server in enumerate(servers):
            if number < masters:
                ask(server, "CLUSTER", "ADDSLOTS", *range(bounds[number], bounds[number + 1]))
            ask(server, "CLUSTER", "MEET", HOST, servers[0].port)
        known = b"cluster_known_nodes:%d" % len(servers)
        wait_for(
            "the cluster forms", lambda: all(known in ask(server, "CLUSTER", "INFO") for server in servers)
        )
        for replica, master in zip(made.replicas, made.masters, strict=False):
            ask(replica, "CLUSTER", "REPLICATE", ask(master, "CLUSTER", "MYID"))
        wait_for(
            "all slots are served, and replicas have what their masters have",
            lambda: (
                all(b"cluster_state:ok" in ask(server, "CLUSTER", "INFO") for server in servers)
                and all(info(server, "replication")["master_link_status"] == "up" for server in made.replicas)
            ),
        )
        yield made


def _start_in_cluster(server: RedisServer) -> None:
    """The cluster bus listens 10000 above, where another process may listen since."""
    for _ in range(20):
        while server.port > 55535:
            server.port = free_port()
        try:
            server.start()
            return
        except RuntimeError as error:
            if "Address already in use" not in str(error):
                raise
        server.port = free_port()
    raise RuntimeError("no two ports are free, of which one is 10000 above the other")


@contextmanager
def redis_cluster(directory: Path, nodes: int = 2, executable: str | None = None) -> Iterator[str]:
    """The URL of a cluster of masters that share the slots."""
    with cluster(directory, nodes, executable=executable) as made:
        yield made.url


class Move:
    """A slot on its way from one master to another: for good with `finish`."""

    def __init__(self, source: RedisServer, target: RedisServer, slot: int) -> None:
        self.source, self.target, self.slot = source, target, slot
        self._target_id = ask(target, "CLUSTER", "MYID").decode()
        ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ask(source, "CLUSTER", "MYID").decode())
        ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self._target_id)

    def some(self, keys: int) -> int:
        """Moves so many keys, and returns how many there were."""
        found = ask(self.source, "CLUSTER", "GETKEYSINSLOT", self.slot, keys)
        if found:
            ask(self.source, "MIGRATE", HOST, self.target.port, "", 0, 5000, "KEYS", *found)
        return len(found)

    def finish(self) -> None:
        while self.some(20):
            pass
        for server in (self.target, self.source):
            ask(server, "CLUSTER", "SETSLOT", self.slot, "NODE", self._target_id)


def slot_of(name: str) -> int:
    return key_slot(f"{{{name}}}".encode())


@dataclass
class Service:
    """A master, its replicas, and three Sentinels that watch them."""

    master: RedisServer
    replicas: list[RedisServer]
    sentinels: list[RedisServer]
    scheme: str = "redis"

    @property
    def url(self) -> str:
        hosts = ",".join(f"{HOST}:{server.port}" for server in self.sentinels)
        return f"{self.scheme}+sentinel://{hosts}/windows/0"

    def named(self) -> int:
        """The port of the master that the first Sentinel names."""
        with redis.Redis(port=self.sentinels[0].port, protocol=2) as client:
            return int(client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "windows")[1])


@dataclass
class SentinelServer(RedisServer):
    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        watched = self.arguments[0]
        (self.directory / "sentinel.conf").write_text(
            f"sentinel monitor windows {HOST} {watched} 2\n"
            "sentinel down-after-milliseconds windows 3000\nsentinel failover-timeout windows 6000\n"
        )
        self.arguments = ()
        self.first = (str(self.directory / "sentinel.conf"), "--sentinel")
        super().start()


@contextmanager
def service(directory: Path, replicas: int = 1, executable: str | None = None) -> Iterator[Service]:
    with ExitStack() as stack:

        def start(server: RedisServer) -> RedisServer:
            stack.callback(server.stop)
            server.start()
            return server

        master = start(RedisServer(directory / "master", (), executable=executable))
        followers = [
            start(
                RedisServer(
                    directory / f"replica{number}",
                    ("--replicaof", HOST, str(master.port)),
                    executable=executable,
                )
            )
            for number in range(replicas)
        ]
        wait_for(
            "replicas have what the master has",
            lambda: all(info(each, "replication")["master_link_status"] == "up" for each in followers),
        )
        sentinels = [
            start(SentinelServer(directory / f"sentinel{number}", (str(master.port),), executable=executable))
            for number in range(3)
        ]
        wait_for(
            "Sentinels know each other and the replicas",
            lambda: all(
                (state := sentinel_state(each))["num-other-sentinels"] == 2
                and state["num-slaves"] == replicas
                for each in sentinels
            ),
        )
        yield Service(master, followers, sentinels)


def sentinel_state(sentinel: RedisServer) -> dict[str, object]:
    with redis.Redis(port=sentinel.port, protocol=2) as client:
        return client.sentinel_masters()["windows"]
