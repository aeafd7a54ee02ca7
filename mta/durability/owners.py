"""Processes as owners of windows: which one this is, and whether another one is surely gone."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache


@cache
def _host() -> str:
    """The host and its process ids: two containers may share a name, but not what a process id means."""
    parts = [socket.gethostname()]
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as boot:
        parts.append(boot.read(8))
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid").strip("pid:[]"))
    return "/".join(parts)


def this_process() -> tuple[str, int, int]:
    """Host, process id and start of this process, which no other process ever has together."""
    pid = os.getpid()
    return _host(), pid, started(pid) or 0


def started(pid: int) -> int | None:
    """When a process of this host started, in ticks since the machine did; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
            return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def same_host(owner: tuple[str, int, int]) -> bool:
    """Whether the process ids of this process and of an owner are of the same host, so that they compare."""
    return owner[0] == _host()


def surely_dead(owner: tuple[str, int, int]) -> bool:
    """Whether the process was on this host and is gone; elsewhere nobody can tell."""
    _, pid, start = owner
    return same_host(owner) and os.path.exists("/proc/self/stat") and started(pid) != start
