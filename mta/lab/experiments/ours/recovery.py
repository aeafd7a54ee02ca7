"""Seconds to the first right answer after a kill -9, by the size of the window."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.experiments.ours.crash import BATCH, BETWEEN
from mta.lab.servers import redis_server
from mta.monoids.base import Array

PROGRAM = "mta.lab.experiments.ours.crash"
SIZES, QUICK_SIZES = tuple(1 << power for power in range(14, 25, 2)), (1 << 14, 1 << 16)
TIMES, QUICK_TIMES = 5, 1
WHO = {
    "amta-rocksdb": "Restored from RocksDB",
    "amta-redis": "Restored from Redis",
    "amta": "Amortized MTA in memory, refilled at once",
    "daba": "DABA, refilled one by one",
    "naive": "Naive, refilled one by one",
}
#: Rows that are inserted one by one, at most: more take too long.
MOST_SINGLE = 1 << 22
#: The writer is killed so many batches after it has filled its window: some after its last checkpoint.
GOES_ON = 2 * BETWEEN + 3


class Recovery(Experiment):
    name = "recovery"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        sizes, times = (QUICK_SIZES, QUICK_TIMES) if scale.quick else (SIZES, TIMES)
        return [
            {"contender": who, "rows": rows, "times": times}
            for rows in sizes
            for who in WHO
            if who not in ("daba", "naive") or rows <= MOST_SINGLE
        ]

    def title(self, case: Case) -> str:
        return f"{WHO[case['contender']]}, {plots.many(case['rows'])} rows"

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        who, rows, found = case["contender"], case["rows"], []
        for number in range(case["times"]):
            tell({"time": number})
            with tempfile.TemporaryDirectory(prefix="mta-") as directory, _url(who) as url:
                values = np.random.default_rng(number).normal(size=rows + GOES_ON * BATCH)
                source = str(Path(directory) / "source")
                values.tofile(source)
                upto = _killed(source, url, rows) if url else rows + GOES_ON * BATCH
                found.append(_recovered(source, who, url, rows, upto, values))
        return found

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        measured = [row for record in records for row in self.rows(record)]
        if not measured:
            return []
        medians = {
            (who, rows): float(np.median(some))
            for who in WHO
            for rows in {row["rows"] for row in measured}
            if (some := [r["seconds"] for r in measured if (r["contender"], r["rows"]) == (who, rows)])
        }
        series = {
            title: [(rows, seconds) for (each, rows), seconds in medians.items() if each == who]
            for who, title in WHO.items()
        }
        return [
            Exhibit(
                "seconds",
                "Seconds to the first right answer after a kill -9",
                lambda figure: plots.lines(figure, series, x="rows in the window", y="seconds"),
                _seen(medians, measured),
                (),
                "From the imports of the new process on. What has to be read again is in a file on the same "
                f"disk, which costs least; a checkpoint every {BETWEEN * BATCH:,} rows; the median of "
                f"{measured[0]['times']}. One by one, at most {plots.many(MOST_SINGLE)} rows are refilled.",
            )
        ]


EXPERIMENT = Recovery()


@contextmanager
def _url(who: str) -> Iterator[str]:
    """A store of the run's own; none for a window in memory."""
    if who.endswith("-redis"):
        with redis_server() as url:
            yield url
    elif who.endswith("-rocksdb"):
        with tempfile.TemporaryDirectory(prefix="mta-") as directory:
            yield f"rocksdb://{directory}"
    else:
        yield ""


def _killed(source: str, url: str, rows: int) -> int:
    """Lets a writer fill its window and go on, kills it, and says how far it had come."""
    command = [sys.executable, "-m", PROGRAM, "write", source, url, str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            for line in writer.stdout:
                if int(line) >= rows + GOES_ON * BATCH:
                    return int(line)
        finally:
            writer.kill()
    raise RuntimeError(f"the writer ended with {writer.returncode} before it was killed")


def _recovered(source: str, who: str, url: str, rows: int, upto: int, values: Array) -> Row:
    """Starts a process that gives the answer again, and compares it with plain recomputation."""
    began = time.perf_counter()
    command = [sys.executable, "-m", PROGRAM, "recover", source, url, str(rows), who, str(upto)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"no answer after the crash: {done.stderr.strip().splitlines()[-1:]}")
    told = json.loads(done.stdout)
    expected = float(values[upto - rows : upto].max())
    if told.pop("answer") != expected:
        raise AssertionError(f"the answer after the crash is not {expected}")
    return {"upto": upto, "with_start": seconds, **told}


def _seen(medians: dict[tuple[str, int], float], measured: Sequence[Row]) -> str:
    least, most = min(row["rows"] for row in measured), max(row["rows"] for row in measured)
    told = []
    for who, title in WHO.items():
        sizes = [rows for each, rows in medians if each == who]
        if sizes:
            small, large = min(sizes), max(sizes)
            told.append(
                f"{title} {1000 * medians[who, small]:,.3g} ms with {plots.many(small)} rows and "
                f"{1000 * medians[who, large]:,.3g} ms with {plots.many(large)}"
            )
    starts = [row["with_start"] - row["seconds"] for row in measured]
    return (
        f"From {plots.many(least)} to {plots.many(most)} rows: {'; '.join(told)}. The start of the process "
        f"and its imports come before that, and take {np.median(starts):.2g} s."
    )
