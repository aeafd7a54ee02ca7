"""Tuples enter a stream: a batch is split by key, late tuples are refused, and triggers fire in between."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mta.checks import Clock
from mta.errors import OutOfOrderError
from mta.kinds import Array, Time, Value
from mta.slicing.batches import Tuples, first_at, put
from mta.slicing.lateness import Gate, Refusal
from mta.slicing.progress.sessions import session_cuts
from mta.slicing.queries import Plan
from mta.slicing.settings import Settings
from mta.slicing.sliced_stream import Progress, SlicedStream
from mta.slicing.window_manager import Result


def split_by_key(
    settings: Settings, tuples: Tuples, rows: list[Value]
) -> dict[Any, tuple[Tuples, Array | None]]:
    """Each key's tuples with their rows in the batch; without keys all tuples, under None."""
    if settings.by is None:
        return {None: (tuples, None)}
    rows_of: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        rows_of.setdefault(settings.key(row), []).append(index)
    indices = {key: np.array(found) for key, found in rows_of.items()}
    return {key: (tuples.take(found), found) for key, found in indices.items()}


def without_late(
    gate: Gate, stream: SlicedStream | None, tuples: Tuples, named: bool
) -> tuple[Tuples, list[Refusal], list[tuple[int, tuple[str, ...]]]]:
    """Sorts out late tuples. Returns three things:

    - the tuples that some query takes,
    - for each query that refuses one of these, the refusal,
    - if `named`, the rows of all late tuples, each with the queries for which it is late.
    """
    suspects = np.flatnonzero(tuples.times < gate.open_from).tolist()
    if not suspects:
        return tuples, [], []
    verdict = gate.judge(stream, tuples.times[suspects].tolist(), named)
    late = [(row, names) for row, names in zip(suspects, verdict.queries, strict=True) if names]
    kept = np.ones(len(tuples), dtype=bool)
    kept[suspects] = verdict.kept
    rows = np.flatnonzero(kept)
    if len(rows) < len(tuples):
        tuples = tuples.take(rows)
    new_rows = np.searchsorted(rows, suspects).tolist()
    refused = [each._replace(row=new_rows[each.row]) for each in verdict.refused]
    return tuples, refused, late


def with_tuples(
    settings: Settings,
    plan: Plan,
    clock: Clock,
    stream: SlicedStream,
    key: Any,
    tuples: Tuples,
    refused: list[Refusal],
) -> tuple[SlicedStream, list[Result]]:
    """The stream after more tuples, some of which some queries refuse, and the early results of triggers."""
    lineage, stream = stream.slices.lineage, stream.copy()
    if not settings.in_steps:
        if refused:
            stream.progress, stream.session_cuts = after_refusals(stream, refused)
        # the copy is in no use yet, so the stores' aggregates stay right
        put(plan.manager, stream, tuples)
        stream.slices.lineage = lineage
        return stream, []
    times = tuples.times
    if settings.in_order:
        _check_order(clock, stream, times)
    newest = np.maximum.accumulate(times)
    settings.next_trigger(newest[-1:].tolist()[0])
    early: list[Result] = []
    start = 0
    while start < len(tuples):
        first = times[start : start + 1].tolist()[0]
        if settings.in_order:
            stream = _past_edges(plan, stream, key, first)
        trigger = settings.next_trigger(stream.youngest if stream.arrivals else first)
        stop = _end_of_step(settings, stream, tuples, newest, trigger, start)
        # refusals of later tuples would change the early results of this step
        low, high = (bisect_left(refused, row, key=lambda each: each.row) for row in (start, stop))
        part = refused[low:high]
        if part:
            stream.progress, stream.session_cuts = after_refusals(stream, part)
        put(plan.manager, stream, tuples.part(start, stop))
        start = stop
        full = settings.every_tuples is not None and stream.since_trigger >= settings.every_tuples
        if full or stream.youngest >= trigger:
            results, stream.emitted_values = plan.windows.early(stream, key)
            early += results
            stream.since_trigger = 0
    return stream, early


def after_refusals(
    stream: SlicedStream, refused: Iterable[Refusal]
) -> tuple[Mapping[str, Progress], list[Time]]:
    """The progress of all queries and the cuts of sessions, after some queries have refused tuples."""
    progress = dict(stream.progress)
    times_of: dict[str, list[Time]] = {}
    for _, name, time in refused:
        times_of.setdefault(name, []).append(time)
    for name, times in times_of.items():
        progress[name] = progress[name].with_refused(times)
    return progress, session_cuts(progress)


def nothing_due(settings: Settings, stream: SlicedStream, time: Time) -> bool:
    """Whether a tuple at a time neither fires a trigger nor passes an edge at which windows are emitted."""
    if not stream.arrivals or (settings.in_order and not stream.youngest <= time < stream.next_edge):
        return False
    if settings.every_tuples is not None and stream.since_trigger + 1 >= settings.every_tuples:
        return False
    return settings.every_time is None or time < settings.next_trigger(stream.youngest)


def _past_edges(plan: Plan, stream: SlicedStream, key: Any, time: Time) -> SlicedStream:
    """The stream with the results of all windows that end at or before the time of a tuple in order."""
    if stream.arrivals and time >= stream.next_edge:
        stream = plan.windows.pass_edges(stream, time, key)
    if not stream.arrivals or time >= stream.next_edge:
        stream.next_edge = plan.edges.next_edge(time)
    return stream


def _end_of_step(
    settings: Settings, stream: SlicedStream, tuples: Tuples, newest: Array, trigger: Time, start: int
) -> int:
    """The end of the tuples that can be put in before the next trigger or edge."""
    stop = len(tuples)
    if settings.in_order:
        stop = min(stop, first_at(tuples.times, stream.next_edge, start))
    if settings.every_tuples is not None:
        stop = min(stop, start + max(settings.every_tuples - stream.since_trigger, 1))
    if trigger < math.inf:
        stop = min(stop, first_at(newest, trigger, start) + 1)
    return stop


def _check_order(clock: Clock, stream: SlicedStream, times: Array) -> None:
    backwards = np.flatnonzero(times[1:] < times[:-1]).tolist()
    if backwards:
        where = f" in row {backwards[0] + 1}"
        before, time = times[backwards[0] : backwards[0] + 2].tolist()
    elif stream.arrivals and times[0] < stream.youngest:
        where, before, time = "", stream.youngest, times[:1].tolist()[0]
    else:
        return
    before, time = clock.shown(before), clock.shown(time)
    raise OutOfOrderError(
        f"time {time!r}{where} is before {before!r}, the time of the tuple before it; leave out "
        "in_order=True where tuples come late"
    )
