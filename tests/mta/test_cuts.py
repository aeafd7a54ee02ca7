"""One arithmetic of cuts: for a time and for columns of them, in windows, baselines and Spark's groups."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from chance import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mta import AmortizedMTA, LogMTA, baselines, monoids
from mta.keyed.folds import first_rows
from mta.policies import Policy, TimeWindow
from mta.times.cuts import FEW_CUTS, Side, before, boundaries, comparable, cut, cuts

GAPS = 2**53

BASELINES = [
    getattr(baselines, name)
    for name in baselines.__all__
    if name not in ("Baseline", "FlatFAT", "SubtractOnEvict")
]


def kept(time: Any, youngest: Any, span: Any, closed: str) -> bool:
    """By the definition: whole times and what floats have gaps for exactly, real times as floats subtract."""
    if time == youngest or span == math.inf:
        return True
    whole = youngest == math.floor(youngest) and time == math.floor(time)
    if whole or abs(youngest) >= GAPS or abs(Fraction(youngest) - Fraction(span)) >= GAPS:
        start: Any = Fraction(youngest) - Fraction(span)
    else:
        start = youngest - span
    return time > start if closed == "right" else time >= start  # type: ignore[no-any-return]


def close_to(moments: list[Any]) -> st.SearchStrategy[Any]:
    whole = st.builds(lambda moment, step: int(moment) + step, st.sampled_from(moments), st.integers(-40, 40))
    return whole.filter(lambda time: -(2**63) < time < 2**63)


MOMENTS = [0, 1_700_000_000, 2**51, 2**52, GAPS, 10**17, 2**62, 2**63 - 41, -GAPS, -(10**17), -(2**63) + 41]
WHOLE = close_to(MOMENTS)
REAL = st.one_of(WHOLE.map(float), WHOLE.map(lambda time: time + 0.5), st.floats(-20, 20)).filter(
    lambda time: abs(time) < 2.0**63
)
SPANS = st.one_of(
    st.integers(1, 60),
    st.sampled_from([1e-300, 1e-9, 0.1, 0.5, 1.1, 1.5, 7.25, 1e9 + 0.5, 2**53 - 1, 10**17, 2**62, 2**64]),
    st.sampled_from([math.inf, 10**400, 5e-324, 2**51 + 0.5]),
)
TIMES = st.one_of(st.lists(WHOLE, min_size=1, max_size=12), st.lists(REAL, min_size=1, max_size=12)).map(
    sorted
)
CLOSED = st.sampled_from(["right", "both"])


def firsts_of(times: list[Any], span: Any, closed: str) -> list[int]:
    heads, head = [], 0
    for row, youngest in enumerate(times):
        while head < row and not kept(times[head], youngest, span, closed):
            head += 1
        heads.append(head)
    return heads


@settings(max_examples=examples(60))
@given(TIMES, SPANS, CLOSED)
@example([0.0, 1.0, 1e17, 2e17], 1, "right")
@example([1.7e9, 1.7e9], 1e-9, "right")
@example([2**52 - 2, 2**52 - 1], 1.1, "right")
@example([2**52 - 2, 2**52 - 1], 0.9, "both")
@example([1e17, 1e17 + 16], 20, "right")
@example([-(2**63) + 1, 2**63 - 1], 2**62 + 1, "right")
@example([2.0**62, 2.0**63 - 1024], 2**62, "both")
def test_everything_keeps_what_the_definition_keeps(times: list[Any], span: Any, closed: str) -> None:
    policy = TimeWindow(span, closed)  # type: ignore[arg-type]
    side: Side = "right" if closed == "right" else "left"
    heads = firsts_of(times, span, closed)
    # the heads that a cut alone gives, which never go backwards
    column = np.array(times, dtype=type(times[0]))
    for found in (cuts(column, policy.d, side), [cut(time, policy.d, side) for time in times]):
        rows = [before(column[: row + 1], moment, side) for row, moment in enumerate(found)]
        assert np.maximum.accumulate(rows).tolist() == heads
    assert boundaries(column, cuts(column, policy.d, side), side).tolist()[-1:] == rows[-1:]
    assert first_rows(np.array([0]), len(times), column, policy.limits()).tolist() == heads
    numbers = list(range(len(times)))
    wanted = [tuple(numbers[head : row + 1]) for row, head in enumerate(heads)]
    for size in (2, 4, None):
        for kind in (LogMTA, AmortizedMTA):
            window = kind(texts(), policy, page_size=size)
            assert [window.push(n, t) for n, t in zip(numbers, times, strict=True)] == wanted
            window = kind(texts(), policy, page_size=size)
            assert list(window.slide(numbers, column)) == wanted
            for half in range(len(times)):
                window = kind(texts(), policy, page_size=size)
                window.extend(numbers[:half], times[:half])
                window.extend(numbers[half:], column[half:])
                assert window.query() == wanted[-1]
    for kind in BASELINES:
        swapped = kind(texts(), policy)
        assert [swapped.push(n, t) for n, t in zip(numbers, times, strict=True)] == wanted
        swapped = kind(texts(), policy)
        assert list(swapped.slide(numbers, column)) == wanted


def texts() -> monoids.Monoid:
    """Numbers end to end, which neither commute nor can be taken off again."""
    return monoids.from_function(lambda a, b: a + b, (), lift=lambda n: (n,), name="end to end")


@settings(max_examples=examples(40))
@given(st.lists(st.one_of(WHOLE, REAL), min_size=1, max_size=12).map(sorted), SPANS, CLOSED)
def test_whole_and_real_times_in_one_window(times: list[Any], span: Any, closed: str) -> None:
    policy = TimeWindow(span, closed)  # type: ignore[arg-type]
    heads = firsts_of(times, span, closed)
    for size in (2, None):
        for kind in (LogMTA, AmortizedMTA):
            window = kind(texts(), policy, page_size=size)
            found = [window.push(row, time) for row, time in enumerate(times)]
            assert found == [tuple(range(head, row + 1)) for row, head in enumerate(heads)]
            assert (window.oldest, window.youngest) == (times[heads[-1]], times[-1])
            window = kind(texts(), policy, page_size=size)
            assert list(window.slide(list(range(len(times))), times)) == found
    swapped = baselines.DABA(texts(), policy)
    assert [swapped.push(row, time) for row, time in enumerate(times)] == found


@given(TIMES, st.one_of(WHOLE, REAL, st.integers(-(2**70), 2**70), st.sampled_from([-math.inf, math.inf])))
def test_moments_fall_where_python_says(times: list[Any], moment: Any) -> None:
    column = np.array(times, dtype=type(times[0]))
    assert before(column, moment, "left") == sum(time < moment for time in times)
    assert before(column, moment, "right") == sum(time <= moment for time in times)
    objects = np.array(times, dtype=object)
    assert before(objects, moment, "right") == before(column, moment, "right")
    assert comparable(objects.dtype, moment, "left") is moment


@pytest.mark.parametrize("kinds", [(int, float), (float, int), (int, int), (float, float)])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("base", [0, 2**53, 2**60, -(2**60), 2**63 - 5000])
def test_columns_of_moments_fall_there_too(kinds: Any, side: Any, base: int) -> None:
    chance = np.random.default_rng(7)
    for count in (3, FEW_CUTS + 1, 1000):
        times = np.sort(base + chance.integers(0, 3000, 2000)).astype(kinds[0])
        moments = np.sort(base + chance.integers(0, 3000, count)).astype(kinds[1])
        if base == 2**63 - 5000 and float in kinds:
            times = np.minimum(times, type(times[0])(2**63 - 1025))
            moments = np.minimum(moments, type(moments[0])(2**63 - 1025))
        exact, wanted = times.tolist(), []
        for moment in moments.tolist():
            below = sum(time < moment or (side == "right" and time == moment) for time in exact[:3])
            wanted.append(below + sum(t < moment or (side == "right" and t == moment) for t in exact[3:]))
        assert boundaries(times, moments, side).tolist() == wanted


@pytest.mark.parametrize("policy", [TimeWindow(1), TimeWindow(0.5), TimeWindow(0, closed="both")], ids=repr)
def test_only_the_youngest_time_loses_the_span(policy: Policy) -> None:
    for times in ([0.0, 1.0, 1e17, 2e17], [1e17, 1e17 + 16], [-1e17, 0.0, 1e17], [-2e17, -1e17, 0.5]):
        for kind in (LogMTA, AmortizedMTA, baselines.DABA, baselines.TwoStacks):
            assert kind(monoids.Count(), policy).slide([1] * len(times), times).tolist() == [1] * len(times)
            window = kind(monoids.Sum(), policy)
            assert [window.push(row, time) for row, time in enumerate(times)] == list(range(len(times)))


def test_groups_of_negative_times_under_long_spans() -> None:
    """Spans that reach beyond 64 bits, and groups that cannot be moved apart within them."""
    starts = np.array([0, 3, 5])
    times = np.array([-(2**62) - 5, -(2**62), 2**61, -(2**63) + 1, 2**63 - 1, -7, -3])
    for span in (1, 5, 2**62, 2**62 + 2**61, 2**63, 2**64 - 2, math.inf, 2.5, 2.0**62 + 1024):
        for closed in ("right", "both"):
            found = first_rows(starts, 7, times, TimeWindow(span, closed).limits())  # type: ignore[arg-type]
            wanted = []
            for start, stop in ((0, 3), (3, 5), (5, 7)):
                group = times[start:stop].tolist()
                wanted += [start + head for head in firsts_of(group, span, closed)]
            assert found.tolist() == wanted, (span, closed)
