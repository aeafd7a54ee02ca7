"""Where windows start and end: by arithmetic, in a few steps, exact for numbers of any kind and size."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mta import monoids
from mta.slicing import Late, Session, Slicer, Sliding, Tumbling
from mta.slicing.windows import after, before

WHOLE = st.one_of(st.integers(1, 50), st.integers(1, 2**62))
REAL = st.one_of(
    st.integers(1, 400).map(lambda n: n / 8),
    st.floats(0.01, 1e6),
    st.sampled_from([0.1, 0.3, 0.7, 1 / 3, math.pi]),
)
#: how many slides a time is away from 0
PLACES = st.one_of(st.integers(-60, 60), st.integers(-(2**40), 2**40))


class Counting(Sliding):
    """How often it finds out where a window starts."""

    steps = 0

    def _start(self, number: int) -> Any:
        self.steps += 1
        return super()._start(number)


def windows_around(kind: Sliding, time: Any) -> list[tuple[Any, Any]]:
    """All windows that start or end near a time, by trying each."""
    found = set()
    for at in (Fraction(time), Fraction(time) - Fraction(kind.length)):
        middle = math.floor((at - Fraction(kind.offset)) / Fraction(kind.slide))
        for number in range(middle - 4, middle + 5):
            start = kind.offset + number * kind.slide
            whole = Fraction(kind.length) / Fraction(kind.slide)
            same = whole.denominator == 1 or round(whole) * kind.slide == kind.length
            end = kind.offset + (number + round(whole)) * kind.slide if same else start + kind.length
            found.add((start, end))
    return sorted(found)


@given(
    length=st.one_of(WHOLE, REAL),
    slide=st.one_of(WHOLE, REAL),
    offset=st.one_of(st.just(0), st.integers(-(2**60), 2**60), st.floats(-1e6, 1e6)),
    place=PLACES,
    part=st.sampled_from([0, 0.5, 1e-9, -1e-9]),
)
def test_edges_are_those_that_trying_all_would_find(
    length: Any, slide: Any, offset: Any, place: int, part: float
) -> None:
    assume(length / slide < 2**52)
    kind = Counting(length, slide, offset=offset)
    time = kind.offset + place * kind.slide
    if part:
        time += kind.slide * part
    around = windows_around(kind, time)
    edges = sorted({start for start, _ in around} | {end for _, end in around})
    starts = [start for start, _ in around]
    try:
        edge, start, reach = kind.edge_after(time), kind.start_after(time), kind.reach(time)
        last_end, ending = kind.last_end(time), kind.ending(time, edge)
    except ValueError:
        # only where floats cannot tell windows apart
        assert not all(isinstance(each, int) for each in (kind.length, kind.slide, kind.offset))
        large = max(map(abs, (time, kind.offset, kind.length)))
        assert math.ulp(large) * 4 >= kind.slide or large / kind.slide >= 2**50
        return
    assert kind.steps <= 80
    assert edge == min(each for each in edges if each > time)
    assert start == min(each for each in starts if each > time)
    holding = [span for span in around if span[0] <= time < span[1]]
    assert reach == min([start for start, _ in holding], default=time)
    assert last_end == max([end for _, end in holding], default=time)
    assert ending == [span for span in holding if span[1] == edge]
    if length / slide < 100:
        assert kind.holding(time) == [span for span in kind.holding(time) if span[0] <= time < span[1]]
        assert set(holding) <= set(kind.holding(time))


def test_windows_that_floats_cannot_tell_apart_are_refused_and_do_not_run_for_ever() -> None:
    for kind, time in (
        (Sliding(1e-3, 1e-9, offset=1e18), 1e18),
        (Sliding(1e18, 1e-3), 5.0),
        (Sliding(1e-300, 1e-300), 5),
    ):
        slicer = Slicer(monoids.Sum(), {"q": kind})
        with pytest.raises(ValueError, match="too many windows up to the time"):
            slicer.insert(1, time=time)
        assert slicer.slices == 0


def test_a_length_that_is_no_multiple_of_the_slide_costs_no_more_than_one_that_is() -> None:
    steps = {}
    for length in (86_400, 86_401):
        kind = Counting(length, 7)
        slicer = Slicer(monoids.Sum(), {"day": kind}, lateness=60)
        slicer.insert(1, time=0)
        results, kind.steps = 0, 0
        for time in range(0, 200_000, 50):
            slicer.insert(1, time=time)
            results += len(slicer.watermark(time))
        steps[length] = kind.steps / results
    assert max(steps.values()) < 40


def test_a_lateness_beyond_the_windows_that_can_be_told_apart() -> None:
    slicer = Slicer(monoids.Sum(), {"q": Sliding(7.5, 2.5)}, lateness=1e18)
    slicer.extend([1, 2, 3], [0, 10, 3])
    assert len(slicer.watermark(40)) == 7
    slicer.insert(1, time=-5)
    assert [(r.start, r.value) for r in slicer.watermark(40)] == [(-10, 1), (-7.5, 1), (-5, 2)]


def by_itself(value: int) -> int:
    return value


@pytest.mark.parametrize("by", [None, by_itself])
def test_late_tuples_where_the_horizon_is_beyond_the_windows_that_can_be_told_apart(by: Any) -> None:
    late: list[Late] = []
    queries = {"a": Sliding(1.5, 0.7), "b": Tumbling(100)}
    slicer = Slicer(monoids.Count(), queries, lateness={"a": 1e16}, by=by, on_late=late.append)
    slicer.insert(1, time=60)
    assert len(slicer.watermark(70)) == 2
    slicer.insert(1, time=65)
    assert len(slicer.watermark(70)) == 2
    slicer.watermark(200)
    slicer.extend([1, 1], [60, 250])
    assert [(r.query, r.value, r.is_update) for r in slicer.watermark(200)] == [("a", 2, True)] * 2
    assert late == [Late(1, 60, ("b",), by and 1)]


@pytest.mark.parametrize("by", [None, by_itself])
def test_a_watermark_beyond_the_windows_that_can_be_told_apart(by: Any) -> None:
    late: list[Late] = []
    slicer = Slicer(monoids.Count(), {"a": Sliding(1.5, 0.7)}, by=by, on_late=late.append)
    slicer.watermark(1e16)
    slicer.insert(1, time=5)
    slicer.extend([1, 2], [6, -3])
    assert [each.time for each in late] == [5, 6, -3]
    assert slicer.late_dropped == 3
    assert slicer.watermark(1e16) == []


def test_a_window_that_goes_on_beyond_those_that_can_be_told_apart_takes_late_tuples() -> None:
    # from 2**22, some 4.19 million, floats do not tell them apart
    slicer = Slicer(monoids.Count(), {"a": Sliding(2**20, 2**-30)})
    slicer.watermark(4.2e6)
    slicer.insert(1, time=4e6)
    assert slicer.late_dropped == 0
    slicer.insert(1, time=3e6)
    assert slicer.late_dropped == 1


@pytest.mark.parametrize("time", [-(2**53) - 1, -(2**53), 2**53 - 1, 2**53, 2**53 + 1, 2.0**53, -(2.0**53)])
def test_no_time_is_between_one_and_the_next(time: Any) -> None:
    assert after(time) == int(time) + 1
    assert before(after(time)) == time


@pytest.mark.parametrize("kind", [monoids.Collect(), monoids.Sum()], ids=repr)
@pytest.mark.parametrize("first", [2**53 - 1, 2**53, -(2**53) - 1])
def test_whole_times_that_floats_just_tell_apart_are_in_windows_of_their_own(kind: Any, first: int) -> None:
    def plain(values: list[int]) -> Any:
        return values if isinstance(kind, monoids.Collect) else sum(values)

    counted = {"c": Tumbling(6, measure="count")} if isinstance(kind, monoids.Collect) else {}
    slicer = Slicer(kind, {"one": Tumbling(1), **counted})
    slicer.insert(1, first)
    slicer.extend([2, 3, 4], [first, first + 1, first + 2])
    assert slicer.add("two", Tumbling(1)) == first + 3
    slicer.extend([5, 6], [first + 3, first + 4])
    got = [(r.query, r.start - first, r.value) for r in slicer.watermark(first + 10) if r.query != "c"]
    parts = [[1, 2], [3], [4], [5], [6]]
    one = [("one", at, plain(part)) for at, part in enumerate(parts)]
    assert [each for each in got if each[0] == "one"] == one
    assert [each[1:] for each in got if each[0] == "two"] == [(3, plain([5])), (4, plain([6]))]


def test_a_session_at_the_last_whole_float_has_its_own_tuples_only() -> None:
    slicer = Slicer(monoids.Sum(), {"one": Tumbling(1), "visit": Session(0.5)})
    slicer.extend([1, 2], [2**53, 2**53 + 1])
    got = slicer.watermark(2**53 + 10)
    assert [(r.start - 2**53, r.value) for r in got if r.query == "visit"] == [(0, 1), (1, 2)]
