"""Files of a stream, of which a micro-batch takes one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mta.monoids.base import Array

#: Rows of each key in a file.
ROWS_A_KEY = 3

#: Milliseconds of a file; the rows of the next one come after all of it.
MILLISECONDS = 10_000_000

#: Not at the epoch, where Spark's watermark begins.
_FIRST = 86_400_000


def write_hot(path: Path, number: int, rows: int) -> None:
    """A row a millisecond, of one key, in no order."""
    ids = np.arange(number * rows, (number + 1) * rows)
    _write(path, number, np.zeros(rows, dtype=np.int64), ids)


def write_keys(path: Path, number: int, keys: Array, *, hot: int = 0) -> None:
    """Three rows of each of some keys, and so many of key 0."""
    ids = np.concatenate([np.repeat(keys, ROWS_A_KEY), np.zeros(hot, dtype=np.int64)])
    times = number * MILLISECONDS + np.arange(len(ids)) * MILLISECONDS // max(1, len(ids))
    np.random.default_rng(number).shuffle(ids)
    _write(path, number, ids, times)


def _write(path: Path, number: int, keys: Array, milliseconds: Array) -> None:
    rng = np.random.default_rng(number)
    order = rng.permutation(len(keys))
    times = pa.array((milliseconds[order] + _FIRST) * 1000, pa.timestamp("us", "UTC"))
    table = pa.table({"k": keys[order], "ts": times, "x": rng.random(len(keys))})
    pq.write_table(table, path)
    os.utime(path, (1_000_000_000 + number,) * 2)
