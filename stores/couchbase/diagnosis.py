"""Finds out why no connection can be made. Couchbase's client only says that it timed out."""

from __future__ import annotations

import re
import socket
import threading
import time
from contextlib import suppress

PORTS = {"couchbase": 11210, "couchbases": 11207}
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d+))?")


def diagnose(servers: str, seconds: float) -> str:
    """What is wrong with each host of `couchbase://host,host:port`, found out in at most `seconds`."""
    scheme, _, hosts = servers.partition("://")
    deadline = time.monotonic() + seconds
    found = [f"{host} was not found in time" for host in hosts.split(",")]

    def look() -> None:
        for number, host in enumerate(hosts.split(",")):
            found[number] = _diagnose_host(host, PORTS[scheme], deadline)

    # In a thread, since looking a name up may take long and has no time limit.
    with suppress(RuntimeError):  # there may be too many threads
        thread = threading.Thread(target=look, name="couchbase-diagnosis", daemon=True)
        thread.start()
        thread.join(seconds)
    return "; ".join(found)


def _diagnose_host(host: str, port: int, deadline: float) -> str:
    match = HOST.fullmatch(host)
    if match is None:
        return f"{host} is no host"
    name, port = match[1].strip("[]"), int(match[2] or port)
    try:
        socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        return f"no address is known for the host {name!r} ({_text(error)}): check its name"
    try:
        socket.create_connection((name, port), timeout=max(0.05, deadline - time.monotonic())).close()
    except ConnectionRefusedError:
        return (
            f"nothing listens at {name}:{port} (connection refused): check the port, and that the server runs"
        )
    except TimeoutError:
        return f"{name}:{port} does not answer: check that it can be reached from here"
    except OSError as error:
        return f"{name}:{port} cannot be reached ({_text(error)})"
    return (
        f"{name}:{port} takes connections, but gave no session in time: "
        "check that it is Couchbase's port for data, and that the server is well"
    )


def _text(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
