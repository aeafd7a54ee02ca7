"""A process that reads a window while another one writes it, and reports each answer as a line of JSON."""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

from mta import Reader, WindowNotFound, monoids, policies
from stores import open_store

#: The writer's window. Its answers are texts that no two ranges of positions share.
MONOID, POLICY = monoids.Concat(), policies.CountWindow(200)


def element(position: int) -> str:
    return f"{position * 40503 % 65536:x}."


def time_of(position: int) -> int:
    return position // 3


def asked(reader: Reader, chance: random.Random) -> list[Any]:
    """A question, and its answer."""
    youngest = reader.youngest or 0
    what = chance.randrange(3)
    if what == 0:
        return ["query", reader.query()]
    if what == 1:
        moment = youngest + chance.randrange(-3, 4)
        try:
            return ["at", moment, reader.at(moment)]
        except ValueError:
            return ["refused", moment, None]
    t0 = youngest - chance.randrange(80)
    return ["range", t0, t0 + 20, reader.range_query(t0, t0 + 20)]


def read(url: str, name: str, seed: str, pins: bool) -> None:
    """Reads until its input ends."""
    chance = random.Random(seed)
    store: Any = open_store(url, patience=60) if pins else url
    reader = Reader.open(store, name, MONOID, POLICY)
    print(json.dumps(["opened"]), flush=True)
    asking = True
    while asking:
        act = chance.random()
        try:
            if act < 0.2:
                reader.refresh()
            elif act < 0.25:
                reader.close()
                reader = Reader.open(store, name, MONOID, POLICY)
            elif act < 0.35 and pins:
                reader.pin(chance.choice([0.02, 0.5]))
            elif act < 0.5:
                reader.unpin()
            answer = asked(reader, chance)
        except WindowNotFound:  # of a pin that has expired
            reader.unpin()
            answer = asked(reader, chance)
        print(json.dumps([reader.version, reader.offset, len(reader), *answer]), flush=True)
        time.sleep(chance.choice([0, 0.002, 0.02]))
        asking = sys.stdin.readline() != ""
    reader.close()


if __name__ == "__main__":
    read(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "pins")
