"""One hot key as its window grows, many small keys, and a hot key among many small ones.

Rows are in files, and a micro-batch takes one of them. The watermark has no delay, so the rows of a file come
out with the next one, and the micro-batch reads back what the one before put aside.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console

from mta.lab.bench.report import Section
from mta.lab.bench.spark import jobs
from mta.lab.bench.spark.stream_files import MILLISECONDS, ROWS_A_KEY, write_hot, write_keys
from mta.lab.bench.spark.stream_runs import Batch, Streams, WriteFile
from mta.lab.harness import Setting, run_benchmark

#: Rows of a micro-batch of the hot key, and of the window when the stream ends.
BATCH, WINDOW = 100_000, 10_000_000

#: The window's sizes between which seconds a micro-batch should not grow, and by how much they may.
FIRST, FLAT = 1 << 16, 1.25
MOST_STATE = 64 << 10

#: Seconds a key, and how much faster than nothing that is.
A_KEY, FASTER = 60e-6, 25.0

#: The many keys, and the fewer that the function which does nothing is called for.
KEYS, IDLE_KEYS = 50_000, 10_000
#: How many keys there are, and a part of them that comes in a micro-batch.
KNOWN, SOME = (1_000, 10_000, 100_000, 1_000_000), 100
#: Keys of a file that makes keys known, rows of each of their windows, and files that are measured.
AT_ONCE, WINDOW_OF_KEY, MEASURED = 100_000, 10, 5
#: Files of many keys before those that are measured, while Java is still compiling.
WARMING = 6
#: What they cost, how much more than where those that come are all, and bytes of memory of the most keys.
COSTS = {"seconds": "s", "bytes of state": "bytes", "bytes of store traffic": "bytes"}
AT_MOST, MEMORY = 3.0, 100 << 20


def run(
    *,
    only: Sequence[str] = (),
    quick: bool = False,
    redis_url: str | None = None,
    json_file: Path | None = None,
    out: Console | None = None,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets."""
    with TemporaryDirectory(prefix="mta-bench-") as directory:
        # Spark forgets the progress of all micro-batches but the last 100
        settings = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
        spark = jobs.local_session(2, "1g", Path(directory), settings)
        bench = _Bench(spark, Path(directory))
        measures = {"depth": bench.depth, "width": bench.width, "known": bench.known, "hot": bench.hot}
        chosen = [measure for name, measure in measures.items() if not only or name in only]
        try:
            return run_benchmark(
                "stream", chosen, quick=quick, redis_url=redis_url, json_file=json_file, out=out
            )
        finally:
            spark.stop()


class _Bench:
    def __init__(self, spark: Any, directory: Path) -> None:
        self._spark, self._directory = spark, directory

    def _streams(self, setting: Setting, partitions: int) -> Streams:
        self._spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        return Streams(self._spark, self._directory, setting.say)

    def depth(self, setting: Setting) -> Section:
        """One key, whose window grows to its whole size and then slides."""
        rows, window = (2_000, 1 << 13) if setting.quick else (BATCH, WINDOW)
        section = Section("depth", f"one key, {rows:,} rows a micro-batch, a window of {window:,} rows")
        files = window // rows + (2 if setting.quick else 12)
        writers: list[WriteFile] = [partial(write_hot, rows=rows)] * files
        span = f"{window} milliseconds"
        played = self._streams(setting, 1).play("depth", setting.redis_url, writers, window=span)
        batches = played.batches
        # the first micro-batch starts the workers, and no row comes out of it
        lengths = [min(number * rows, window) for number in range(len(batches))]
        sizes = [size for size in (*(1 << power for power in range(16, 24)), WINDOW) if size <= window]
        medians = {size: _around(size, lengths, batches) for size in sizes}
        reference = medians.get(FIRST)
        for size, seconds in medians.items():
            section.add(
                "seconds a micro-batch",
                f"window of {size:,}" if size == WINDOW else f"window of 2^{size.bit_length() - 1}",
                seconds,
                "s",
                reference=None if size == FIRST or reference is None else "of 2^16",
                ratio=None if size == FIRST or reference is None else seconds / reference,
                target=FLAT if size == window and size > FIRST and not setting.quick else None,
            )
        section.add("state", "largest", played.largest, "bytes", target=MOST_STATE)
        section.raw["seconds"] = [batch.seconds for batch in batches]
        section.raw["counts"] = [batch.counts for batch in batches]
        return section

    def width(self, setting: Setting) -> Section:
        """Many keys, all of which come in each micro-batch."""
        keys, idle = (200, 50) if setting.quick else (KEYS, IDLE_KEYS)
        section = Section("width", f"{keys:,} keys, {ROWS_A_KEY} rows of each in a micro-batch")
        streams = self._streams(setting, 2)
        nothing = streams.play_nothing("idle", [partial(write_keys, keys=np.arange(idle))] * 3)
        idly = statistics.median(nothing[1:]) / idle
        section.add("a key", f"a function that does nothing, {idle:,} keys", idly, "s")
        files = (1 if setting.quick else WARMING) + 1 + _measured(setting)
        writers: list[WriteFile] = [partial(write_keys, keys=np.arange(keys))] * files
        for name, url in (
            ("redis", setting.redis_url),
            ("rocksdb", f"rocksdb://{self._directory / 'windows'}"),
        ):
            played = streams.play(f"width-{name}", url, writers, rows=WINDOW_OF_KEY)
            seconds = played.seconds(_measured(setting)) / keys
            section.add(
                "a key",
                f"rolling, {name}",
                seconds,
                "s",
                target=None if setting.quick else A_KEY,
            )
            section.add(
                "times faster than nothing",
                name,
                idly / seconds,
                "",
                sense=">=",
                target=None if setting.quick else FASTER,
            )
            section.add("state", f"largest, {name}", played.largest, "bytes", target=MOST_STATE)
            section.raw[name] = [batch.seconds for batch in played.batches]
            section.raw[f"{name} counts"] = [batch.counts for batch in played.batches]
        section.raw["idle"] = nothing
        return section

    def known(self, setting: Setting) -> Section:
        """More and more keys, all or a few of which come in a micro-batch."""
        section = Section("known", f"known keys, {ROWS_A_KEY} rows of each that comes in a micro-batch")
        counts = (100, 1_000) if setting.quick else KNOWN
        some = 10 if setting.quick else SOME
        streams = self._streams(setting, 2)
        found: dict[tuple[int, int], dict[str, float]] = {}
        for keys in counts:
            # few of them first, since memory that a worker once had it may keep
            for come in dict.fromkeys((max(keys // some, counts[0]), keys)):
                found[come, keys] = self._of_known(setting, streams, section, keys, come)
        for subject, unit in COSTS.items():
            for (come, keys), costs in found.items():
                alone = found.get((come, come), costs)[subject]
                compared = come < keys
                section.add(
                    subject,
                    f"{come:,} of {keys:,}",
                    costs[subject],
                    unit,
                    reference="where these are all" if compared else None,
                    ratio=costs[subject] / alone if compared and alone else None,
                    target=AT_MOST if compared and keys == counts[-1] and not setting.quick else None,
                    note=f"{costs[subject] / come * 1e6:.0f} µs a key" if unit == "s" else "",
                )
        for (come, keys), costs in found.items():
            section.add("memory of a worker", f"{come:,} of {keys:,}", costs["memory"], "bytes")
        target = None if setting.quick else MEMORY
        least, most = counts[1], counts[-1]
        for (come, keys), costs in found.items():
            if keys == most:
                section.add(
                    "memory of a worker",
                    f"{come:,} of {keys:,}, more than {least:,} of {least:,}",
                    costs["memory"] - found[least, least]["memory"],
                    "bytes",
                    target=target,
                )
        return section

    def _of_known(
        self, setting: Setting, streams: Streams, section: Section, keys: int, come: int
    ) -> dict[str, float]:
        rng = np.random.default_rng(keys)
        measured = min(_measured(setting), MEASURED if come <= AT_ONCE else 2)
        everybody = np.array_split(rng.permutation(keys), max(1, keys // AT_ONCE))
        writers: list[WriteFile] = [partial(write_keys, keys=part) for part in everybody]
        writers += [
            partial(write_keys, keys=rng.choice(keys, come, replace=False)) for _ in range(measured + 1)
        ]
        name = f"{come:,} of {keys:,}"
        played = streams.play(name.replace(" ", "-"), setting.redis_url, writers, rows=WINDOW_OF_KEY)
        section.raw[name] = [batch.seconds for batch in played.batches]
        section.raw[f"{name} counts"] = [batch.counts for batch in played.batches]
        return {
            "seconds": played.seconds(measured),
            "bytes of state": played.state,
            "bytes of store traffic": played.traffic(measured),
            "memory": played.memory,
        }

    def hot(self, setting: Setting) -> Section:
        """One hot key among many, and each alone."""
        keys, rows = (200, 2_000) if setting.quick else (KEYS, BATCH)
        section = Section("hot", f"a hot key of {rows:,} rows a micro-batch, and {keys:,} others")
        streams = self._streams(setting, 2)
        others, none = np.arange(1, keys + 1), np.zeros(0, dtype=np.int64)
        cases = {"the hot key": (none, rows), "the others": (others, 0), "both": (others, rows)}
        seconds = {}
        for name, (many, hot) in cases.items():
            writers: list[WriteFile] = [partial(write_keys, keys=many, hot=hot)] * (2 + _measured(setting))
            span = f"{3 * MILLISECONDS} milliseconds"
            played = streams.play(name.replace(" ", "-"), setting.redis_url, writers, window=span)
            seconds[name] = played.seconds(_measured(setting))
            section.raw[name] = [batch.seconds for batch in played.batches]
        alone = seconds["the hot key"] + seconds["the others"]
        for name, each in seconds.items():
            both = name == "both"
            section.add(
                "seconds a micro-batch",
                name,
                each,
                "s",
                reference="of both alone" if both else None,
                ratio=each / alone if both else None,
                target=1.3 if both and not setting.quick else None,
            )
        return section


def _measured(setting: Setting) -> int:
    """Files that are measured."""
    return 1 if setting.quick else MEASURED


def _around(size: int, lengths: list[int], batches: list[Batch]) -> float:
    """Seconds of the few micro-batches whose window had about so many rows."""
    nearest = sorted(range(1, len(batches) - 1), key=lambda number: abs(lengths[number] - size))[:5]
    return statistics.median(batches[number].seconds for number in nearest)
