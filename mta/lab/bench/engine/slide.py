"""`slide`: batches of 64 K rows, a result for every row, against the rolling aggregates of data frames."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from mta import AmortizedMTA, monoids, policies
from mta.lab.bench.engine import rivals
from mta.lab.bench.report import Section
from mta.lab.contents import discarded
from mta.lab.harness import Setting
from mta.lab.turns import Timings, interleaved
from mta.monoids.base import Array, Monoid
from mta.window import MonoidTreeAggregator

AGGREGATES: dict[str, Callable[[], Monoid]] = {
    "Sum": monoids.Sum,
    "Max": monoids.Max,
    "Mean": monoids.Mean,
    "SampleStdDev": monoids.SampleStdDev,
    "ArgMax": monoids.ArgMax,
}
#: The most time a row, in times of what polars takes: of Max, and of the others, where that counts.
TARGETS = {"in memory": (1.0, None), "rocksdb": (2.0, 2.0), "redis": (1.0, 1.5)}

Work = Callable[[], Any]


@dataclass
class Case:
    """A series, and what is asked of it."""

    aggregate: str
    variant: str
    times: Array
    values: Array
    #: rows in the window, and the time that they span
    window: int
    span: int
    batch: int
    repetitions: int

    @property
    def subject(self) -> str:
        return f"{self.aggregate}, {self.variant}"

    @property
    def by_count(self) -> bool:
        """Whether a window by count is the same, which some libraries are faster at."""
        return self.span == self.window


def measure(setting: Setting) -> Section:
    window, batch = (1 << 14, 1 << 12) if setting.quick else (1 << 20, 1 << 16)
    repetitions = 2 if setting.quick else 5
    section = Section(
        "slide",
        f"a result for every row, window of {window:,} rows by time, batches of {batch:,}; per row",
    )
    section.raw = {"window": window, "batch": batch, "repetitions": repetitions, "subjects": {}}
    rng = np.random.default_rng(1)
    rows = (repetitions + 1) * window
    values = rng.normal(20.0, 5.0, rows)
    variants = {"unit gaps": (np.arange(rows), window)}
    if not setting.quick:
        # no two rows at one time: data frames would give them the same result
        variants["random gaps"] = (np.cumsum(rng.integers(1, 4, rows)), 2 * window)
    for variant, (times, span) in variants.items():
        for aggregate in AGGREGATES:
            setting.say(f"slide: {aggregate}, {variant}")
            case = Case(aggregate, variant, times, values, window, span, batch, repetitions)
            timings = _time(setting, section, case)
            _lines(section, case, timings, judged=not setting.quick)
    return section


def _time(setting: Setting, section: Section, case: Case) -> dict[str, Timings]:
    contenders: dict[str, Callable[[int], Work]] = {}
    timings: dict[str, Timings] = {}
    last: dict[str, Array] = {}
    with ExitStack() as stack:
        for name, store in setting.stores(stack).items():
            policy = policies.TimeWindow(case.span)
            made = AmortizedMTA(
                AGGREGATES[case.aggregate](), policy, store=store, page_size=setting.page_size
            )
            stream = _Stream(stack.enter_context(discarded(made)), case, last, name)
            stream.ready(0)()  # fills the window
            contenders[name], timings[name] = stream.ready, Timings(case.window)
        for name, rolling in _data_frames(section, case).items():
            contenders[name], timings[name] = _whole(rolling, last, name), Timings(len(case.times))
        for _ in interleaved(contenders, timings, case.repetitions):
            gc.collect()
    _compare(case, last)
    if not setting.quick:
        _duckdb(section, case, timings)
    return timings


class _Stream:
    """A window, and how far it has got through the series."""

    def __init__(self, window: MonoidTreeAggregator, case: Case, last: dict[str, Array], name: str) -> None:
        self._window, self._case, self._last, self._name = window, case, last, name
        numbered = (case.values, np.arange(len(case.values)))
        self._columns = numbered if case.aggregate == "ArgMax" else numbered[:1]
        self._at = 0

    def ready(self, _: int) -> Work:
        """The work of the next as many rows as the window has."""
        case, start = self._case, self._at
        self._at += case.window
        batches = [
            (self._cut(at, at + case.batch), case.times[at : at + case.batch])
            for at in range(start, self._at, case.batch)
        ]
        return lambda: self._run(batches)

    def _cut(self, start: int, stop: int) -> Any:
        columns = tuple(column[start:stop] for column in self._columns)
        return columns if len(columns) > 1 else columns[0]

    def _run(self, batches: list[tuple[Any, Array]]) -> None:
        slide = self._window.slide
        for values, times in batches:
            self._last[self._name] = slide(values, times)


def _whole(rolling: rivals.Rolling, last: dict[str, Array], name: str) -> Callable[[int], Work]:
    def run() -> None:
        last[name] = rolling()

    return lambda _: run


def _data_frames(section: Section, case: Case) -> dict[str, rivals.Rolling]:
    made = {}
    for name, make in (("polars", rivals.polars), ("pandas", rivals.pandas)):
        try:
            made[name] = make(case.aggregate, case.times, case.values, case.span, case.by_count)
        except rivals.Missing as error:
            _skip(section, str(error))
    return made


def _duckdb(section: Section, case: Case, timings: dict[str, Timings]) -> None:
    """Once, over a window and an eighth."""
    rows = case.window + case.window // 8
    try:
        rolling = rivals.duckdb(
            case.aggregate, case.times[:rows], case.values[:rows], case.span, case.by_count
        )
    except rivals.Missing as error:
        _skip(section, str(error))
        return
    timings["duckdb"] = Timings(rows)
    for _ in interleaved({"duckdb": lambda _: rolling}, timings, 1):
        pass


def _skip(section: Section, reason: str) -> None:
    if reason not in section.skipped:
        section.skipped.append(reason)


def _compare(case: Case, last: dict[str, Array]) -> None:
    """Results of the last batch must be the same for all stores, and those of the data frames."""
    expected = last["in memory"]
    for name, results in last.items():
        if name in ("polars", "pandas") and case.aggregate in rivals.LESS:
            continue
        if not np.allclose(results[-len(expected) :], expected, rtol=1e-6):
            raise AssertionError(f"{case.subject}: {name} and the window in memory do not agree")


def _lines(section: Section, case: Case, timings: dict[str, Timings], judged: bool) -> None:
    polars = timings.get("polars")
    for name, timing in timings.items():
        ratio = None if polars is None or name == "polars" else timing.ratio(polars)
        of_max, of_others = TARGETS.get(name, (None, None))
        target = of_max if case.aggregate == "Max" else of_others
        section.add(
            case.subject,
            name,
            timing.ns,
            "ns",
            cpu=timing.cpu_ns,
            ratio=ratio,
            reference=None if ratio is None else "polars",
            target=target if judged and ratio is not None else None,
            note=_note(name, case.aggregate, timing.steps),
        )
    section.raw["subjects"][case.subject] = {name: timing.record() for name, timing in timings.items()}


def _note(name: str, aggregate: str, rows: int) -> str:
    if name in ("polars", "pandas"):
        return rivals.LESS.get(aggregate, "")
    return f"over {rows:,} rows, once" if name == "duckdb" else ""
