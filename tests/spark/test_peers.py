"""Rows with the same time, more of them than a chunk holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rolled import column, roll

from mta import monoids
from spark_integration.partition import peers


@pytest.fixture
def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row that waits does so in a file."""
    monkeypatch.setattr(peers, "IN_MEMORY", 0)


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("spooled", [False, True])
def test_runs_of_peers(chunk: int, spooled: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if spooled:
        request.getfixturevalue("in_files")
    lengths = np.random.default_rng(1).integers(1, 20, 40)
    times = np.repeat(np.arange(40), lengths)
    table = pa.table({"k": times // 10, "o": times, "x": np.arange(len(times))})
    out = roll(
        table,
        window=1,
        aggregates={"n": monoids.Count(), "last": monoids.Last("x")},
        chunk=chunk,
        batch=4,
        page_size=4,
        store=f"rocksdb://{tmp_path}",
    )
    ends = np.cumsum(lengths)
    before = np.where(np.arange(40) % 10, np.roll(lengths, 1), 0)
    assert column(out, "o") == times.tolist()
    assert column(out, "n") == np.repeat(lengths + before, lengths).tolist()
    assert column(out, "last") == np.repeat(ends - 1, lengths).tolist()
    assert not list(tmp_path.iterdir())


def test_all_rows_are_peers(tmp_path: Path) -> None:
    table = pa.table({"k": [1] * 900_000, "o": [5] * 900_000, "text": ["x" * 20] * 900_000})
    out = roll(
        table, window=1, aggregates={"n": monoids.Count()}, batch=10_000, store=f"rocksdb://{tmp_path}"
    )
    assert set(out.column("n").to_numpy()) == {900_000}
    assert not list(tmp_path.iterdir())
