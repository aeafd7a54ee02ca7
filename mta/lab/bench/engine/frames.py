"""Several windows over one log: five lengths beside one, and windows that end before the last element."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from mta import AmortizedMTA, monoids
from mta.lab.bench.report import Section
from mta.lab.contents import discarded
from mta.lab.harness import Setting
from mta.lab.turns import Timings, interleaved
from mta.monoids.base import Array, Monoid
from mta.policies import Policy, TimeWindow
from mta.window import MonoidTreeAggregator

#: The lengths of the other windows, as parts of the longest one.
SHORTER = (1000, 100, 10, 3)

#: Times one length, where five of them slide over Redis.
MOST_OF_FIVE = 3.5

ONE, FIVE, PRIOR, LATE = "one length", "five lengths", 'closed="left"', "delay= half"


def measure(setting: Setting) -> Section:
    window, batch = (1 << 14, 1 << 12) if setting.quick else (1 << 20, 1 << 16)
    repetitions = 2 if setting.quick else 5
    section = Section(
        "frames",
        f"several windows over one log: Max, the longest of {window:,} rows, batches of {batch:,}; per row",
    )
    section.raw = {"window": window, "batch": batch, "repetitions": repetitions, "subjects": {}}
    values = np.random.default_rng(6).normal(20.0, 5.0, (repetitions + 1) * window)
    with ExitStack() as stack:
        for store_name, store in setting.stores(stack).items():
            setting.say(f"frames: {store_name}")
            timings: dict[str, Timings] = {}
            contenders: dict[str, Callable[[int], Callable[[], Any]]] = {}
            last: dict[str, Array] = {}
            for name, features in _features(window).items():
                made = AmortizedMTA(features, store=store, page_size=setting.page_size)
                feed = _Feed(stack.enter_context(discarded(made)), values, window, batch, last, name)
                feed.ready(0)()  # fills the windows
                contenders[name], timings[name] = feed.ready, Timings(window)
            for _ in interleaved(contenders, timings, repetitions):
                gc.collect()
            if not np.array_equal(last[ONE], last[FIVE]):
                raise AssertionError(f"frames, {store_name}: one of five windows is not as it is alone")
            for name, timing in timings.items():
                target = MOST_OF_FIVE if (store_name, name) == ("redis", FIVE) else None
                section.add(
                    store_name,
                    name,
                    timing.ns,
                    "ns",
                    cpu=timing.cpu_ns,
                    ratio=None if name == ONE else timing.ratio(timings[ONE]),
                    reference=None if name == ONE else ONE,
                    target=None if setting.quick else target,
                )
            section.raw["subjects"][store_name] = {name: each.record() for name, each in timings.items()}
    return section


def _features(window: int) -> dict[str, Monoid]:
    """The longest window is the field `longest`."""

    def fields(longest: Policy, *others: Policy) -> Monoid:
        shorter = {f"shorter_{at}": monoids.Max("x").over(each) for at, each in enumerate(others)}
        return monoids.Fields(longest=monoids.Max("x").over(longest), **shorter)

    return {
        ONE: fields(TimeWindow(window)),
        FIVE: fields(TimeWindow(window), *(TimeWindow(max(1, window // part)) for part in SHORTER)),
        PRIOR: fields(TimeWindow(window, closed="left")),
        LATE: fields(TimeWindow(window // 2, delay=window // 2)),
    }


class _Feed:
    """A window, and how far it has got through the values."""

    def __init__(
        self,
        window: MonoidTreeAggregator,
        values: Array,
        rows: int,
        batch: int,
        last: dict[str, Array],
        name: str,
    ) -> None:
        self._window, self._values, self._rows, self._batch = window, values, rows, batch
        self._last, self._name = last, name
        self._at = 0

    def ready(self, _: int) -> Callable[[], None]:
        """The work of the next rows, as many as the longest window has."""
        start, self._at = self._at, self._at + self._rows
        batches = [
            ({"x": self._values[at : at + self._batch]}, np.arange(at, at + self._batch))
            for at in range(start, self._at, self._batch)
        ]
        return lambda: self._run(batches)

    def _run(self, batches: list[tuple[Any, Array]]) -> None:
        for columns, times in batches:
            self._last[self._name] = self._window.slide(columns, times)["longest"]
