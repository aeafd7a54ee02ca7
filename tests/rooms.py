"""The rooms of the project, and the rooms that each one imports. tests/test_rooms.py checks them."""

from __future__ import annotations

from typing import NamedTuple


class Room(NamedTuple):
    about: str
    #: the rooms that it imports
    imports: str
    #: its packages and modules; by default the package of the room's name, in `mta` or beside it
    modules: str = ""


BASE = "mta.kinds mta.options mta.errors mta.functions mta.owned mta.process_memory mta.turns"
WINDOW = "mta.admission mta.checks mta.reader mta.stored_window mta.window"

#: From the ground up.
ROOMS = {
    "stores": Room("bytes in, bytes out", ""),
    "stores.testing": Room("the contract of a store, as a test class", "stores"),
    "base": Room("kinds of values, errors, users' functions", "", BASE),
    "numbers": Room("sums of whole numbers in two words", "base"),
    "times": Room("kinds of times, durations, their arithmetic", "base"),
    "frames": Room("which elements a window holds, by count and time", "base times"),
    "monoids": Room("what is aggregated", "base frames numbers"),
    "encoding": Room("values in columns and as bytes", "base monoids numbers", "mta.encoding mta.inputs"),
    "core": Room("the paper: no stores, no threads", "base encoding frames monoids numbers times"),
    "monoids.laws": Room("the laws of monoids, as tests", "base core encoding monoids"),
    "policies": Room("which elements a window holds", "base frames monoids", "mta.policies mta.policy_texts"),
    "paging": Room("pages in stores: buffer, cache, reaper", "base core encoding monoids stores"),
    "durability": Room(
        "manifests, writers, checkpoints, verify, gc",
        "base core encoding monoids paging policies stores times",
    ),
    "window": Room(
        "the windows that users hold",
        "base core durability encoding monoids paging policies stores times",
        WINDOW,
    ),
    "baselines": Room(
        "DABA and the other algorithms", "base core encoding frames monoids policies times window"
    ),
    "slicing": Room(
        "late tuples, sessions, many queries",
        "base baselines core encoding monoids stores times window",
    ),
    "keyed": Room(
        "many keys: short windows in columns, segments, long windows",
        "base core durability encoding frames monoids policies stores times window",
    ),
    "tables": Room(
        "data frames in, data frames out",
        "base core durability frames keyed monoids stores times window",
    ),
    "mta": Room("the public names", "base monoids policies tables window", "mta"),
    "spark_integration": Room(
        "rolling: batch jobs and streams",
        "base baselines core durability encoding keyed monoids mta policies stores times window",
    ),
    "cli": Room(
        "the mta command, the operator's commands",
        "base durability encoding monoids mta policies slicing stores",
        "mta.cli mta.__main__",
    ),
    "lab": Room(
        "benchmarks, experiments, demo, soak",
        "base baselines cli durability encoding keyed monoids mta policies slicing spark_integration stores "
        "window",
    ),
}
