"""Runs the tests that depend on who runs when, again and again, on a busy machine.

    python tests/under_load.py --runs 20 --at-once 4 -n 3
    python tests/under_load.py --runs 1 --busy 12 tests/stores

Runs at the same time keep each other waiting, so that a busy machine gets something done. `--busy` adds
processes that do nothing but be busy. Each run is told with the load average of its end. Words that are
not known here go to pytest. Ends with 1 if a test failed in any of the runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: It ends with its parent, however that ends: then nobody holds the other end of its input.
BUSY = """
import os, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()
while True:
    pass
"""


@contextmanager
def busy(processes: int) -> Iterator[None]:
    started = [
        subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


def run(number: int, words: list[str], log: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    with log.open("w") as output:
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, check=False)
    last = log.read_text().rstrip().rpartition("\n")[2]
    print(f"run {number}, load {os.getloadavg()[2]:.1f}: {last}", flush=True)
    if done.returncode:
        print(log.read_text(), flush=True)
    return done.returncode == 0


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=1, help="runs that share the machine")
    parser.add_argument("--busy", type=int, default=0, help="processes that do nothing but be busy")
    arguments, words = parser.parse_known_args()
    if "-m" not in words:
        words += ["-m", "timing and not long"]
    with (
        busy(arguments.busy),
        tempfile.TemporaryDirectory() as directory,
        ThreadPoolExecutor(arguments.at_once) as runs,
    ):
        results = list(
            runs.map(
                lambda number: run(number, words, Path(directory, f"{number}.log")),
                range(1, arguments.runs + 1),
            )
        )
    print(f"{results.count(True)} of {len(results)} runs without a failure")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
