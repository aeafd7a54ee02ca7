"""The rivals return the results of a slicer; those that hold tuples back return the final ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import Plain, Session, windows
from test_reference import steps, walk
from window_kinds import MONOIDS, content, counted, known, sessions, sliding, tumbling

from mta import OutOfOrderError, monoids
from mta.slicing import Delta, Tumbling
from mta.slicing import Session as SessionWindow
from mta.slicing.rivals import Buckets, HeldDABA, HeldIntervals, TupleTree

NAMES = [f"q{place}" for place in range(20)]


@pytest.mark.parametrize("rival", [Buckets, TupleTree])
@pytest.mark.parametrize("monoid", MONOIDS)
@given(
    pairs=st.lists(known(), min_size=1, max_size=6),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
)
def test_results_as_a_slicer_gives_them(
    rival: Any, monoid: str, pairs: Any, lateness: int, moves: Any
) -> None:
    check(rival, monoid, pairs, lateness, moves)


@given(
    pairs=st.lists(st.one_of(known(), counted, content), min_size=1, max_size=20),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
)
def test_a_tree_of_tuples_takes_windows_of_all_kinds(pairs: Any, lateness: int, moves: Any) -> None:
    check(TupleTree, "steps", pairs, lateness, moves)


def check(rival: Any, monoid: str, pairs: Any, lateness: int, moves: Any) -> None:
    kind, result = MONOIDS[monoid]
    named = dict(zip(NAMES, pairs, strict=False))
    mine = rival(kind, {name: pair[0] for name, pair in named.items()}, lateness=lateness)
    walk(mine, Plain({name: pair[1] for name, pair in named.items()}, result, lateness), moves)


def test_a_tree_of_tuples_has_a_leaf_for_each_also_in_an_open_session() -> None:
    tree = TupleTree(monoids.Sum(), {"visit": SessionWindow(1)})
    tree.extend([1, 2], [20, 21])
    assert tree.watermark(22) == []
    assert tree.slices == 2
    tree.insert(4, time=20)
    assert [(r.start, r.end, r.value) for r in tree.watermark(30)] == [(20, 22, 7)]


@pytest.mark.parametrize("rival", [HeldDABA, HeldIntervals])
@pytest.mark.parametrize("monoid", MONOIDS)
@given(
    pairs=st.lists(st.one_of(tumbling(1), sliding(1), sessions(1)), min_size=1, max_size=6),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
)
def test_results_when_they_are_final(rival: Any, monoid: str, pairs: Any, lateness: int, moves: Any) -> None:
    kind, result = MONOIDS[monoid]
    named = dict(zip(NAMES, pairs, strict=False))
    mine = rival(kind, {name: pair[0] for name, pair in named.items()}, lateness=lateness)
    # they take tuples that cannot be late, and none before these
    plain = Plain({name: pair[1] for name, pair in named.items()}, result, lateness, stored=True)
    time, given_already = 0, set()
    for what, argument in [*moves, ("watermark", 300)]:
        if what != "watermark":
            batch = [argument] if what == "insert" else argument
            mine.extend([value for value, _ in batch], [at for _, at in batch])
            for value, at in batch:
                plain.insert(value, at)
            continue
        time += argument
        plain.time = time
        ordered = sorted(plain.tuples, key=lambda each: each[:2])
        expected = []
        for name, each in plain.queries.items():
            for start, end, _, part in windows(each, ordered):
                final = end < time - lateness or (end == time - lateness and not isinstance(each, Session))
                if final and (name, start, end) not in given_already:
                    given_already.add((name, start, end))
                    expected.append((name, start, end, result([value for _, _, value in part]), False))
        got = [(r.query, r.start, r.end, r.value, r.is_update) for r in mine.watermark(time)]
        assert sorted(got, key=repr) == sorted(expected, key=repr)
        assert mine.late_dropped == plain.late_dropped


@pytest.mark.parametrize("rival", [Buckets, HeldDABA, HeldIntervals])
def test_what_rivals_refuse(rival: Any) -> None:
    with pytest.raises(ValueError, match="'q' is Delta"):
        rival(monoids.Sum(), {"q": Delta(None, 3)})
    with pytest.raises(ValueError, match='measure="count"'):
        rival(monoids.Sum(), {"q": Tumbling(3, measure="count")})
    mine = rival(monoids.Sum(), {"q": Tumbling(3)})
    mine.watermark(5)
    with pytest.raises(OutOfOrderError, match="watermark 4 is before 5"):
        mine.watermark(4)
