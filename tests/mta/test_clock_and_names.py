"""Calls that were refused tell nothing of a window, and functions that differ are told apart."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mta import AmortizedMTA, LogMTA, monoids, policies
from stores import open_store

KINDS = [AmortizedMTA, LogMTA]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [False, True])
def test_a_refused_call_does_not_say_whether_times_are_given(kind: Any, given: bool) -> None:
    """After a restore nobody can tell: times 0, 1, 2 may have been given or counted."""
    with open_store("memory:") as store:
        with kind(monoids.Sum(), store=store, name="w") as window:
            window.extend([1, 2, 3], [0, 1, 2] if given else None)
            window.checkpoint()
        with kind.restore(store, "w", monoids.Sum()) as window:
            refused: list[Callable[[], object]] = [
                lambda: window.push(4, time=0),
                lambda: window.slide([4], [0]),
                lambda: window.extend([4, 5], [1, 7]),
                lambda: window.push("x"),
                lambda: window.slide(["x"]),
                lambda: window.insert(None, time=9),
            ]
            for call in refused:
                with pytest.raises((TypeError, ValueError)):
                    call()
            if given:
                assert window.push(4, time=10) == 10
            else:
                assert window.push(4) == 10
                assert window.youngest == 3


def budget(most: Any) -> policies.While:
    return policies.While(lambda total, old: total - old >= most)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Decimal(10), Decimal(3)),
        (Fraction(1, 2), Fraction(1, 3)),
        (timedelta(1), timedelta(2)),
        (range(3), range(4)),
    ],
)
def test_closures_over_values_that_cannot_change(one: Any, other: Any) -> None:
    assert budget(one).fingerprint() != budget(other).fingerprint()
    assert budget(one).fingerprint() == budget(one).fingerprint()


def scaled(by: int) -> Any:
    def scale(value: int) -> int:
        return value * by

    return scale


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (operator.itemgetter(0), operator.itemgetter(1)),
        (operator.attrgetter("real"), operator.attrgetter("imag")),
        (operator.methodcaller("strip"), operator.methodcaller("lower")),
        (functools.lru_cache(scaled(1)), functools.lru_cache(scaled(2))),
        (np.vectorize(scaled(1)), np.vectorize(scaled(2))),
        (functools.partial(scaled(1)), functools.partial(scaled(2))),
    ],
)
def test_functions_that_are_not_written_in_python(one: Any, other: Any) -> None:
    def of(lift: Any) -> str:
        return monoids.from_function(operator.add, 0, lift=lift).fingerprint()

    assert of(one) != of(other)
    assert of(one) == of(one)
    assert "0x" not in of(one)


@pytest.mark.parametrize("name", ["a) | While(b", "a|b", "(", ""])
def test_a_name_is_no_expression(name: str) -> None:
    with pytest.raises((TypeError, ValueError), match="name"):
        policies.While(lambda total, old: total > old, name=name)


MASKED: list[Callable[[], Any]] = [
    lambda: np.ma.array([1, 2], mask=[0, 1]),
    lambda: np.ma.array(5, mask=True),
    lambda: (1, np.ma.masked),
    lambda: [np.ma.array([1, 2], mask=[0, 1])],
    lambda: {"k": np.ma.masked},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", MASKED)
@pytest.mark.parametrize("monoid", [monoids.Collect, monoids.Last, monoids.First])
def test_an_element_with_a_mask_is_refused(kind: Any, make: Any, monoid: Any) -> None:
    window = kind(monoid())
    for call in (window.push, window.insert, lambda value: window.extend([value])):
        with pytest.raises((TypeError, ValueError)):
            call(make())
    assert len(window) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_offset_is_the_windows_own(kind: Any) -> None:
    with open_store("memory:") as store, kind(monoids.Sum(), store=store) as window:
        offset = [1]
        window.checkpoint(offset)
        offset.append(2)
        window.offset.append(3)
        assert window.offset == [1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [False, True])
def test_what_is_nested_without_end_is_refused(kind: Any, stored: bool) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with open_store("memory:") as store:
        window = kind(monoids.Last(), store=store if stored else None)
        for call in (window.push, lambda value: window.extend([value])):
            with pytest.raises((TypeError, ValueError), match="nested"):
                call(deep)
        assert len(window) == 0
