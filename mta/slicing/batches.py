"""Batches: many tuples in any order, put into slices a run at a time with whole-array operations."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mta.core.states import Layout, Run
from mta.inputs import batch_rows
from mta.monoids.base import Array, Monoid
from mta.slicing.slice_manager import SliceManager
from mta.slicing.slices import Row, Slice
from mta.slicing.stream import Stream
from mta.slicing.windows import Time, after

#: whole numbers up to this are floats as well
_EXACT = 2**53


class Tuples(NamedTuple):
    """Some tuples of one stream, as they came."""

    layout: Layout
    times: Array
    states: Run
    #: what queries of windows by content have seen in each, or None
    marks: list[Any] | None

    def __len__(self) -> int:
        return len(self.times)

    def take(self, places: Array) -> Tuples:
        marks = None if self.marks is None else [self.marks[place] for place in places.tolist()]
        return Tuples(self.layout, self.times[places], self.layout.take(self.states, places), marks)

    def part(self, start: int, stop: int) -> Tuples:
        marks = None if self.marks is None else self.marks[start:stop]
        return Tuples(self.layout, self.times[start:stop], self.layout.cut(self.states, start, stop), marks)


def put(manager: SliceManager, stream: Stream, tuples: Tuples) -> None:
    """Puts tuples into slices, of a stream that is not in use yet."""
    if manager.keeps_rows:
        # arrivals tell apart what has the same time
        order = np.argsort(tuples.times, kind="stable")
        _put_sorted(manager, stream, tuples.take(order), stream.arrivals + order)
        return
    times = tuples.times
    if len(times) and times.dtype.kind != "O":
        newest = np.maximum.accumulate(times)
        on_time = times >= newest
        if not on_time.all():
            late = np.flatnonzero(~on_time)
            late = late[np.argsort(times[late], kind="stable")]
            # they commute, so these may come behind the others
            _put_sorted(manager, stream, tuples.take(np.flatnonzero(on_time)), None)
            _put_sorted(manager, stream, tuples.take(late), None)
            return
    else:
        tuples = tuples.take(np.argsort(times, kind="stable"))
    _put_sorted(manager, stream, tuples, None)


def _put_sorted(manager: SliceManager, stream: Stream, tuples: Tuples, arrivals: Array | None) -> None:
    """Puts tuples that go up in time into slices, a run of them at a time."""
    layout, times, states, _ = tuples
    breaks = _breaks(times, manager.slicer.gap)
    if stream.cuts:
        breaks = sorted({*breaks, *(first_at(times, after(cut), 0) for cut in stream.cuts)})
    breaks.append(len(times))
    coming = iter(breaks)
    stop_at = next(coming)
    start = 0
    while start < len(times):
        first = times[start : start + 1].tolist()[0]
        high = manager.high(stream, first)
        while stop_at <= start:
            stop_at = next(coming)
        stop = min(stop_at, first_at(times, high, start))
        if stop - start > manager.most:
            stop = start + int(manager.most)
        last = times[stop - 1 : stop].tolist()[0]
        run = layout.cut(states, start, stop)
        rows = None if arrivals is None else _rows(tuples, arrivals, start, stop)
        manager.put(stream, Slice(first, last, high, stop - start, layout.fold(run), rows))
        start = stop


def _rows(tuples: Tuples, arrivals: Array, start: int, stop: int) -> list[Row]:
    part = tuples.part(start, stop)
    marks = [None] * len(part) if part.marks is None else part.marks
    states = part.layout.state_list(part.states)
    return list(zip(part.times.tolist(), arrivals[start:stop].tolist(), states, marks, strict=True))


def _breaks(times: Array, gap: Time) -> list[int]:
    """Where sessions begin, but for the first."""
    if gap == math.inf or len(times) < 2:
        return []
    first, last = times[[0, -1]].tolist()
    if times.dtype.kind != "O" and not max(abs(first), abs(last)) + gap < _EXACT:
        times = times.astype(object)
    found: list[int] = (np.flatnonzero(times[1:] > times[:-1] + gap) + 1).tolist()
    return found


def first_at(times: Array, bound: Time, start: int) -> int:
    """The place of the first time >= bound, from a place on."""
    if bound == math.inf:
        return len(times)
    kind = times.dtype.kind
    if kind == "i":
        bound = math.ceil(bound)
    if kind == "O" or not abs(bound) < _EXACT:
        return bisect_left(times, bound, lo=start, key=_plain)
    return start + int(np.searchsorted(times[start:], bound))


def _plain(time: Any) -> Any:
    return time.item() if isinstance(time, np.generic) else time


def _listed(column: Any) -> list[Any]:
    return list(column.tolist()) if hasattr(column, "tolist") else list(column)


def plain_rows(monoid: Monoid, values: Any) -> list[Any]:
    """The elements of a batch one by one, with all that they have."""
    for method in ("to_pylist", "to_dicts"):  # tables of Arrow and polars
        if hasattr(values, method):
            return list(getattr(values, method)())
    if getattr(values, "ndim", 1) == 2 and hasattr(values, "to_dict"):
        return list(values.to_dict("records"))
    if isinstance(values, Mapping):
        columns = [_listed(column) for column in values.values()]
        if len({len(column) for column in columns}) > 1:
            lengths = {name: len(column) for name, column in zip(values, columns, strict=True)}
            raise ValueError(f"the columns of a batch must have one length, got {lengths}")
        return [dict(zip(values, row, strict=True)) for row in zip(*columns, strict=True)]
    return list(values) if isinstance(values, (list, tuple)) and monoid.fields else batch_rows(monoid, values)
