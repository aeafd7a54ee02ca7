"""Dumps and checkpoints that older versions wrote: they are read, go on, and are written with the same bytes.

`saved_forms.json` was written by `python tests/slicing/test_saved_forms.py` under the version of 20 November
2026. Never write it anew: add what a newer version writes under a name of its own.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mta import AmortizedMTA, monoids
from mta.slicing import Delta, FixedBand, Session, Slicer, Sliding, Tumbling
from mta.slicing.leaves import slice_states
from stores import open_store

SAVED = Path(__file__).parent / "saved_forms.json"

TIMED = {"ten": Tumbling(10), "slide": Sliding(9, 2, offset=1), "visit": Session(4), "band": FixedBand(5, 30)}
FIELDS = monoids.Fields(
    total=monoids.Sum("n"), last=monoids.Last("n"), mean=monoids.Mean("n"), most=monoids.ArgMax("n", "m")
)


def number(at: int) -> Any:
    return at % 7


def word(at: int) -> Any:
    return "abc"[at % 3]


def row(at: int) -> Any:
    return {"n": at % 7, "m": at % 3, "key": f"k{at % 4}"}


#: name: the monoid, the queries, the values, and the options
CASES: dict[str, tuple[Any, dict[str, Any], Callable[[int], Any], dict[str, Any]]] = {
    "sums": (monoids.Sum(), TIMED, number, {"lateness": 20}),
    "own lateness": (monoids.Max(), TIMED, number, {"lateness": {"ten": 30, "visit": 5}}),
    "rows": (
        monoids.First(),
        {**TIMED, "three": Tumbling(3, measure="count"), "delta": Delta(None, 3)},
        number,
        {"lateness": 15},
    ),
    "words": (monoids.Concat(), TIMED, word, {"lateness": 9, "every_tuples": 3, "changes_only": True}),
    "in order": (monoids.Last(), TIMED, number, {"in_order": True, "changes_only": True}),
    "keys": (
        FIELDS,
        {**TIMED, "three": Sliding(3, 2, measure="count"), "delta": Delta("n", 3)},
        row,
        {"lateness": 15, "by": "key", "every_time": 6},
    ),
    "silent keys": (monoids.Sum("n"), TIMED, row, {"by": "key", "forget_after": 25}),
}


def prepared(name: str, **options: Any) -> Slicer:
    """A slicer with some of everything: open and emitted windows, late tuples, a query that came later."""
    kind, queries, value, own = CASES[name]
    slicer = Slicer(kind, queries, name=name, **{**own, **options})
    in_order = own.get("in_order", False)
    slicer.extend([value(at) for at in range(12)], [1, 4, 7, 12, 13, 13, 14, 18, 25, 26, 31, 33])
    slicer.watermark(20)
    if not in_order:
        slicer.extend([value(3), value(2)], [9, 16])
        slicer.insert(value(5), time=19)
        slicer.insert(value(5), time=-50)
    slicer.add("later", Tumbling(5), history=True)
    slicer.insert(value(6), time=34)
    return slicer


def rest(slicer: Slicer, name: str) -> str:
    """All that is still to come of a slicer."""
    _, _, value, own = CASES[name]
    results: list[Any] = []
    if not own.get("in_order", False):
        results += slicer.extend([value(1), value(4)], [27, 17])
    results += slicer.insert(value(2), time=40)
    results += slicer.watermark(36)
    results += slicer.insert(value(3), time=44)
    results += slicer.watermark(math.inf)
    return repr([[*map(tuple, results)], slicer.late_dropped, slicer.keys, slicer.name])


def stored(name: str) -> bytes:
    """The bytes that the last checkpoint of a slicer has beside its pages."""
    with open_store(f"memory:{uuid4().hex}") as store:
        with prepared(name, store=store, page_size=4, local=64) as slicer:
            slicer.checkpoint()
        kind = CASES[name][0]
        with AmortizedMTA.restore(store, name, slice_states(kind)) as window:
            data: bytes = window.offset["slicer"]
            return data


#: the cases whose queries and options go with a store
IN_A_STORE = ("sums", "own lateness", "words", "in order")


def saved(form: str, name: str) -> tuple[bytes, str]:
    data, expected = json.loads(SAVED.read_text())[form][name]
    return b64decode(data), expected


@pytest.mark.parametrize("store", ["lazy", "eager"])
@pytest.mark.parametrize("name", CASES)
def test_a_dump_that_was_written_before_is_read(name: str, store: str) -> None:
    data, expected = saved("dumps", name)
    by = {"by": "key"} if "by" in CASES[name][3] else {}
    assert rest(Slicer.load(data, CASES[name][0], store=store, **by), name) == expected
    assert Slicer.load(data, CASES[name][0], **by).dump() == data


@pytest.mark.parametrize("name", CASES)
def test_dumps_have_the_bytes_of_before(name: str) -> None:
    data, expected = saved("dumps", name)
    slicer = prepared(name)
    assert slicer.dump() == data
    assert rest(slicer, name) == expected


@pytest.mark.parametrize("name", IN_A_STORE)
def test_a_checkpoint_that_was_written_before_is_read(name: str) -> None:
    data, expected = saved("checkpoints", name)
    kind = CASES[name][0]
    with open_store(f"memory:{uuid4().hex}") as store:
        with AmortizedMTA(slice_states(kind), store=store, name=name, page_size=4) as window:
            window.checkpoint({"slicer": data, "offset": {"file": 7}})
        with Slicer.restore(store, name, kind, local=64) as slicer:
            assert slicer.offset == {"file": 7}
            assert rest(slicer, name) == expected


@pytest.mark.parametrize("name", IN_A_STORE)
def test_checkpoints_have_the_bytes_of_before(name: str) -> None:
    assert stored(name) == saved("checkpoints", name)[0]


def _written() -> dict[str, dict[str, Any]]:
    dumps = {name: (prepared(name).dump(), rest(prepared(name), name)) for name in CASES}
    checkpoints = {
        name: (
            stored(name),
            rest(prepared(name, store=open_store("memory:"), page_size=4, local=64), name),
        )
        for name in IN_A_STORE
    }
    return {
        form: {name: [b64encode(data).decode(), expected] for name, (data, expected) in saved.items()}
        for form, saved in (("dumps", dumps), ("checkpoints", checkpoints))
    }


if __name__ == "__main__":
    SAVED.write_text(json.dumps(_written(), indent=1, sort_keys=True) + "\n")
