"""`mta bench frames`: a Parquet file of many keys by `mta.rolling`, and by polars, which has it in memory.

Each of them runs in a process of its own: `python -m mta.lab.bench.data_frames FILE CONTENDER` prints what it
measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import mta
from mta import monoids
from mta.lab.bench.report import Section
from mta.lab.harness import Setting, run_benchmark
from mta.lab.machine import load_average, versions
from mta.process_memory import memory_figure

#: About 2 GB.
ROWS, KEYS = 115_000_000, 100_000
QUICK_ROWS, QUICK_KEYS = 20_000, 100
#: The rows are of so many days.
DAYS = 120
LENGTHS = {"1h": "1 hour", "1d": "1 day", "7d": "7 days", "30d": "30 days"}
#: The first so many of a hundred rows are the file, and the others are appended.
APPENDED = 100
STEP = 1_000_000

#: What `rolling` may take in MiB, and what appending may take of the time of the first rows.
MEMORY, OF_FIRST = 300, 0.03


def run(
    *,
    rows: int | None = None,
    quick: bool = False,
    json_file: Path | None = None,
    out: Console | None = None,
) -> dict[str, Any]:
    """Measures, prints tables to `out`, and returns what `json_file` gets."""
    count = rows or (QUICK_ROWS if quick else ROWS)

    def measure(setting: Setting) -> Section:
        return _measured(setting, count, QUICK_KEYS if quick else KEYS)

    return run_benchmark(
        "frames", [measure], quick=quick, redis_url=None, json_file=json_file, out=out, with_stores=False
    )


def _measured(setting: Setting, rows: int, keys: int) -> Section:
    with TemporaryDirectory(prefix="mta-bench-") as directory:
        file = Path(directory) / "rows.parquet"
        setting.say(f"writing {rows:,} rows")
        _write(file, rows, keys)
        size = file.stat().st_size
        sizes = f"{rows:,} rows of {keys:,} keys, {size / 1e9:.1f} GB"
        title = f"{sizes}: Count, Sum and Max over four lengths of time"
        section = Section("frames", title)
        found = {}
        for name in CONTENDERS:
            setting.say(name)
            found[name] = _in_own_process(file, name)
    ours, polars = found["mta.rolling"], found["polars"]
    section.raw = {"rows": rows, "keys": keys, "bytes": size, **found, "load_average": load_average()}
    section.raw["versions"] = versions(("pyarrow", "polars"))
    if "error" in polars:
        section.skipped.append(f"polars: {polars['error']}")
    for name, each in found.items():
        if "error" in each:
            continue
        ratio = {} if name == "polars" or "error" in polars else _ratio(each["seconds"] / polars["seconds"])
        section.add("all rows", name, each["seconds"], "s", **ratio)
    for name, each in found.items():
        if "error" not in each:
            target = MEMORY if name == "mta.rolling" and not setting.quick else None
            section.add("peak of memory", name, each["peak"] / (1 << 20), "MiB", target=target)
    section.add(
        f"one {APPENDED}th more rows",
        "Roller.append",
        ours["appended"],
        "s",
        reference="the first rows",
        ratio=ours["appended"] / ours["seconds"],
        target=None if setting.quick else OF_FIRST,
    )
    return section


def _ratio(ratio: float) -> dict[str, Any]:
    return {"ratio": ratio, "reference": "polars"}


def _write(file: Path, rows: int, keys: int) -> None:
    """Rows in the order of time, of keys by chance; and behind them others, in a file beside it."""
    schema = pa.schema([("key", pa.int32()), ("ts", pa.timestamp("us", "UTC")), ("amount", pa.float64())])
    rng, more, span = np.random.default_rng(7), max(1, rows // APPENDED), DAYS * 86_400_000_000
    for path, first, last in ((file, 0, rows), (_more(file), rows, rows + more)):
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(first, last, STEP):
                stop = min(start + STEP, last)
                times = np.sort(rng.integers(start * span // rows, stop * span // rows, stop - start))
                columns = [rng.integers(0, keys, stop - start), times, rng.exponential(50, stop - start)]
                pairs = zip(columns, schema, strict=True)
                arrays = [pa.array(column).cast(field.type) for column, field in pairs]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


def _more(file: Path) -> Path:
    return file.with_suffix(".more")


def _in_own_process(file: Path, contender: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "mta.lab.bench.data_frames", str(file), contender]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"the process ended with {done.returncode}"]
        return {"error": said[0]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- what runs in a process of its own ----------------------------------------------------------------------


def _rolling(file: Path) -> dict[str, float]:
    features = {}
    for name, length in LENGTHS.items():
        features[f"n_{name}"] = monoids.Count().over(length)
        features[f"sum_{name}"] = monoids.Sum("amount").over(length)
        features[f"max_{name}"] = monoids.Max("amount").over(length)
    with mta.Roller(on="ts", by="key", aggregates=features) as roller:
        return {"seconds": _read(roller, file), "appended": _read(roller, _more(file))}


def _read(roller: mta.Roller, file: Path) -> float:
    began = time.perf_counter()
    for batch in roller.append(file):
        assert batch.num_columns == 3 + 3 * len(LENGTHS)
    return time.perf_counter() - began


def _polars(file: Path) -> dict[str, float]:
    import polars as pl

    began = time.perf_counter()
    frame = pl.read_parquet(file).with_columns(one=pl.lit(1, pl.UInt32))
    for name in LENGTHS:
        amount = pl.col("amount")
        frame = frame.with_columns(
            pl.col("one").rolling_sum_by("ts", name).over("key").alias(f"n_{name}"),
            amount.rolling_sum_by("ts", name).over("key").alias(f"sum_{name}"),
            amount.rolling_max_by("ts", name).over("key").alias(f"max_{name}"),
        )
    assert frame.width == 4 + 3 * len(LENGTHS)
    return {"seconds": time.perf_counter() - began}


CONTENDERS: dict[str, Callable[[Path], dict[str, float]]] = {"mta.rolling": _rolling, "polars": _polars}


def main(file: str, contender: str) -> None:
    found = CONTENDERS[contender](Path(file))
    print(json.dumps({**found, "peak": memory_figure("VmHWM") or 0}))


if __name__ == "__main__":
    main(*sys.argv[1:])
