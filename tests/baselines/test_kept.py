"""A result is kept until the window changes (section 5.2 of the MTA paper), and nobody else can change it."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from baselines.tiny import ALGORITHMS, Baseline, Brittle, Concat, Counting, Matrices, SubtractOnEvict

from mta import AmortizedMTA, LogMTA, monoids
from mta.baselines import ReactiveAggregator
from mta.monoids.base import Monoid
from mta.policies import CountWindow, TimeWindow, While

EVERY: dict[str, Any] = {**ALGORITHMS, "SubtractOnEvict": SubtractOnEvict}
N = 41


def window_of(label: str, monoid: Monoid, policy: Any = None) -> Any:
    window = EVERY[label](monoid, policy)
    window.extend(range(N), range(N))
    window.evict(3)
    return window


class CountingGroup(Counting):
    def inverse(self, state: Any) -> Any:
        return Matrices().inverse(state)


@pytest.mark.parametrize("label", EVERY)
def test_asking_again_combines_nothing(label: str) -> None:
    monoid = CountingGroup(Matrices())
    window = window_of(label, monoid, CountWindow(N))
    first = window.query()
    assert monoid.during(window.query) == 0
    assert window.query() == first
    for value in range(20):
        pushed = window.push(value, N + value)
        assert monoid.during(window.query) == 0
        assert window.query() == pushed
    last = window.slide([5, 6, 7], [99, 99, 100])[-1]
    assert monoid.during(window.query) == 0
    assert window.query() == last


@pytest.mark.parametrize("label", EVERY)
def test_calls_that_change_nothing_keep_it(label: str) -> None:
    monoid = CountingGroup(Matrices())
    window = window_of(label, monoid, CountWindow(N) | TimeWindow(1000))
    window.query()
    before = monoid.calls
    assert window.enforce() == 0
    assert window.evict_until(2) == 0
    window.evict(0)
    window.extend([], [])
    window.slide([], [])
    for call in (
        lambda: window.insert(None, 50),
        lambda: window.insert(1, 3),
        lambda: window.evict(100),
        lambda: window.push(4, "x"),
    ):
        with pytest.raises((TypeError, ValueError, IndexError)):
            call()
    assert window.query() is not None
    assert monoid.calls == before


CHANGES: dict[str, Callable[[Any], Any]] = {
    "insert": lambda w: w.insert(7, 100),
    "push": lambda w: w.push(7, 100),
    "evict": lambda w: w.evict(),
    "evict many": lambda w: w.evict(3),
    "evict all": lambda w: w.evict(len(w)),
    "evict_until": lambda w: w.evict_until(8),
    "enforce": lambda w: w.enforce(),
    "extend": lambda w: w.extend([1, 2], [100, 101]),
    "slide": lambda w: w.slide([1, 2], [100, 101]),
}
POLICIES = {
    "count": CountWindow(30),
    "time": TimeWindow(20),
    "predicate": While(lambda total, old: total[4] - old[4] >= 6),
}


@pytest.mark.parametrize("label", EVERY)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_change_is_seen(label: str, change: str, policy: str) -> None:
    kept, asked = (window_of(label, Matrices(), POLICIES[policy]) for _ in range(2))
    kept.query()
    for window in (kept, asked):
        CHANGES[change](window)
    recomputed = window_of("Recalculate", Matrices(), POLICIES[policy])
    CHANGES[change](recomputed)
    assert kept.query() == asked.query() == recomputed.query()
    assert len(kept) == len(recomputed)


def test_an_element_that_leaves_out_of_turn_is_seen() -> None:
    window = ReactiveAggregator(Concat())
    handles = [window.insert(i) for i in range(6)]
    assert window.query() == "<0.1.2.3.4.5.>"
    for handle, left in ((3, "01245"), (0, "1245"), (5, "124")):
        window.evict_handle(handles[handle])
        assert window.query() == f"<{''.join(f'{i}.' for i in left)}>"


@pytest.mark.parametrize("label", ALGORITHMS)
def test_an_operator_that_fails_leaves_no_other_result(label: str) -> None:
    chance = random.Random(3)
    monoid = Brittle()
    window: Baseline = ALGORITHMS[label](monoid, None)
    held: list[int] = []
    for i in range(400):
        monoid.fuse = chance.choice([-1, 1, 2, 3, 4])
        before = list(held)
        try:
            kind = chance.choice(["insert", "evict", "query", "query"])
            if kind == "insert":
                window.insert(i)
                held.append(i)
            elif kind == "evict" and held:
                window.evict()
                del held[0]
            else:
                assert window.query() == f"<{''.join(f'{j}.' for j in held)}>"
        except OverflowError:
            held = before
        monoid.fuse = -1
        assert window.query() == f"<{''.join(f'{j}.' for j in held)}>"


class Lists(Monoid):
    """States that can be changed, and are the results."""

    identity: Any = []  # noqa: RUF012

    def lift(self, value: Any) -> list[Any]:
        return [value]

    def combine(self, older: Any, younger: Any) -> Any:
        return older + younger

    def inverse(self, state: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("label", [*ALGORITHMS, "LogMTA", "AmortizedMTA"])
@pytest.mark.parametrize(
    "make", [Lists, lambda: monoids.from_function(lambda a, b: a + b, [], lift=lambda x: [x])]
)
def test_a_result_that_is_changed_is_no_part_of_the_window(label: str, make: Any) -> None:
    kinds: dict[str, Any] = {**ALGORITHMS, "LogMTA": LogMTA, "AmortizedMTA": AmortizedMTA}
    window = kinds[label](make(), CountWindow(5))
    held: list[int] = []
    window.query().append("changed")
    for i in range(30):
        held = [*held, i][-5:]
        result = window.push(i)
        assert result == held
        result.clear()
        assert window.query() == held
        window.query().append("changed")
        assert window.query() == held
        if i % 7 == 0:
            window.evict()
            del held[0]
            window.query().append("changed")
    assert reduce(lambda a, b: a + b, [[i] for i in held]) == window.query()
