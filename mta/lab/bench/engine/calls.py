"""`insert`, `evict` and `query` as three calls of their own, in a window that stays as large as it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from mta import AmortizedMTA, LogMTA, monoids
from mta.baselines import DABA
from mta.lab.bench.report import Section
from mta.lab.contents import discarded
from mta.lab.harness import Setting
from mta.lab.turns import side_by_side

#: Elements at a stretch: a whole page, so that each stretch has its share of one.
PAGE = 1 << 14
#: Times the three calls of DABA, at most.
TARGETS = {"AmortizedMTA": 1.0, "AmortizedMTA, redis": 1.2}


def measure(setting: Setting) -> Section:
    small, large = (100, 2000) if setting.quick else (500, 200_000)
    chunk, repetitions = (500, 2) if setting.quick else (PAGE, 9)
    section = Section(
        "calls", f"insert, evict and query, windows of {small:,} and {large:,}; the three together"
    )
    size = setting.page_size
    for aggregate, monoid in {"Sum": monoids.Sum, "Max": monoids.Max}.items():
        for window in (small, large):
            setting.say(f"calls: {aggregate}, {window:,}")
            with ExitStack() as stack:
                stored = AmortizedMTA(monoid(), store=setting.redis, page_size=size)
                windows: dict[str, Any] = {
                    "AmortizedMTA": AmortizedMTA(monoid(), page_size=size),
                    "AmortizedMTA, redis": stack.enter_context(discarded(stored)),
                    "LogMTA": LogMTA(monoid(), page_size=size),
                    "DABA": DABA(monoid()),
                    "DABA, cached": DABA(monoid(), cached=True),
                }
                for each in windows.values():
                    each.extend([_element(number) for number in range(window)])
                timings = side_by_side(windows, _three, _element, window, chunk, repetitions)
            subject = f"{aggregate}, {window:,}"
            for contender, timing in timings.items():
                section.add(
                    subject, contender, timing.ns, "ns", cpu=timing.cpu_ns,
                    ratio=None if contender == "DABA" else timing.ratio(timings["DABA"]),
                    reference=None if contender == "DABA" else "DABA",
                    target=None if setting.quick else TARGETS.get(contender),
                )  # fmt: skip
            section.raw[subject] = {contender: timing.record() for contender, timing in timings.items()}
    return section


def _element(number: int) -> int:
    return number * 7919 % 1009


def _three(window: Any, values: Sequence[Any]) -> None:
    insert, evict, query = window.insert, window.evict, window.query
    for value in values:
        insert(value)
        evict()
        query()
