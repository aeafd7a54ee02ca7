"""Whole times beside real ones: what a window accepts, it stores, and gives back as it was."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, monoids
from mta.core.page import Page
from mta.core.states import ColumnLayout, layout_of
from mta.durability.operations import verify
from mta.errors import PageCorrupt
from mta.paging.codec import TimesOnly, decode_page, encode_page
from mta.policies import CountWindow, TimeWindow
from stores import Store, open_store

#: Whole numbers, halves of them and neighbours of what floats leave out, as numbers of either type.
TIMES = st.one_of(
    st.integers(-40, 40),
    st.integers(-40, 40).map(lambda half: half / 2),
    st.just(-0.0),
    st.builds(
        lambda base, more, real: float(base + more) if real else base + more,
        st.sampled_from([-(2**62), -(2**53), 2**53, 2**62, 2**63 - 2048]),
        st.integers(-3, 3),
        st.booleans(),
    ),
    st.sampled_from([2**63 - 1, -(2**63) + 1, float(2**63 - 1024), float(-(2**63) + 1024)]),
)

#: Operators that neither commute nor invert, over objects and over columns.
OPERATORS: dict[str, Any] = {
    "text": (
        lambda: monoids.from_function(lambda older, younger: (older + younger)[:6], "", name="six"),
        lambda values: "".join(map(str, values))[:6],
        str,
    ),
    "first": (monoids.First, lambda values: values[0] if values else None, int),
}


class Plain:
    """The window as the definitions have it, in fractions."""

    def __init__(self, span: int) -> None:
        self.span, self.rows = span, list[tuple[Any, Any]]()

    def push(self, value: Any, moment: Any) -> None:
        self.rows.append((moment, value))
        least = Fraction(moment) - self.span
        self.rows = [row for row in self.rows if Fraction(row[0]) > least]

    def between(self, first: Any, last: Any) -> list[Any]:
        return [value for moment, value in self.rows if first <= moment <= last]


def drain(window: Any) -> list[Any]:
    """The times of all that is in a window, oldest first."""
    times = []
    while len(window):
        times.append(window.oldest)
        window.evict()
    return times


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("algorithm", [LogMTA, AmortizedMTA])
@settings(max_examples=15)
@given(
    times=st.lists(TIMES, min_size=1, max_size=24),
    calls=st.lists(st.tuples(st.sampled_from(["push", "extend", "slide"]), st.integers(1, 9)), min_size=1),
    span=st.sampled_from([3, 30, 2**50, 2**54, 2**62, 2**64]),
    restored=st.sets(st.integers(0, 12)),
    between=st.tuples(TIMES, TIMES),
)
def test_a_restored_window_has_its_times_and_answers(
    algorithm: Any,
    page_size: int | None,
    operator: str,
    times: Any,
    calls: Any,
    span: int,
    restored: Any,
    between: Any,
) -> None:
    make, of, value_of = OPERATORS[operator]
    times.sort()
    plain, at = Plain(span), 0
    with open_store("memory:") as store:
        window: Any = algorithm(make(), TimeWindow(span), store=store, name="two", page_size=page_size)
        for number, (call, count) in enumerate(calls * 40):
            part = times[at : at + count]
            if not part:
                break
            values = [value_of(at + row) for row in range(len(part))]
            at += len(part)
            if call == "push":
                for value, moment in zip(values, part, strict=True):
                    plain.push(value, moment)
                    assert window.push(value, moment) == of([value for _, value in plain.rows])
            else:
                wanted = []
                for value, moment in zip(values, part, strict=True):
                    plain.push(value, moment)
                    wanted.append(of([value for _, value in plain.rows]))
                found = getattr(window, call)(values, part)
                if call == "slide":
                    assert found.tolist() == wanted
            if number in restored:
                window.checkpoint()
                assert verify(store, "two").problems == []
                window.close()
                window = algorithm.restore(store, "two", make(), TimeWindow(span))
            assert (len(window), window.oldest, window.youngest) == (
                len(plain.rows), plain.rows[0][0], plain.rows[-1][0],
            )  # fmt: skip
            first, last = sorted(between)
            assert window.range_query(first, last) == of(plain.between(first, last))
        window.checkpoint()
        assert verify(store, "two").problems == []
        window.close()
        assert verify(store, "two", make()).problems == []
        with algorithm.restore(store, "two", make(), TimeWindow(span)) as again:
            gone, _ = sorted(between)
            rows = [row for row in plain.rows if row[0] > gone]
            assert again.evict_until(gone) == len(plain.rows) - len(rows)
            assert again.query() == of([value for _, value in rows])
            assert drain(again) == [moment for moment, _ in rows]


def test_clocks_in_whole_and_in_real_nanoseconds(any_store: Store) -> None:
    """`time.time_ns()` beside `time.time() * 1e9`, page after page, through every way back."""
    start, name = time.time_ns() | 1, "clocks"
    moments = [start + 10**6 * row if row % 3 else (start + 10**6 * row) * 1.0 for row in range(700)]
    moments.sort()
    kept = 600
    with AmortizedMTA(monoids.Sum(), CountWindow(kept), store=any_store, name=name, page_size=64) as window:
        for row, moment in enumerate(moments[:500]):
            window.push(row, moment)
        window.checkpoint()
        window.slide(range(500, 690), moments[500:690])
        window.checkpoint()
    assert verify(any_store, name).problems == []
    with AmortizedMTA.restore(any_store, name, monoids.Sum(), CountWindow(kept)) as again:
        for row in range(690, 700):
            again.push(row, moments[row])
        again.checkpoint()
        assert again.query() == sum(range(100, 700))
        assert drain(again) == moments[100:]


@pytest.mark.parametrize("first", [int, float])
def test_pure_pages_of_one_kind_beside_pages_of_the_other(first: Any) -> None:
    other = float if first is int else int
    times: list[Any] = [first(2**53 + 2 * row) for row in range(8)]
    times += [other(2**53 + 2 * row) for row in range(8, 16)]
    times += [2**53 + 33, 2**53 + 35, 2**53 + 37.0]
    with open_store("memory:") as store:
        with LogMTA(monoids.Sum(), store=store, name="pages", page_size=4) as window:
            window.extend(range(len(times)), times)
            window.checkpoint()
        assert verify(store, "pages").problems == []
        with LogMTA.restore(store, "pages", monoids.Sum()) as again:
            assert again.range_query(times[7], times[16]) == sum(range(7, 17))
            assert drain(again) == times


@pytest.mark.parametrize(
    "times",
    [
        [1, 2, "3", 4],
        [1, None, 3, 4],
        [1, 2, True, 2**64],
        [1, 2.5, 3, 2**63],
        [1, 2.5, 3, -(2**63)],
        [1, 2.5, 3, 2**80],
        [1, 2.5, float("nan"), 2**62],
        [1, 2.5, 3, float("inf")],
        [1, 2.5, 3, (4,)],
        [1, 2.5, 3, 1 + 2j],
    ],
    ids=repr,
)
@pytest.mark.parametrize("layout", [layout_of(monoids.Sum()), TimesOnly()], ids=["Sum", "no monoid"])
def test_times_that_are_none_are_damage(times: list[Any], layout: ColumnLayout) -> None:
    column = np.fromiter(times, dtype=object, count=len(times))
    page = Page(0, column, (np.arange(len(times)),))
    data = encode_page(layout_of(monoids.Sum()), "w", 3, page)
    with pytest.raises(PageCorrupt, match="a time"):
        decode_page(layout, data, "w", 0, 3)
