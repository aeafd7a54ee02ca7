"""Whole numbers beside real ones stay what they were, beyond 2^53 too; batches and single calls agree."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import rows_of

from mta import AmortizedMTA, LogMTA, baselines, monoids
from mta.core.states import layout_of
from mta.keyed.folds import folds
from mta.monoids.base import column_of, joined
from mta.monoids.columns import alike
from mta.policies import CountWindow, TimeWindow
from stores import open_store

WHOLE = st.one_of(
    st.integers(-5, 5),
    st.builds(lambda base, i: base + i, st.sampled_from([2**53, -(2**53), 2**62]), st.integers(-3, 3)),
)
REAL = st.one_of(st.sampled_from([0.5, -2.5, 2.0**53, 2.0**53 + 2, 1e300]), st.integers(-5, 5).map(float))
NUMBERS = st.lists(st.one_of(WHOLE, REAL), min_size=1, max_size=24)

#: what a window of some (number, row) comes to
CASES: dict[str, Any] = {
    "Max": (monoids.Max, max),
    "Min": (monoids.Min, min),
    "First": (monoids.First, lambda some: some[0]),
    "Last": (monoids.Last, lambda some: some[-1]),
    "Collect": (monoids.Collect, list),
    "MaxCount": (monoids.MaxCount, lambda some: some.count(max(some))),
    "MinCount": (monoids.MinCount, lambda some: some.count(min(some))),
    "fmax": (lambda: monoids.from_ufunc(np.fmax, None), max),
    "Fields": (
        lambda: monoids.Fields(a=monoids.Max(), b=monoids.First(), c=monoids.MinCount()),
        lambda some: {"a": max(some), "b": some[0], "c": some.count(min(some))},
    ),
}
ARGUMENTS = {"ArgMax": (monoids.ArgMax, max), "ArgMin": (monoids.ArgMin, min)}


def exact(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return all(exact(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(exact, found, wanted))
    return bool(found == wanted)


def check_all(make: Any, elements: list[Any], wanted: list[Any], width: int) -> None:
    for kind, options in [(LogMTA, 2), (AmortizedMTA, 2), (AmortizedMTA, 4), (AmortizedMTA, None)]:
        half = len(elements) // 2
        window = kind(make(), CountWindow(width), page_size=options)
        assert all(map(exact, [window.push(each) for each in elements], wanted))
        window = kind(make(), CountWindow(width), page_size=options)
        for each in elements[:half]:
            window.push(each)
        assert all(map(exact, rows_of(window.slide(elements[half:])), wanted[half:]))
        window = kind(make(), CountWindow(width), page_size=options)
        window.extend(elements[:half])
        for row, each in enumerate(elements[half:], half):
            window.extend([each])
            assert exact(window.query(), wanted[row])
    window = baselines.DABA(make(), CountWindow(width))
    assert all(map(exact, rows_of(window.slide(elements)), wanted))


@pytest.mark.parametrize("label", CASES)
@settings(max_examples=examples(40))
@given(numbers=NUMBERS, width=st.integers(1, 30))
def test_numbers_are_kept(label: str, numbers: list[Any], width: int) -> None:
    make, of = CASES[label]
    wanted = [of(numbers[max(0, row + 1 - width) : row + 1]) for row in range(len(numbers))]
    check_all(make, numbers, wanted, width)


@pytest.mark.parametrize("label", ARGUMENTS)
@settings(max_examples=examples(40))
@given(numbers=NUMBERS, arguments=NUMBERS, width=st.integers(1, 30))
def test_arguments_are_kept(label: str, numbers: list[Any], arguments: list[Any], width: int) -> None:
    make, of = ARGUMENTS[label]
    pairs = list(zip(numbers, arguments, strict=False))
    wanted = [
        of(pairs[max(0, row + 1 - width) : row + 1], key=lambda pair: pair[0])[1] for row in range(len(pairs))
    ]
    check_all(make, pairs, wanted, width)


@given(NUMBERS, NUMBERS)
def test_columns_hold_what_was_put_in(some: list[Any], others: list[Any]) -> None:
    assert column_of(some).tolist() == some
    assert joined([column_of(some), column_of(others)]).tolist() == some + others
    a, b = alike((column_of(some), column_of(others)))
    assert (a.dtype, a.tolist(), b.tolist()) == (b.dtype, some, others)


@settings(max_examples=examples(40))
@given(NUMBERS, st.integers(1, 30))
def test_folds_of_groups(numbers: list[Any], width: int) -> None:
    layout = layout_of(monoids.Max())
    firsts = np.maximum(0, np.arange(len(numbers)) + 1 - width)
    found = folds(layout, (column_of(numbers),), np.array([0]), firsts)
    assert layout.state_list(found) == [
        max(numbers[first : row + 1]) for row, first in enumerate(firsts.tolist())
    ]


def test_through_a_store() -> None:
    numbers = [2**53 + 1, 0.5, 2**62 + 1, 2.5, -(2**53) - 1]
    with open_store("memory:") as store:
        with AmortizedMTA(monoids.First(), CountWindow(30), store=store, name="mixed", page_size=4) as window:
            for number in numbers * 10:
                window.push(number)
            window.checkpoint()
        with AmortizedMTA.restore(store, "mixed", monoids.First(), CountWindow(30)) as again:
            found = []
            while len(again):
                found.append(again.query())
                again.evict()
    assert found == (numbers * 10)[-30:]


LARGEST = sys.float_info.max


@pytest.mark.parametrize(
    "numbers",
    [
        [LARGEST] * 5,
        [LARGEST, LARGEST, 1.0, LARGEST],
        [math.nextafter(LARGEST, 0)] * 7,
        [math.inf, 1, 2, 3],
        [5e-324] * 4,
        [2**63 - 1, 2**53 + 1, 0.5],
        [0, math.inf, 5, 6, 7],
        [0, 2.5, 3, 4],
    ],
    ids=repr,
)
def test_geometric_means_at_the_ends_of_floats(numbers: list[Any]) -> None:
    width = 3
    for kind in (LogMTA, AmortizedMTA, baselines.DABA):
        window = kind(monoids.GeometricMean(), CountWindow(width))
        pushed = [window.push(number) for number in numbers]
        slid = kind(monoids.GeometricMean(), CountWindow(width)).slide(numbers).tolist()
        for row, (one, other) in enumerate(zip(pushed, slid, strict=True)):
            inside = numbers[max(0, row + 1 - width) : row + 1]
            if 0 in inside and math.inf in inside:
                assert math.isnan(one)
                assert math.isnan(other)
                continue
            assert math.isclose(one, other, rel_tol=1e-12, abs_tol=5e-324)
            assert min(inside) * (1 - 1e-12) <= one <= max(inside) * (1 + 1e-12) or 0 in inside
            assert math.isfinite(one) == (math.inf not in inside)


def test_times_at_the_end_of_64_bits() -> None:
    for time in (2.0**63, 2**63, -(2**63), -(2.0**63)):
        for kind in (LogMTA, AmortizedMTA, baselines.DABA):
            window = kind(monoids.Sum(), TimeWindow(5))
            for call in (
                lambda w=window, t=time: w.push(1, t),
                lambda w=window, t=time: w.slide([1], [t]),
                lambda w=window, t=time: w.slide([1], np.array([t])),
            ):
                with pytest.raises(ValueError, match="fits in 64 bits"):
                    call()
            assert len(window) == 0
            assert window.slide([1, 1], [2**63 - 2, 2**63 - 1]).tolist() == [1, 2]


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("make", [monoids.Sum, monoids.Max, monoids.Mean, monoids.GeometricMean])
@pytest.mark.parametrize("beside", [0.5, 3, 1e30])
def test_a_whole_number_beyond_64_bits_is_refused_whatever_is_beside_it(
    kind: Any, make: Any, beside: float
) -> None:
    window = kind(make())
    with pytest.raises(OverflowError, match=r"9223372036854775808.*does not fit in 64 bits"):
        window.push(2**63)
    for call in (window.slide, window.extend):
        with pytest.raises(OverflowError, match=r"row 1: .*9223372036854775808.*does not fit in 64 bits"):
            call([beside, 2**63])
    assert len(window) == 0
    assert window.slide([beside, 2.0**63]).tolist()


@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("make", [monoids.Sum, monoids.Product, monoids.Mean])
def test_whole_numbers_beside_real_ones_overflow_quietly(kind: Any, page_size: int | None, make: Any) -> None:
    """As real ones alone do: beyond their range is infinity, and no warning, which is an error here."""
    values = [2**53 + 1, 1e308, 2**60 + 1, 1e308, 2**62 + 1, 1e308, 7]
    window = kind(make(), CountWindow(5), page_size=page_size)
    pushed = [window.push(value) for value in values]
    assert math.inf in pushed
    for batch in (values, values[:4]):
        window = kind(make(), CountWindow(5), page_size=page_size)
        assert list(map(math.isinf, window.slide(batch))) == list(map(math.isinf, pushed[: len(batch)]))
    window = kind(make(), page_size=page_size)
    window.extend(values)
    assert window.range_query(0, 100) == math.inf
