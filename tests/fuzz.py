"""Runs the tests that make their own examples with examples of a new seed, again and again, until one fails.

    python tests/fuzz.py --seconds 3600 tests/mta -n 2
    python tests/fuzz.py --seed 123456 tests/mta

Each round prints its seed first. A round of a seed that was given tries the same examples once more, and is
the only one. Words that it does not know go to pytest.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
NO_TESTS = 5


def rounds(seed: int | None, until: float) -> Iterator[int]:
    if seed is not None:
        yield seed
        return
    chance = random.SystemRandom()
    yield chance.randrange(1, 10**9)
    while time.time() < until:
        yield chance.randrange(1, 10**9)


def run(seed: int, times: int, until: float, words: list[str]) -> int:
    environment = {
        "MTA_SEED": str(seed),
        "MTA_TIMES": str(times),
        "PYTHONHASHSEED": str(seed),
        "MTA_UNTIL": str(until),
    }
    # -x: what failed first is what to look at, and with the seed it fails again
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"--hypothesis-seed={seed}", "-m", "hypothesis or random", *words]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=False).returncode


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seconds", type=float, default=600, help="begin no test after so many")
    parser.add_argument("--seed", type=int, help="one round, with this seed and without an end")
    parser.add_argument("--times", type=int, default=10, help="as many examples of each test as usual")
    arguments, words = parser.parse_known_args()
    until = float("inf") if arguments.seed is not None else time.time() + arguments.seconds
    done = 0
    for seed in rounds(arguments.seed, until):
        print(f"seed {seed}, {arguments.times} times as many examples as usual", flush=True)
        code = run(seed, arguments.times, until, words)
        if code:
            if code != NO_TESTS:
                again = f"make fuzz SEED={seed} TIMES={arguments.times}"
                print(f"failed with seed {seed}; the same examples again: {again}")
            sys.exit(code)
        done += 1
    print(f"{done} rounds, none of which failed")


if __name__ == "__main__":
    main()
