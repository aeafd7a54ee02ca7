"""Time, memory, and what the machine is."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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


@dataclass
class Timings:
    """Seconds of one contender, an entry a repetition, and how many steps a repetition has."""

    steps: int
    wall: list[float] = field(default_factory=list)
    #: processor time of all threads of this process; that of a server is not in it
    cpu: list[float] = field(default_factory=list)

    def add(self, wall: float, cpu: float) -> None:
        self.wall.append(wall)
        self.cpu.append(cpu)

    @property
    def ns(self) -> float:
        """Median nanoseconds a step."""
        return statistics.median(self.wall) / self.steps * 1e9

    @property
    def cpu_ns(self) -> float:
        return statistics.median(self.cpu) / self.steps * 1e9

    def ratio(self, other: Timings) -> float:
        """Median over repetitions of this one's time a step by the other's in the same repetition."""
        pairs = zip(self.wall, other.wall, strict=False)
        return statistics.median(a / self.steps / (b / other.steps) for a, b in pairs)

    def record(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "wall_seconds": self.wall,
            "cpu_seconds": self.cpu,
            "ns_per_step": self.ns,
            "cpu_ns_per_step": self.cpu_ns,
        }


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock and of processor time that some work takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    wall = time.perf_counter() - wall
    return wall, time.process_time() - cpu


def interleaved(
    contenders: Mapping[str, Callable[[int], Callable[[], Any]]],
    timings: Mapping[str, Timings],
    repetitions: int,
) -> Iterable[int]:
    """Times every contender in turn, `repetitions` times; each makes its work ready before it is timed.

    Every other repetition goes through the contenders backwards, so that none always follows the same one.
    """
    for repetition in range(repetitions):
        names = list(contenders)
        if repetition % 2:
            names.reverse()
        for name in names:
            work = contenders[name](repetition)
            timings[name].add(*timed(work))
        yield repetition


def turn_by_turn(names: Iterable[str], turns: int) -> Iterator[str]:
    """Each name once a turn; who is first changes from turn to turn."""
    names = list(names)
    for turn in range(turns):
        first = turn % len(names)
        yield from names[first:] + names[:first]


@contextmanager
def uncollected() -> Iterator[None]:
    """What there is by now is not looked at by the garbage collector.

    Else whoever allocates pays for looking at what all contenders hold.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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


def load_average() -> float | None:
    """How many processes wanted to run in the last five minutes: more than there are cores is a noisy run."""
    return round(os.getloadavg()[1], 2) if hasattr(os, "getloadavg") else None


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str | None]:
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
