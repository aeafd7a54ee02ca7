"""`slide` under predicates that take columns: the same as a push a row, without a step for each row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from reference import ALGORITHMS, Definition, check_rows, check_window, columns

from mta import AmortizedMTA, monoids, policies
from mta.monoids.base import Monoid
from mta.policies import Policy, While
from stores import open_store


def pair(i: int) -> tuple[int, int]:
    return (i % 7, i)


def record(i: int) -> dict[str, int]:
    return {"volume": i % 4, "price": i * 7919 % 101}


def both() -> Monoid:
    return monoids.Fields(
        traded=monoids.Sum("volume"), top=monoids.ArgMax("price", "volume"), n=monoids.Count()
    )


CASES: dict[str, tuple[Any, Policy, Any]] = {
    "sum": (monoids.Sum, policies.SumWindow(40), lambda i: i % 9),
    "sum of few": (monoids.Sum, policies.SumWindow(3), lambda i: i % 9),
    "count": (
        monoids.Count,
        While(lambda total, old: total - old >= 13, columns=True, name="13"),
        lambda i: i,
    ),
    "nothing stays": (
        monoids.Count,
        While(lambda total, old: total - old >= 0, columns=True, name="0"),
        lambda i: i,
    ),
    "maximum": (monoids.Max, policies.OlderThanMaximum(), lambda i: i * 7919 % 1009),
    "falling maximum": (
        monoids.MaxCount,
        policies.OlderThanMaximum(),
        lambda i: -(i // 20) + 50 * (i % 50 == 0),
    ),
    "argument": (monoids.ArgMax, policies.OlderThanMaximum(), pair),
    "field by sum": (both, policies.SumWindow(20, "traded"), record),
    "field by maximum": (both, policies.OlderThanMaximum("top"), record),
    "time in the state": (
        lambda: monoids.Fields(last=monoids.Last("volume"), seen=monoids.Max("price")),
        While(lambda total, old: total["seen"] - old["seen"] >= 25, columns=True, name="25"),
        lambda i: {"volume": i % 5, "price": 2 * i + i % 2},
    ),
}


@pytest.mark.parametrize("kind", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("page_size", [2, 4, None])
@pytest.mark.parametrize("name", CASES)
def test_as_a_push_for_each_row(name: str, page_size: int | None, kind: Any) -> None:
    make, policy, element = CASES[name]
    for seed in range(12):
        chance = random.Random(f"{name} {seed}")
        store = open_store("memory:") if seed % 2 else None
        window, model = kind(make(), policy, store=store, page_size=page_size), Definition(make(), policy)
        at = 0
        for _ in range(12):
            count = chance.choice([1, 2, 5, 17, 60])
            values = [
                element(chance.randrange(500) if name != "time in the state" else i)
                for i in range(at, at + count)
            ]
            times = range(at, at + count)
            at += count
            how = chance.choice(["slide", "slide", "slide", "insert", "evict", "extend"])
            if how == "slide":
                check_rows(window.slide(columns(model.monoid, values), times), model.slide(values, times))
            elif how == "extend":
                window.extend(columns(model.monoid, values), times)
                model.extend(values, times)
            elif how == "insert":
                for value, time in zip(values, times, strict=True):
                    window.insert(value, time)
                    model.insert(value, time)
            else:
                k = chance.randrange(len(model) + 1)
                window.evict(k)
                model.evict(k)
            if chance.random() < 0.7:
                check_window(window, model)
        window.close()


def test_no_step_for_each_row() -> None:
    """The predicate is called a few times for a whole batch, over windows that span pages."""
    calls = 0

    def comes_to(total: Any, old: Any) -> Any:
        nonlocal calls
        calls += 1
        return total - old >= 5000

    for size in (4, 64, None):
        window = AmortizedMTA(monoids.Sum(), While(comes_to, columns=True, name="5000"), page_size=size)
        window.slide([1] * 10_000)
        calls = 0
        results = window.slide([1] * 20_000)
        assert np.array_equal(results, [5000] * 20_000)
        # a search for the first row of each page that windows start in, and one for all rows of a page
        pages = 5000 / (size or 16384) + 1
        assert calls <= pages * 60 + 60, (size, calls)


def test_sums_of_windows_in_bounds_where_the_batch_is_not() -> None:
    for size in (4, None):
        window = AmortizedMTA(monoids.Sum(), policies.SumWindow(2**61), page_size=size)
        assert window.slide([2**60] * 40).tolist() == [2**60] + [2**61] * 39
        assert window.slide([2**61] * 9).tolist() == [2**61] * 9


def test_an_answer_that_is_no_column() -> None:
    policy = While(lambda *_: False, columns=True, name="never")
    window = AmortizedMTA(monoids.Sum(), policy)
    with pytest.raises(TypeError, match="one answer a row"):
        window.slide([1] * 1000)
    assert len(window) == 0
    assert window.push(1) == 1
