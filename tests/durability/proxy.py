"""A TCP proxy between a client and a server that spoils what goes through it."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"

#: What becomes of some bytes on their way: parts to send on, and whether to cut the line after them.
Outcome = tuple[list[bytes], bool]
Spoil = Callable[[random.Random, bytes], Outcome]


def untouched(_: random.Random, data: bytes) -> Outcome:
    return [data], False


def delay(rng: random.Random, data: bytes) -> Outcome:
    time.sleep(rng.choice((0, 0, 0.002, 0.02)))
    return [data], False


def dribble(rng: random.Random, data: bytes) -> Outcome:
    """Byte by byte, at times."""
    if rng.random() < 0.2 and len(data) < 2000:
        return [data[place : place + 7] for place in range(0, len(data), 7)], False
    return [data], False


def cut(rng: random.Random, data: bytes) -> Outcome:
    """Ends the line before anything of it came through."""
    return ([], True) if rng.random() < 0.1 else ([data], False)


def cut_in_the_middle(rng: random.Random, data: bytes) -> Outcome:
    return ([data[: rng.randrange(len(data))]], True) if rng.random() < 0.1 else ([data], False)


def duplicate(rng: random.Random, data: bytes) -> Outcome:
    """Twice, and then the line ends: the second may be taken for an answer to something else."""
    return ([data, data], False) if rng.random() < 0.02 else ([data], False)


class Proxy:
    """Spoils requests or replies; which, and how, can be changed at any time."""

    def __init__(self, port: int, seed: int) -> None:
        self._target = port
        self._rng = random.Random(seed)
        self.requests: Spoil = untouched
        self.replies: Spoil = untouched
        self.spoiled = 0
        #: whether requests are kept back, and what was kept back of each line
        self.hold = False
        self._held: list[bytes] = []
        self.delivered = 0
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = True
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0?backoff=0.001&socket_timeout=1&max_tries=8"

    def _accept(self) -> None:
        while self._open:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._target))
            except OSError:
                continue
            self._sockets += [client, server]
            for source, sink, name in ((client, server, "requests"), (server, client, "replies")):
                thread = threading.Thread(target=self._pump, args=(source, sink, name), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.hold and name == "requests":
                    self._keep_back(data, source)
                    break
                spoil: Spoil = getattr(self, name)
                parts, end = spoil(self._rng, data)
                self.spoiled += end or parts != [data]
                for part in parts:
                    sink.sendall(part)
                if end:
                    break
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _keep_back(self, data: bytes, source: socket.socket) -> None:
        """Takes in all that a client sends until it hangs up, and passes nothing on."""
        kept = data
        with suppress(OSError):
            while data := source.recv(1 << 16):
                kept += data
        self._held.append(kept)

    def deliver(self) -> None:
        """Sends what was kept back, as a line does that was slow; nobody waits for the replies."""
        held, self._held = self._held, []
        for data in held:
            with socket.create_connection((HOST, self._target)) as late:
                late.sendall(data)
                late.shutdown(socket.SHUT_WR)
                while late.recv(1 << 16):
                    pass
            self.delivered += 1

    def close(self) -> None:
        self._open = False
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for each in self._sockets:
            each.close()


@contextmanager
def proxy(port: int, seed: int = 1) -> Iterator[Proxy]:
    spoiler = Proxy(port, seed)
    try:
        yield spoiler
    finally:
        spoiler.close()
