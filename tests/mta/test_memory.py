"""The process stays small, however big its window is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "resident.py"

#: what a window of 128 MB may take of the process beyond one of 16 MB, in bytes: both come from the store
ALLOWED = 32 << 20
#: runs of which the least counts: RocksDB's three write buffers are full or empty by chance, of 8 MB each
RUNS = 2
SMALL, LARGE = 1 << 20, 1 << 23

#: elements that both windows slide over, so that the store itself has done the same work
STREAM = 3 << 22


def resident(url: str, elements: int) -> int:
    """Bytes in the memory of a process that slides a window of so many elements over a store."""
    command = [sys.executable, str(SCRIPT), url, str(elements), str(STREAM)]
    # an arena for each thread would keep write buffers of its own
    environment = os.environ | {"MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, env=environment)
    return int(done.stdout)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rocksdb", pytest.param("redis", marks=pytest.mark.redis)])
def test_memory_does_not_grow_with_the_window(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    small, large = (
        min(
            resident(
                f"rocksdb://{tmp_path / f'{size}-{run}'}"
                if kind == "rocksdb"
                else request.getfixturevalue("redis_url"),
                size,
            )
            for run in range(RUNS)
        )
        for size in (SMALL, LARGE)
    )
    assert large - small <= ALLOWED, (small, large)
