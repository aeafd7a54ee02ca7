"""Tuples into a stream: of which key they are, which are late, and what happens between them.

Between them are triggers, and windows that are passed in order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mta.errors import OutOfOrderError
from mta.monoids.base import Array
from mta.slicing.batches import Tuples, first_at, put
from mta.slicing.lateness import Gate, Refusal
from mta.slicing.progress.sessions import cuts_of
from mta.slicing.queries import Plan
from mta.slicing.settings import Settings
from mta.slicing.sliced_stream import Progress, Stream
from mta.slicing.window_manager import Result, WindowManager
from mta.slicing.windows import Time


def by_key(settings: Settings, tuples: Tuples, rows: list[Any]) -> dict[Any, tuple[Tuples, Array | None]]:
    """The tuples of each key, and their places where there are keys."""
    if settings.by is None:
        return {None: (tuples, None)}
    places: dict[Any, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(settings.key(row), []).append(place)
    columns = {key: np.array(which) for key, which in places.items()}
    return {key: (tuples.take(which), which) for key, which in columns.items()}


def in_time(
    gate: Gate, stream: Stream | None, tuples: Tuples, named: bool
) -> tuple[Tuples, list[Refusal], list[tuple[int, tuple[str, ...]]]]:
    """The tuples that a query takes; what others refuse of these; where late ones are, and for which."""
    behind = np.flatnonzero(tuples.times < gate.open_from).tolist()
    if not behind:
        return tuples, [], []
    verdict = gate.judge(stream, tuples.times[behind].tolist(), named)
    found = [(row, names) for row, names in zip(behind, verdict.queries, strict=True) if names]
    kept = np.ones(len(tuples), dtype=bool)
    kept[behind] = verdict.kept
    rows = np.flatnonzero(kept)
    if len(rows) < len(tuples):
        tuples = tuples.take(rows)
    places = np.searchsorted(rows, behind).tolist()
    refused = [each._replace(place=places[each.place]) for each in verdict.refused]
    return tuples, refused, found


def fed(
    settings: Settings,
    plan: Plan,
    stream: Stream,
    key: Any,
    tuples: Tuples,
    refused: list[Refusal],
) -> tuple[Stream, list[Result]]:
    """The stream with tuples more, and what triggers give out on the way.

    Some of them are late for some queries, as `refused` tells.
    """
    lineage, stream, windows = stream.book.lineage, stream.copy(), plan.windows
    if not settings.in_steps:
        if refused:
            stream.progress, stream.cuts = refusing(stream, refused)
        # nobody looks at the copy before it is the stream
        put(plan.manager, stream, tuples)
        stream.book.lineage = lineage
        return stream, []
    times = tuples.times
    if settings.in_order:
        _check_order(stream, times)
    newest = np.maximum.accumulate(times)
    settings.next_trigger(newest[-1:].tolist()[0])
    early: list[Result] = []
    start = 0
    while start < len(tuples):
        first = times[start : start + 1].tolist()[0]
        if settings.in_order:
            stream = _passed(plan, windows, stream, key, first)
        trigger = settings.next_trigger(stream.youngest if stream.arrivals else first)
        stop = _stop(settings, stream, tuples, newest, trigger, start)
        # what a query has refused of those that are not put yet, its early results would count in
        part = refused[_first_of(refused, start) : _first_of(refused, stop)]
        if part:
            stream.progress, stream.cuts = refusing(stream, part)
        put(plan.manager, stream, tuples.part(start, stop))
        start = stop
        full = settings.every_tuples is not None and stream.since_trigger >= settings.every_tuples
        if full or stream.youngest >= trigger:
            results, stream.given_values = windows.early(stream, key)
            early += results
            stream.since_trigger = 0
    return stream, early


def refusing(stream: Stream, refused: Iterable[Refusal]) -> tuple[Mapping[str, Progress], list[Time]]:
    """The progress of all queries, and the cuts of sessions, once a stream has tuples that some refuse."""
    progress = dict(stream.progress)
    times_of: dict[str, list[Time]] = {}
    for _, name, time in refused:
        times_of.setdefault(name, []).append(time)
    for name, times in times_of.items():
        progress[name] = progress[name].refusing(times)
    return progress, cuts_of(progress)


def _first_of(refused: list[Refusal], place: int) -> int:
    """Where those of tuples from a place on begin."""
    return bisect_left(refused, place, key=lambda each: each.place)


def quiet(settings: Settings, stream: Stream, time: Time) -> bool:
    """Whether nothing happens between a tuple and those before it, nor at it."""
    if not stream.arrivals or (settings.in_order and not stream.youngest <= time < stream.next_edge):
        return False
    if settings.every_tuples is not None and stream.since_trigger + 1 >= settings.every_tuples:
        return False
    return settings.every_time is None or time < settings.next_trigger(stream.youngest)


def _passed(plan: Plan, windows: WindowManager, stream: Stream, key: Any, time: Time) -> Stream:
    """The stream with what the windows hold that a tuple is the first to pass."""
    if stream.arrivals and time >= stream.next_edge:
        stream = windows.pass_edges(stream, time, key)
    if not stream.arrivals or time >= stream.next_edge:
        stream.next_edge = plan.edges.coming_edge(time)
    return stream


def _stop(
    settings: Settings, stream: Stream, tuples: Tuples, newest: Array, trigger: Time, start: int
) -> int:
    """How many tuples to take in until the next thing happens."""
    stop = len(tuples)
    if settings.in_order:
        stop = min(stop, first_at(tuples.times, stream.next_edge, start))
    if settings.every_tuples is not None:
        stop = min(stop, start + max(settings.every_tuples - stream.since_trigger, 1))
    if trigger < math.inf:
        stop = min(stop, first_at(newest, trigger, start) + 1)
    return stop


def _check_order(stream: Stream, times: Array) -> None:
    earlier = np.concatenate((times[:1], times[:-1]))
    backwards = times < earlier
    if backwards.any():
        row = int(backwards.argmax())
        before, time = (each[row : row + 1].tolist()[0] for each in (earlier, times))
        raise _out_of_order(time, f" in row {row}", before)
    if stream.arrivals and times[0] < stream.youngest:
        raise _out_of_order(times[:1].tolist()[0], "", stream.youngest)


def _out_of_order(time: Time, where: str, earlier: Time) -> OutOfOrderError:
    return OutOfOrderError(
        f"time {time!r}{where} is before {earlier!r}, the time of the tuple before it; leave out "
        "in_order=True where tuples come late"
    )
