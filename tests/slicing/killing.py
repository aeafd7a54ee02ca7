"""Kills the writer of a slicer again and again, with late tuples around, and compares all that it gave.

    python tests/slicing/killing.py --kills 100 rocksdb:/tmp/killed

The writer is a process of its own, which is ended by SIGKILL at random times. The next one restores its last
checkpoint and goes on where that was. What all of them gave out is compared with a slicer that nobody killed.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from mta import WindowNotFound, monoids
from mta.slicing import Session, Slicer, Sliding, Tumbling
from stores import open_store

QUERIES = {"ten": Tumbling(10), "long": Sliding(2000, 20), "visit": Session(4), "trip": Session(9)}
KIND = monoids.Fields(sum=monoids.Sum(), first=monoids.First(), most=monoids.MaxCount())
LATENESS, TUPLES = 60, 40


def event(number: int) -> tuple[list[int], list[int]]:
    """Some tuples, a fifth of them late, by less and by more than the lateness."""
    rng = random.Random(number)
    times = [number * 30 + rng.randrange(30) for _ in range(TUPLES)]
    times = [at - rng.randrange(90) if rng.random() < 0.2 else at for at in times]
    return [rng.randrange(100) for _ in times], times


def step(slicer: Slicer, number: int) -> list[Any]:
    """Handles one event; returns the results after it."""
    slicer.extend(*event(number))
    results = slicer.watermark(number * 30 - 10)
    return [[r.query, r.start, r.end, r.value, r.is_update] for r in results]


def write(url: str, name: str, out: str, events: int, last: bool) -> None:
    with open_store(url) as store:
        try:
            slicer = Slicer.restore(store, name, KIND, local=8)
        except WindowNotFound:
            slicer = Slicer(KIND, QUERIES, lateness=LATENESS, store=store, name=name, local=8, page_size=16)
        with slicer, Path(out).open("a") as lines:
            for number in range(slicer.offset or 0, events):
                print(json.dumps([number, step(slicer, number)]), file=lines, flush=True)
                if number % 3 == 2:
                    slicer.checkpoint(number + 1)
            if not last:
                signal.pause()  # it is to be killed, however fast it was
            slicer.checkpoint(events)
            print(json.dumps("end"), file=lines)


def kill(url: str, kills: int, events: int) -> tuple[int, int]:
    """Kills writers and lets the last one end; returns the numbers of writers killed and lines compared."""
    twin = Slicer(KIND, QUERIES, lateness=LATENESS)
    expected = [json.loads(json.dumps(step(twin, number))) for number in range(events)]
    killed, name, chance = 0, f"killed-{uuid4().hex}", random.Random(kills)
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "results")
        out.touch()
        arguments = ["--name", name, "--write", str(out), "--events", str(events), url]
        while True:
            last = ["--last"] if killed == kills else []
            with subprocess.Popen([sys.executable, __file__, *arguments, *last]) as writer:
                before = out.stat().st_size
                written = len(out.read_text().splitlines())
                while out.stat().st_size == before and written < events and writer.poll() is None:
                    time.sleep(0.01)
                if killed < kills:
                    time.sleep(chance.random() * 0.15)
                    writer.kill()
                    writer.wait()
                elif writer.wait():
                    raise SystemExit(f"the writer ended with {writer.returncode}")
            killed += writer.returncode == -signal.SIGKILL
            whole = out.read_text().rpartition("\n")[0] + "\n"
            out.write_text(whole)  # without the line that it was killed in
            if whole.endswith('"end"\n'):
                break
        given = [json.loads(line) for line in whole.splitlines()][:-1]
    for number, results in given:
        if results != expected[number]:
            raise SystemExit(f"event {number}: {results} were given, not {expected[number]}")
    if {number for number, _ in given} != set(range(events)):
        raise SystemExit("some events were not given")
    return killed, len(given)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--last", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.url, arguments.name, arguments.write, arguments.events, arguments.last)
        return
    events = arguments.events or 60 * arguments.kills
    killed, lines = kill(arguments.url, arguments.kills, events)
    print(f"{killed} writers killed; {lines} results of {events} events compared: all equal")


if __name__ == "__main__":
    main()
