"""The same `slide` over a store that is further and further away: what reading ahead hides of it."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.lab.contents import discarded
from mta.lab.experiments import plots
from mta.lab.experiments.experiment import Case, Exhibit, Experiment, Record, Row, Scale, Tell
from mta.lab.servers import redis_server
from mta.lab.turns import Timings, interleaved
from mta.monoids.base import Array
from mta.window import MonoidTreeAggregator
from stores import LatencyStore, Store, open_store

WINDOW, QUICK_WINDOW = 1 << 20, 1 << 16
BATCHES, QUICK_BATCHES = (1 << 16, 1 << 13), (1 << 13,)
#: Seconds that every call of the store takes longer.
DELAYS = (0.0, 0.0001, 0.0005, 0.002)
REPETITIONS, QUICK_REPETITIONS = 7, 2
#: What `cached=` is: as it is by default, and nothing read ahead.
AHEAD: dict[str, int | None] = {"read ahead": None, "nothing read ahead": 0}


class Remote(Experiment):
    name = "remote"

    def cases(self, scale: Scale, options: argparse.Namespace) -> list[Case]:  # noqa: ARG002
        window, batches = (QUICK_WINDOW, QUICK_BATCHES) if scale.quick else (WINDOW, BATCHES)
        repetitions = QUICK_REPETITIONS if scale.quick else REPETITIONS
        return [{"window": window, "batch": batch, "repetitions": repetitions} for batch in batches]

    def measure(self, case: Case, tell: Tell) -> list[Row]:
        with ExitStack() as stack:
            url = stack.enter_context(redis_server())
            slides = {}
            for delay in DELAYS:
                for ahead, cached in AHEAD.items():
                    tell({"filling": f"{delay * 1000} ms, {ahead}"})
                    inner: Store = open_store(url)
                    store = stack.enter_context(LatencyStore(inner, delay) if delay else inner)
                    policy = policies.TimeWindow(case["window"])
                    made = AmortizedMTA(monoids.Max(), policy, store=store, cached=cached)
                    slides[delay, ahead] = Slide(stack.enter_context(discarded(made)), case)
                    slides[delay, ahead].ready(0)()  # fills the window
            return _measured(slides, case["repetitions"], case["window"], tell)

    def exhibits(self, records: Sequence[Record]) -> list[Exhibit]:
        rows = [row for record in records for row in self.rows(record)]
        if not rows:
            return []
        batches = list(dict.fromkeys(row["batch"] for row in rows))
        speeds = {
            f"{ahead.capitalize()}, batches of {plots.many(batch)}": [
                (row["delay_ms"], 100 * row["speed"])
                for row in rows
                if (row["batch"], row["ahead"]) == (batch, ahead)
            ]
            for batch in batches
            for ahead in AHEAD
        }
        window = plots.many(rows[0]["window"])
        return [
            Exhibit(
                "speed",
                "A slide over a store that is further away",
                lambda figure: plots.lines(
                    figure, speeds, x="ms that every call of the store takes longer",
                    y="% of the speed over the same store at no distance", log_x=False, log_y=False,
                ),
                _seen(rows),
                (),
                f"Max over a time window of {window} rows in a Redis on the same machine, a result for every "
                f"row; the median of {rows[0]['repetitions']} times {window} rows, all in turn.",
            )
        ]  # fmt: skip


EXPERIMENT = Remote()


class Slide:
    """A window, and how far it has come through its stream."""

    def __init__(self, window: MonoidTreeAggregator, case: Case) -> None:
        self.window, self._batch, self._rows = window, case["batch"], case["window"]
        self._values: Array = np.asarray(np.random.default_rng(3).normal(20.0, 5.0, self._rows))
        self._at = 0
        self.last: Array = self._values[:0]

    def ready(self, _: int) -> Callable[[], None]:
        """The work of as many rows as the window has."""
        start, self._at = self._at, self._at + self._rows
        times = [np.arange(at, at + self._batch) for at in range(start, self._at, self._batch)]
        return lambda: self._run(times)

    def _run(self, times: list[Array]) -> None:
        for number, some in enumerate(times):
            at = number * self._batch
            self.last = self.window.slide(self._values[at : at + self._batch], some)


def _measured(slides: dict[tuple[float, str], Slide], repetitions: int, window: int, tell: Tell) -> list[Row]:
    before = {key: slide.window.pages_read for key, slide in slides.items()}
    timings = {str(key): Timings(window) for key in slides}
    contenders = {str(key): slide.ready for key, slide in slides.items()}
    for repetition in interleaved(contenders, timings, repetitions):
        tell({"repetition": repetition})
        gc.collect()
    first, *others = slides.values()
    if any(not np.array_equal(first.last, other.last) for other in others):
        raise AssertionError("windows over the same rows have other results")
    rows = []
    for (delay, ahead), slide in slides.items():
        timing, near = timings[str((delay, ahead))], timings[str((0.0, ahead))]
        asked, hits = (
            now - then for now, then in zip(slide.window.pages_read, before[delay, ahead], strict=True)
        )
        rows.append(
            {
                "delay_ms": 1000 * delay, "ahead": ahead, "ns": timing.ns, "cpu_ns": timing.cpu_ns,
                "speed": near.ratio(timing), "pages_asked": asked, "pages_there": hits,
            }
        )  # fmt: skip
    return rows


def _seen(rows: Sequence[Row]) -> str:
    told = []
    for batch in dict.fromkeys(row["batch"] for row in rows):
        at: dict[tuple[float, str], Any] = {
            (row["delay_ms"], row["ahead"]): row for row in rows if row["batch"] == batch
        }
        speeds = [
            f"{100 * at[delay, 'read ahead']['speed']:.0f}% "
            f"({100 * at[delay, 'nothing read ahead']['speed']:.0f}% where nothing is read ahead) "
            f"at {delay:g} ms"
            for delay, ahead in at
            if delay and ahead == "read ahead"
        ]
        told.append(f"with batches of {plots.many(batch)} rows {', '.join(speeds)}")
    return f"The speed that is left, of that at no distance: {'; '.join(told)}."
