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


class Workload(NamedTuple):
    monoid: Callable[[], Monoid]
    policy: Policy
    #: the stream
    element: Callable[[int], Any]


def listings(window: int) -> Workload:
    """Listings 2 and 3 of the paper: a count, and the size of the window in every element."""
    monoid = monoids.from_function(
        lambda older, younger: (older[0] + younger[0], younger[1]),
        (0, 0),
        lift=lambda most: (1, most),
        name="count and size",
    )
    policy = While(lambda total, old: total[0] - old[0] >= total[1], name="count")
    return Workload(lambda: monoid, policy, lambda _: window)


def budget(window: int) -> Workload:
    return Workload(monoids.Sum, policies.SumWindow(504 * window), lambda number: number * 7919 % 1009)


def maximum(window: int) -> Workload:
    """A higher maximum after each so many elements, at which all others leave."""
    return Workload(
        monoids.Max,
        policies.OlderThanMaximum(),
        lambda number: number * 7919 % 1009 if number % window else 1009 + number // window,
    )


def longest_run(window: int) -> Workload:
    """A longer run after each so many elements, at which all before it leave."""
    return Workload(
        monoids.LongestIncreasingRun,
        policies.OlderThanLongestRun(),
        lambda number: number % window if number % window < 20 + number // window else number * 7919 % 1009,
    )


WORKLOADS = {
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
        for name, make in WORKLOADS.items():
            setting.say(f"policies: {name}, {window:,}")
            workload = make(window)
            windows: dict[str, Any] = {
                "AmortizedMTA": AmortizedMTA(workload.monoid(), workload.policy),
                "LogMTA": LogMTA(workload.monoid(), workload.policy),
                "DABA": DABA(workload.monoid(), workload.policy),
            }
            filled = window + window // 10
            for each in windows.values():
                _push(each, [workload.element(number) for number in range(filled)])
            timings = side_by_side(windows, _push, workload.element, filled, chunk, repetitions)
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
