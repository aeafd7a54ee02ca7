"""Windows that lie wholly in a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import SUBJECTS, fold, same

from mta import monoids
from mta.core.folds import SHORT_WINDOW, window_folds
from mta.core.states import join_results, layout_of


def firsts_of(chance: Any, count: int, width: int) -> Any:
    rows = np.arange(count)
    steps = np.maximum.accumulate(np.maximum(0, rows - chance.integers(0, 2 * width + 1, count)))
    return np.minimum(steps, rows)


@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=examples(25))
@given(
    count=st.integers(1, 200),
    width=st.sampled_from([0, 1, 3, SHORT_WINDOW - 1, SHORT_WINDOW, 60, 500]),
    seed=st.integers(0, 10**6),
    data=st.data(),
)
def test_like_folding_each_window(name: str, count: int, width: int, seed: int, data: Any) -> None:
    subject = SUBJECTS[name]
    monoid = subject.make()
    layout = layout_of(monoid)
    chance = np.random.default_rng(seed)
    values = [subject.element(int(i), time) for time, i in enumerate(chance.integers(0, 99, count))]
    states = layout.lift(layout.gather_rows([monoid.row(value) for value in values]))
    single = [monoid.lift(value) for value in values]
    firsts = firsts_of(chance, count, width)
    start = data.draw(st.integers(0, count - 1))
    folds = layout.state_list(window_folds(layout, states, firsts[start:], range(start, count)))
    assert len(folds) == count - start
    for row, found in enumerate(folds, start):
        wanted = fold(monoid, single[firsts[row] : row + 1])
        assert same(monoid.lower(found), monoid.lower(wanted)), (row, firsts[row])


@pytest.mark.parametrize("name", SUBJECTS)
@settings(max_examples=examples(25))
@given(
    count=st.integers(1, 200),
    width=st.sampled_from([0, 1, 3, SHORT_WINDOW - 1, SHORT_WINDOW, 60, 500]),
    windows=st.integers(1, 300),
    seed=st.integers(0, 10**6),
)
def test_windows_that_end_anywhere(name: str, count: int, width: int, windows: int, seed: int) -> None:
    subject = SUBJECTS[name]
    monoid = subject.make()
    layout = layout_of(monoid)
    chance = np.random.default_rng(seed)
    values = [subject.element(int(i), time) for time, i in enumerate(chance.integers(0, 99, count))]
    states = layout.lift(layout.gather_rows([monoid.row(value) for value in values]))
    single = [monoid.lift(value) for value in values]
    lasts = np.sort(chance.integers(0, count, windows))
    firsts = firsts_of(chance, count, width)[lasts]
    folds = layout.state_list(window_folds(layout, states, firsts, lasts))
    for first, last, found in zip(firsts, lasts, folds, strict=True):
        wanted = fold(monoid, single[first : last + 1])
        assert same(monoid.lower(found), monoid.lower(wanted)), (first, last)


@pytest.mark.parametrize("width", [1, 5, 40, 1000])
def test_combines_are_a_constant_a_row(width: int) -> None:
    calls = 0

    def add(older: int, younger: int) -> int:
        nonlocal calls
        calls += 1
        return older + younger

    monoid = monoids.from_function(add, 0)
    count = 4000
    firsts = np.maximum(0, np.arange(count) + 1 - width)
    folds = window_folds(layout_of(monoid), [1] * count, firsts, range(count))
    assert folds == np.minimum(np.arange(count) + 1, width).tolist()
    assert calls <= 4 * count


def test_results_are_joined_by_kind() -> None:
    assert join_results([np.array([1]), np.array([2.5])]).tolist() == [1.0, 2.5]
    joined = join_results(
        [
            {"a": np.array([1]), "b": np.array(["x"], object)},
            {"a": np.array([2]), "b": np.array([None], object)},
        ]
    )
    assert {key: column.tolist() for key, column in joined.items()} == {"a": [1, 2], "b": ["x", None]}
