"""Dumps that no slicer wrote, with right checksums, are refused with an error of ours or load and work.

`python tests/slicing/test_strange_dumps.py SEED COUNT` tries as many as one likes.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from xxhash import xxh3_64_digest

from mta import AmortizedMTA, ManifestCorrupt, OutOfOrderError, WindowError, monoids
from mta.encoding.packing import pack, unpack
from mta.slicing import Delta, Session, Slicer, Sliding, Tumbling
from mta.slicing.leaves import slice_states
from stores import open_store

#: values that replace others
ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 7, 2**63 - 1, 2**63, 2**70, 10**30, -(2**62), -(2**63),
    1.5, -0.0, 1e18, 1e300, -1e300, 1e-320, math.nan, math.inf, -math.inf,
    "", "q", "v", "text", b"x", [], [1], [[1, 2]], [None] * 3, {}, {1: 2}, (), (1, 2), ("q", 0, 10),
    3 + 4j, {"a"}, frozenset(),
)  # fmt: skip

TIMED = {"q": Sliding(10, 3), "v": Session(4), "w": Session(9)}
COUNTED = {**TIMED, "c": Tumbling(3, measure="count"), "d": Delta(None, 3)}
ROWS = {**TIMED, "c": Sliding(4, 2, measure="count"), "d": Delta("n", 3)}
REAL = {**TIMED, "o": Sliding(7.5, 2.25, offset=0.5)}
#: of the queries that have one; tuples that are late for the others count for these
LATENESS = {"q": 20, "v": 20, "c": 20, "o": 7.5}


def number(at: int) -> Any:
    return at % 7


def word(at: int) -> Any:
    return "abc"[at % 3]


def row(at: int) -> Any:
    return {"n": at % 7, "m": at % 3, "key": at % 4}


FIELDS = monoids.Fields(
    s=monoids.Sum("n"), l=monoids.Last("n"), m=monoids.Mean("n"), x=monoids.ArgMax("n", "m")
)
KINDS: list[tuple[Any, Any, Any, dict[str, Any]]] = [
    (monoids.First(), COUNTED, number, {}),
    (monoids.Sum(), COUNTED, number, {}),
    (monoids.Sum(), REAL, number, {}),
    (monoids.Max(), REAL, number, {}),
    (monoids.Mean(), COUNTED, number, {}),
    (monoids.SampleStdDev(), REAL, number, {}),
    (monoids.Collect(), COUNTED, number, {}),
    (monoids.LongestIncreasingRun(), COUNTED, number, {}),
    (monoids.CollectDistinct(), REAL, number, {}),
    (monoids.Concat(), TIMED, word, {}),
    (FIELDS, ROWS, row, {}),
    (FIELDS, ROWS, row, {"by": "key"}),
    (monoids.Sum("n"), ROWS, row, {"by": "key", "forget_after": 30}),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"changes_only": True},
    {"in_order": True},
    {"every_tuples": 3},
    {"every_time": 4},
    {"every_tuples": 3, "changes_only": True},
]


def told(kind: Any, queries: Any, value: Any, options: Any) -> Any:
    """A dump of a slicer with some of everything, as plain values."""
    in_order = options.get("in_order", False)
    lateness = {name: late for name, late in LATENESS.items() if name in queries}
    slicer = Slicer(kind, queries, lateness=0 if in_order else lateness, **options)
    slicer.extend([value(at) for at in (5, 6, 7, 8, 9, 11)], [1, 4, 12, 14, 14, 25])
    slicer.watermark(15)
    if not in_order:
        slicer.extend([value(3), value(2)], [9, 13])
    slicer.insert(value(3), time=26)
    slicer.insert(value(4), time=26)
    return unpack(slicer.dump()[:-8])


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All there is inside of a value, however deep."""
    yield place
    if isinstance(value, dict):
        for key in value:
            yield from places_in(value[key], (*place, key))
    elif isinstance(value, (list, tuple)):
        for at, part in enumerate(value):
            yield from places_in(part, (*place, at))


def changed(value: Any, place: tuple[Any, ...], to: Any) -> Any:
    if not place:
        return to
    first, *rest = place
    if isinstance(value, dict):
        return {key: changed(part, tuple(rest), to) if key == first else part for key, part in value.items()}
    parts = [changed(part, tuple(rest), to) if at == first else part for at, part in enumerate(value)]
    return tuple(parts) if isinstance(value, tuple) else parts


def strange(old: Any, rng: random.Random) -> Any:
    """A value like the old one, or nothing like it."""
    if rng.random() < 0.5:
        return rng.choice(ODD)
    if isinstance(old, (int, float)) and not isinstance(old, bool):
        return old + rng.choice([-1, 1, 0.5, -30, 30, 1000, 10**12])
    if isinstance(old, dict) and old:
        gone = rng.choice(list(old))
        return {key: part for key, part in old.items() if key != gone}
    if isinstance(old, (list, tuple)) and old:
        parts = list(old)
        what = rng.randrange(4)
        if what == 0:
            parts.pop(rng.randrange(len(parts)))
        elif what == 1:
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(parts))
        elif what == 2:
            rng.shuffle(parts)
        else:
            parts.append(rng.choice(ODD))
        return type(old)(parts)
    return rng.choice(ODD)


def mutated(whole: Any, rng: random.Random) -> Any:
    """The value with one to three strange parts."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        place = rng.choice(list(places_in(whole)))
        old = whole
        for part in place:
            old = old[part]
        whole = changed(whole, place, strange(old, rng))
    return whole


def attack(case: Any, options: Any, rng: random.Random, rounds: int) -> int:
    """The number of strange dumps that were loaded, of `rounds`."""
    kind, queries, value, own = case
    whole, taken = told(kind, queries, value, {**own, **options}), 0
    refusals: list[str] = []
    by = {"by": own["by"]} if "by" in own else {}
    for _ in range(rounds):
        if rng.random() < 0.1:
            body = bytearray(pack(whole))
            for _ in range(rng.randint(1, 4)):
                body[rng.randrange(len(body))] = rng.randrange(256)
            data = bytes(body)
        else:
            data = pack(mutated(whole, rng))
        data += xxh3_64_digest(data)
        try:
            slicer = Slicer.load(data, kind, store=rng.choice(["lazy", "eager"]), **by)
        except WindowError as error:
            refusals.append(str(error))
        else:
            use(slicer, kind, value, by, rng)
            taken += 1
    assert all(map(str.isprintable, refusals))
    return taken


def use(slicer: Slicer, kind: Any, value: Any, by: Any, rng: random.Random) -> None:
    """Makes calls of all kinds: none raises an error that a slicer nobody tampered with would not raise."""
    calls: list[Any] = [
        lambda: slicer.insert(value(1), time=30),
        lambda: slicer.extend([value(1), value(2)], [31, 33]),
        lambda: slicer.insert(value(2), time=5),
        lambda: slicer.watermark(40),
        lambda: slicer.extend([value(1), value(2)], [24, 12]),
        lambda: slicer.insert(value(2), time=60),
        lambda: slicer.watermark(200),
        slicer.checkpoint if by is None else lambda: Slicer.load(slicer.dump(), kind, **by),
        lambda: slicer.insert(value(2), time=190),
        lambda: slicer.watermark(math.inf),
        slicer.checkpoint if by is None else lambda: Slicer.load(slicer.dump(), kind, **by),
    ]
    more: list[Any] = [
        lambda: slicer.add("new", Tumbling(5)),
        lambda: slicer.add("old", Sliding(9, 2), history=True),
        lambda: slicer.remove(sorted(slicer.queries)[0]) if slicer.queries else None,
    ]
    for call in rng.sample(more, rng.randint(0, 3)):
        calls.insert(rng.randint(0, len(calls)), call)
    for call in calls:
        try:
            call()
        except OutOfOrderError:  # a watermark or a tuple that goes backwards
            pass
        except OverflowError as error:
            if "does not fit in 64 bits" not in str(error):
                raise
    assert slicer.slices >= 0
    assert len(slicer.keys) >= 0


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("case", range(len(KINDS)), ids=lambda case: repr(KINDS[case][0])[:30])
def test_a_strange_dump_is_refused_or_of_use(case: int, options: Any) -> None:
    rng = random.Random(f"{case} {options}")
    assert 0 < attack(KINDS[case], options, rng, 100) < 100


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("streams", 0, 1, "youngest"), -math.inf),
        (("streams", 0, 1, "slices", 0, 4), "text"),
        (("streams", 0, 1, "slices", 0, 0), -math.inf),
        (("streams", 0, 1, "progress", "q", 0), math.inf),
        (("streams", 0, 1, "progress", "c", 2), 10**12),
        (("streams", 0, 1, "dropped", 1), math.inf),
        (("settings", "every_time"), 1e-320),
        (("forgotten",), math.inf),
        (("watermark",), 2**64),
        (("watermark",), -1e19),
        (("streams", 0, 1, "progress", "v", 0), 27),
        (("queries", 0, 4), -1),
        (("queries", 0, 4), math.nan),
    ],
)
def test_what_was_taken_once(place: Any, value: Any) -> None:
    whole = told(monoids.Sum(), COUNTED, number, {"every_time": 4})
    body = pack(changed(whole, place, value))
    with pytest.raises(ManifestCorrupt):
        Slicer.load(body + xxh3_64_digest(body), monoids.Sum())


@pytest.mark.parametrize(
    ("place", "value", "first"), [(("watermark",), -1, 2), (("queries", 0, 4), 1000, 25)]
)
def test_windows_by_count_that_are_over_stay_over(place: Any, value: int, first: int) -> None:
    queries = {"c": Sliding(8, 5, measure="count"), "t": Tumbling(3)}
    slicer = Slicer(monoids.Count(), queries, lateness={"c": 5})
    slicer.extend([1] * 25, list(range(25)))
    slicer.watermark(24)
    body = pack(changed(unpack(slicer.dump()[:-8]), place, value))
    slicer = Slicer.load(body + xxh3_64_digest(body), monoids.Count())
    starts: list[Any] = []
    for time in (first, 26, 40, 2000):
        slicer.insert(1, time=max(time, 25))
        starts += [r.start for r in slicer.watermark(time) if r.query == "c"]
        slicer = Slicer.load(slicer.dump(), monoids.Count())
    assert starts == [20]


@pytest.mark.parametrize("kind", [monoids.First(), monoids.Sum(), monoids.Collect()], ids=repr)
def test_a_strange_checkpoint_is_refused_or_of_use(kind: Any) -> None:
    rng, taken, whole = random.Random(7), 0, None
    store = open_store(f"memory:{uuid4().hex}")
    with Slicer(kind, REAL, lateness=20, store=store, name="s", page_size=4, local=0) as slicer:
        for time in range(0, 60, 2):
            slicer.insert(time % 7, time=time)
        slicer.watermark(50)
        slicer.checkpoint()
        slicer.insert(3, time=60)
        slicer.checkpoint()
    for _ in range(150):
        with AmortizedMTA.restore(store, "s", slice_states(kind)) as window:
            whole = whole or unpack(window.offset["slicer"][:-8])
            body = pack(mutated(whole, rng))
            window.checkpoint({"slicer": body + xxh3_64_digest(body), "offset": None})
        try:
            restored = Slicer.restore(store, "s", kind, local=0)
        except WindowError:
            continue
        with restored:
            taken += 1
            use(restored, kind, number, None, rng)
    assert taken > 10


if __name__ == "__main__":
    seed, count = sys.argv[1:]
    dice = random.Random(seed)
    found = 0
    for _ in range(int(count) // 100):
        found += attack(dice.choice(KINDS), dice.choice(OPTIONS), dice, 100)
    print(f"{found:,} of {int(count):,} were taken")
