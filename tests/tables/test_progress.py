"""`progress=True` shows bars on a terminal, and nothing elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

PROGRAM = """
import time
import pyarrow as pa
import mta
from mta import monoids

def batches():
    for start in range(3):
        time.sleep(0.3)
        yield pa.record_batch({"a": [start]})

reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
out = mta.rolling(reader, aggregates={"sum": monoids.Sum("a")}, progress=True)
print(out.read_all()["sum"].to_pylist())
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_shown_on_a_terminal(terminal: bool) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=theirs if terminal else subprocess.PIPE,
        text=True,
        check=True,
    )
    os.close(theirs)
    shown = done.stderr or ""
    while terminal:
        try:
            shown += os.read(ours, 1 << 16).decode()
        except OSError:  # all is read
            break
    os.close(ours)
    assert done.stdout == "[0, 1, 3]\n"
    assert ("rows read" in shown) is terminal
    assert ("windows computed" in shown) is terminal
