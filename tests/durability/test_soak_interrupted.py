"""Ctrl-C, a polite kill and a hard one end a soak, and all that it has started."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import compiled_modules
import psutil
import pytest

#: Seconds after which something has gone wrong.
PATIENCE = 120.0


class Soak:
    """A soak in a session of its own, so that all of its processes are known."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "mta", "soak", "--kills", "100000", url]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def living(self) -> list[int]:
        """Processes of its session that run, itself aside."""
        found = []
        for pid in psutil.pids():
            with suppress(OSError, psutil.Error):
                if (
                    pid != self.process.pid
                    and os.getsid(pid) == self.process.pid
                    and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(pid)
        return found

    def has_children(self) -> None:
        self._until(lambda: bool(self.living()))

    def has_none(self) -> None:
        self._until(lambda: not self.living())

    def _until(self, condition: object) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < deadline, (self.process.poll(), self.living())
            time.sleep(0.005)


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[Soak]:
    running = Soak(f"rocksdb://{tmp_path}/db")
    yield running
    with suppress(ProcessLookupError):
        os.killpg(running.process.pid, signal.SIGKILL)
    running.process.communicate()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("to", ["group", "parent"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_a_soak_that_is_interrupted_leaves_no_process(
    number: signal.Signals, to: str, seed: int, soak: Soak
) -> None:
    soak.has_children()
    # at any moment of the rounds
    time.sleep(random.Random(f"{number} {to} {seed}").uniform(0, 0.6))
    (os.killpg if to == "group" else os.kill)(soak.process.pid, number)
    _, errors = soak.process.communicate(timeout=PATIENCE)
    assert soak.process.returncode == 130
    assert [line for line in errors.splitlines() if "kills" not in line] == ["mta: interrupted"]
    assert soak.living() == []


def test_children_end_with_a_parent_that_was_killed(soak: Soak) -> None:
    soak.has_children()
    soak.process.kill()
    soak.process.wait(PATIENCE)
    soak.has_none()


def test_a_soak_imports_no_compiled_module_while_it_runs(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from compiled_modules import compiled_modules
        from mta.lab.soak import Soak, _Children

        with _Children() as children:
            soak = Soak(sys.argv[1], 100, 1, children)
            before = compiled_modules()
            while not soak.figures.results:
                soak._round()
            for stream in soak.streams:
                stream.expected(30)
        print(sorted(compiled_modules() - before))
        """
    done = subprocess.run(
        [sys.executable, "-c", script, f"rocksdb://{tmp_path}/db"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(compiled_modules.__file__).parent)},
    )
    assert done.stdout == "[]\n"
