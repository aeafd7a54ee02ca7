"""The last k elements and the k largest, against lists."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from chance import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from monoids.through_windows import check_everywhere, results_of

from mta import AmortizedMTA, LogMTA, policies
from mta import monoids as m
from mta.core.states import layout_of

numbers = st.one_of(
    st.integers(-5, 5),
    st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, -math.inf, math.inf, 0.5, -0.0]),
)
anything = st.one_of(numbers, st.text(max_size=2), st.tuples(st.integers(0, 3), st.text(max_size=1)))


def last(k: int, some: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(some[-k:])


def top(k: int, some: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(heapq.nlargest(k, some))


def same(found: Any, wanted: Any) -> bool:
    return type(found) is tuple and found == wanted


@settings(max_examples=examples(8))
@given(k=st.integers(1, 9), width=st.integers(1, 30), elements=st.lists(anything, min_size=1, max_size=90))
@example(k=3, width=2, elements=list(range(40)))
@example(k=4, width=20, elements=[(i, "x") for i in range(60)])
def test_windows_of_the_last(k: int, width: int, elements: list[Any]) -> None:
    check_everywhere(lambda: m.LastK(k), elements, lambda some: last(k, some), same, width=width)


@settings(max_examples=examples(8))
@given(k=st.integers(1, 9), width=st.integers(1, 30), elements=st.lists(numbers, min_size=1, max_size=90))
@example(k=3, width=2, elements=list(range(40)))
@example(k=5, width=20, elements=[7 * i % 11 / 2 for i in range(80)])
@example(k=3, width=9, elements=[-(2**63)] * 40)
def test_windows_of_the_largest(k: int, width: int, elements: list[Any]) -> None:
    check_everywhere(lambda: m.TopK(k), elements, lambda some: top(k, some), same, width=width)


@settings(max_examples=examples(5))
@given(k=st.integers(1, 4), elements=st.lists(numbers, min_size=1, max_size=60))
def test_both_in_fields(k: int, elements: list[Any]) -> None:
    rows = [{"x": each, "y": f"{each}"} for each in elements]

    def expected(some: Sequence[dict[str, Any]]) -> dict[str, Any]:
        xs, ys = [each["x"] for each in some], [each["y"] for each in some]
        return {"last": last(k, ys), "top": top(k, xs), "n": len(some), "x": last(k + 1, xs)}

    def make() -> m.Monoid:
        return m.Fields(last=m.LastK(k, "y"), top=m.TopK(k, "x"), n=m.Count(), x=m.LastK(k + 1, "x"))

    assert isinstance(make(), m.ColumnarMonoid)
    check_everywhere(make, rows, expected, lambda a, b: a == b, width=7)


@pytest.mark.parametrize("k", [1, 2, 7, 8, 33])
def test_large_batches(k: int) -> None:
    values = np.random.default_rng(k).integers(-100, 100, 5000)
    for of, make in ((last, m.LastK), (top, m.TopK)):
        window = AmortizedMTA(make(k), policies.CountWindow(50), page_size=256)
        found = results_of(window.slide(values))
        listed = values.tolist()
        assert found == [of(k, listed[max(0, i - 49) : i + 1]) for i in range(5000)]
        assert type(found[-1][0]) is int


def test_whole_numbers_stay_whole() -> None:
    for make in (m.LastK, m.TopK):
        window = AmortizedMTA(make(3), policies.CountWindow(4), page_size=2)
        window.extend([2**62 + 1, 5])
        assert set(window.push(0.5)) == {2**62 + 1, 5, 0.5}
        assert set(results_of(window.slide([2**62 + 3]))[0]) >= {0.5} or make is m.TopK
        assert 2**62 + 3 in window.query()


def test_changeable_elements_are_not_shared() -> None:
    given_list = [1, [2]]
    window = AmortizedMTA(m.LastK(2))
    found = window.push(given_list)
    given_list.append(3)
    found[0].append(4)
    assert window.query() == ([1, [2]],)
    batch = window.slide([given_list])
    batch[0][0].append(5)
    assert window.query() == ([1, [2]], [1, [2], 3])


def test_the_states_are_bounded() -> None:
    for make in (m.LastK, m.TopK):
        monoid = make(1000)
        assert not monoid.grows
        for kind in (LogMTA, AmortizedMTA):
            window = kind(monoid)
            assert window.page_size * monoid.width * 8 <= 1 << 24
    assert AmortizedMTA(m.LastK(10)).page_size == 1 << 14
    both = m.Fields(a=m.LastK(100, "x"), b=m.TopK(100, "x"))
    assert AmortizedMTA(both).page_size == 1 << 13


@pytest.mark.parametrize("make", [m.LastK, m.TopK])
def test_states_that_no_window_wrote(make: Any) -> None:
    monoid = make(2)
    one = layout_of(monoid).lift(layout_of(monoid).elements([5, 6, 7]))
    monoid.check_states(one)
    monoid.check_states(monoid.prefix_columns(one))
    for counts in ([0, 1, 1], [1, 3, 1], [1, -1, 2]):
        with pytest.raises(ValueError, match="has states of 1 to 2 elements"):
            monoid.check_states((np.array(counts), *one[1:]))
    with pytest.raises(ValueError, match="has states of 1 to 2 elements"):
        monoid.check_states((np.array([1.0, 1.0, 2.0]), *one[1:]))


def test_states_of_the_largest_are_sorted() -> None:
    columns = (np.array([2, 1]), np.array([3, 3]), np.array([4, 0]))
    with pytest.raises(ValueError, match="not sorted, the largest first"):
        m.TopK(2).check_states(columns)
    with pytest.raises(TypeError, match="has numbers as states, got 'x'"):
        m.TopK(1).check_states((np.array([1]), np.array(["x"], dtype=object)))
