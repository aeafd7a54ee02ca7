"""A short soak on each store that outlives its process, as the command does it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stores import open_store

KILLS = 12


def soak(url: str, tmp_path: Path, *, kills: int = KILLS, code: int = 0) -> dict[str, Any]:
    file = tmp_path / "soak.json"
    command = [
        sys.executable,
        "-m",
        "mta",
        "soak",
        "--kills",
        str(kills),
        "--seed",
        "7",
        "--json",
        str(file),
        url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    record: dict[str, Any] = json.loads(file.read_text())
    return record


@pytest.fixture(
    params=[
        "rocksdb",
        pytest.param("redis", marks=[pytest.mark.redis, pytest.mark.long]),
        pytest.param("couchbase", marks=[pytest.mark.couchbase, pytest.mark.long]),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "rocksdb":
        return f"rocksdb://{tmp_path}/db"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


def test_soak(url: str, tmp_path: Path) -> None:
    record = soak(url, tmp_path)
    assert record["outcome"] == "nothing was lost, wrong or left over"
    assert record["all_kills"] >= KILLS
    assert record["results_compared"] > 0  # how many depends on the machine
    assert record["checkpoints"] > 0
    assert record["restores"] > 0
    assert record["pages"] > 0
    assert record["aggregates_verified"] > 0
    assert (record["leaked"], record["missing"]) == (0, 0)
    with open_store(url) as store:
        assert not list(store.list_roots("soak-"))


def test_soak_finds_a_store_that_loses_pages(tmp_path: Path) -> None:
    """The soak itself is put to the test: with a RocksDB that never syncs what it was given."""
    program = (
        "import sys, stores.rocksdb.database as rocksdb\n"
        "rocksdb.Database._flush_unlogged = lambda self: None\n"
        "from mta.cli.main import main\n"
        f"sys.exit(main(['soak', '--kills', '60', '--seed', '7', 'rocksdb://{tmp_path}/db']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PagesLost" in done.stdout


def test_soak_goes_on_until_something_was_restored(tmp_path: Path) -> None:
    record = soak(f"rocksdb://{tmp_path}/db", tmp_path, kills=1)
    assert record["all_kills"] > 1
    assert record["checkpoints"] > 0
    assert record["restores"] > 0


def test_soak_in_memory_is_refused() -> None:
    command = [sys.executable, "-m", "mta", "soak", "memory:"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 2
    assert "dies with its process" in done.stderr
