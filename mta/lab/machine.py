"""The memory of this process, and what the machine and its packages are."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mta.process_memory import memory_figure

PACKAGES = (
    "mta-windows",
    "numpy",
    "msgpack",
    "rocksdict",
    "redis",
    "xxhash",
    "polars",
    "pandas",
    "duckdb",
)


def resident() -> int:
    """Bytes of memory that this process occupies now."""
    return memory_figure("VmRSS") or peak_resident()


def peak_resident() -> int:
    """The most bytes of memory that this process has occupied."""
    peak = memory_figure("VmHWM")
    if peak is not None:
        return peak
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024


def machine() -> dict[str, Any]:
    """What kind of machine this is, and nothing that tells which one."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def provenance(packages: Sequence[str] = ()) -> dict[str, Any]:
    """The time, the machine and the versions of packages, which results are kept with."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions((*PACKAGES, *packages)),
    }


def load_average() -> float | None:
    """How many processes wanted to run in the last five minutes: more than there are cores is a noisy run."""
    return round(os.getloadavg()[1], 2) if hasattr(os, "getloadavg") else None


def versions(packages: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if abs(size) >= 1e7 else f"{size / 1e6:,.1f} MB"
