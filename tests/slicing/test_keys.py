"""Many silent keys: a watermark that looks at few keys returns the same as one that looks at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_windows import Plain
from window_kinds import MONOIDS, Uneven, content, counted, known

from mta.slicing import Punctuation, Slicer

KEYS = 8


def key_of(value: int) -> int:
    return value % KEYS


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 30), st.integers(-30, 9)),
        st.tuples(
            st.just("extend"), st.lists(st.tuples(st.integers(0, 30), st.integers(-30, 9)), max_size=5)
        ),
        st.tuples(st.just("watermark"), st.integers(0, 40)),
        st.tuples(st.just("watermark"), st.integers(0, 3)),
        st.tuples(st.just("reload"), st.just(0)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("forget_after", [None, 15])
@pytest.mark.parametrize("option", ["", "in_order", "changes_only"])
@pytest.mark.parametrize("monoid", ["sum", "steps"])
@given(
    pairs=st.lists(st.one_of(known(), known(), counted, content), max_size=4),
    lateness=st.integers(0, 40),
    moves=MOVES,
)
def test_silent_keys_miss_nothing(
    monoid: str, option: str, forget_after: int | None, pairs: Any, lateness: int, moves: Any
) -> None:
    kind, result = MONOIDS[monoid]
    queries = {f"q{n}": pair[0] for n, pair in enumerate(pairs)}
    functions = {n: each for n, each in queries.items() if isinstance(each, (Uneven, Punctuation))}
    lateness = 0 if option == "in_order" else lateness
    options: dict[str, Any] = {option: True} if option else {}
    slicers = [
        Slicer(kind, queries, by=key_of, lateness=lateness, forget_after=forget_after, **options)
        for _ in range(2)
    ]
    plains = [
        Plain({f"q{n}": pair[1] for n, pair in enumerate(pairs)}, result, lateness) for _ in range(KEYS)
    ]
    now = youngest = 0
    for what, *rest in [*moves, ("watermark", 300)]:
        if what == "reload":
            slicers = [Slicer.load(each.dump(), kind, functions, by=key_of) for each in slicers]
        elif what == "watermark":
            now += rest[0]
            few, all_keys = slicers
            all_keys._schedule.touched.update(dict.fromkeys(all_keys.keys))
            results = few.watermark(now)
            assert results == all_keys.watermark(now)
            assert few.keys == all_keys.keys
            if option != "changes_only" and forget_after is None:
                wanted = [(*row, key) for key, plain in enumerate(plains) for row in plain.watermark(now)]
                got = [(r.query, r.start, r.end, r.value, r.is_update, r.key) for r in results]
                assert sorted(got, key=repr) == sorted(wanted, key=repr)
        else:
            batch = [(rest[0], rest[1])] if what == "insert" else rest[0]
            if option == "in_order":
                batch = [(value, youngest := max(youngest, now + by)) for value, by in batch]
            else:
                batch = [(value, now + by) for value, by in batch]
            for value, time in batch:
                plains[key_of(value)].insert(value, time)
            for slicer in slicers:
                if what == "insert":
                    slicer.insert(*batch[0])
                else:
                    slicer.extend([value for value, _ in batch], [time for _, time in batch])
