"""`mta demo` from outside, small, and the arithmetic that it checks its results by."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import compiled_modules
import numpy as np
import psutil
import pytest

pytest.importorskip("pyspark")

from mta.lab.demo.data import COLUMNS, PRIME, SENSORS, DemoStream, in_numpy
from mta.lab.demo.expected import expected, mistakes
from mta.lab.demo.plot import terminal_plot


def start(directory: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Begins the demo away from a terminal, with its temporary files and its picture in a directory."""
    temporary = directory / "tmp"
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "mta", "demo", "--picture", str(directory / "out.png"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)} | environment,
        start_new_session=True,
    )


def only_line(demo: subprocess.Popen[str]) -> str:
    """What it says when it does not run."""
    out, errors = demo.communicate(timeout=600)
    assert demo.returncode == 2, out + errors
    (line,) = errors.splitlines()
    assert line.startswith("mta: ")
    return line


def assert_nothing_left(directory: Path) -> None:
    """Processes of its Spark have its temporary directory in their command."""
    assert list((directory / "tmp").iterdir()) == []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(directory).encode() not in process.read_bytes()
        except OSError:
            continue  # it has just ended
    assert not (directory / "out.log").exists()


@pytest.mark.long
def test_demo(tmp_path: Path) -> None:
    demo = start(tmp_path, "--rows", "200_000")
    out, errors = demo.communicate(timeout=1800)
    assert demo.returncode == 0, out + errors
    assert errors == ""
    assert "windows: 200,000 of 200,000 rows" in out
    assert "resident at most" in out
    assert "pages written" in out
    assert "longest open window" in out
    assert "all equal, to the last bit" in out
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_ctrl_c(tmp_path: Path) -> None:
    demo = start(tmp_path, "--rows", "30_000_000")
    assert demo.stdout is not None
    while "shuffled" not in demo.stdout.readline():
        assert demo.poll() is None
    time.sleep(1.0)
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=1800)
    assert errors == "mta: interrupted\n"
    assert demo.returncode == 130
    assert_nothing_left(tmp_path)


@pytest.mark.parametrize("seconds", [2, 5, 8])
def test_ctrl_c_on_a_terminal_while_spark_starts(seconds: int, tmp_path: Path) -> None:
    """It comes to the whole group, and often in the midst of a call to Java."""
    demo = start(tmp_path, "--rows", "30_000_000")
    deadline = time.monotonic() + 60
    while not any(each.name().startswith("java") for each in psutil.Process(demo.pid).children()):
        assert demo.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(seconds)
    os.killpg(demo.pid, signal.SIGINT)
    out, errors = demo.communicate(timeout=300)
    assert (errors, demo.returncode) == ("mta: interrupted\n", 130), out
    assert_nothing_left(tmp_path)


@pytest.mark.long
def test_spark_imports_no_compiled_module_while_the_demo_runs(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from compiled_modules import compiled_modules
        from pyspark import java_gateway
        from mta.lab.demo import run as demo

        launch, measured, before = java_gateway.launch_gateway, demo._measured, set()

        def launched(*arguments):
            found = launch(*arguments)
            before.update(compiled_modules())
            return found

        def watched(*arguments):
            found = measured(*arguments)
            print("then", sorted(compiled_modules() - before), len(before) > 0)
            return found

        java_gateway.launch_gateway, demo._measured = launched, watched
        demo.run(10_000, None, 512, Path(sys.argv[1]))
        """
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out.png")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(compiled_modules.__file__).parent)},
    )
    assert "then [] True" in done.stdout.splitlines()


def test_without_java(tmp_path: Path) -> None:
    line = only_line(start(tmp_path, PATH="/nowhere", JAVA_HOME=""))
    assert "needs Java 17 or newer, and there is none" in line
    assert "openjdk" in line


def test_a_picture_that_matplotlib_cannot_write(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert "x.xyz: give it a name that ends in .png" in only_line(start(tmp_path, "--picture", "x.xyz"))
    assert_nothing_left(tmp_path)


def test_a_java_that_is_too_old(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("""#!/bin/sh\necho 'openjdk version "1.8.0_402"' >&2\n""")
    java.chmod(0o755)
    assert f"{java} is Java 8" in only_line(start(tmp_path, JAVA_HOME=str(tmp_path)))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("unknown://x", "no store for the scheme 'unknown'"),
        ("redis://127.0.0.1:1/0?max_tries=1", "did not answer after 1 try"),
        ("rocksdb:relative", "an absolute directory"),
        ("rocksdb:///x?no_such_option=1", "no_such_option"),
        ("redis://user:secret@127.0.0.1:1/0", "a password"),
    ],
)
def test_a_store_that_cannot_be_used(url: str, says: str, tmp_path: Path) -> None:
    assert says in only_line(start(tmp_path, "--store", url))


def test_expected_is_what_a_plain_loop_finds() -> None:
    stream = DemoStream(3000, 1100)
    found = expected(stream)
    batch = in_numpy(0, stream.rows, list(COLUMNS))
    marks = {"readings": 0, "energy": 0}
    longest = np.zeros(SENSORS, dtype=np.int64)
    for row in range(stream.rows):
        first = max(row - stream.span, 0)
        here = first + np.flatnonzero(batch.sensors[first : row + 1] == batch.sensors[row])
        energy = int(batch.columns["power"][here].sum())
        marks["readings"] ^= len(here) * (row + 1)
        marks["energy"] ^= energy % PRIME * (row + 1)
        longest[batch.sensors[row]] = max(longest[batch.sensors[row]], len(here))
        if row in found.results:
            assert found.results[row] == {
                "sensor": batch.sensors[row],
                "readings": len(here),
                "shaken_at": batch.columns["temperature"][here[batch.columns["vibration"][here].argmax()]],
                "lowest_pressure": batch.columns["pressure"][here].min(),
                "energy": energy,
                "mean_load": batch.columns["load"][here].sum() / len(here),
                "highest_voltage": batch.columns["voltage"][here].max(),
            }
    assert found.marks == marks
    assert found.longest_window.tolist() == longest.tolist()
    assert found.rows.tolist() == np.bincount(batch.sensors, minlength=SENSORS).tolist()


def test_mistakes_are_found() -> None:
    wanted = expected(DemoStream(3000, 1100))
    marks = {"rows": 3000, **wanted.marks}
    assert mistakes(wanted, marks, wanted.results) == []
    row = next(iter(wanted.results))
    wrong = {**wanted.results[row], "energy": -1}
    assert len(mistakes(wanted, marks, {**wanted.results, row: wrong})) == 1
    assert mistakes(wanted, {**marks, "energy": 1}, wanted.results) == ["energy is wrong at some row"]
    assert len(mistakes(wanted, {**marks, "rows": 2999}, {})) == 1 + len(wanted.results)


def test_terminal_plot() -> None:
    plot = terminal_plot([0, 1, 2, 3], [10, 100, 100, 90], [0, 200, 400, 600], 500, 60).plain
    assert "█" in plot
    assert "░" in plot
    assert "╌" in plot
    assert max(len(line) for line in plot.splitlines()[:-1]) <= 60


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("java")), reason="needs make and Java")
def test_make_demo_where_no_package_can_be_had(tmp_path: Path) -> None:
    """It says so, and what to do, in a line each; a .venv that was left half made is made again."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(Path(__file__).parents[1] / name, tmp_path)
    # of a `make` that runs the tests, this one says that it is inside of another
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE"))}
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }

    def make() -> list[str]:
        done = subprocess.run(
            ["make", f"PYTHON={sys.executable}", "demo"],
            cwd=tmp_path, env=environment | nowhere, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        said, *others = [line for line in done.stderr.splitlines() if not line.startswith("make: ")]
        assert said.startswith("pip could not install what the demo needs (Spark, ")
        assert "setuptools" in said
        assert not (tmp_path / ".venv" / ".demo").exists()
        return others

    (line,) = make()
    assert "PIP_INDEX_URL" in line
    shutil.rmtree(tmp_path / ".venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    (line,) = make()
    assert "PIP_FIND_LINKS" in line
