"""Processes as owners of windows: the identity of this process, and whether another one is surely gone."""

from __future__ import annotations

import os
import socket
from functools import cache

from stores.os_errors import ignoring, is_os_error

#: The states of a process that has ended and is still listed.
_OVER = "ZX"

#: No process has a larger number.
_LARGEST = 2**31 - 1


@cache
def _host() -> str:
    """The host and its space of process ids: containers of one host may have different ones."""
    parts = [socket.gethostname()]
    with ignoring(is_os_error), open("/proc/sys/kernel/random/boot_id") as boot:
        parts.append(boot.read(8))
    with ignoring(is_os_error):
        parts.append(os.readlink("/proc/self/ns/pid").strip("pid:[]"))
    return "/".join(parts)


def this_process() -> tuple[str, int, int]:
    """Host, process id and start of this process. No other process ever has all three."""
    pid = os.getpid()
    return _host(), pid, started(pid) or 0


def started(pid: int) -> int | None:
    """When a process of this host started, in ticks since the machine did; None if it has ended."""
    fields = _listed(pid)
    return None if fields is None or fields[0] in _OVER else int(fields[19])


def _listed(pid: int) -> list[str] | None:
    """The fields of `/proc/<pid>/stat` from the state on; None if the process is not listed."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError) as error:
        if not is_os_error(error):
            raise
        return None


def same_host(owner: tuple[str, int, int]) -> bool:
    """Whether an owner is of this host, so that its process id means a process here."""
    return owner[0] == _host()


def surely_dead(owner: tuple[str, int, int]) -> bool:
    """Whether the process was on this host and is gone. False for owners of other hosts."""
    _, pid, start = owner
    with ignoring(is_os_error):  # without file descriptors this process cannot look
        if not same_host(owner) or _listed(os.getpid()) is None:
            return False
        fields = _listed(pid)
        if fields is None:
            return not _is_there(pid)
        return fields[0] in _OVER or int(fields[19]) != start
    return False


def _is_there(pid: int) -> bool:
    """Whether a process exists that is not listed: some systems list no processes of other users."""
    if pid > _LARGEST:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError as error:
        if not is_os_error(error):
            raise
        return False
    except PermissionError as error:
        if not is_os_error(error):
            raise
    return True
