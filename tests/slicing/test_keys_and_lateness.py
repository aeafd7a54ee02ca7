"""Silent keys and late tuples at once, compared with one slicer for each key that gets every watermark."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import CountQuery, CutQuery, EdgeQuery, Plain, SessionQuery, spans_of
from window_kinds import MONOIDS, Uneven, content, counted, known, sessions, tumbling

from mta import monoids
from mta.slicing import Late, Punctuation, Session, Slicer, Sliding, Tumbling

KEYS = 4


def key_of(value: int) -> int:
    return value % KEYS


class Apart:
    """A slicer for each key. All of them get every watermark, so no work is put off."""

    def __init__(self, result: Any, lateness: Any, forget_after: Any) -> None:
        self.result, self.lateness, self.forget_after = result, lateness, forget_after
        self.queries: dict[str, Any] = {}
        self.own: dict[str, Any] = {}
        self.since: dict[str, Any] = {}
        self.time: Any = -math.inf
        self.late_dropped = 0
        self.plains = {key: self.anew() for key in range(KEYS)}

    def anew(self) -> Plain:
        queries, own, since = dict(self.queries), dict(self.own), dict(self.since)
        plain = Plain(queries, self.result, self.lateness, own=own, since=since)
        if self.time > -math.inf:
            plain.watermark(self.time)
        return plain

    def add(self, name: str, kind: Any, lateness: Any, since: Any) -> None:
        self.queries[name], self.since[name] = kind, since
        if lateness is not None:
            self.own[name] = lateness
        for plain in self.plains.values():
            plain.queries[name], plain.since[name] = kind, since
            if lateness is not None:
                plain.own[name] = lateness

    def remove(self, name: str) -> None:
        for plain in self.plains.values():
            plain.without(name)
        for told in (self.queries, self.own, self.since):
            told.pop(name, None)

    def insert(self, value: Any, time: Any) -> list[tuple[Any, ...]]:
        """The tuple and the queries for which it is late, if there are any."""
        plain, key = self.plains[key_of(value)], key_of(value)
        late, dropped = len(plain.late), plain.late_dropped
        plain.insert(value, time)
        self.late_dropped += plain.late_dropped - dropped
        return [(*each, key) for each in plain.late[late:]]

    def watermark(self, time: Any) -> list[tuple[Any, ...]]:
        self.time = time
        found = [(*row, key) for key, plain in self.plains.items() for row in plain.watermark(time)]
        for key, plain in self.plains.items():
            if self.forget_after is not None and plain.tuples and self.is_silent(plain):
                self.plains[key] = self.anew()
        return found

    def is_silent(self, plain: Plain) -> bool:
        """Whether nothing came for so long, and all windows that have a tuple are over."""
        plain._begin()
        youngest = max(plain.tuples)[0]
        least = min(map(plain.horizon, plain.queries), default=plain.time)
        if not plain.queries:
            return bool(youngest + self.forget_after <= plain.time)
        for name, state in plain.states.items():
            horizon = plain.horizon(name)
            if youngest >= horizon:
                return False
            seen = isinstance(state, EdgeQuery) and youngest >= state.since
            if seen and any(end > horizon for _, end in spans_of(state.kind)(youngest)):
                return False
            if isinstance(state, SessionQuery) and state.open:
                return False
        return bool(youngest + self.forget_after <= least)


def told_of(results: Any) -> list[Any]:
    rows = [(r.query, r.start, r.end, r.value, r.is_update, r.key) for r in results]
    return sorted(rows, key=repr)


LATENESS = st.none() | st.integers(0, 40)
PAIRS = st.one_of(known(), known(), tumbling(40), sessions(10), counted, content)
TUPLE = st.tuples(st.integers(0, 30), st.integers(-60, 9))
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), TUPLE),
        st.tuples(st.just("insert"), TUPLE),
        st.tuples(st.just("extend"), st.lists(TUPLE, max_size=6)),
        st.tuples(st.just("watermark"), st.integers(0, 40)),
        st.tuples(st.just("watermark"), st.integers(0, 3)),
        st.tuples(st.just("watermark"), st.just(0)),
        st.tuples(st.just("reload"), st.just(0)),
        st.tuples(st.just("add"), st.tuples(PAIRS, LATENESS)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("forget_after", [None, 0, 15])
@pytest.mark.parametrize("monoid", ["sum", "steps"])
@pytest.mark.parametrize("store", ["lazy", "eager"])
@given(
    pairs=st.lists(st.tuples(PAIRS, LATENESS), max_size=4),
    lateness=st.integers(0, 30),
    moves=MOVES,
    ends=st.booleans(),
)
def test_keys_that_watermarks_pass_by_judge_late_tuples_as_if_they_had_not(
    store: str, monoid: str, forget_after: Any, pairs: Any, lateness: int, moves: Any, ends: bool
) -> None:
    kind, result = MONOIDS[monoid]
    told: list[Late] = []
    slicer = Slicer(
        kind, {}, by=key_of, lateness=lateness, on_late=told.append, forget_after=forget_after, store=store
    )
    apart = Apart(result, lateness, forget_after)
    begin = [("add", each) for each in pairs]
    now, late = 0, []
    for place, (what, argument) in enumerate([*begin, *moves, ("watermark", 300)]):
        if what == "add":
            (mine, plain), own = argument
            since = slicer.add(f"q{place}", mine, lateness=own)
            apart.add(f"q{place}", plain, own, since)
        elif what == "remove":
            if slicer.queries:
                name = sorted(slicer.queries)[argument % len(slicer.queries)]
                slicer.remove(name)
                apart.remove(name)
        elif what == "reload":
            functions = {
                name: each for name, each in slicer.queries.items() if isinstance(each, (Uneven, Punctuation))
            }
            slicer = Slicer.load(slicer.dump(), kind, functions, by=key_of, on_late=told.append, store=store)
        elif what == "watermark":
            now = math.inf if argument == 300 and ends else now + argument
            assert told_of(slicer.watermark(now)) == sorted(apart.watermark(now), key=repr)
        else:
            batch = [argument] if what == "insert" else argument
            batch = [(value, now + by) for value, by in batch]
            if what == "insert":
                slicer.insert(*batch[0])
            else:
                slicer.extend([value for value, _ in batch], [time for _, time in batch])
            late += [each for value, time in batch for each in apart.insert(value, time)]
            assert [tuple(each) for each in told] == late
            assert slicer.late_dropped == apart.late_dropped
    if not any(isinstance(state, (CountQuery, CutQuery)) for state in apart.plains[0].states.values()):
        assert slicer.watermark(math.inf) == [] or not ends
        assert slicer.keys == []


def test_a_key_that_was_passed_by_gives_no_window_that_is_over() -> None:
    slicer = Slicer(monoids.Sum("n"), {"q": Sliding(20, 10), "hour": Tumbling(3600)}, by="key")
    slicer.insert({"n": 1, "key": "a"}, time=5)
    slicer.watermark(20)
    assert slicer.watermark(35) == []
    slicer.insert({"n": 4, "key": "a"}, time=22)
    assert [(r.start, r.value) for r in slicer.watermark(40)] == [(20, 4)]


def test_sessions_of_a_key_that_was_passed_by_are_over() -> None:
    late: list[Late] = []
    queries = {"visit": Session(5), "hour": Tumbling(3600)}
    slicer = Slicer(monoids.Sum("n"), queries, by="key", lateness={"visit": 10}, on_late=late.append)
    slicer.insert({"n": 1, "key": "a"}, time=5)
    assert [r.value for r in slicer.watermark(11)] == [1]
    slicer.watermark(15)
    slicer.watermark(30)
    slicer.insert({"n": 2, "key": "a"}, time=7)
    assert [each.queries for each in late] == [("visit",)]
    assert slicer.watermark(40) == []


def test_the_end_of_a_stream_is_told_to_keys_that_wait_for_another_tuple() -> None:
    slicer = Slicer(
        monoids.Sum(), {"mark": Punctuation(lambda value: value == 0)}, by=lambda value: value % 2
    )
    slicer.extend([0, 2, 1], [1, 2, 3])
    for time in (5, 6, 7):
        assert slicer.watermark(time) == []
    slicer = Slicer.load(slicer.dump(), monoids.Sum(), slicer.queries, by=slicer._settings.by)
    assert [(r.key, r.start, r.end, r.value) for r in slicer.watermark(math.inf)] == [
        (0, 1, math.inf, 2),
        (1, 3, math.inf, 1),
    ]
    assert slicer.keys == []


@pytest.mark.parametrize("by", [None, key_of])
def test_a_dump_after_the_end_of_a_stream_has_the_value_of_its_last_window(by: Any) -> None:
    mark = Punctuation(lambda value: value == 0)
    slicer = Slicer(
        monoids.Sum(), {"mark": mark, "c": Tumbling(2, measure="count")}, by=by, changes_only=True
    )
    slicer.extend([0, 4, 8], [1, 2, 3])
    assert [(r.query, r.value) for r in slicer.watermark(math.inf)] == [("c", 4), ("mark", 12)]
    again = Slicer.load(slicer.dump(), monoids.Sum(), {"mark": mark}, by=by)
    assert again.watermark(math.inf) == []


def test_a_late_tuple_before_slices_that_became_one() -> None:
    queries = {"second": Tumbling(1), "visit": Session(10)}
    slicer = Slicer(monoids.Sum(), queries)
    slicer.insert(1, time=0.5)
    for time in range(1, 3000):
        slicer.insert(1, time=time)
        slicer.watermark(time)
    assert slicer.slices < 300
    slicer.insert(1, time=0.25)
    slicer.insert(1, time=700.5)
    again = Slicer.load(slicer.dump(), monoids.Sum())
    for each in (slicer, again):
        assert [(r.start, r.value) for r in each.watermark(4000) if r.query == "visit"] == [(0.25, 3002)]
