"""A tuple is late only for queries whose windows that it belongs to are all over."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import Plain
from test_reference import make, steps
from window_kinds import MONOIDS, content, counted, known

from mta import OutOfOrderError, monoids
from mta.slicing import Delta, Late, Punctuation, Session, Slicer, Sliding, Tumbling
from mta.slicing.saved import deserialized, serialized
from stores import open_store

IN_MEMORY = ("lazy", "eager")


def outcome(results: Any) -> list[Any]:
    return [(r.query, r.start, r.end, r.value, r.is_update) for r in results]


def insert(slicer: Slicer, *tuples: tuple[Any, Any]) -> None:
    for value, time in tuples:
        slicer.insert(value, time=time)


def extend(slicer: Slicer, *tuples: tuple[Any, Any]) -> None:
    slicer.extend([value for value, _ in tuples], [time for _, time in tuples])


WAYS = pytest.mark.parametrize("take", [insert, extend])
STORES = pytest.mark.parametrize("store", IN_MEMORY)
Way = Callable[..., None]


@WAYS
@STORES
def test_a_window_that_has_not_ended_takes_what_is_behind_the_watermark(take: Way, store: str) -> None:
    slicer = Slicer(monoids.Sum(), {"q": Tumbling(100)}, store=store)
    slicer.watermark(50)
    take(slicer, (1, 40))
    assert outcome(slicer.watermark(100)) == [("q", 0, 100, 1, False)]
    take(slicer, (1, 99))
    assert outcome(slicer.watermark(200)) == []
    assert slicer.late_dropped == 1


@WAYS
def test_a_window_that_ended_less_than_the_lateness_ago_is_corrected(take: Way) -> None:
    slicer = Slicer(monoids.Sum(), {"q": Tumbling(100)}, lateness=30)
    take(slicer, (1, 5))
    assert outcome(slicer.watermark(129)) == [("q", 0, 100, 1, False)]
    take(slicer, (2, 7))
    assert outcome(slicer.watermark(130)) == [("q", 0, 100, 3, True)]
    take(slicer, (4, 9))
    assert outcome(slicer.watermark(200)) == []
    assert slicer.late_dropped == 1


@WAYS
@STORES
def test_of_sliding_windows_those_that_are_not_over_take_it(take: Way, store: str) -> None:
    slicer = Slicer(monoids.Sum(), {"q": Sliding(30, 10)}, store=store)
    take(slicer, (1, 5))
    slicer.watermark(20)
    take(slicer, (2, 6))
    assert outcome(slicer.watermark(30)) == [("q", 0, 30, 3, False)]
    assert slicer.late_dropped == 0
    take(slicer, (4, 9))
    assert slicer.late_dropped == 1


@WAYS
@STORES
def test_a_tuple_counts_for_the_queries_for_which_it_is_not_late(take: Way, store: str) -> None:
    told: list[Late] = []
    queries = {
        "ten": Tumbling(10),
        "hundred": Tumbling(100),
        "visit": Session(5),
        "two": Tumbling(2, measure="count"),
        "mark": Punctuation(lambda value: value == 1),
    }
    slicer = Slicer(monoids.Collect(), queries, store=store, on_late=told.append)
    take(slicer, (1, 3), (2, 4), (1, 20), (3, 21), (1, 45))
    first = outcome(slicer.watermark(50))
    assert ("two", 0, 2, [1, 2], False) in first
    assert ("two", 2, 4, [1, 3], False) in first
    take(slicer, (9, 5))
    assert told == [Late(9, 5, ("ten", "visit", "two", "mark"))]
    assert slicer.late_dropped == 0
    take(slicer, (4, 48))
    assert told[1:] == [Late(4, 48, ("ten",))]
    assert outcome(slicer.watermark(100)) == [
        ("two", 4, 6, [1, 4], False),
        ("visit", 45, 53, [1, 4], False),
        ("hundred", 0, 100, [1, 2, 9, 1, 3, 1, 4], False),
    ]
    # the last window of "mark" is open until one comes
    take(slicer, (1, 110))
    assert outcome(slicer.watermark(112)) == [("mark", 45, 110, [1, 4], False)]


@WAYS
def test_a_late_tuple_joins_and_extends_and_merges_open_sessions(take: Way) -> None:
    slicer = Slicer(monoids.Collect(), {"visit": Session(10)})
    take(slicer, (1, 95), (2, 113))
    assert slicer.watermark(100) == []
    take(slicer, (3, 86), (4, 78), (5, 104))
    assert slicer.late_dropped == 0
    assert outcome(slicer.watermark(124)) == [("visit", 78, 123, [4, 3, 1, 5, 2], False)]


@WAYS
def test_a_session_of_its_own_that_is_not_over_begins_behind_one_that_is(take: Way) -> None:
    slicer = Slicer(monoids.Collect(), {"visit": Session(10), "all": Tumbling(1000)})
    take(slicer, (1, 20))
    assert outcome(slicer.watermark(35)) == [("visit", 20, 30, [1], False)]
    take(slicer, (2, 24))  # its own would end at 34
    take(slicer, (3, 28))
    take(slicer, (4, 26))
    take(slicer, (5, 23))  # which joins that session, were there not the one that was late
    results = outcome(slicer.watermark(1000))
    assert results == [("visit", 26, 38, [4, 3], False), ("all", 0, 1000, [1, 5, 2, 4, 3], False)]


@WAYS
@STORES
def test_a_session_is_due_when_the_watermark_has_passed_its_end(take: Way, store: str) -> None:
    slicer = Slicer(monoids.Sum(), {"visit": Session(10)}, store=store, lateness=50)
    take(slicer, (1, 0))
    assert slicer.watermark(10) == []
    take(slicer, (2, 10))  # in order, and exactly at the gap
    assert outcome(slicer.watermark(20.5)) == [("visit", 0, 20, 3, False)]


@WAYS
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Delta(None, 5), [(10, 20, [20, 21])]),
        (Punctuation(lambda value: value >= 10), [(10, 12, [20]), (12, 20, [21])]),
    ],
)
def test_windows_by_content_take_what_is_behind_the_last_that_is_over(
    take: Way, kind: Any, expected: Any
) -> None:
    slicer = Slicer(monoids.Collect(), {"q": kind})
    take(slicer, (10, 0), (1, 1), (20, 10), (30, 20))
    slicer.watermark(15)
    take(slicer, (21, 12), (2, 9))
    assert slicer.late_dropped == 1
    assert [(r.start, r.end, r.value) for r in slicer.watermark(20)] == expected


@WAYS
def test_windows_by_count_that_are_over_keep_their_tuples(take: Way) -> None:
    slicer = Slicer(monoids.Collect(), {"three": Tumbling(3, measure="count"), "all": Tumbling(100)})
    take(slicer, (1, 1), (2, 2), (3, 3), (4, 4))
    assert outcome(slicer.watermark(4)) == [("three", 0, 3, [1, 2, 3], False)]
    take(slicer, (9, 2.5), (5, 3.5))
    assert outcome(slicer.watermark(90)) == []
    take(slicer, (6, 91))
    results = outcome(slicer.watermark(100))
    assert results == [("three", 3, 6, [5, 4, 6], False), ("all", 0, 100, [1, 2, 9, 3, 5, 4, 6], False)]


def test_a_store_takes_what_is_within_the_lateness() -> None:
    with make("paged", monoids.Sum(), {"q": Tumbling(100)}, lateness=10) as slicer:
        slicer.watermark(50)
        slicer.extend([1, 2], [39, 40])
        assert slicer.late_dropped == 1
        assert outcome(slicer.watermark(100)) == [("q", 0, 100, 2, False)]


# -- late tuples are handed out ---------------------------------------------------------------------------


@WAYS
def test_late_tuples_come_with_their_key_in_the_order_of_arrival(take: Way) -> None:
    told: list[Late] = []
    slicer = Slicer(
        monoids.Sum("paid"), {"ten": Tumbling(10), "day": Tumbling(24)}, by="user", on_late=told.append
    )
    slicer.watermark(30)
    rows = [
        ({"paid": 1, "user": "ann"}, 3),
        ({"paid": 2, "user": "bob"}, 25),
        ({"paid": 3, "user": "ann"}, 31),
        ({"paid": 4, "user": "bob"}, 23),
    ]
    take(slicer, *rows)
    assert told == [
        Late(rows[0][0], 3, ("ten", "day"), "ann"),
        Late(rows[1][0], 25, ("ten",), "bob"),
        Late(rows[3][0], 23, ("ten", "day"), "bob"),
    ]
    assert slicer.late_dropped == 2
    assert sorted(slicer.keys) == ["ann", "bob"]


def test_late_rows_of_columns() -> None:
    told: list[Late] = []
    slicer = Slicer(monoids.Sum("paid"), {"ten": Tumbling(10)}, on_late=told.append)
    slicer.watermark(30)
    slicer.extend({"paid": np.array([1.5, 2.5])}, np.array([31, 5]))
    assert told == [Late({"paid": 2.5}, 5, ("ten",))]
    slicer = Slicer(monoids.Sum(), {"ten": Tumbling(10)}, on_late=told.append)
    slicer.watermark(30)
    slicer.extend(np.array([1, 2]), [1, 32])
    assert told[1:] == [Late(1, 1, ("ten",))]


@WAYS
def test_a_function_for_late_tuples_that_raises_leaves_everything_as_it_was(take: Way) -> None:
    def full(late: Late) -> None:
        raise BufferError(late.time)

    slicer = Slicer(monoids.Sum(), {"ten": Tumbling(10), "all": Tumbling(100)}, on_late=full)
    slicer.insert(1, time=29)
    slicer.watermark(30)
    before = slicer.dump()
    with pytest.raises(BufferError, match="3"):
        take(slicer, (1, 3))
    assert slicer.dump() == before
    with pytest.raises(TypeError, match="on_late is a function of a late tuple, got 'log'"):
        Slicer(monoids.Sum(), {"ten": Tumbling(10)}, on_late="log")  # type: ignore[arg-type]


def test_a_slicer_that_is_loaded_or_restored_tells_late_tuples() -> None:
    told: list[Late] = []
    slicer = Slicer(monoids.Sum(), {"ten": Tumbling(10)})
    slicer.watermark(30)
    Slicer.load(slicer.dump(), monoids.Sum(), on_late=told.append).insert(1, time=3)
    store = open_store(f"memory:{uuid4().hex}")
    with Slicer(monoids.Sum(), {"ten": Tumbling(10)}, store=store, name="s") as slicer:
        slicer.watermark(30)
        slicer.checkpoint()
    with Slicer.restore(store, "s", monoids.Sum(), on_late=told.append) as slicer:
        slicer.insert(2, time=4)
    assert told == [Late(1, 3, ("ten",)), Late(2, 4, ("ten",))]


# -- a lateness of its own --------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("moved", [False, True])
def test_each_query_may_have_its_own_lateness(take: Way, moved: bool) -> None:
    queries = {"soon": Tumbling(10), "sure": Tumbling(10)}
    slicer = Slicer(monoids.Sum(), queries, lateness={"sure": 30})
    slicer.add("more", Tumbling(10), lateness=20)
    take(slicer, (1, 5))
    assert [r.query for r in slicer.watermark(25)] == ["soon", "sure", "more"]
    if moved:
        slicer = Slicer.load(slicer.dump(), monoids.Sum())
    take(slicer, (2, 6))
    assert outcome(slicer.watermark(30)) == [("sure", 0, 10, 3, True), ("more", 0, 10, 3, True)]
    take(slicer, (4, 7))
    assert outcome(slicer.watermark(39)) == [("sure", 0, 10, 7, True)]
    take(slicer, (8, 8))
    assert outcome(slicer.watermark(40)) == [("sure", 0, 10, 15, True)]
    take(slicer, (16, 9))
    assert slicer.watermark(50) == []
    assert slicer.late_dropped == 1


def test_lateness_that_cannot_be() -> None:
    make_it: Any = Slicer
    with pytest.raises(ValueError, match=r"lateness names the queries 'b'; there are \['a'\] only"):
        make_it(monoids.Sum(), {"a": Tumbling(10)}, lateness={"b": 3})
    with pytest.raises(ValueError, match="0 or more, got -1"):
        make_it(monoids.Sum(), {"a": Tumbling(10)}, lateness={"a": -1})
    with pytest.raises(ValueError, match="in_order=True goes with lateness=0"):
        make_it(monoids.Sum(), {"a": Tumbling(10)}, lateness={"a": 1}, in_order=True)
    slicer = make_it(monoids.Sum(), {"a": Tumbling(10)}, in_order=True)
    with pytest.raises(ValueError, match="in_order=True goes with lateness=0"):
        slicer.add("b", Tumbling(3), lateness=1)
    with pytest.raises(ValueError, match="0 or more, got -1"):
        slicer.add("b", Tumbling(3), lateness=-1)
    assert list(slicer.queries) == ["a"]


# -- the end of a stream ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [math.inf, np.float64("inf"), np.float32("inf")])
@pytest.mark.parametrize("store", [*IN_MEMORY, "paged"])
def test_the_end_of_a_stream_gives_all_windows_out(store: str, end: Any) -> None:
    told: list[Late] = []
    queries = {"ten": Tumbling(10), "slide": Sliding(20, 10), "visit": Session(100)}
    slicer = make(store, monoids.Sum(), queries, lateness=30, on_late=told.append)
    slicer.extend([1, 2], [5, 17])
    slicer.watermark(10)
    assert outcome(slicer.watermark(end)) == [
        ("ten", 10, 20, 2, False),
        ("slide", 0, 20, 3, False),
        ("slide", 10, 30, 2, False),
        ("visit", 5, 117, 3, False),
    ]
    assert slicer.slices == 0
    assert slicer.time == math.inf
    assert slicer.watermark(end) == []
    slicer.insert(3, time=10**9)
    slicer.extend([4], [10**10])
    assert slicer.late_dropped == 2
    assert [late.queries for late in told] == [tuple(queries)] * 2
    with pytest.raises(OutOfOrderError, match="is before inf"):
        slicer.watermark(10**12)
    slicer.close()


def test_the_end_of_a_stream_closes_the_last_window_by_content_and_fills_none_by_count() -> None:
    queries = {"mark": Punctuation(lambda value: value > 9, name="ten"), "two": Tumbling(2, measure="count")}
    slicer = Slicer(monoids.Collect(), queries, by=lambda value: value % 2)
    slicer.extend([10, 2, 4], [1, 2, 3])
    got = [(*each, r.key) for r in slicer.watermark(math.inf) for each in outcome([r])]
    assert got == [("two", 0, 2, [10, 2], False, 0), ("mark", 1, math.inf, [10, 2, 4], False, 0)]
    again = Slicer.load(slicer.dump(), monoids.Collect(), queries_of(slicer), by=lambda value: value % 2)
    assert again.watermark(math.inf) == []
    again.insert(10, time=4)
    assert again.late_dropped == 1


def queries_of(slicer: Slicer) -> dict[str, Any]:
    return {name: kind for name, kind in slicer.queries.items() if isinstance(kind, Punctuation)}


@pytest.mark.parametrize("store", ["lazy", "paged"])
def test_a_stream_that_has_ended_is_restored(store: str) -> None:
    slicer = make(store, monoids.Sum(), {"ten": Tumbling(10), "visit": Session(3)}, name="ended")
    slicer.insert(1, time=4)
    slicer.watermark(math.inf)
    if store == "lazy":
        again = Slicer.load(slicer.dump(), monoids.Sum())
    else:
        slicer.checkpoint()
        again = Slicer.restore(slicer._paged.window.store, "ended", monoids.Sum())  # type: ignore[union-attr]
    assert again.time == math.inf
    assert again.watermark(math.inf) == []


def test_a_dump_of_before_queries_had_their_own_lateness_is_loaded() -> None:
    queries = {"ten": Tumbling(10), "visit": Session(5), "two": Tumbling(2, measure="count")}
    slicer = Slicer(monoids.Sum(), queries, lateness=7)
    slicer.extend([5, 1, 9, 3], [1, 4, 22, 13])
    slicer.watermark(25)
    with deserialized("it", slicer.dump()) as saved:
        del saved["stored"]
        saved["queries"] = [query[:4] for query in saved["queries"]]
        for _, stream in saved["streams"]:
            stream["progress"]["two"] = stream["progress"]["two"][:4]
    again = Slicer.load(serialized(saved), monoids.Sum())
    for each in (slicer, again):
        each.insert(4, time=20)
        each.insert(4, time=2)
    assert again.watermark(60) == slicer.watermark(60)
    assert again.late_dropped == slicer.late_dropped == 1


def test_a_dump_of_before_results_had_their_states_is_loaded_and_dumped_again() -> None:
    slicer = Slicer(monoids.Last(), {"ten": Tumbling(10)}, in_order=True, changes_only=True)
    slicer.extend([5, 1], [1, 4])
    slicer.watermark(10)
    slicer.extend([1, 2, 3], [12, 25, 36])
    with deserialized("it", slicer.dump()) as saved:
        assert len(saved["streams"][0][1]["pending"]) == 2
        for _, stream in saved["streams"]:
            told = [
                (at, place, [*what[:3], value, *what[3:]])
                for (at, place, what, _), value in zip(stream["pending"], [1, 2], strict=True)
            ]
            stream["pending"] = told
            stream["given_values"] = [[which, (until, 1)] for which, until, _ in stream["given_values"]]
    again = Slicer.load(Slicer.load(serialized(saved), monoids.Last()).dump(), monoids.Last())
    for each in (slicer, again):
        assert [(r.start, r.value) for r in each.watermark(40)] == [(20, 2), (30, 3)]


def test_tuples_that_are_late_for_some_queries_copy_no_slices() -> None:
    queries = {"all": Tumbling(1000), "visit": Session(5), "two": Tumbling(2, measure="count")}
    slicer = Slicer(monoids.Sum(), queries)
    slicer.extend([1] * 100, range(0, 900, 9))
    slicer.watermark(890)
    streams = set()
    for time in range(3, 800, 9):
        slicer.insert(1, time=time)
        streams.update(map(id, slicer._streams.values()))
    assert len(streams) == 1
    assert slicer.late_dropped == 0


# -- all of it against the plain reference -----------------------------------------------------------------


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("store", [*IN_MEMORY, "paged"])
@given(
    pairs=st.lists(st.one_of(known(), known(), counted, content), min_size=1, max_size=6),
    own=st.lists(st.none() | st.integers(0, 40), min_size=6, max_size=6),
    default=st.integers(0, 25),
    moves=steps(st.integers(-40, 90)),
    restart=st.integers(0, 30),
)
def test_what_is_late_for_which_query(
    store: str, batches: bool, pairs: Any, own: Any, default: int, moves: Any, restart: int
) -> None:
    kind, result = MONOIDS["steps"]
    if store == "paged":
        pairs = [pair for pair in pairs if type(pair[1]).__name__ not in ("CountSliding", "Cut")]
    names = [f"q{place}" for place in range(len(pairs))]
    told: list[Late] = []
    slicer = make(store, kind, {}, lateness=default, on_late=told.append, name="s")
    plain = Plain({}, result, default, store == "paged")
    for name, pair, lateness in zip(names, pairs, own, strict=False):
        slicer.add(name, pair[0], lateness=lateness)
        plain.queries[name] = pair[1]
        if lateness is not None:
            plain.own[name] = lateness
    functions = {name: pair[0] for name, pair in zip(names, pairs, strict=True) if is_told(pair[0])}
    time = 0
    for place, (what, argument) in enumerate([*moves, ("watermark", 300)]):
        if place == restart and store != "paged":
            slicer = Slicer.load(slicer.dump(), kind, functions, store=store, on_late=told.append)
        if what == "watermark":
            time = math.inf if argument == 300 and restart % 2 else time + argument
            assert outcome(slicer.watermark(time)) == plain.watermark(time)
            continue
        batch = [argument] if what == "insert" else argument
        (extend if batches else insert)(slicer, *batch)
        for value, at in batch:
            plain.insert(value, at)
        assert [(late.value, late.time, late.queries) for late in told] == plain.late
        assert slicer.late_dropped == plain.late_dropped
    slicer.close()


def is_told(kind: Any) -> bool:
    return isinstance(kind, Punctuation) or type(kind).__name__ == "Uneven"
