"""What `rolling` and `append` aggregate, counted; and what a file takes of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mta
from mta import monoids
from mta.core import blocks

lifted = combined = 0


class Counted(monoids.ColumnarMonoid):
    """A sum that counts what it does."""

    identity = 0

    def combine(self, older: Any, younger: Any) -> Any:
        return older + younger

    def lift_columns(self, inputs: Any) -> Any:
        global lifted
        lifted += len(inputs[0])
        return inputs

    def combine_columns(self, older: Any, younger: Any) -> Any:
        global combined
        combined += max(len(older[0]), len(younger[0]))
        return (older[0] + younger[0],)


LENGTHS = (10, 1_000, 30_000, 10**9)


def rows(start: int, stop: int, keys: int) -> pa.Table:
    numbers = np.arange(start, stop)
    return pa.table({"ts": numbers, "key": numbers * 7919 % keys, "amount": numbers % 101})


def test_appended_rows_cost_what_they_are_and_not_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of older rows only the blocks are lifted where windows begin, of each key and length."""
    global lifted, combined
    monkeypatch.setattr(blocks, "FEW_ENTRIES", 0)  # the fewest combines, in more calls
    monoid = Counted("amount")
    features = {f"sum_{length}": monoid.over(length) for length in LENGTHS}
    keys, first = 50, 200_000
    with mta.Roller(on="ts", by="key", aggregates=features) as roller:
        roller.append(rows(0, first, keys))
        lifted = combined = 0
        roller.append(rows(first, first + 2_000, keys))
        # the new rows twice, for their results and for the blocks of what is kept
        assert lifted <= 2 * 2_000 + keys * len(LENGTHS) * 3 * 32
        assert combined <= 2 * lifted + 2 * first / 32 + 8 * 2_000 * len(LENGTHS)


def test_combines_grow_with_frames_and_not_with_their_lengths() -> None:
    global combined
    found = []
    for lengths in ((40_000,), (160_000,), (40_000, 80_000, 160_000)):
        monoid = Counted("amount")
        combined = 0
        features = {f"sum_{length}": monoid.over(length) for length in lengths}
        mta.rolling(rows(0, 300_000, 20), on="ts", by="key", aggregates=features)
        found.append(combined / 300_000)
    one, longer, three = found
    assert longer <= 1.1 * one
    # the scans are those of one frame
    assert three <= 2.4 * one


@pytest.mark.long
def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    program = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import mta
from mta import monoids
from mta.process_memory import memory_figure
path, count, rng = sys.argv[1], 12_000_000, np.random.default_rng(5)
schema = pa.schema([("key", pa.int64()), ("ts", pa.timestamp("us")), ("amount", pa.float64())])
with pq.ParquetWriter(path, schema) as writer:
    for start in range(0, count, 1_000_000):
        times = pa.array(np.arange(start, start + 1_000_000) * 1_000_000).cast(pa.timestamp("us"))
        columns = [rng.integers(0, 100_000, 1_000_000), times, rng.random(1_000_000)]
        writer.write_table(pa.table(columns, schema=schema))
del times, columns
features = {}
for length in ("1 hour", "1 day", "7 days", "30 days"):
    features["n " + length] = monoids.Count().over(length)
    features["sum " + length] = monoids.Sum("amount").over(length)
rows = sum(batch.num_rows for batch in mta.rolling(path, on="ts", by="key", aggregates=features))
assert rows == count
print(memory_figure("VmHWM") >> 20)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "rows.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # some 180 of them are the libraries, and the file that the process wrote itself
    assert int(done.stdout) < 330
