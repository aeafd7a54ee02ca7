"""Queries that come and go, keys, order, triggers and changes, against the plain reference."""

from __future__ import annotations

import math
from typing import Any
from uuid import uuid4

import plain_windows
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import Plain, windows
from test_reference import make, steps
from window_kinds import MONOIDS, content, counted, known

from mta import monoids
from mta.slicing import ContentWindow, Session, Slicer, Sliding, Tumbling
from stores import open_store

KNOWN = (plain_windows.Tumbling, plain_windows.Sliding, plain_windows.Session, plain_windows.Spans)
NAMES = [f"q{place}" for place in range(6)]


def outcome(results: Any) -> list[Any]:
    return [(r.query, r.start, r.end, r.value, r.is_update) for r in results]


@pytest.mark.parametrize("store", ["lazy", "eager", "paged"])
@pytest.mark.parametrize("monoid", ["sum", "steps"])
@given(
    first=st.lists(known(), max_size=3),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
    changes=st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from(NAMES),
            st.one_of(st.none(), known(), counted, content),
            st.booleans(),
        ),
        max_size=6,
    ),
)
def test_queries_come_and_go(
    store: str, monoid: str, first: Any, lateness: int, moves: Any, changes: Any
) -> None:
    kind, result = MONOIDS[monoid]
    slicer = make(store, kind, {f"f{n}": pair[0] for n, pair in enumerate(first)}, lateness=lateness)
    plain = Plain({f"f{n}": pair[1] for n, pair in enumerate(first)}, result, lateness, store == "paged")
    time = 0
    for place, (what, argument) in enumerate([*moves, ("watermark", 200)]):
        for _, name, pair, history in (change for change in changes if change[0] == place):
            if name in plain.queries:
                slicer.remove(name)
                plain.without(name)
            elif pair is not None:
                if store == "paged" and not isinstance(pair[1], KNOWN):
                    with pytest.raises(ValueError, match="slices in a store do not change"):
                        slicer.add(name, pair[0], history=history)
                    continue
                if history and isinstance(pair[0], ContentWindow):
                    with pytest.raises(ValueError, match="no history"):
                        slicer.add(name, pair[0], history=True)
                    continue
                since = slicer.add(name, pair[0], history=history)
                if not history:
                    taken = [math.nextafter(at, math.inf) for at, _, _ in plain.tuples]
                    assert since == max([plain.time, *taken])
                plain.queries[name], plain.since[name] = pair[1], since
        if what == "watermark":
            time += argument
            assert outcome(slicer.watermark(time)) == plain.watermark(time)
            continue
        batch = [argument] if what == "insert" else argument
        if what == "insert":
            slicer.insert(argument[0], time=argument[1])
        else:
            slicer.extend([value for value, _ in batch], [at for _, at in batch])
        for value, at in batch:
            plain.insert(value, at)
    assert slicer.late_dropped == plain.late_dropped


@pytest.mark.parametrize("batches", [False, True])
@given(pairs=st.lists(st.one_of(known(), counted), min_size=1, max_size=4), moves=steps(st.integers(-20, 70)))
def test_each_key_is_a_stream_of_its_own(batches: bool, pairs: Any, moves: Any) -> None:
    kind, result = MONOIDS["steps"]
    slicer = Slicer(
        kind, {name: pair[0] for name, pair in zip(NAMES, pairs, strict=False)}, lateness=9, by=_third
    )
    plains = {
        key: Plain({name: pair[1] for name, pair in zip(NAMES, pairs, strict=False)}, result, 9)
        for key in range(3)
    }
    time = 0
    for what, argument in [*moves, ("watermark", 200)]:
        if what == "watermark":
            time += argument
            results = slicer.watermark(time)
            got = [(*outcome([each])[0], each.key) for each in results]
            expected = [(*row, key) for key, plain in plains.items() for row in plain.watermark(time)]
            assert sorted(got, key=repr) == sorted(expected, key=repr)
            at = [row.end for row in results if "count" not in repr(slicer.queries[row.query])]
            assert at == sorted(at)
            continue
        batch = [argument] if what == "insert" else argument
        if batches:
            slicer.extend([value for value, _ in batch], [at for _, at in batch])
        for value, at in batch:
            plains[_third(value)].insert(value, at)
            if not batches:
                slicer.insert(value, time=at)
    assert slicer.late_dropped == sum(plain.late_dropped for plain in plains.values())


def _third(value: int) -> int:
    return value % 3


def test_a_key_by_the_name_of_a_field_and_idle_keys_are_forgotten() -> None:
    slicer = Slicer(monoids.Sum("paid"), {"minute": Tumbling(60)}, by="user", lateness=60)
    slicer.insert({"paid": 3, "user": "ann"}, time=10)
    slicer.extend({"paid": [4, 5, 6], "user": ["bob", "ann", "bob"], "spare": [0, 0, 0]}, [70, 20, 30])
    assert slicer.keys == ["ann", "bob"]
    results = slicer.watermark(120)
    assert [(r.key, r.start, r.value) for r in results] == [("ann", 0, 8), ("bob", 0, 6), ("bob", 60, 4)]
    slicer.watermark(130)
    assert slicer.keys == ["bob"]
    with pytest.raises(KeyError, match="needs the field 'user'"):
        slicer.insert({"paid": 3}, time=200)
    with pytest.raises(TypeError, match=r"the key \[1\] of type list cannot be hashed"):
        slicer.insert({"paid": 3, "user": [1]}, time=200)


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("store", ["lazy", "eager"])
@given(
    pairs=st.lists(st.one_of(known(), counted, content), min_size=1, max_size=5),
    moves=steps(st.integers(0, 9)),
)
def test_in_order(batches: bool, store: str, pairs: Any, moves: Any) -> None:
    kind, result = MONOIDS["steps"]
    slicer = Slicer(
        kind, {name: pair[0] for name, pair in zip(NAMES, pairs, strict=False)}, store=store, in_order=True
    )
    plain = Plain({name: pair[1] for name, pair in zip(NAMES, pairs, strict=False)}, result, 0)
    youngest = watermark = 0
    for what, argument in [*moves, ("watermark", 500)]:
        if what == "watermark":
            watermark += argument
            assert outcome(slicer.watermark(watermark)) == plain.watermark(watermark)
            continue
        batch = []
        for value, by in [argument] if what == "insert" else argument:
            youngest += by
            batch.append((value, youngest))
            plain.insert(value, youngest)
        if batches:
            slicer.extend([value for value, _ in batch], [at for _, at in batch])
        else:
            for value, at in batch:
                slicer.insert(value, time=at)
        assert slicer.late_dropped == plain.late_dropped


@pytest.mark.parametrize("batches", [False, True])
@given(
    pairs=st.lists(known(), min_size=1, max_size=4),
    moves=steps(st.integers(-20, 70)),
    tuples=st.one_of(st.none(), st.integers(1, 5)),
    span=st.one_of(st.none(), st.integers(1, 12)),
)
def test_triggers(batches: bool, pairs: Any, moves: Any, tuples: int | None, span: int | None) -> None:
    kind, result = MONOIDS["steps"]
    slicer = Slicer(
        kind,
        {name: pair[0] for name, pair in zip(NAMES, pairs, strict=False)},
        lateness=9,
        every_tuples=tuples,
        every_time=span,
    )
    plain = Plain({name: pair[1] for name, pair in zip(NAMES, pairs, strict=False)}, result, 9)
    time, since = 0, 0
    for what, argument in [*moves, ("watermark", 200)]:
        if what == "watermark":
            time += argument
            assert outcome(slicer.watermark(time)) == plain.watermark(time)
            continue
        batch = [argument] if what == "insert" else argument
        got: list[Any] = []
        if batches:
            got = slicer.extend([value for value, _ in batch], [at for _, at in batch])
        expected: list[Any] = []
        for value, at in batch:
            if not batches:
                got += slicer.insert(value, time=at)
            before = max((each[0] for each in plain.tuples), default=None)
            held = len(plain.tuples)
            plain.insert(value, at)
            since += len(plain.tuples) - held
            passed = span and before is not None and at // span > before // span
            if (tuples and since == tuples) or (passed and len(plain.tuples) > held):
                since = 0
                expected += _early(plain, result)
        assert all(r.is_early for r in got)
        assert outcome(got) == expected


def _early(plain: Plain, result: Any) -> list[Any]:
    ordered = sorted(plain.tuples, key=lambda each: each[:2])
    youngest = ordered[-1][0]
    found = []
    for place, (name, kind) in enumerate(plain.queries.items()):
        session = isinstance(kind, plain_windows.Session)
        found_here = plain.states[name].now() if session else windows(kind, ordered)
        for start, end, at, part in found_here:
            # a session goes on at its end
            if start <= youngest < end and (at > plain.time or (session and at == plain.time)):
                value = result([value for _, _, value in part])
                found.append(((at, place, start), (name, start, end, value, False)))
    return [row for _, row in sorted(found, key=lambda each: each[0])]


def test_triggers_of_windows_by_count() -> None:
    slicer = Slicer(monoids.Collect(), {"c": Sliding(4, 2, measure="count")}, every_tuples=3, lateness=5)
    early = [slicer.insert(value, time=value) for value in range(7)]
    assert [[(r.start, r.end, r.value) for r in results] for results in early if results] == [
        [(0, 3, [0, 1, 2]), (2, 3, [2])],
        [(2, 6, [2, 3, 4, 5]), (4, 6, [4, 5])],
    ]


def test_changes_only() -> None:
    slicer = Slicer(monoids.Max(), {"ten": Tumbling(10)}, lateness=100, changes_only=True)
    for value, time in [(5, 1), (5, 11), (7, 21), (5, 31), (5, 41)]:
        slicer.insert(value, time=time)
    assert [(r.start, r.value) for r in slicer.watermark(50)] == [(0, 5), (20, 7), (30, 5)]
    slicer.insert(4, time=2)  # which changes no maximum
    slicer.insert(6, time=12)
    assert [(r.start, r.value, r.is_update) for r in slicer.watermark(50)] == [(10, 6, True)]
    slicer.insert(5, time=51)
    assert slicer.watermark(60) == []


def test_a_session_that_grows_again_after_it_was_given() -> None:
    slicer = Slicer(monoids.Sum(), {"visit": Session(10)}, lateness=100)
    slicer.insert(1, time=0)
    slicer.insert(2, time=25)
    assert [(r.start, r.end, r.value, r.is_update) for r in slicer.watermark(40)] == [
        (0, 10, 1, False),
        (25, 35, 2, False),
    ]
    slicer.insert(4, time=10)
    slicer.insert(8, time=15)
    assert [(r.start, r.end, r.value, r.is_update) for r in slicer.watermark(40)] == [(0, 35, 15, True)]


def test_history_begins_behind_what_is_dropped() -> None:
    slicer = Slicer(monoids.Sum(), {}, lateness=30)
    slicer.insert(1, time=44)
    assert slicer.add("now", Tumbling(3)) == math.nextafter(44, math.inf)
    slicer.watermark(30)  # it drops slices that no query needs
    slicer.insert(2, time=38)
    assert slicer.add("past", Tumbling(16), history=True) == math.nextafter(44, math.inf)
    slicer.insert(4, time=46)
    assert outcome(slicer.watermark(50)) == [("now", 45, 48, 4, False), ("past", 32, 48, 4, False)]


@pytest.mark.parametrize("moved", [False, True])
def test_a_query_is_not_before_the_tuples_of_a_key_that_is_forgotten(moved: bool) -> None:
    slicer = Slicer(monoids.Sum(), {}, by=_third, lateness=30)
    slicer.insert(1, time=25)
    slicer.add("now", Tumbling(10))
    slicer.watermark(5)
    assert slicer.keys == []
    if moved:
        slicer = Slicer.load(slicer.dump(), monoids.Sum(), by=_third)
    for name, history in (("new", False), ("past", True)):
        assert slicer.add(name, Tumbling(10), history=history) == math.nextafter(25, math.inf)


@pytest.mark.parametrize("store", ["lazy", "paged"])
def test_sessions_with_history_see_what_is_about_to_go_to_the_store(store: str) -> None:
    slicer = make(store, monoids.Sum(), {"all": Tumbling(100)})
    slicer.extend([1, 2], [10, 13])
    slicer.watermark(50)
    # from now on no tuple can join the slice at 13
    assert slicer.add("visit", Session(5), history=True) == 10
    slicer.insert(4, time=60)
    assert outcome(slicer.watermark(70)) == [("visit", 10, 18, 3, False), ("visit", 60, 65, 4, False)]
    slicer.close()


def test_a_batch_between_slices_of_counted_tuples() -> None:
    slicer = Slicer(monoids.Collect(), {"two": Tumbling(2, measure="count")})
    slicer.extend([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4])
    slicer.extend([15, 35], [0.15, 0.35])
    assert [r.value for r in slicer.watermark(10)] == [[1, 15], [2, 3], [35, 4]]


def test_a_batch_of_equal_times_between_slices_of_counted_tuples() -> None:
    slicer = Slicer(monoids.Collect(), {"two": Tumbling(2, measure="count")})
    slicer.extend([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.3])
    slicer.extend([15, 35, 36], [0.15, 0.3, 0.3])
    slicer.insert(37, time=0.3)
    assert [r.value for r in slicer.watermark(10)] == [[1, 15], [2, 3], [4, 35], [36, 37]]


def test_windows_by_count_cut_no_slice_in_time() -> None:
    slicer = Slicer(monoids.Sum(), {"c": Sliding(600, 600, measure="count")})
    slicer.extend(range(1000), range(0, 10_000, 10))
    assert slicer.slices == 2  # of 512 tuples at most


def test_results_are_in_the_order_of_queries_also_when_some_have_gone() -> None:
    slicer = Slicer(monoids.Sum(), {name: Tumbling(10) for name in "abcd"}, in_order=True)
    slicer.extend([1, 2], [1, 15])
    slicer.remove("a")
    slicer.remove("b")
    assert slicer.add("e", Tumbling(10), history=True) == 1
    assert [r.query for r in slicer.watermark(10)] == ["c", "d", "e"]


@pytest.mark.parametrize("store", ["lazy", "paged"])
def test_a_window_that_has_ended_is_not_given_early(store: str) -> None:
    slicer = make(store, monoids.Sum(), {"visit": Session(4)}, lateness=30, every_tuples=1)
    slicer.watermark(20)
    assert slicer.insert(1, time=0) == []
    slicer.add("five", Tumbling(5), history=True)
    assert slicer.insert(1, time=1) == []
    assert outcome(slicer.watermark(20)) == [("visit", 0, 5, 2, False), ("five", 0, 5, 2, False)]
    slicer.close()


def test_changes_are_told_from_what_was_given_before() -> None:
    slicer = Slicer(
        monoids.Max(), {"five": Tumbling(5)}, in_order=True, changes_only=True, every_tuples=2, lateness=0
    )
    slicer.insert(3, time=1)
    # [0, 5) is complete when this comes; it is emitted later, as the first result that is not early
    assert outcome(slicer.insert(3, time=6)) == [("five", 5, 10, 3, False)]
    assert outcome(slicer.watermark(5)) == [("five", 0, 5, 3, False)]
    assert outcome(slicer.insert(3, time=7)) == []


@given(
    finer=st.integers(1, 4),
    kind=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(-2, 2)),
    times=st.lists(st.integers(0, 90), min_size=1, max_size=80),
    moved=st.booleans(),
)
def test_history_reaches_into_the_store_where_slices_were_cut_for_it(
    finer: int, kind: tuple[int, int, int], times: list[int], moved: bool
) -> None:
    length, slide, offset = (number * finer for number in kind)
    result = MONOIDS["steps"][1]
    store = open_store(f"memory:{uuid4().hex}")
    slicer = Slicer(
        MONOIDS["steps"][0],
        {"fine": Tumbling(finer), "all": Tumbling(1000, offset=-10)},
        lateness=10,
        store=store,
        name="s",
        page_size=2,
        local=0,
    )
    plain = Plain({}, result, 10)
    for value, time in enumerate(sorted(times, key=lambda time: time + time * 7 % 10)):
        slicer.insert(value, time=time)
        plain.insert(value, time)
        slicer.watermark(max(time - 3, slicer.time or 0))
        plain.time = slicer.time
    if moved:
        slicer.checkpoint()
        slicer = Slicer.restore(store, "s", MONOIDS["steps"][0], local=0)
    # every leaf is needed by "all", so the oldest tuple is still there
    assert slicer.add("more", Sliding(length, slide, offset=offset), history=True) == min(times)
    plain.queries["more"] = plain_windows.Spans(
        lambda time: [
            (at, at + length) for at in range(offset - 200 * slide, 100, slide) if at <= time < at + length
        ]
    )
    assert [row for row in outcome(slicer.watermark(200)) if row[0] == "more"] == plain.watermark(200)
    slicer.close()


def test_a_query_with_history_needs_it_before_the_next_watermark() -> None:
    with make("paged", monoids.Sum(), {"now": Tumbling(10)}) as slicer:
        slicer.extend([1] * 22, [31, 36, *range(60, 260, 10)])
        slicer.watermark(60)  # the slices before are too few to be dropped
        assert slicer.add("past", Tumbling(20), history=True) == 31
        for number in range(3):  # each one drops slices that no query needs
            slicer.checkpoint(number)
        assert outcome(slicer.watermark(60)) == [("past", 20, 40, 2, False)]


@pytest.mark.parametrize("option", [{"every_tuples": 1}, {"every_time": 2}], ids=str)
def test_an_early_result_does_not_take_the_place_of_the_last_one(option: Any) -> None:
    slicer = Slicer(monoids.Max(), {"five": Tumbling(5)}, changes_only=True, **option)
    early = [r for time in range(5) for r in slicer.insert(7, time)]
    assert [(r.start, r.value) for r in early] == [(0, 7)]
    assert outcome(slicer.watermark(5)) == [("five", 0, 5, 7, False)]
    assert [r for time in range(5, 10) for r in slicer.insert(7, time)] == []
    slicer = Slicer.load(slicer.dump(), monoids.Max())
    assert outcome(slicer.watermark(10)) == []  # equal to the result before it
    assert [r.value for r in slicer.insert(9, 13)] == [9]
    assert outcome(slicer.watermark(15)) == [("five", 10, 15, 9, False)]


def test_results_that_are_no_plain_values_are_dumped() -> None:
    kind = monoids.LongestIncreasingRun()
    for options in ({"in_order": True}, {"changes_only": True}, {"changes_only": True, "every_tuples": 2}):
        slicers = [Slicer(kind, {"five": Tumbling(5)}, **options) for _ in range(2)]
        results: list[Any] = [[], []]
        for time in range(30):
            slicers[1] = Slicer.load(slicers[1].dump(), kind)
            for slicer, found in zip(slicers, results, strict=True):
                found += slicer.insert(time % 7, time)
                if time % 4 == 0:
                    found += slicer.watermark(time - 1 if time else 0)
        assert results[0] == results[1] != []


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_an_unchanged_update_of_a_query_with_history_and_a_greater_lateness(again: bool, early: bool) -> None:
    options: Any = {"every_tuples": 1} if early else {}
    slicer = Slicer(monoids.Max(), {"a": Sliding(18, 9)}, changes_only=True, **options)
    slicer.insert(5, 1)
    slicer.watermark(12)
    slicer.add("b", Tumbling(10), history=True, lateness=4)
    assert [(r.query, r.value) for r in slicer.watermark(12)] == [("b", 5)]
    if again:
        slicer = Slicer.load(slicer.dump(), monoids.Max())
    slicer.insert(1, 2)
    assert slicer.watermark(12) == []
    slicer.insert(7, 3)
    assert [(r.query, r.value, r.is_update) for r in slicer.watermark(12)] == [("b", 7, True)]


@pytest.mark.parametrize("by", [None, "key"])
def test_a_result_beyond_64_bits_names_its_query_and_its_window(by: Any) -> None:
    slicer = Slicer(monoids.Sum("n"), {"small": Tumbling(1), "large": Tumbling(10)}, by=by)
    slicer.extend([{"n": 2**62, "key": "k"}] * 2, [1, 2])
    where = r"query 'large', window \[0, 10\)" + (", key 'k'" if by else "") + ": the result of Sum"
    for _ in range(2):
        with pytest.raises(OverflowError, match=where):
            slicer.watermark(10)
    slicer.remove("large")
    assert [r.query for r in slicer.watermark(10)] == ["small", "small"]
