"""Batches: many tuples in any order, put into slices a run at a time with whole-array operations."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mta.core.states import Layout, Run
from mta.inputs import batch_rows
from mta.monoids.base import Array, Monoid
from mta.slicing.slice_manager import SliceManager
from mta.slicing.sliced_stream import Stream
from mta.slicing.slices import Row, Slice, folded
from mta.slicing.windows import Time, after

#: whole numbers up to this are floats as well
_EXACT = 2**53

#: so few states are sooner combined one by one than as a column
FEW = 16


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
    rows = None if arrivals is None else _rows(tuples, arrivals)
    walk = _Walk(manager, stream, times)
    start = 0
    while start < len(times):
        first = walk.time(start)
        high = walk.at(first)
        stop = walk.inside(start)
        if stop == start:
            while stop_at <= start:
                stop_at = next(coming)
            stop = min(stop_at, walk.first_at(high, start))
            if manager.most < math.inf:
                stop = min(stop, start + int(manager.most), walk.first_at(walk.ahead, start))
        if rows is None or stop - start > FEW:
            state = layout.fold(layout.cut(states, start, stop))
        else:
            state = folded(manager.monoid, [row[2] for row in rows[start:stop]])
        part = None if rows is None else rows[start:stop]
        walk.put(Slice(first, walk.time(stop - 1), high, stop - start, state, part))
        start = stop
    walk.end()


class _Walk:
    """One pass over the slices of a stream that is not in use yet: runs of tuples join them on the way."""

    def __init__(self, manager: SliceManager, stream: Stream, times: Array) -> None:
        self._manager, self._stream, self._times = manager, stream, times
        #: tuple by tuple, where slices have their tuples and runs are short
        self._plain = times.tolist() if manager.keeps_rows else None
        firsts, slices = stream.book.firsts, stream.book.slices
        self._start = max(bisect_right(firsts, self.time(0)) - 1, 0) if len(times) else len(firsts)
        #: those that are ahead, from `_next` on
        self._firsts, self._slices, self._next = firsts[self._start :], slices[self._start :], 0
        #: those that are behind
        self._done_firsts: list[Time] = []
        self._done: list[Slice] = []

    def time(self, place: int) -> Time:
        return self._times[place : place + 1].tolist()[0] if self._plain is None else self._plain[place]

    def first_at(self, bound: Time, start: int) -> int:
        """The place of the first time >= bound, from a place on."""
        if self._plain is None:
            return first_at(self._times, bound, start)
        return bisect_left(self._plain, bound, start)

    @property
    def ahead(self) -> Time:
        """The time of the first tuple in the slices that are ahead."""
        return self._firsts[self._next] if self._next < len(self._firsts) else math.inf

    def at(self, time: Time) -> Time:
        """Goes to a time: the edge before which tuples may join a slice there."""
        stop = bisect_right(self._firsts, time, self._next)
        self._done_firsts += self._firsts[self._next : stop]
        self._done += self._slices[self._next : stop]
        self._next = stop
        return self._manager.high_behind(self._done[-1] if self._done else None, self._stream, time)

    def inside(self, start: int) -> int:
        """Where the tuples end that are inside of one slice, which takes them all before it is parted."""
        if self._manager.most == math.inf or not self._done:
            return start
        return self.first_at(min(after(self._done[-1].last), self.ahead), start)

    def put(self, new: Slice) -> None:
        stream, manager, done = self._stream, self._manager, self._done
        left = done[-1] if done else None
        start, stop = manager.joining(stream, left, self._slices, self._next, new)
        old = [*done[len(done) - (self._next - start) :], *self._slices[self._next : stop]]
        parts = manager.joined(old, new)
        if start < self._next:
            del done[-1], self._done_firsts[-1]
        done += parts
        self._done_firsts += [each.first for each in parts]
        self._next = stop
        stream.youngest = max(stream.youngest, new.last)
        stream.changed_from = min(stream.changed_from, new.first)
        stream.late |= manager.late(stream, parts, new.first)
        stream.arrivals += new.count
        stream.since_trigger += new.count
        # the first that is not as it was
        stream.book.fresh = min(stream.book.fresh, self._start + len(done) - len(parts))

    def end(self) -> None:
        book = self._stream.book
        book.firsts[self._start :] = self._done_firsts + self._firsts[self._next :]
        book.slices[self._start :] = self._done + self._slices[self._next :]


def _rows(tuples: Tuples, arrivals: Array) -> list[Row]:
    marks = [None] * len(tuples) if tuples.marks is None else tuples.marks
    states = tuples.layout.state_list(tuples.states)
    return list(zip(tuples.times.tolist(), arrivals.tolist(), states, marks, strict=True))


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
