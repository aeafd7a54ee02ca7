"""Numbers at the ends of what they can be: results are right, and NumPy has nothing to warn of."""

from __future__ import annotations

import bisect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, monoids
from mta.durability.operations import verify
from mta.policies import CountWindow, TimeWindow
from mta.times.cuts import FEW_CUTS, boundaries
from stores import open_store

END = 2**63 - 1

#: Runs of whole times that follow each other, far apart.
RUNS = st.lists(
    st.tuples(st.sampled_from([-END, -(2**62), -1, 0, 2**40, 2**62, END - 700]), st.integers(1, 400)),
    min_size=1,
    max_size=4,
    unique_by=lambda run: run[0],
)


def moments_of(runs: list[tuple[int, int]]) -> list[int]:
    return sorted(moment for first, count in runs for moment in range(first, first + count))


@settings(max_examples=60)
@given(RUNS, RUNS, st.booleans(), st.booleans())
def test_boundaries_of_times_further_apart_than_64_bits(
    times: Any, cuts: Any, left: bool, real: bool
) -> None:
    held, wanted = moments_of(times), moments_of(cuts)
    wanted = (wanted * FEW_CUTS)[: max(FEW_CUTS, len(wanted))]
    wanted.sort()
    column = np.array(wanted, dtype=np.float64) if real else np.array(wanted)
    search = bisect.bisect_left if left else bisect.bisect_right
    found = boundaries(np.array(held), column, "left" if left else "right")
    assert found.tolist() == [search(held, cut) for cut in column.tolist()]


@pytest.mark.parametrize("algorithm", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize("span", [1, 5, 2**62, 2**63, 2**64 - 3, 2**64, 1.5, 1e19, 1e300, 10**400, math.inf])
@pytest.mark.parametrize("real", [False, True])
def test_a_window_from_one_end_of_time_to_the_other(algorithm: Any, span: Any, real: bool) -> None:
    times: list[Any] = moments_of([(-END, 400), (-5, 300), (END - 400, 400)])
    if real:
        times = [float(min(max(moment, -END + 1024), END - 1024)) for moment in times]
    values = list(range(len(times)))
    wanted, head = [], 0
    for youngest in times:
        while span != math.inf and int(times[head]) <= int(youngest) - int(span) - (span == 1.5):
            head += 1
        wanted.append(values[head])
    pushed = algorithm(monoids.First(), TimeWindow(span))
    assert [pushed.push(*pair) for pair in zip(values, times, strict=True)] == wanted
    for size in (len(values), 300, 7):
        window = algorithm(monoids.First(), TimeWindow(span), page_size=64)
        found = []
        for first in range(0, len(values), size):
            some = slice(first, first + size)
            found += window.slide(values[some], times[some]).tolist()
        assert found == wanted


@pytest.mark.parametrize("make", [monoids.Sum, monoids.Mean, monoids.SampleStdDev, monoids.Max])
@pytest.mark.parametrize(
    "values",
    [[1e308, -1e308, 1e308, 1.5e308], [math.inf, 1.0, -math.inf, 1e308], [5e-324, 1e-320, -5e-324, 0.0]],
    ids=repr,
)
def test_a_window_of_the_largest_numbers_is_verified(make: Any, values: list[float]) -> None:
    with open_store("memory:") as store:
        with AmortizedMTA(make(), CountWindow(40), store=store, name="large", page_size=4) as window:
            window.extend(values * 12)
            window.checkpoint()
        report = verify(store, "large", make())
        assert (report.problems, report.recomputed > 0) == ([], True)
        with AmortizedMTA.restore(store, "large", make(), CountWindow(40)) as again:
            again.slide(values * 3)


def test_long_floats_beyond_the_range_of_floats() -> None:
    large = np.array(["1e4000"], dtype=np.longdouble)
    if not np.isfinite(large).all():
        pytest.skip("long floats are no longer than floats here")
    window = AmortizedMTA(monoids.Sum(), TimeWindow(10))
    with pytest.raises(ValueError, match="a time is finite"):
        window.extend([1], large)
    with pytest.raises(ValueError, match="a time is finite"):
        window.push(1, large[0])
    assert (window.push(large[0], 1), window.slide(large, [2]).tolist()) == (math.inf, [math.inf])
