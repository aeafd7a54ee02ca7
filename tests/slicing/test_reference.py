"""Every store, kind of window and way in against the plain reference."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from chance import examples
from hypothesis import event, given, settings
from hypothesis import strategies as st
from plain_windows import Plain
from window_kinds import MONOIDS, content, counted, known, sessions, sliding, tumbling

from mta.slicing import Slicer
from stores import open_store

STORES = ("lazy", "eager", "paged")
#: the stores that take windows by count and by content
IN_MEMORY = ("lazy", "eager")


def steps(times: Any) -> Any:
    """Tuples one by one and in batches, and watermarks that go up, also by nothing."""
    one = st.tuples(st.integers(0, 30), times)
    return st.lists(
        st.one_of(
            one.map(lambda t: ("insert", t)),
            st.lists(one, max_size=12).map(lambda ts: ("extend", ts)),
            st.integers(0, 15).map(lambda by: ("watermark", by)),
        ),
        max_size=30,
    )


def walk(slicer: Any, plain: Plain, moves: list[Any], scale: Any = 1, first: int = 0) -> None:
    time = first
    for what, argument in [*moves, ("watermark", 200)]:
        if what == "insert":
            slicer.insert(argument[0], time=argument[1])
            plain.insert(*argument)
        elif what == "extend":
            slicer.extend([value for value, _ in argument], [at for _, at in argument])
            for value, at in argument:
                plain.insert(value, at)
        else:
            time += argument * scale
            got = [(r.query, r.start, r.end, r.value, r.is_update) for r in slicer.watermark(time)]
            expected = plain.watermark(time)
            assert got == expected
            event(f"updates: {any(r[4] for r in expected)}")
        assert slicer.late_dropped == plain.late_dropped


def queries(kinds: Any, most: int = 6) -> Any:
    return st.lists(kinds, min_size=1, max_size=most)


def check(store: str, monoid: str, pairs: list[Any], lateness: Any, moves: Any, scale: Any = 1) -> None:
    kind, result = MONOIDS[monoid]
    names = [f"q{place}" for place in range(len(pairs))]
    mine = {name: pair[0] for name, pair in zip(names, pairs, strict=True)}
    plain = {name: pair[1] for name, pair in zip(names, pairs, strict=True)}
    with make(store, kind, mine, lateness=lateness) as slicer:
        walk(slicer, Plain(plain, result, lateness, store == "paged"), moves, scale)


def make(store: str, monoid: Any, queries: Any, **options: Any) -> Slicer:
    """A slicer with a store of each kind; in pages of two, all that cannot change is paged out."""
    if store == "paged":
        options = {"page_size": 2, "local": 0, **options}
        return Slicer(monoid, queries, store=open_store(f"memory:{uuid4().hex}"), **options)
    return Slicer(monoid, queries, store=store, **options)


@pytest.mark.parametrize("monoid", MONOIDS)
@pytest.mark.parametrize("store", STORES)
@given(pairs=queries(known()), lateness=st.integers(0, 25), moves=steps(st.integers(-20, 70)))
def test_windows_with_known_edges_and_sessions(
    store: str, monoid: str, pairs: Any, lateness: int, moves: Any
) -> None:
    check(store, monoid, pairs, lateness, moves)


@pytest.mark.parametrize("monoid", ["sum", "steps"])
@pytest.mark.parametrize("store", IN_MEMORY)
@given(
    pairs=queries(st.one_of(known(), counted, content)),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
)
def test_windows_by_count_and_by_content(
    store: str, monoid: str, pairs: Any, lateness: int, moves: Any
) -> None:
    check(store, monoid, pairs, lateness, moves)


@pytest.mark.parametrize("store", IN_MEMORY)
@settings(max_examples=examples(25))
@given(
    pairs=st.lists(st.one_of(known(), counted, content), min_size=12, max_size=20),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
)
def test_twenty_queries(store: str, pairs: Any, lateness: int, moves: Any) -> None:
    check(store, "steps", pairs, lateness, moves)


@pytest.mark.parametrize("store", STORES)
@given(
    pairs=queries(known(0.25)),
    lateness=st.integers(0, 20).map(lambda n: n * 0.25),
    moves=steps(st.one_of(st.integers(-5, 15), st.integers(-20, 60).map(lambda n: n * 0.25))),
)
def test_whole_and_real_times_mixed(store: str, pairs: Any, lateness: float, moves: Any) -> None:
    check(store, "steps", pairs, lateness, moves, 0.25)


@settings(max_examples=examples(25))
@given(
    pairs=st.lists(known(), min_size=12, max_size=20),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
)
def test_twenty_queries_in_pages(pairs: Any, lateness: int, moves: Any) -> None:
    check("paged", "steps", pairs, lateness, moves)


@pytest.mark.parametrize("base", [2**53 - 20, 2**62, -(2**62)])
@pytest.mark.parametrize("store", STORES)
@settings(max_examples=examples(20))
@given(
    pairs=queries(st.one_of(tumbling(1), sliding(1), sessions(1))),
    lateness=st.integers(0, 25),
    moves=steps(st.integers(-20, 70)),
)
def test_times_beyond_what_floats_tell_apart(
    base: int, store: str, pairs: Any, lateness: int, moves: Any
) -> None:
    kind, result = MONOIDS["steps"]
    named = {f"q{n}": pair for n, pair in enumerate(pairs)}
    with make(store, kind, {name: pair[0] for name, pair in named.items()}, lateness=lateness) as slicer:
        plain = Plain({name: pair[1] for name, pair in named.items()}, result, lateness, store == "paged")
        moved = [
            (what, argument)
            if what == "watermark"
            else (what, (argument[0], argument[1] + base))
            if what == "insert"
            else (what, [(value, at + base) for value, at in argument])
            for what, argument in moves
        ]
        walk(slicer, plain, moved, first=base)
