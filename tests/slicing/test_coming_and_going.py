"""Queries that come and go amid the tuples: every result beside plain recomputation."""

from __future__ import annotations

import math
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import Plain
from window_kinds import MONOIDS, content, counted, sessions, sliding, tumbling

from mta import monoids
from mta.slicing import Late, Session, Slicer, Tumbling
from stores import open_store

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 30), st.integers(-6, 2)),
        st.tuples(st.just("extend"), st.lists(st.tuples(st.integers(0, 30), st.integers(-6, 4)), max_size=6)),
        st.tuples(st.just("add"), st.one_of(counted, counted, content, tumbling(1), sliding(1), sessions(1))),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("watermark"), st.integers(0, 6)),
        st.tuples(st.just("reload")),
    ),
    max_size=40,
)


def test_a_slice_of_tuples_that_nobody_counts_any_more() -> None:
    queries = {"c": Tumbling(1, measure="count"), "t": Tumbling(10)}
    slicer = Slicer(monoids.Last(), queries, in_order=True)
    slicer.insert(1, time=0)
    slicer.insert(2, time=0)
    slicer.remove("c")
    slicer.extend([3], [1])
    assert [r.value for r in slicer.watermark(10)] == [3]
    slicer.dump()


@pytest.mark.parametrize("local", [0, 1, 2, 1024])
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("others", [(), (-51,)], ids=["nothing before", "one before"])
def test_a_session_has_the_tuples_that_came_before_another_query_went(
    local: int, saved: bool, others: tuple[int, ...]
) -> None:
    store = open_store(f"memory:{uuid4().hex}")
    queries = {"long": Tumbling(3), "visit": Session(4)}
    late = {"long": 20, "visit": 5}
    slicer = Slicer(monoids.Collect(), queries, lateness=late, store=store, name="s", local=local)
    for time in others:
        slicer.insert("z", time)
    slicer.watermark(1)
    for value, time in (("a", -8), ("b", -4), ("c", 9), ("d", -11), ("e", 1), ("f", 12)):
        slicer.insert(value, time)
    slicer.remove("long")
    if saved:
        slicer.checkpoint()
        slicer.close()
        slicer = Slicer.restore(store, "s", monoids.Collect(), local=local)
    assert [(r.start, r.end, r.value) for r in slicer.watermark(20)] == [
        (-11, 0, ["d", "a", "b"]),
        (1, 5, ["e"]),
        (9, 16, ["c", "f"]),
    ]


@pytest.mark.parametrize("between", ["nothing", "watermark", "reload", "add", "remove"])
def test_of_windows_by_count_that_are_over_a_late_tuple_is_none(between: str) -> None:
    late: list[Late] = []
    queries = {"c": Tumbling(1, measure="count"), "u": Tumbling(1)}
    slicer = Slicer(monoids.Collect(), queries, on_late=late.append)
    slicer.extend(["a", "b"], [1, 3])
    slicer.watermark(4)
    slicer.add("t", Tumbling(10), lateness=5)
    slicer.insert("x", 1)
    if between == "watermark":
        slicer.watermark(4)
    elif between == "reload":
        slicer = Slicer.load(slicer.dump(), monoids.Collect(), on_late=late.append)
    elif between == "add":
        slicer.add("w", Tumbling(2))
    elif between == "remove":
        slicer.remove("u")
    slicer.insert("y", 2)
    slicer.insert("d", 5)
    assert ["c" in each.queries for each in late] == [True, True]
    results = [(r.start, r.value) for r in slicer.watermark(6) if r.query == "c"]
    assert results == [(2, ["d"])]


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "out of order"])
@pytest.mark.parametrize("store", ["lazy", "eager"])
@pytest.mark.parametrize("monoid", ["sum", "first", "collect", "steps"])
@given(moves=MOVES, lateness=st.integers(0, 12), first=st.lists(st.one_of(counted, tumbling(1)), max_size=2))
def test_queries_come_and_go(
    monoid: str, store: str, in_order: bool, moves: Any, lateness: int, first: Any
) -> None:
    kind, result = MONOIDS[monoid]
    lateness = 0 if in_order else lateness
    named = {f"f{number}": pair for number, pair in enumerate(first)}
    mine = {name: pair[0] for name, pair in named.items()}
    slicer = Slicer(kind, mine, lateness=lateness, store=store, in_order=in_order)
    plain = Plain({name: pair[1] for name, pair in named.items()}, result, lateness)
    now = watermark = 0

    def at(by: int) -> int:
        nonlocal now
        now = now + max(by, 0) if in_order else max(now, now + by)
        return now if in_order else now + min(by, 0)

    for place, move in enumerate([*moves, ("watermark", 300)]):
        what, *rest = move
        if what == "insert":
            value, time = rest[0], at(rest[1])
            slicer.insert(value, time)
            plain.insert(value, time)
        elif what == "extend":
            batch = [(value, at(by)) for value, by in rest[0]]
            slicer.extend([value for value, _ in batch], [time for _, time in batch])
            for value, time in batch:
                plain.insert(value, time)
        elif what == "add":
            (pair,) = rest
            since = slicer.add(f"q{place}", pair[0])
            assert since == max([plain.time, *(math.nextafter(t, math.inf) for t, _, _ in plain.tuples)])
            plain.queries[f"q{place}"], plain.since[f"q{place}"] = pair[1], since
        elif what == "remove":
            names = list(plain.queries)
            if names:
                name = names[rest[0] % len(names)]
                slicer.remove(name)
                plain.without(name)
        elif what == "watermark":
            watermark = max(watermark, now - 6) + rest[0]
            now = max(now, watermark) if in_order else now
            got = [(r.query, r.start, r.end, r.value, r.is_update) for r in slicer.watermark(watermark)]
            assert got == plain.watermark(watermark)
        else:
            functions = {n: k for n, k in slicer.queries.items() if type(k).__name__ == "Punctuation"}
            slicer = Slicer.load(slicer.dump(), kind, functions, store=store)
