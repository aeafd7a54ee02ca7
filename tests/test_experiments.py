"""Experiments run from beginning to end at tiny sizes, go on where they were, and say how a run ended."""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mta.lab import own_process as process
from mta.lab.experiments import registry
from mta.lab.experiments.experiment import Compared, Exhibit, Experiment, Record, Scale, Tell
from mta.lab.experiments.ours.drift import MOST, errors, exact_rolling
from mta.lab.experiments.page import write_page
from mta.lab.harness import run_experiments
from mta.lab.own_process import FAILED, FINISHED, NO_MEMORY, TOO_SLOW, in_own_process
from mta.lab.turns import break_even

pyplot = pytest.importorskip("matplotlib.pyplot")

#: Experiments that need nothing but this package, and are quick.
QUICK = [name for name, entry in registry.ENTRIES.items() if not entry.packages]


def mta(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mta", *arguments], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.redis
@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
def test_quick(name: str, tmp_path: Path) -> None:
    out = mta("experiment", name, "--quick", "--out", str(tmp_path))
    record = json.loads((tmp_path / f"{name}-quick.json").read_text())
    assert (record["experiment"], record["quick"]) == (name, True)
    assert record["machine"]["cores"] >= 1
    assert {each["outcome"] for each in record["runs"]} <= {FINISHED, NO_MEMORY}
    assert any(each["outcome"] == FINISHED for each in record["runs"])
    assert all(each["peak_bytes"] > 1 << 20 for each in record["runs"])
    rows = list(csv.DictReader((tmp_path / f"{name}-quick.csv").read_text().splitlines()))
    made = registry.experiment(name)
    assert len(rows) == sum(len(made.rows(each)) for each in record["runs"])
    svgs = sorted(tmp_path.glob("*.svg"))
    assert svgs
    for svg in svgs:
        assert str(svg) in out.replace("\n", "")
        assert svg.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text()
    images = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert sorted(map(base64.b64decode, images)) == sorted(svg.read_bytes() for svg in svgs)
    # nothing is fetched from elsewhere
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    for exhibit in made.exhibits(record["runs"]):
        assert exhibit.seen.endswith(".")
    # while some runs are missing, or have failed, there may be fewer figures, and no error
    runs = record["runs"]
    failed = [{**run, "outcome": FAILED, "reason": "x", "rows": []} for run in runs]
    for some in (*(runs[:count] for count in range(len(runs))), runs[1:], [failed[0], *runs[1:]], failed):
        for exhibit in made.exhibits(some):
            exhibit.draw(pyplot.figure())
            pyplot.close()


@pytest.mark.long
@pytest.mark.parametrize("contender", ["spark-tree", "spark"])
def test_the_frames_of_spark_among_the_rivals(contender: str) -> None:
    """Quick runs leave them out."""
    pytest.importorskip("pyspark")
    pytest.importorskip("psutil")
    record = in_own_process("rivals", {"contender": contender, "window": 5, "rows": 300}, 300, lambda _: None)
    assert record["outcome"] == FINISHED, record["reason"]
    (row,) = record["rows"]
    numbers = [7919 * i % 1_000_003 for i in range(300)]
    assert row["last"] == sum(max(numbers[max(0, i - 4) : i + 1]) for i in range(300))
    assert row["jvm_bytes"] > 1 << 20
    # one run warms Java up, and is none of those that are timed
    assert row["times"] == 3
    assert row["first_seconds"] > 0


@pytest.mark.parametrize(
    ("ratios", "factor", "expected"),
    [
        # what recalculation takes, in times of the other, at windows of 1, 2, 4 …
        ((2.0, 2.0, 2.0), 1.0, 1.0),
        ((0.5, 0.5, 0.5), 1.0, None),
        ((2.0, 0.5, 2.0), 1.0, 8**0.5),
        ((0.5, 2.0, 0.5), 1.0, None),
        ((0.5, 1.0, 2.0), 1.0, 2.0),
        ((5.0, 10.0, 20.0), 10.0, 2.0),
        ((5.0, 9.0, 9.9), 10.0, None),
    ],
)
def test_break_even(ratios: tuple[float, ...], factor: float, expected: float | None) -> None:
    times = {("base", 1 << k): 1000 * ratio for k, ratio in enumerate(ratios)}
    times |= {("other", 1 << k): 1000.0 for k in range(len(ratios))}
    found = break_even(times, "other", "base", factor)
    assert found is None if expected is None else found == pytest.approx(expected)
    assert break_even({}, "other", "base") is None


def test_drift_is_measured_against_exact_aggregates() -> None:
    values = np.array([1.0, 2.0, 4.0, 1e16, 1.0, 3.0])
    assert exact_rolling("Sum", values, 2) == [3.0, 6.0, 1e16 + 4, 1e16, 4.0]
    assert exact_rolling("SampleStdDev", values, 2)[-1] == pytest.approx(2**0.5)
    wrong = errors(np.array([3.0, 6.06, np.nan, np.inf, 4.0]), exact_rolling("Sum", values, 2))
    assert wrong.tolist() == pytest.approx([0.0, 0.01, MOST, MOST, 0.0])


class Toy(Experiment):
    """An experiment in this process, as far as the runner can tell."""

    name = "complexity"  # one that the registry knows

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.broken: set[int] = set()

    def cases(self, scale: Scale, options: Any) -> list[dict[str, Any]]:  # noqa: ARG002
        return [{"n": n} for n in ((1,) if scale.quick else (1, 2, 3))]

    def perform(self, case: dict[str, Any], seconds: float, tell: Tell) -> Record:
        tell({"at": 1})
        n = case["n"]
        self.ran.append(n)
        outcome = FAILED if n in self.broken else FINISHED
        rows = [] if outcome == FAILED else [{"y": n * n}]
        return {"case": case, "outcome": outcome, "reason": "", "seconds": seconds, "rows": rows}

    def exhibits(self, records: Any) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        compared = [Compared("two", 2.0, 4.0), Compared("none", None, None)]
        return [
            Exhibit(
                "squares",
                "Squares & <more>",
                lambda figure: figure.subplots().plot([row["y"] for row in rows]),
                f"There are {len(rows)}.",
                compared,
                cut="Cut.",
            )
        ]


def start(toy: Toy, out: Path, *, quick: bool = False) -> bool:
    return run_experiments([toy], Scale(quick), out, [argparse.Namespace()], Console(file=io.StringIO()))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy()
    monkeypatch.setattr("mta.lab.experiments.page.experiment", lambda _: made)
    return made


def test_what_was_run_is_not_run_again_but_what_failed_is(toy: Toy, tmp_path: Path) -> None:
    toy.broken = {2}
    assert not start(toy, tmp_path)
    assert toy.ran == [1, 2, 3]
    toy.broken = set()
    assert start(toy, tmp_path)
    assert toy.ran == [1, 2, 3, 2]
    assert start(toy, tmp_path)
    assert toy.ran == [1, 2, 3, 2]
    page = (tmp_path / "report.html").read_text()
    assert "Squares &amp; &lt;more&gt;" in page
    assert "2×" in page
    assert "There are 3." in page


def test_an_interrupted_experiment_goes_on_where_it_was(toy: Toy, tmp_path: Path) -> None:
    perform = toy.perform

    def interrupted(case: dict[str, Any], seconds: float, tell: Tell) -> Record:
        if case["n"] == 2:
            raise KeyboardInterrupt
        return perform(case, seconds, tell)

    toy.perform = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        start(toy, tmp_path)
    toy.perform = perform  # type: ignore[method-assign]
    start(toy, tmp_path)
    assert toy.ran == [1, 2, 3]


def test_quick_runs_start_anew(toy: Toy, tmp_path: Path) -> None:
    start(toy, tmp_path, quick=True)
    start(toy, tmp_path, quick=True)
    assert toy.ran == [1, 1]


@pytest.mark.parametrize(
    "text",
    [
        *("{}", "[]", "no JSON", '{"format": 1, "experiment": "another"}'),
        '{"format": 1, "experiment": "complexity"}',
        '{"format": 1, "experiment": "complexity", "machine": {}, "versions": {}, "runs": [1]}',
    ],
)
def test_a_file_that_is_none_of_its_own_is_left_alone(text: str, toy: Toy, tmp_path: Path) -> None:
    file = tmp_path / "complexity.json"
    file.write_text(text)
    with pytest.raises(FileExistsError, match="remove it"):
        start(toy, tmp_path)
    assert file.read_text() == text
    assert toy.ran == []


def test_cases_that_are_no_more_are_dropped(toy: Toy, tmp_path: Path) -> None:
    start(toy, tmp_path)
    toy.cases = lambda scale, options: [{"n": 3}, {"n": 4}]  # type: ignore[method-assign]  # noqa: ARG005
    start(toy, tmp_path)
    assert toy.ran == [1, 2, 3, 4]
    runs = json.loads((tmp_path / "complexity.json").read_text())["runs"]
    assert [run["case"]["n"] for run in runs] == [3, 4]


def test_runs_of_another_machine_are_not_mixed_in(toy: Toy, tmp_path: Path) -> None:
    start(toy, tmp_path)
    file = tmp_path / "complexity.json"
    content = json.loads(file.read_text())
    content["machine"]["processor"] = "an abacus"
    file.write_text(json.dumps(content))
    with pytest.raises(FileExistsError, match="an abacus"):
        start(toy, tmp_path)


def test_results_that_cannot_be_shown_do_not_spoil_the_page(tmp_path: Path) -> None:
    """Those of another version of an experiment, or of one whose packages are not there."""
    (tmp_path / "memory.json").write_text("no JSON")
    run = {"case": {}, "outcome": FINISHED, "rows": [{}]}
    content = {"format": 1, "experiment": "analytics", "machine": {}, "versions": {}, "runs": [run]}
    (tmp_path / "analytics.json").write_text(json.dumps(content))
    page = write_page(tmp_path).read_text()
    assert page.count("Cannot be shown") == 2
    assert "is damaged" in page
    assert "KeyError" in page


def test_a_page_of_nothing(tmp_path: Path) -> None:
    assert "<h1>" in write_page(tmp_path).read_text()


# -- processes --------------------------------------------------------------------------------------------

#: A program in place of the one that runs cases; it gets NAME CASE DIRECTORY.
PROGRAM = """
import json, os, pathlib, subprocess, sys, time
case, directory = json.loads(sys.argv[2]), pathlib.Path(sys.argv[3])
(directory / "progress.json").write_text(json.dumps({"reached": 5}))
{action}
"""


def ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: str, seconds: float = 60.0, **case: Any
) -> Record:
    (tmp_path / "mta_stub.py").write_text(PROGRAM.replace("{action}", action))
    monkeypatch.setattr(process, "PROGRAM", "mta_stub")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return in_own_process("any", {"n": 1, **case}, seconds, lambda _: None)


@pytest.mark.parametrize(
    ("action", "outcome", "reason"),
    [
        ('(directory / "result.json").write_text(json.dumps({"rows": [{"y": 1}]}))', FINISHED, ""),
        ("raise MemoryError", NO_MEMORY, "MemoryError"),
        ("raise OSError(12, os.strerror(12), '/usr/lib')", NO_MEMORY, "OSError: [Errno 12]"),
        ("raise ImportError('x.so: failed to map segment from shared object')", NO_MEMORY, "ImportError"),
        ("print('terminate called: std::bad_alloc'); os.abort()", NO_MEMORY, "bad_alloc"),
        ("os.kill(os.getpid(), 9)", FAILED, "the process ended with -9"),
        ("raise ValueError('x is 3')", FAILED, "ValueError: x is 3"),
        ("time.sleep(1000)", TOO_SLOW, "not done after 5 s"),
    ],
)
def test_how_a_run_ended(
    action: str, outcome: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = ended(monkeypatch, tmp_path, action, 5.0 if outcome == TOO_SLOW else 600.0)
    assert record["outcome"] == outcome
    assert reason in record["reason"]
    assert record["told"] == {"reached": 5}
    assert record["rows"] == ([{"y": 1}] if outcome == FINISHED else [])


@pytest.mark.parametrize(("limit", "outcome"), [(64, NO_MEMORY), (1 << 14, TOO_SLOW)])
def test_a_run_that_is_stuck_for_want_of_memory(
    limit: int, outcome: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python may try for ever to raise a MemoryError."""
    action = """
import mmap, resource
resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
held = []
while True:
    try:
        held.append(mmap.mmap(-1, 1 << 16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except (MemoryError, OSError):
        time.sleep(1000)
"""
    record = ended(monkeypatch, tmp_path, action, 5.0, limit=limit)
    assert record["outcome"] == outcome
    assert record["reason"].startswith("not done after 5 s")
    monkeypatch.setattr(process, "STUCK", 1.0)
    assert ended(monkeypatch, tmp_path, action, 6.0, limit=limit)["outcome"] == outcome


def test_a_run_that_is_stuck_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "STUCK", 1.0)
    action = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
held = []
with __import__("contextlib").suppress(MemoryError):
    while True:
        held.append(bytearray(1 << 18))
time.sleep(600)
"""
    record = ended(monkeypatch, tmp_path, action, 600.0, limit=64)
    assert record["outcome"] == NO_MEMORY
    assert record["seconds"] < 100


def test_what_a_run_started_ends_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    action = (
        "child = subprocess.Popen(['sleep', '1000'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\ntime.sleep(1000)"
    )
    ended(monkeypatch, tmp_path, action, 5.0)
    assert gone(int(note.read_text()))


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_a_run_ends_when_its_command_is_killed(tmp_path: Path) -> None:
    command = subprocess.Popen(
        [sys.executable, "-m", "mta", "experiment", "complexity", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert command.stdout is not None
    with command, command.stdout:
        assert b"complexity" in command.stdout.readline()
        children: list[str] = []
        while not children and command.poll() is None:
            children = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
        time.sleep(1.0)
        command.send_signal(signal.SIGKILL)
    assert all(gone(int(child)) for child in children)
