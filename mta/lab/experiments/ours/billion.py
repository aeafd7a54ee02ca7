"""One window of a billion numbers over RocksDB: filled, sliding, half evicted at once, and opened again.

Once with files as usual, and once with files that are written past the system's page cache.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.machine import peak_resident
from mta.lab.turns import timed
from mta.monoids.base import Array
from stores import StoreConfigError, open_store

ROWS, QUICK_ROWS = 10**9, 10**6
BATCH, PARTS = 1 << 16, 20
#: Seconds between two checkpoints.
EVERY, QUICK_EVERY = 60.0, 0.05
NAME = "billion"
PHASES = {"fill": "Filled", "slide": "Sliding, a result a row", "extend": "Sliding, a result a batch"}
DIRECT = ", written past the page cache"


class Billion(Experiment):
    name = "billion"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        rows, every = (QUICK_ROWS, QUICK_EVERY) if scale.quick else (ROWS, EVERY)
        case = {"rows": rows, "batch": BATCH, "checkpoint_every": every}
        return [{**case, "direct": direct} for direct in (False, True)]

    def seconds(self, case: Case, options: argparse.Namespace) -> float:  # noqa: ARG002
        return 1800.0

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        with tempfile.TemporaryDirectory(prefix="mta-billion-", ignore_cleanup_errors=True) as directory:
            try:
                run = Run(directory, case)
            except StoreConfigError as error:
                tell({"left out": str(error)})
                return []
            found: list[Row] = []
            for phase, rows in (
                ("fill", case["rows"]),
                ("slide", case["rows"]),
                ("extend", case["rows"] // 4),
            ):
                for row in run.phase(phase, rows):
                    found.append(row)
                    tell({"phase": phase, "rows": row["upto"], "million_rows_a_second": row["rate"] / 1e6})
            return [*found, *run.ending()]

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if not rows:
            return []
        rates: dict[str, list[tuple[float, float]]] = {}
        sizes: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            if row["phase"] in PHASES:
                title = PHASES[row["phase"]] + (DIRECT if row["direct"] else "")
                at = row["upto"] / 1e6
                rates.setdefault(title, []).append((at, row["rate"] / 1e6))
                sizes.setdefault(title, []).append((at, row["directory_bytes"] / row["window_bytes"]))
        cut = (
            f"{rows[0]['rows']:,} doubles, batches of {rows[0]['batch']:,} rows, one process, a checkpoint "
            f"every {rows[0]['checkpoint_every']:g} s."
        )
        return [
            Exhibit(
                "rate",
                "Rows a second of one large window over RocksDB",
                lambda figure: plots.lines(
                    figure, rates, x="million rows so far", y="million rows a second",
                    log_x=False, log_y=False,
                ),
                _seen(rows),
                (),
                cut,
            ),
            Exhibit(
                "disk",
                "The directory of one large window, in times of its elements",
                lambda figure: plots.lines(
                    figure, sizes, x="million rows so far", y="bytes on disk / bytes in the window",
                    log_x=False, log_y=False,
                ),
                _seen_on_disk(rows),
                (),
                cut,
            ),
        ]  # fmt: skip


EXPERIMENT = Billion()


class Run:
    """A window in a directory, and how far it has come. Its elements are the same numbers again and again."""

    def __init__(self, directory: str, case: Case) -> None:
        self._directory, self._rows, self._batch = directory, case["rows"], case["batch"]
        self._every = case["checkpoint_every"]
        self._values: Array = np.asarray(np.random.default_rng(5).normal(size=self._batch))
        self._url = f"rocksdb://{directory}?direct={case['direct']}"
        self._store = open_store(self._url)
        policy = policies.CountWindow(self._rows)
        self._store.read_root(NAME)  # opens the directory, or raises
        self._window = AmortizedMTA(monoids.Sum(), policy, store=self._store, name=NAME)
        self._at = 0
        self._saved = time.perf_counter()
        self._checkpoints: list[tuple[int, float]] = []

    def phase(self, phase: str, rows: int) -> Iterator[Row]:
        """Takes so many rows in, and says after each part of them how it went."""
        call = self._window.slide if phase == "slide" else self._window.extend
        begin, seen = self._at, len(self._checkpoints)
        for part in range(1, PARTS + 1):
            start, stop = self._at, begin + rows * part // PARTS
            wall, cpu = timed(lambda: self._take_in(call, stop))  # noqa: B023
            self._check()
            saved, seen = self._checkpoints[seen:], len(self._checkpoints)
            yield {
                "phase": phase,
                "upto": self._at,
                "rate": (self._at - start) / wall,
                "cpu_ns": cpu / (self._at - start) * 1e9,
                "checkpoints": len(saved),
                "checkpoint_seconds": max((seconds for _, seconds in saved), default=None),
                **self._sizes(),
            }

    def _take_in(self, call: Callable[[Array], Any], stop: int) -> None:
        while self._at < stop:
            offset = self._at % self._batch
            rows = min(stop - self._at, self._batch - offset)
            call(self._values[offset : offset + rows])
            self._at += rows
            if time.perf_counter() - self._saved >= self._every:
                self._checkpoint()

    def _checkpoint(self) -> float:
        seconds, _ = timed(lambda: self._window.checkpoint(self._at))
        self._checkpoints.append((self._at, seconds))
        self._saved = time.perf_counter()
        return seconds

    def _check(self) -> None:
        """The sum of the window, by what its numbers are."""
        expected = self._sum_up_to(self._at) - self._sum_up_to(self._at - len(self._window))
        if len(self._window) != min(self._rows, self._at) or not np.isclose(
            self._window.query(), expected, rtol=1e-6, atol=1e-3
        ):
            raise AssertionError(f"{self._window!r} has {self._window.query()}, not {expected}")

    def _sum_up_to(self, row: int) -> float:
        whole, part = divmod(row, self._batch)
        return float(whole * self._values.sum() + self._values[:part].sum())

    def _sizes(self) -> Row:
        # a version keeps what it names: what the window has let go since is not dead yet
        named = [row for row, _ in self._checkpoints[-2:]]
        oldest = max(0, min([self._at, *named]) - self._rows)
        return {
            "peak_bytes": peak_resident(),
            "directory_bytes": sum(map(_size, os.scandir(self._directory))),
            "window_bytes": 8 * len(self._window),
            "named_bytes": 8 * (self._at - oldest),
        }

    def ending(self) -> list[Row]:
        """Half of the window goes at once; then the window, and then its directory too, is opened again."""
        window, half = self._window, len(self._window) // 2
        evict, _ = timed(lambda: window.evict(half))
        query, _ = timed(window.query)
        self._check_half(window, half)
        saved = self._checkpoint()
        window.close()
        restore, restored_query = self._restored(half)
        close, _ = timed(self._store.close)
        opened, _ = timed(self._opened)
        restore_then, _ = self._restored(half)
        self._store.close()
        times = {
            "evict": evict, "query after it": query, "checkpoint": saved, "restore": restore,
            "query after that": restored_query, "close the directory": close, "open the directory": opened,
            "restore from it": restore_then,
        }  # fmt: skip
        return [{"phase": name, "upto": self._at, "seconds": seconds} for name, seconds in times.items()]

    def _opened(self) -> None:
        self._store = open_store(self._url)
        self._store.read_root(NAME)

    def _restored(self, half: int) -> tuple[float, float]:
        made: list[AmortizedMTA] = []
        arguments = (self._store, NAME, monoids.Sum(), policies.CountWindow(self._rows))
        restore, _ = timed(lambda: made.append(AmortizedMTA.restore(*arguments)))
        with made[0] as window:
            query, _ = timed(window.query)
            self._check_half(window, half)
        return restore, query

    def _check_half(self, window: AmortizedMTA, half: int) -> None:
        expected = self._sum_up_to(self._at) - self._sum_up_to(self._at - len(window))
        if len(window) != min(self._rows, self._at) - half or not np.isclose(
            window.query(), expected, rtol=1e-6, atol=1e-3
        ):
            raise AssertionError(f"{window!r} has {window.query()}, not {expected}")


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:  # the store has just removed it
        return 0


def _seen(rows: Sequence[Row]) -> str:
    told = [_seen_of([row for row in rows if row["direct"] == direct]) for direct in (False, True)]
    return f"{told[0]} Written past the page cache: {told[1]}" if told[1] else told[0]


def _seen_of(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    told = []
    for phase, title in PHASES.items():
        parts = [row["rate"] / 1e6 for row in rows if row["phase"] == phase]
        if parts:
            mean = len(parts) / sum(1 / rate for rate in parts)
            told.append(f"{title} at {mean:.3g} million rows a second ({min(parts):.3g} to {max(parts):.3g})")
    peak = max((row["peak_bytes"] for row in rows if "peak_bytes" in row), default=0)
    ending = ", ".join(f"{row['phase']} {1000 * row['seconds']:.2g} ms" for row in rows if "seconds" in row)
    return (
        f"{'; '.join(told)}. The process took {peak / 1e6:.0f} MB at most. In the end: {ending or 'nothing'}."
    )


def _seen_on_disk(rows: Sequence[Row]) -> str:
    full = [row for row in rows if row["phase"] in ("slide", "extend")]
    window = max((row["directory_bytes"] / row["window_bytes"] for row in full), default=float("nan"))
    named = max((row["directory_bytes"] / row["named_bytes"] for row in full), default=float("nan"))
    return (
        f"Once the window was full, the directory had at most {window:.2f} times the bytes of its elements, "
        f"and {named:.2f} times those that the window and its last two checkpoints name, which cannot go."
    )
