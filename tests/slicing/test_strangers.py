"""Unusual use of a slicer: it is ended, forked and copied, its results are changed, and arguments are odd."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pytest

from mta import ManifestCorrupt, WindowClosed, WindowError, monoids
from mta.slicing import EdgeWindow, Session, Slicer, Sliding, Tumbling
from stores import open_store

QUERIES = {"ten": Tumbling(10)}


def memory() -> Any:
    return open_store(f"memory:{uuid4().hex}")


CALLS: list[Callable[[Slicer], Any]] = [
    lambda s: s.insert(1, 5),
    lambda s: s.extend([1], [5]),
    lambda s: s.watermark(5),
    lambda s: s.add("more", Tumbling(5)),
    lambda s: s.remove("ten"),
    lambda s: s.checkpoint(),
]


@pytest.mark.parametrize("stored", [False, True])
def test_a_slicer_that_is_closed_takes_no_call(stored: bool) -> None:
    store: Any = memory() if stored else "lazy"
    with Slicer(monoids.Sum(), QUERIES, store=store) as slicer:
        slicer.insert(1, 1)
    for call in CALLS:
        with pytest.raises(WindowClosed):
            call(slicer)
    slicer.close()
    assert slicer.slices == 1


def test_a_slicer_with_a_store_stays_in_its_process() -> None:
    slicer = Slicer(monoids.Sum(), QUERIES, store=memory())
    slicer.insert(1, 1)
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in CALLS:
            try:
                call(slicer)
            except WindowClosed:
                refused += 1
        slicer.close()
        os._exit(len(CALLS) - refused)
    assert os.waitpid(pid, 0)[1] == 0
    assert [r.value for r in slicer.watermark(10)] == [1]
    slicer.close()


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_slicer_is_not_copied(way: Any) -> None:
    slicer = Slicer(monoids.Sum(), QUERIES)
    with pytest.raises(TypeError, match="can be neither copied nor pickled"):
        way(slicer)


def test_results_belong_to_whom_they_are_given() -> None:
    slicer = Slicer(monoids.Collect(), QUERIES, lateness=100, changes_only=True)
    slicer.insert(1, time=1)
    (first,) = slicer.watermark(10)
    # as it would be with the tuple that comes
    first.value.append(2)
    slicer.insert(2, time=2)
    assert [r.value for r in slicer.watermark(10)] == [[1, 2]]


def test_the_offset_of_a_checkpoint_is_not_changed_from_outside() -> None:
    with Slicer(monoids.Sum(), QUERIES, store=memory()) as slicer:
        offset = {"file": [3]}
        slicer.checkpoint(offset)
        offset["file"].append(4)
        slicer.offset["file"].append(5)
        assert slicer.offset == {"file": [3]}


def test_what_is_given_belongs_to_the_slicer() -> None:
    kind = monoids.from_function(lambda older, younger: older + younger, [], name="lists")
    slicer = Slicer(kind, QUERIES)
    one, many, times = [1], [[2], [3]], np.array([2, 3])
    slicer.insert(one, time=1)
    slicer.extend(many, times)
    one.append(9)
    many[0].append(9)
    times[:] = 50
    assert [r.value for r in slicer.watermark(10)] == [[1, 2, 3]]


MISSING = [math.nan, np.float64("nan"), pd.NA, pd.NaT]


@pytest.mark.parametrize("key", MISSING, ids=lambda key: type(key).__name__)
def test_a_key_that_is_missing(key: Any) -> None:
    slicer = Slicer(monoids.Sum("paid"), QUERIES, by="user")
    slicer.insert({"paid": 1, "user": None}, time=1)
    before = slicer.dump()
    with pytest.raises(ValueError, match=r"of Slicer\(by='user'\) equals no other"):
        slicer.insert({"paid": 1, "user": key}, time=1)
    with pytest.raises(ValueError, match="equals no other"):
        slicer.extend([{"paid": 1, "user": "ann"}, {"paid": 1, "user": key}], [1, 2])
    assert slicer.dump() == before
    assert slicer.keys == [None]


def test_a_table_with_missing_keys() -> None:
    slicer = Slicer(monoids.Sum("paid"), QUERIES, by="user")
    with pytest.raises(ValueError, match="equals no other"):
        slicer.extend(pd.DataFrame({"paid": [1, 2], "user": [7, None]}), [1, 2])
    with pytest.raises(ValueError, match=r"must have one length, got {'paid': 2, 'user': 1}"):
        slicer.extend({"paid": [1, 2], "user": [7]}, [1, 2])
    assert slicer.keys == []


def test_what_a_store_cannot_hold_is_refused_at_once() -> None:
    slicer = Slicer(monoids.Concat(), QUERIES, store=memory())
    for call in (lambda: slicer.insert("\ud800", 1), lambda: slicer.extend(["a", "\ud800"], [1, 2])):
        with pytest.raises((TypeError, ValueError), match="half of a surrogate pair"):
            call()
    assert slicer.slices == 0
    kind = monoids.from_function(lambda a, b: a | b, frozenset(), lift=lambda _: {object()}, name="objects")
    for call in (
        lambda: Slicer(kind, QUERIES, store=memory()).insert(1, 1),
        lambda: Slicer(kind, QUERIES, store=memory()).extend([1], [1]),
    ):
        with pytest.raises(TypeError, match="cannot be kept in a store"):
            call()


class Unnamed(EdgeWindow):
    def fingerprint(self) -> Any:
        return 5

    def edge_after(self, time: Any) -> Any:
        return time + 1

    def holding(self, time: Any) -> Any:
        return [(time, time + 1)]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Slicer(monoids.Sum(), None), TypeError, "queries are a mapping such as"),  # type: ignore[arg-type]
    (lambda: Slicer(monoids.Sum(), Tumbling(3)), TypeError, "queries are a mapping such as"),  # type: ignore[arg-type]
    (lambda: Slicer(monoids.Sum(), [Tumbling(3)]), TypeError, "pairs of a name and a kind"),  # type: ignore[list-item]
    (lambda: Slicer(monoids.Sum(), {"q": Unnamed()}), TypeError, "the fingerprint of the query 'q' is a str"),
    (lambda: Slicer(monoids.Sum(), QUERIES, name=5), TypeError, "the name of a slicer is a str"),  # type: ignore[arg-type]
    (lambda: Slicer(monoids.Sum(), QUERIES, store=[]), ValueError, r"what stores.open_store\(url\) returns"),  # type: ignore[arg-type]
    (lambda: Slicer(monoids.Sum(), QUERIES, page_size=4), ValueError, "page_size and lease go with a store"),
    (lambda: Slicer(monoids.Sum(), QUERIES, local=-1), ValueError, "local is 0 or more"),
    (lambda: Slicer(monoids.Sum(), QUERIES, in_order="no"), TypeError, "in_order is True or False"),  # type: ignore[arg-type]
    (
        lambda: Slicer(monoids.Sum(), QUERIES, every_tuples=True),
        TypeError,
        "whole number of tuples",
    ),
    (lambda: Session(np.array([5, 6])), TypeError, "a number in the unit of the times"),  # type: ignore[arg-type]
    (lambda: Session(pd.Series([5])), TypeError, "a number in the unit of the times"),  # type: ignore[arg-type]
    (lambda: Slicer(monoids.Sum(), QUERIES).watermark(None), WindowError, "a watermark is a time"),  # type: ignore[arg-type]
    (lambda: Slicer.load(b"", None), TypeError, "the first argument is a monoid"),  # type: ignore[arg-type]
    (lambda: Slicer.load(b"", monoids.Sum(), {"q": 5}), TypeError, "a kind of windows such as"),  # type: ignore[dict-item]
    (lambda: Slicer.load(b"", monoids.Sum(), store=memory()), ValueError, "load takes store="),
    (lambda: Slicer.load("x", monoids.Sum()), ManifestCorrupt, "'x' stands where bytes should"),  # type: ignore[arg-type]
    (lambda: Slicer.restore("memory:", "x", monoids.Sum()), TypeError, "store is what stores.open_store"),  # type: ignore[arg-type]
    (lambda: Slicer.restore(memory(), "x", None), TypeError, "the first argument is a monoid"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_what_is_told_plainly(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("number", [np.int64(5), np.float32(5), np.array(5), 5.0])
def test_numbers_of_every_type(number: Any) -> None:
    slicer = Slicer(monoids.Sum(), {"q": Sliding(number, number), "s": Session(number)}, lateness=number)
    slicer.insert(np.float32(1.5), time=np.int8(3))
    assert slicer.queries == {"q": Sliding(5, 5), "s": Session(5)}
    assert [tuple(r[:4]) for r in slicer.watermark(np.float64(9))] == [("q", 0, 5, 1.5), ("s", 3, 8, 1.5)]
