"""What Linux tells of a process's memory."""

from __future__ import annotations

from contextlib import suppress


def memory_figure(name: str, pid: int | str = "self") -> int | None:
    """Bytes of one of the figures of /proc, such as VmHWM; None where there is none."""
    with suppress(OSError), open(f"/proc/{pid}/status") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
    return None
