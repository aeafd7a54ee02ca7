"""`slide`: batches of 64 K rows, a result for every row, against the rolling aggregates of data frames."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.bench import rivals
from mta.bench.measure import Timings, interleaved
from mta.bench.report import Section
from mta.bench.setting import Setting
from mta.bench.storage import discarded
from mta.monoids.base import Array, Monoid
from mta.window import MonoidTreeAggregator

AGGREGATES: dict[str, Callable[[], Monoid]] = {
    "Sum": monoids.Sum,
    "Max": monoids.Max,
    "Mean": monoids.Mean,
    "SampleStdDev": monoids.SampleStdDev,
    "ArgMax": monoids.ArgMax,
}
#: Times a polars column of one aggregate, at most.
TARGETS = {"in memory": 1.0, "rocksdb": 2.0, "redis": 2.0}

Work = Callable[[], Any]


def measure(setting: Setting) -> Section:
    window, batch = (1 << 14, 1 << 12) if setting.quick else (1 << 20, 1 << 16)
    repetitions = 2 if setting.quick else 5
    section = Section(
        "slide",
        f"slide: a result for every row, window of {window:,} rows by time, batches of {batch:,}; per row",
    )
    section.raw = {"window": window, "batch": batch, "repetitions": repetitions, "subjects": {}}
    rng = np.random.default_rng(1)
    rows = (repetitions + 1) * window
    values = rng.normal(20.0, 5.0, rows)
    variants = {"unit gaps": np.arange(rows)}
    if not setting.quick:
        # one row a unit of time on average, so that the window holds as many rows
        variants["random gaps"] = np.cumsum(rng.integers(0, 3, rows))
    for variant, times in variants.items():
        for aggregate in AGGREGATES:
            setting.say(f"slide: {aggregate}, {variant}")
            _subject(setting, section, f"{aggregate}, {variant}", aggregate, times, values, window, batch)
    return section


def _subject(
    setting: Setting,
    section: Section,
    subject: str,
    aggregate: str,
    times: Array,
    values: Array,
    window: int,
    batch: int,
) -> None:
    repetitions = section.raw["repetitions"]
    unit_gaps = bool(times[-1] == len(times) - 1)
    contenders: dict[str, Callable[[int], Work]] = {}
    timings: dict[str, Timings] = {}
    last: dict[str, Array] = {}
    with ExitStack() as stack:
        for name, store in setting.stores(stack).items():
            policy = policies.TimeWindow(window)
            made = AmortizedMTA(
                AGGREGATES[aggregate](), policy, store=store, page_size=setting.page_size
            )
            stream = _Stream(stack.enter_context(discarded(made)), aggregate, times, values, batch)
            stream.fill(window)
            contenders[name] = stream.repetition(window, last, name)
            timings[name] = Timings(window)
        for name, rolling in _data_frames(section, aggregate, times, values, window, unit_gaps):
            contenders[name] = _whole(rolling, last, name)
            timings[name] = Timings(len(times))
        for _ in interleaved(contenders, timings, repetitions):
            gc.collect()
    if not setting.quick:
        _duckdb(section, aggregate, times, values, window, unit_gaps, timings)
    polars = timings.get("polars")
    for name, timing in timings.items():
        target = None if setting.quick or polars is None else TARGETS.get(name)
        ratio = None if polars is None or name == "polars" else timing.ratio(polars)
        section.add(
            subject,
            name,
            timing.ns,
            "ns",
            cpu=timing.cpu_ns,
            ratio=ratio,
            reference=None if ratio is None else "polars",
            target=target,
            note=_note(name, aggregate, timing.steps),
        )
    _compare(section, subject, aggregate, last)
    section.raw["subjects"][subject] = {name: timing.record() for name, timing in timings.items()}


class _Stream:
    """A window, and how far it has got through the series."""

    def __init__(
        self, window: MonoidTreeAggregator, aggregate: str, times: Array, values: Array, batch: int
    ) -> None:
        self._window, self._times, self._batch = window, times, batch
        self._columns = (values, np.arange(len(values))) if aggregate == "ArgMax" else values
        self._at = 0

    def fill(self, rows: int) -> None:
        self._run(self._batches(rows), {}, "")

    def repetition(self, rows: int, last: dict[str, Array], name: str) -> Callable[[int], Work]:
        def ready(_: int) -> Work:
            batches = self._batches(rows)
            return lambda: self._run(batches, last, name)

        return ready

    def _batches(self, rows: int) -> list[tuple[Any, Array]]:
        start, self._at = self._at, self._at + rows
        return [
            (self._cut(at, at + self._batch), self._times[at : at + self._batch])
            for at in range(start, start + rows, self._batch)
        ]

    def _cut(self, start: int, stop: int) -> Any:
        if isinstance(self._columns, tuple):
            return tuple(column[start:stop] for column in self._columns)
        return self._columns[start:stop]

    def _run(self, batches: list[tuple[Any, Array]], last: dict[str, Array], name: str) -> None:
        slide = self._window.slide
        for values, times in batches:
            last[name] = slide(values, times)


def _whole(rolling: rivals.Rolling, last: dict[str, Array], name: str) -> Callable[[int], Work]:
    def run() -> None:
        last[name] = rolling()

    return lambda _: run


def _data_frames(
    section: Section, aggregate: str, times: Array, values: Array, window: int, unit_gaps: bool
) -> Iterator[tuple[str, rivals.Rolling]]:
    makers: dict[str, Callable[[], rivals.Rolling]] = {
        "polars": lambda: rivals.polars(aggregate, times, values, window),
        "pandas": lambda: rivals.pandas(aggregate, times, values, window, rows=unit_gaps),
    }
    for name, make in makers.items():
        try:
            yield name, make()
        except rivals.Missing as error:
            _skip(section, str(error))


def _duckdb(
    section: Section,
    aggregate: str,
    times: Array,
    values: Array,
    window: int,
    unit_gaps: bool,
    timings: dict[str, Timings],
) -> None:
    """Once, over a window and an eighth."""
    rows = window + window // 8
    try:
        rolling = rivals.duckdb(aggregate, times[:rows], values[:rows], window, rows=unit_gaps)
    except rivals.Missing as error:
        _skip(section, str(error))
        return
    timings["duckdb"] = Timings(rows)
    for _ in interleaved({"duckdb": lambda _: rolling}, timings, 1):
        pass


def _skip(section: Section, reason: str) -> None:
    if reason not in section.skipped:
        section.skipped.append(reason)


def _note(name: str, aggregate: str, rows: int) -> str:
    if name in ("polars", "pandas"):
        return rivals.LESS.get(aggregate, "")
    return f"{rows:,} rows, once" if name == "duckdb" else ""


def _compare(section: Section, subject: str, aggregate: str, last: dict[str, Array]) -> None:
    """Results of the last batch must be the same for all stores, and those of the data frames."""
    expected = last["in memory"]
    for name, results in last.items():
        if name in ("polars", "pandas") and aggregate == "ArgMax":
            continue
        if not np.allclose(results[-len(expected) :], expected, rtol=1e-6):
            raise AssertionError(f"{subject}: {name} and the window in memory do not agree")
