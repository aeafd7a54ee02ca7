"""What the demo has found, in words and as curves over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from rich.console import Console

from mta.lab.demo.data import AGGREGATES, HOT, ROW_BYTES, SENSORS, Stream
from mta.lab.demo.expected import Expected, sampled_rows
from mta.lab.demo.job import Worker
from mta.lab.demo.sampler import Sampler
from spark_integration.metrics import Summary
from spark_integration.partition.group import SHORT_WINDOW
from spark_integration.running.storage import embedded_in


@dataclass
class Findings:
    stream: Stream
    store: str
    #: before its first row
    worker: Worker
    #: by partition, in the order of its rows
    sensors: list[list[int]]
    summary: Summary
    seconds: float
    sampler: Sampler
    picture: str = ""
    #: of each sensor its rows, and those of its longest window
    rows: list[int] = field(default_factory=list)
    longest: list[int] = field(default_factory=list)

    def settle(self, expected: Expected) -> None:
        self.rows, self.longest = expected.rows.tolist(), expected.longest_window.tolist()

    @property
    def store_name(self) -> str:
        return "RocksDB" if embedded_in(self.store) is not None else self.store

    def curves(self) -> tuple[list[float], list[float], list[float]]:
        """Seconds, and MB of the largest worker and of the longest window that was open."""
        samples = self.sampler.samples
        windows = [
            max((self._window(place, rows) for place, rows in each.rows.items()), default=0)
            for each in samples
        ]
        return (
            [each.seconds for each in samples],
            [each.resident / 1e6 for each in samples],
            [rows * ROW_BYTES / 1e6 for rows in windows],
        )

    def _window(self, partition: int, rows: int) -> int:
        """Rows in the window of the sensor that a task has reached."""
        for sensor in self.sensors[partition]:
            if rows <= self.rows[sensor]:
                return min(rows, self.longest[sensor])
            rows -= self.rows[sensor]
        return 0


def introduction(console: Console, stream: Stream, store: str, memory: int) -> None:
    where = "RocksDB, in a temporary directory" if embedded_in(store) is not None else store
    shares = ", ".join(f"{share / 10:.0f} %" for share in HOT.values())
    console.print(
        f"A Spark job: {stream.rows:,} readings of {SENSORS:,} sensors, of which {len(HOT)} have {shares}.\n"
        f"For each reading: {len(AGGREGATES)} aggregates of its sensor's last {_duration(stream.duration)}.\n"
        f"The windows live in {where}.\n"
        f"The longest has {_megabytes(stream.expected_window_bytes)}; a Python worker may have "
        f"{_megabytes(memory << 20)} of address space.\n",
        markup=False,
    )


def summary(findings: Findings, mistakes: list[str]) -> str:
    did, worker, stream = findings.summary, findings.worker, findings.stream
    longest = max(findings.longest)
    written, read = _megabytes(did.bytes_written), _megabytes(did.bytes_read)
    lines = {
        "rows": f"{did.rows:,} in {findings.seconds:.0f} s: {did.rows / findings.seconds:,.0f} a second",
        "windows": f"{SENSORS:,}, {did.windows} of them longer than {SHORT_WINDOW:,} rows, "
        f"which evicted {did.evictions:,}",
        "longest window": f"{_megabytes(longest * ROW_BYTES)}: {longest:,} rows of {ROW_BYTES} bytes",
        "Python worker": f"{_megabytes(did.peak_memory)} resident at most",
        "its limit": f"{_megabytes(worker.limit)} of address space, of which it took at most "
        f"{_megabytes(findings.sampler.address_space)};\n"
        f"{_megabytes(worker.taken)} of that for Python and its libraries, before any row",
        "without a store": "an array of the longest window's size, asked for in such a worker:\n"
        + ("fits, since the window is short; give more --rows" if worker.holds_window else "MemoryError"),
        findings.store_name: f"{did.pages_written:,} pages written, {written}; "
        f"{did.pages_read:,} read, {read};\n"
        f"{did.seconds_in_store:.1f} s in its calls, most of them in the background",
        "checked": _checked(stream, mistakes),
        "picture": findings.picture,
    }
    width = max(map(len, lines)) + 3
    return "\n".join(
        f"{name:{width}}" + text.replace("\n", "\n" + " " * width) for name, text in lines.items()
    )


def _checked(stream: Stream, mistakes: list[str]) -> str:
    if mistakes:
        return "\n".join([f"{len(mistakes)} WRONG", *mistakes[:5]])
    return (
        f"count and sum at each of {stream.rows:,} rows, and all {len(AGGREGATES)} aggregates\n"
        f"at {len(sampled_rows(stream))} rows, computed anew in NumPy: all equal, to the last bit"
    )


def _duration(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} seconds"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:,.1f} MB"
