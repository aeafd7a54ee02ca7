"""Times are given with every element or with none, and a policy that asks for them gets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from mta import AmortizedMTA, LogMTA, baselines, monoids
from mta.errors import MissingTime, WindowError
from mta.policies import CountWindow, Policy, TimeWindow, While
from stores import open_store

WINDOWS = [LogMTA, AmortizedMTA]
KINDS = [*WINDOWS, baselines.TwoStacks, baselines.DABA, baselines.ReactiveAggregator]
EPOCH = 1_700_000_000

NINE = While(lambda total, old: total - old > 9, name="nine")

ASKING: list[Policy] = [
    TimeWindow(5),
    TimeWindow(0, closed="both"),
    TimeWindow(5) | CountWindow(3),
    CountWindow(3) | NINE | TimeWindow(2, closed="both"),
]
NOT_ASKING: list[Policy | None] = [
    None,
    CountWindow(3),
    While(lambda total, old: total - old > 9, name="nine"),
]

Call = Callable[[Any, Any], Any]

#: an element or a batch of one, at a time or without
CALLS: dict[str, Call] = {
    "insert": lambda window, time: window.insert(1, time),
    "push": lambda window, time: window.push(1, time),
    "extend": lambda window, time: window.extend([1], None if time is None else [time]),
    "slide": lambda window, time: window.slide([1], None if time is None else [time]),
    "slide a series": lambda window, time: window.slide(
        pd.Series([1], index=pd.date_range("2026-01-01", periods=1)), None if time is None else [time]
    ),
}


def seen(window: Any) -> Any:
    return len(window), window.oldest, window.youngest, window.query()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_policy_that_asks_for_times_gets_them(kind: Any, call: Call, policy: Policy) -> None:
    window = kind(monoids.Sum(), policy)
    for _ in range(2):
        with pytest.raises(MissingTime, match=r"this window asks for times: give one with each"):
            call(window, None)
        assert len(window) == 0
    call(window, EPOCH)
    before = seen(window)
    with pytest.raises(MissingTime, match="asks for times"):
        call(window, None)
    assert seen(window) == before
    call(window, EPOCH + 1)
    window.slide([])
    window.extend([])
    assert window.youngest == EPOCH + 1
    assert issubclass(MissingTime, (WindowError, TypeError))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("second", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("policy", NOT_ASKING, ids=repr)
def test_times_of_both_kinds_do_not_mix(kind: Any, first: Call, second: Call, policy: Any) -> None:
    for time, other, words in (
        (None, EPOCH, "with a time cannot follow"),
        (7, None, "without a time cannot"),
    ):
        window = kind(monoids.Sum(), policy)
        first(window, time)
        before = seen(window)
        for _ in range(2):
            with pytest.raises(MissingTime, match=words):
                second(window, other)
            assert seen(window) == before
        second(window, time)
        assert window.youngest == (1 if time is None else time)
        window.evict(len(window))
        with pytest.raises(MissingTime, match=words):  # also when all have left
            second(window, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_fails_decides_nothing(kind: Any) -> None:
    for bad, good in ((EPOCH, None), (None, EPOCH)):
        window = kind(monoids.Sum())
        for call in (
            lambda w=window, t=bad: w.push("x", t),
            lambda w=window, t=bad: w.slide(["x"], t and [t]),
        ):
            with pytest.raises(TypeError):
                call()
        window.push(1, good)
        window.push(1, good)
        assert len(window) == 2


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_after_a_restore(kind: Any, call: Call) -> None:
    with open_store("memory:") as store:
        for name, time in (("counted", None), ("given", EPOCH)):
            with kind(monoids.Sum(), CountWindow(9), store=store, name=name) as window:
                for _ in range(3):
                    window.push(1, time)
                window.checkpoint()
        with kind.restore(store, "counted", monoids.Sum(), CountWindow(9)) as window:
            call(window, None)
            assert (window.oldest, window.youngest) == (0, 3)
            with pytest.raises(MissingTime, match="with a time cannot follow 4"):
                call(window, EPOCH)
        with kind.restore(store, "given", monoids.Sum(), CountWindow(9)) as window:
            with pytest.raises(MissingTime, match="without a time cannot follow 3"):
                call(window, None)
            call(window, EPOCH)
            assert (len(window), window.youngest) == (4, EPOCH)
