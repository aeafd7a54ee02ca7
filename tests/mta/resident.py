"""How much memory a process takes that slides a window over a store.

`python resident.py URL ELEMENTS STREAM` slides a window of so many elements over a stream of so many.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np

from mta import AmortizedMTA, monoids
from mta.policies import TimeWindow
from stores import open_store

BATCH = 1 << 14


def resident() -> int:
    """VmRSS of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("this system does not tell how much memory a process takes")


def slid(url: str, elements: int, stream: int) -> int:
    chance = np.random.default_rng(1)
    with (
        open_store(url) as store,
        AmortizedMTA(monoids.Max(), TimeWindow(float(elements)), store=store) as window,
    ):
        for start in range(0, stream, BATCH):
            times = np.arange(start, start + BATCH, dtype=np.float64)
            results = window.slide(chance.random(BATCH), times)
        assert len(results) == BATCH
        assert len(window) == elements
        gc.collect()
        return resident()


if __name__ == "__main__":
    slid("memory:", 1 << 16, 1 << 17)  # imports, and arenas of the allocator
    print(slid(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
