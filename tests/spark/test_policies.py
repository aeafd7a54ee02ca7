"""Policies are asked row by row, as a window's `push` does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rolled import roll

from mta import AmortizedMTA, monoids, policies
from mta.policies import Policy

POLICIES: dict[str, Policy] = {
    "count": policies.CountWindow(5),
    "time": policies.TimeWindow(7),
    "either": policies.CountWindow(4) | policies.TimeWindow(9, closed="both"),
    "sum": policies.While(lambda total, old: total["sum"] - old["sum"] > 30),
    "sum or count": policies.While(lambda total, old: total["sum"] - old["sum"] > 30)
    | policies.CountWindow(3),
    "maximum": policies.OlderThanMaximum("top"),
    "run": policies.OlderThanLongestRun("run"),
}


@pytest.mark.parametrize("algorithm", ["amta", "lmta", "daba"])
@pytest.mark.parametrize("name", POLICIES)
def test_policy(name: str, algorithm: str) -> None:
    rng = np.random.default_rng(3)
    keys, times = (
        np.repeat([1, 2, 3, 4], [40, 1, 2, 57]),
        np.concatenate([np.sort(rng.integers(0, 60, n)) for n in (40, 1, 2, 57)]),
    )
    values = rng.integers(0, 20, 100)
    aggregates: dict[str, Any] = {
        "sum": monoids.Sum("x"),
        "top": monoids.Max("x"),
        "run": monoids.LongestIncreasingRun("x"),
    }
    table = pa.table({"k": keys, "o": times, "x": values})
    out = roll(table, policy=POLICIES[name], aggregates=aggregates, algorithm=algorithm, page_size=4, chunk=9)
    wanted = []
    for key in (1, 2, 3, 4):
        window = AmortizedMTA(monoids.Fields(**aggregates), POLICIES[name])
        mine = keys == key
        for time, value in zip(times[mine].tolist(), values[mine].tolist(), strict=True):
            found = window.push({"x": value}, time)
            wanted.append(found | {"run": found["run"]._asdict()})
    found = [{each: row[each] for each in aggregates} for row in out.to_pylist()]
    assert found == wanted


@pytest.mark.parametrize("algorithm", ["amta", "daba"])
def test_nulls_leave_before_a_maximum(algorithm: str) -> None:
    table = pa.table({"k": [1] * 6, "o": range(6), "x": [None, None, 3, None, 5, 1]})
    aggregates = {"top": monoids.Max("x"), "n": monoids.Count()}
    out = roll(
        table, policy=policies.OlderThanMaximum("top"), aggregates=aggregates, algorithm=algorithm, chunk=2
    )
    assert out.column("top").to_pylist() == [None, None, 3, 3, 5, 5]
    assert out.column("n").to_pylist() == [1, 2, 1, 2, 1, 2]
