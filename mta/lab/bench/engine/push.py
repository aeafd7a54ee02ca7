"""`push`: one element in, what is too old out, one result, against the algorithms that live in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.baselines import DABA, ReactiveAggregator, TwoStacks
from mta.lab.bench.report import Section
from mta.lab.contents import discarded
from mta.lab.harness import Setting
from mta.lab.turns import Timings, push_all, rotated, timed, uncollected
from mta.monoids.base import Monoid
from mta.window import MonoidTreeAggregator

AGGREGATES: dict[str, Callable[[], Monoid]] = {"Sum": monoids.Sum, "Max": monoids.Max}
#: Times a push of DABA.
TARGETS = {"AmortizedMTA": 1.0, "AmortizedMTA, redis": 1.2}
#: Pushes at a stretch: contenders take turns so often that a slow spell of the machine meets them all.
CHUNK = 8192
#: Pushes before the clock runs. The first eviction of Two-Stacks turns its stack round.
WARM_UP = 1000


def measure(setting: Setting) -> Section:
    window = 1 << (12 if setting.quick else 20)
    chunk = CHUNK // 8 if setting.quick else CHUNK
    # in all repetitions together the whole window goes once
    chunks, repetitions = (2, 2) if setting.quick else (43, 3)
    steps = chunk * chunks
    section = Section(
        "push",
        f"insert, enforce and query, one element at a time, window of {window:,} by time, "
        f"{repetitions} times {steps:,} pushes; per push",
    )
    section.raw = {"window": window, "pushes": steps, "repetitions": repetitions, "subjects": {}}
    values = np.random.default_rng(2).random(window + WARM_UP + repetitions * steps)
    for aggregate, monoid in AGGREGATES.items():
        with ExitStack() as stack:
            setting.say(f"push: {aggregate}, filling windows")
            windows = _windows(setting, stack, monoid, window)
            for contender in windows.values():
                contender.extend(values[:window], np.arange(window))
            stream = _chunks(values, window + WARM_UP, chunk)
            first = {name: _warm_up(contender, values, window) for name, contender in windows.items()}
            timings = {name: Timings(steps) for name in windows}
            results: dict[str, float] = {}
            with uncollected():
                for repetition in range(repetitions):
                    setting.say(f"push: {aggregate}, {repetition + 1} of {repetitions}")
                    _repetition(windows, timings, stream, chunks, results)
        _lines(section, aggregate, window, timings, first, setting.quick)
        expected = results["AmortizedMTA"]
        for name, result in results.items():
            if not np.isclose(result, expected, rtol=1e-9):
                raise AssertionError(f"push, {aggregate}: {name} has {result!r}, AmortizedMTA {expected!r}")
    return section


def _windows(setting: Setting, stack: ExitStack, monoid: Callable[[], Monoid], window: int) -> dict[str, Any]:
    policy = policies.TimeWindow(window)

    def kept(made: MonoidTreeAggregator) -> MonoidTreeAggregator:
        return stack.enter_context(discarded(made))

    size = setting.page_size
    return {
        "AmortizedMTA": kept(AmortizedMTA(monoid(), policy, page_size=size)),
        "AmortizedMTA, redis": kept(AmortizedMTA(monoid(), policy, store=setting.redis, page_size=size)),
        "AmortizedMTA, rocksdb": kept(AmortizedMTA(monoid(), policy, store=setting.rocksdb, page_size=size)),
        "LogMTA": kept(LogMTA(monoid(), policy, page_size=size)),
        "DABA": DABA(monoid(), policy),
        "DABA, cached": DABA(monoid(), policy, cached=True),
        "TwoStacks": TwoStacks(monoid(), policy),
        "ReactiveAggregator": ReactiveAggregator(monoid(), policy),
    }


def _warm_up(window: Any, values: Any, start: int) -> float:
    """Seconds of the first push that evicts; more pushes follow."""
    rest = iter(values[start : start + WARM_UP].tolist())
    began = time.perf_counter()
    window.push(next(rest), start)
    took = time.perf_counter() - began
    for at, value in enumerate(rest, start + 1):
        window.push(value, at)
    return took


def _chunks(values: Any, start: int, chunk: int) -> Iterator[tuple[list[float], range]]:
    for at in range(start, len(values), chunk):
        yield values[at : at + chunk].tolist(), range(at, at + chunk)


def _repetition(
    windows: Mapping[str, Any],
    timings: Mapping[str, Timings],
    stream: Iterator[tuple[list[float], range]],
    chunks: int,
    results: dict[str, float],
) -> None:
    walls, cpus = dict.fromkeys(windows, 0.0), dict.fromkeys(windows, 0.0)
    for number in range(chunks):
        values, times = next(stream)
        for name in rotated(windows, number):
            wall, cpu = timed(lambda: push_all(windows[name].push, values, times))  # noqa: B023
            walls[name] += wall
            cpus[name] += cpu
    for name, timing in timings.items():
        timing.add(walls[name], cpus[name])
        results[name] = windows[name].query()


def _lines(
    section: Section,
    aggregate: str,
    window: int,
    timings: dict[str, Timings],
    first: dict[str, float],
    quick: bool,
) -> None:
    daba = timings["DABA"]
    for name, timing in timings.items():
        ns, ratio, note = timing.ns, timing.ratio(daba), ""
        if name == "TwoStacks":
            # it turns its stack round once a window, which is not in these pushes
            turn = first[name] / window * 1e9
            ns, ratio = ns + turn, ratio + turn / daba.ns
            note = f"{turn:.0f} ns of it for turning its stack round, once a window: {first[name]:.2f} s"
        section.add(
            aggregate,
            name,
            ns,
            "ns",
            cpu=timing.cpu_ns,
            ratio=None if name == "DABA" else ratio,
            reference=None if name == "DABA" else "DABA",
            target=None if quick else TARGETS.get(name),
            note=note,
        )
    section.raw["subjects"][aggregate] = {
        name: {**timing.record(), "first_eviction_seconds": first[name]} for name, timing in timings.items()
    }
