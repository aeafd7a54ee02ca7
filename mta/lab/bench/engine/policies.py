"""`push` under programmed policies: what leaves depends on aggregates, as in the paper's listings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.baselines import DABA
from mta.lab.bench.report import Section
from mta.lab.harness import Setting
from mta.lab.turns import side_by_side
from mta.monoids.base import Monoid
from mta.policies import Policy, While

#: Pushes at a stretch: whole pages, of numbers and of objects, so that each stretch has its share of them.
PAGE = 1 << 14
#: Times a push of DABA, at most.
TARGET = 1.0


class Case(NamedTuple):
    monoid: Callable[[], Monoid]
    policy: Policy
    #: the stream
    element: Callable[[int], Any]


def listings(window: int) -> Case:
    """Listings 2 and 3 of the paper: a count, and the size of the window in every element."""
    monoid = monoids.from_function(
        lambda older, younger: (older[0] + younger[0], younger[1]),
        (0, 0),
        lift=lambda most: (1, most),
        name="count and size",
    )
    policy = While(lambda total, old: total[0] - old[0] >= total[1], name="count")
    return Case(lambda: monoid, policy, lambda _: window)


def budget(window: int) -> Case:
    return Case(monoids.Sum, policies.SumWindow(504 * window), lambda number: number * 7919 % 1009)


def maximum(window: int) -> Case:
    """A higher maximum after each so many elements, at which all others leave."""
    return Case(
        monoids.Max,
        policies.OlderThanMaximum(),
        lambda number: number * 7919 % 1009 if number % window else 1009 + number // window,
    )


def longest_run(window: int) -> Case:
    """A longer run after each so many elements, at which all before it leave."""
    return Case(
        monoids.LongestIncreasingRun,
        policies.OlderThanLongestRun(),
        lambda number: number % window if number % window < 20 + number // window else number * 7919 % 1009,
    )


CASES = {
    "listings 2 and 3": listings,
    "budget over a sum": budget,
    "the maximum's": maximum,
    "the longest run's": longest_run,
}


def measure(setting: Setting) -> Section:
    below, above = (100, 2000) if setting.quick else (500, 50_000)
    repetitions = 2 if setting.quick else 7
    section = Section(
        "policies", f"push under programmed policies, windows of about {below:,} and {above:,}; per push"
    )
    for window in (below, above):
        chunk = 500 if setting.quick else PAGE
        for name, make in CASES.items():
            setting.say(f"policies: {name}, {window:,}")
            case = make(window)
            windows: dict[str, Any] = {
                "AmortizedMTA": AmortizedMTA(case.monoid(), case.policy),
                "LogMTA": LogMTA(case.monoid(), case.policy),
                "DABA": DABA(case.monoid(), case.policy),
            }
            filled = window + window // 10
            for each in windows.values():
                _push(each, [case.element(number) for number in range(filled)])
            timings = side_by_side(windows, _push, case.element, filled, chunk, repetitions)
            subject = f"{name}, {window:,}"
            for contender, timing in timings.items():
                section.add(
                    subject, contender, timing.ns, "ns", cpu=timing.cpu_ns,
                    ratio=None if contender == "DABA" else timing.ratio(timings["DABA"]),
                    reference=None if contender == "DABA" else "DABA",
                    target=TARGET if contender == "AmortizedMTA" and not setting.quick else None,
                )  # fmt: skip
            section.raw[subject] = {contender: timing.record() for contender, timing in timings.items()}
    return section


def _push(window: Any, values: Sequence[Any]) -> None:
    push = window.push
    for value in values:
        push(value)
