"""The windows of the Reactive Aggregator's paper: tuples late or between others, and its figure 1."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import OutOfOrderError, monoids, policies
from mta.baselines import ReactiveAggregator
from mta.slicing import Slicer, Sliding

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 40)),
        st.tuples(st.just("insert_at"), st.integers(0, 40)),
        st.tuples(st.just("evict"), st.integers(0, 3)),
        st.tuples(st.just("until"), st.integers(0, 40)),
        st.tuples(st.just("handle"), st.integers(0, 30)),
        st.tuples(st.just("push"), st.integers(0, 40)),
        st.tuples(st.just("extend"), st.integers(0, 40)),
    ),
    max_size=60,
)
POLICIES = (None, policies.CountWindow(5), policies.TimeWindow(9), policies.TimeWindow(9, closed="both"))


class Expected:
    """The window as a plain list of [time, letter, handle], in the order of the window."""

    def __init__(self, policy: Any) -> None:
        self.held: list[tuple[int, str, int]] = []
        self.latest = -1
        self.count = policy.n if isinstance(policy, policies.CountWindow) else None
        self.span = policy.d if isinstance(policy, policies.TimeWindow) else None
        self.closed = getattr(policy, "closed", "")

    def enforce(self) -> None:
        if self.count is not None:
            self.held = self.held[max(0, len(self.held) - self.count) :]
        if self.span is not None:
            first = self.latest - self.span
            self.held = [
                each for each in self.held if each[0] > first or (self.closed == "both" and each[0] == first)
            ]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@given(moves=MOVES)
def test_late_elements_against_a_list(policy: Any, moves: Any) -> None:
    window, expected = ReactiveAggregator(monoids.Concat(), policy, late=True), Expected(policy)
    for number, (move, argument) in enumerate(moves):
        letter = chr(ord("a") + number % 26)
        if move in ("insert", "push", "insert_at", "extend"):
            expected.latest = max(expected.latest, argument)
        if move == "insert":
            expected.held.append((argument, letter, window.insert(letter, argument)))
        elif move == "push":
            window.push(letter, argument)
            expected.held.append((argument, letter, -1))
            expected.enforce()
        elif move == "extend":
            window.extend([letter, letter.upper()], [argument, argument // 2])
            expected.held += [(argument, letter, -1), (argument // 2, letter.upper(), -1)]
            expected.enforce()
        elif move == "insert_at":
            index = argument % (len(expected.held) + 1)
            expected.held.insert(index, (argument, letter, window.insert_at(index, letter, argument)))
        elif move == "evict":
            count = min(argument, len(expected.held))
            window.evict(count)
            del expected.held[:count]
        elif move == "until":
            kept = [each for each in expected.held if each[0] > argument]
            assert window.evict_until(argument) == len(expected.held) - len(kept)
            expected.held = kept
        else:
            handles = [each[2] for each in expected.held if each[2] >= 0]
            if handles:
                handle = handles[argument % len(handles)]
                window.evict_handle(handle)
                expected.held = [each for each in expected.held if each[2] != handle]
        assert window.query() == "".join(letter for _, letter, _ in expected.held)
        assert len(window) == len(expected.held)
        assert window.oldest == min((time for time, _, _ in expected.held), default=None)
    window.enforce()
    expected.enforce()
    assert window.query() == "".join(letter for _, letter, _ in expected.held)


def test_slide_gives_each_row_its_own_result() -> None:
    window = ReactiveAggregator(monoids.Max(), policies.TimeWindow(10), late=True)
    assert window.slide([5, 9, 3, 4], [10, 1, 9, 12]).tolist() == [5, 9, 9, 5]


def test_the_index_to_insert_at_may_be_named() -> None:
    window = ReactiveAggregator(monoids.Collect(), late=True)
    window.insert("b", 5)
    window.insert_at(place=0, value="a", time=9)
    assert window.query() == ["a", "b"]


def test_what_is_refused() -> None:
    window = ReactiveAggregator(monoids.Sum())
    window.insert(1, 5)
    with pytest.raises(OutOfOrderError):
        window.insert(1, 4)
    with pytest.raises(TypeError, match="windows with late=True"):
        window.insert_at(0, 1, 5)
    late = ReactiveAggregator(monoids.Sum(), late=True)
    late.insert(1, 5)
    with pytest.raises(IndexError, match="no index 2 in a window that holds 1"):
        late.insert_at(2, 1, 5)
    with pytest.raises(TypeError, match="whole number as the index, got True"):
        late.insert_at(True, 1, 5)
    with pytest.raises(ValueError, match="policies by count and by time"):
        ReactiveAggregator(monoids.Sum(), policies.While(lambda total, _: total > 5), late=True)


def calls(count: int) -> list[tuple[int, float, str]]:
    """Telephone calls of three days as (second, length, caller), of which a fifth comes late."""
    rng = random.Random(7)
    arrivals = [
        (second := rng.randrange(3 * 86400), second + (rng.randrange(7200) if rng.random() < 0.2 else 0))
        for _ in range(count)
    ]
    ordered = [second for second, _ in sorted(arrivals, key=lambda each: each[1])]
    return [(second, float(rng.randrange(1, 40)), f"caller {rng.randrange(50)}") for second in ordered]


AGGREGATES = monoids.Fields(
    mxl=monoids.Max("len"), num=monoids.MaxCount("len"), who=monoids.ArgMax("len", "caller")
)


def plainly(window: list[tuple[int, float, str]]) -> dict[str, Any]:
    mxl = max(length for _, length, _ in window)
    longest = [caller for _, length, caller in window if length == mxl]
    return {"mxl": mxl, "num": len(longest), "who": longest[0]}


def test_figure_1_of_the_paper() -> None:
    """Range 24 Hours, Slide 1 Minute: from the minute floor(t - 24 h) on, both ends included."""
    window = ReactiveAggregator(AGGREGATES, late=True)
    arrived: list[tuple[int, float, str]] = []
    looked = 0
    for second, length, caller in calls(1500):
        window.insert({"len": length, "caller": caller}, second)
        arrived.append((second, length, caller))
        start = (max(each[0] for each in arrived) - 86400) // 60 * 60
        window.evict_until(start - 1)
        looked += len(window) < len(arrived)
        # in the order of arrival, of which the first wins a tie
        held = [each for each in arrived if each[0] >= start]
        assert window.query() == plainly(held)
    assert looked > 500


def test_figure_1_as_a_sliding_window_of_a_slicer() -> None:
    """The same every minute, aligned to the clock, half open, in the order of event times."""
    slicer = Slicer(AGGREGATES, {"day": Sliding(86400, 60)}, lateness=7200)
    arrived = calls(400)
    youngest = 0
    given: dict[int, Any] = {}
    for second, length, caller in arrived:
        slicer.insert({"len": length, "caller": caller}, time=second)
        if second > youngest + 3600:
            youngest = second
            given.update({r.start: r.value for r in slicer.watermark(second - 60)})
    given.update({r.start: r.value for r in slicer.watermark(5 * 86400)})
    assert slicer.late_dropped == 0
    ordered = sorted(arrived, key=lambda each: each[0])
    starts = range(ordered[0][0] // 60 * 60 + 60 - 86400, ordered[-1][0] + 1, 60)
    for start in random.Random(1).sample(starts, 300):
        held = [each for each in ordered if start <= each[0] < start + 86400]
        assert given[start] == plainly(held)
    assert min(given) == starts[0]
    assert len(given) == len(starts)
