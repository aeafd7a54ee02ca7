"""Predicates over sums that are rounded: what is promised of them, however a window is fed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from reference import ALGORITHMS

from mta import monoids, policies
from mta.policies import SumWindow, While
from stores import open_store

KINDS = list(ALGORITHMS.values())
SIZES = [2, 4, None]

#: how far a sum of some elements may be from the exact one, as a part of it
NOISE = Fraction(1, 2**40)


def exact(values: Sequence[float]) -> Any:
    return math.inf if math.inf in values else sum(map(Fraction, values), Fraction(0))


def check_suffix(values: Sequence[float], kept: int, n: float, *, since: int = 1) -> None:
    """The window holds the fewest of the youngest elements whose sum is `n`, but for rounding.

    Where the sum is so near to `n` that rounding decides, it may be one more or one less.
    """
    bound = Fraction(n)
    rest = exact(values[len(values) - kept + 1 :])
    assert rest < bound * (1 + NOISE), (kept, float(rest))
    if kept < len(values) - since + 1:
        assert exact(values[len(values) - kept :]) >= bound * (1 - NOISE), kept


def rows_of(results: Sequence[float], values: Sequence[float], n: float) -> None:
    for row, result in enumerate(results):
        whole = exact(values[: row + 1])
        assert result >= min(whole, n) * (1 - NOISE), (row, result)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
def test_a_batch_that_two_associations_disagree_about(kind: Any, page_size: int | None) -> None:
    window = kind(monoids.Sum(), SumWindow(0.3), page_size=page_size)
    for value in (0.7, 0.3, 0.3, 0.4):
        window.insert(value)
    (result,) = window.slide([0.3])
    assert result == window.query() == 0.3
    assert len(window) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
@pytest.mark.parametrize("outlier", [1e15, 1e16, 1e17, 1e100, 1e300, math.inf])
@pytest.mark.parametrize("how", ["push", "slide", "extend", "insert", "restore"])
def test_nothing_of_an_outlier_stays(how: str, outlier: float, kind: Any, page_size: int | None) -> None:
    for tenth in (0.5, 0.1):
        n, steps = 20, 300
        window, store = kind(monoids.Sum(), SumWindow(n), page_size=page_size), None
        values = [outlier] + [tenth] * steps
        if how == "push":
            results = [window.push(value) for value in values]
        elif how == "slide":
            results = window.slide(values).tolist()
        elif how == "extend":
            for start in range(0, len(values), 7):
                window.extend(values[start : start + 7])
            results = []
        elif how == "insert":
            for value in values:
                window.insert(value)
            window.enforce()
            results = []
        else:
            store = open_store("memory:")
            window = kind(monoids.Sum(), SumWindow(n), page_size=page_size, store=store, name="w")
            results = [window.push(value) for value in values[:17]]
            window.checkpoint()
            window.close()
            window = kind.restore(store, "w", monoids.Sum(), SumWindow(n))
            results += [window.push(value) for value in values[17:]]
        rows_of(results, values, n)
        check_suffix(values, len(window), n)
        if tenth == 0.5:
            assert (len(window), window.query()) == (40, 20.0)
        window.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_random_cents(seed: int, page_size: int | None, kind: Any) -> None:
    """However it is fed, with outliers among it, and restored in between."""
    chance = random.Random(seed)
    for _ in range(12):
        store = open_store("memory:")
        n = chance.choice([0.01, 0.3, 1.0, 7.77, 100])
        window = kind(monoids.Sum(), SumWindow(n), page_size=page_size, store=store, name="w")
        values: list[float] = []
        for _ in range(25):
            count = chance.choice([1, 1, 3, 20, 70])
            coming = [
                chance.choice([1e16, 1e300, 5e-324, 0.0, math.inf])
                if chance.random() < 0.02
                else chance.randrange(100) / 100
                for _ in range(count)
            ]
            how = chance.choice(["push", "slide", "extend", "insert", "restore", "evict"])
            before = len(values)
            if how == "push":
                for value in coming:
                    window.push(value)
            elif how == "slide":
                window.slide(coming)
            elif how == "extend":
                window.extend(coming)
            elif how == "insert":
                for value in coming:
                    window.insert(value)
                window.enforce()
            elif how == "evict":
                window.evict(len(window) // 2)
                coming = []
            else:
                window.checkpoint()
                window.close()
                window = kind.restore(store, "w", monoids.Sum(), SumWindow(n))
                coming = []
            values += coming
            if len(values) > before:
                suffix = values[len(values) - len(window) :]
                assert exact(suffix[1:]) < Fraction(n) * (1 + NOISE)
                assert how == "insert" or window.enforce() <= (how in ("slide", "extend"))
                assert window.query() == pytest.approx(float(exact(values[-len(window) :])))
        window.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
def test_push_and_slide_hold_the_same_where_sums_are_exact(kind: Any, page_size: int | None) -> None:
    chance = random.Random(5)
    for _ in range(6):
        n = chance.choice([0.25, 1.0, 40.0, 1000.0])
        one, other = (kind(monoids.Sum(), SumWindow(n), page_size=page_size) for _ in range(2))
        for _ in range(20):
            values = [
                chance.choice([1e16, 1e300]) if chance.random() < 0.01 else chance.randrange(64) / 64
                for _ in range(chance.choice([1, 5, 90]))
            ]
            pushed = [one.push(value) for value in values]
            slid = other.slide(values)
            assert len(one) == len(other)
            assert np.allclose(pushed, slid)


#: a difference, as users write it
def least(n: float, columns: bool) -> While:
    return While(lambda total, old: total - old >= n, name=f"least {n}", columns=columns)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("how", ["push", "slide", "slides", "extend"])
def test_a_difference_of_the_users_lets_an_outlier_go_too(
    how: str, columns: bool, kind: Any, page_size: int | None
) -> None:
    """The total is rounded once or twice at the size of the outlier, and not once an element."""
    window = kind(monoids.Sum(), least(100, columns), page_size=page_size)
    values = [1.0, 1e16] + [0.5] * 1000
    if how == "push":
        for value in values:
            window.push(value)
    elif how == "slide":
        window.slide(values)
    else:
        for start in range(0, len(values), 30):
            getattr(window, how.removesuffix("s"))(values[start : start + 30])
    assert len(window) == 200
    assert window.query() == 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("before", [0, 50])
def test_an_outlier_that_was_inserted_takes_nothing_along(
    before: int, columns: bool, kind: Any, page_size: int | None
) -> None:
    """The window is not taken for its own prefix where two sums of it are rounded otherwise."""
    window = kind(monoids.Sum(), least(100, columns), page_size=page_size)
    for value in [0.5] * before + [1e16] + [0.5] * 600:
        window.insert(value)
    window.enforce()
    assert len(window) >= 150
    window.push(0.5)
    assert 150 <= len(window) <= 602
    for _ in range(2):
        window.slide([0.5] * 200)
    assert (len(window), window.query()) == (200, 100)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page_size", SIZES)
@pytest.mark.parametrize("columns", [False, True])
def test_random_batches_under_a_difference(columns: bool, page_size: int | None, kind: Any) -> None:
    """No exception, and of cents no more than an element more or less."""
    for seed in range(15):
        chance = random.Random(seed)
        n = chance.choice([0.3, 1.0, 100])
        window = kind(monoids.Sum(), least(n, columns), page_size=page_size)
        values: list[float] = []
        spike = chance.choice([0.0, 0.01])
        for _ in range(30):
            coming = [
                chance.choice([1e15, 1e17, 1e300, math.inf, 5e-324])
                if chance.random() < spike
                else chance.randrange(100) / 100
                for _ in range(chance.choice([1, 2, 30, 100]))
            ]
            how = chance.choice(["push", "slide", "slide", "extend", "insert"])
            if how in ("push", "insert"):
                for value in coming:
                    getattr(window, how)(value)
                window.enforce()
            else:
                getattr(window, how)(coming)
            values += coming
            if not spike:
                slack = Fraction(1, 10**9)
                kept = values[len(values) - len(window) :]
                assert exact(kept[1:]) < n + slack
                if len(kept) < len(values):
                    assert exact(kept) >= n - slack


def test_pages_of_results_never_go_back() -> None:
    window = KINDS[1](monoids.Sum(), SumWindow(5), page_size=4)
    heads = []
    for number in range(400):
        window.push(number % 7 / 10)
        heads.append(window.oldest)
    assert all(a <= b for a, b in pairwise(heads))


def test_unions_ask_each_part() -> None:
    for kind in KINDS:
        policy = SumWindow(100) | policies.CountWindow(50) | least(30, columns=False)
        window = kind(monoids.Sum(), policy, page_size=4)
        for _ in range(100):
            window.push(1.0)
        assert len(window) == 30
        window.slide([0.5] * 200)
        assert len(window) == 50
