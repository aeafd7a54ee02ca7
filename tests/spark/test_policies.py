"""Policies are asked row by row, as a window's `push` does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from every_policy import AGGREGATES, NAMES, every_policy, pushed
from rolled import column, roll

from mta import AmortizedMTA, monoids, policies

POLICIES = every_policy(rows=5, span=7, most=30)


@pytest.mark.parametrize("algorithm", ["amta", "lmta", "daba"])
@pytest.mark.parametrize("name", NAMES)
def test_policy(name: str, algorithm: str) -> None:
    rng = np.random.default_rng(3)
    counts = {1: 40, 2: 1, 3: 2, 4: 57}
    keys = np.repeat(list(counts), list(counts.values()))
    times = np.concatenate([np.sort(rng.integers(0, 60, count)) for count in counts.values()])
    table = pa.table({"k": keys, "o": times, "x": rng.integers(0, 20, 100)})
    out = roll(table, policy=POLICIES[name], aggregates=AGGREGATES, algorithm=algorithm, page_size=4, chunk=9)
    rows = table.to_pylist()
    wanted = [
        each for key in counts for each in pushed([row for row in rows if row["k"] == key], POLICIES[name])
    ]
    assert [{each: row[each] for each in AGGREGATES} for row in out.to_pylist()] == wanted


@pytest.mark.parametrize("algorithm", ["amta", "daba"])
def test_nulls_leave_before_a_maximum(algorithm: str) -> None:
    table = pa.table({"k": [1] * 6, "o": range(6), "x": [None, None, 3, None, 5, 1]})
    aggregates = {"top": monoids.Max("x"), "n": monoids.Count()}
    out = roll(
        table, policy=policies.OlderThanMaximum("top"), aggregates=aggregates, algorithm=algorithm, chunk=2
    )
    assert out.column("top").to_pylist() == [None, None, 3, 3, 5, 5]
    assert out.column("n").to_pylist() == [1, 2, 1, 2, 1, 2]


@pytest.mark.parametrize("algorithm", ["amta", "lmta"])
@pytest.mark.parametrize("chunk", [10, 1000])
def test_an_outlier_leaves_a_sum_as_any_other_value_does(chunk: int, algorithm: str) -> None:
    """Also where a group begins and ends in a chunk, and where a union has another limit."""
    values = [1e16] + [0.5] * 400
    rows = len(values)
    table = pa.table({"k": [1] * rows + [2] * rows, "o": [*range(rows)] * 2, "x": values * 2})
    aggregates = {"s": monoids.Sum("x"), "n": monoids.Count()}
    for policy, most in (
        (policies.SumWindow(100, "s"), 200),
        (policies.SumWindow(100, "s") | policies.CountWindow(150), 150),
    ):
        window = AmortizedMTA(monoids.Fields(s=monoids.Sum(), n=monoids.Count()), policy)
        pushed = [window.push(value)["n"] for value in values]
        assert pushed[most:] == [most] * (rows - most)
        got = roll(table, policy=policy, aggregates=aggregates, chunk=chunk, algorithm=algorithm, page_size=4)
        assert column(got, "n") == pushed * 2
