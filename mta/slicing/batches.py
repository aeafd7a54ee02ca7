"""Batches: many tuples in any order, put into slices a range at a time with whole-array operations."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mta.core.states import Layout, Run, fold_states
from mta.inputs import batch_rows
from mta.kinds import Array, Time, Value
from mta.monoids.base import Monoid
from mta.slicing.slice_manager import SliceManager
from mta.slicing.sliced_stream import SlicedStream
from mta.slicing.slices import KeptTuple, Slice
from mta.slicing.windows import after

#: Whole numbers up to this are floats as well.
_EXACT = 2**53

#: Up to this number of states, combining them one by one is faster than folding a column.
FEW_STATES = 16


class Tuples(NamedTuple):
    """Some tuples of one stream, in the order in which they came."""

    layout: Layout
    times: Array
    states: Run
    #: the marks of each tuple by the names of queries; None without queries of windows by content
    marks: list[Any] | None

    def __len__(self) -> int:
        return len(self.times)

    def take(self, indices: Array) -> Tuples:
        marks = None if self.marks is None else [self.marks[index] for index in indices.tolist()]
        return Tuples(self.layout, self.times[indices], self.layout.take(self.states, indices), marks)

    def part(self, start: int, stop: int) -> Tuples:
        marks = None if self.marks is None else self.marks[start:stop]
        return Tuples(self.layout, self.times[start:stop], self.layout.cut(self.states, start, stop), marks)


def put(manager: SliceManager, stream: SlicedStream, tuples: Tuples) -> None:
    """Puts tuples into the slices of a stream that is not in use yet."""
    if manager.keeps_tuples:
        # arrivals order tuples of the same time
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
            # the states commute, so late tuples may be put in after the others
            _put_sorted(manager, stream, tuples.take(np.flatnonzero(on_time)), None)
            _put_sorted(manager, stream, tuples.take(late), None)
            return
    else:
        tuples = tuples.take(np.argsort(times, kind="stable"))
    _put_sorted(manager, stream, tuples, None)


def _put_sorted(manager: SliceManager, stream: SlicedStream, tuples: Tuples, arrivals: Array | None) -> None:
    """Puts tuples whose times go up into slices, all tuples of one slice at a time."""
    layout, times, states, _ = tuples
    breaks = _session_breaks(times, manager.slicer.gap)
    if stream.session_cuts:
        breaks = sorted({*breaks, *(first_at(times, after(cut), 0) for cut in stream.session_cuts)})
    breaks.append(len(times))
    coming = iter(breaks)
    next_break = next(coming)
    kept = None if arrivals is None else _kept_tuples(tuples, arrivals)
    walk = _SliceWalk(manager, stream, times)
    start = 0
    while start < len(times):
        first = walk.time(start)
        edge = walk.advance_to(first)
        stop = walk.end_inside(start)
        if stop == start:
            while next_break <= start:
                next_break = next(coming)
            stop = min(next_break, walk.first_at(edge, start))
            if manager.max_tuples < math.inf:
                stop = min(stop, start + int(manager.max_tuples), walk.first_at(walk.next_first, start))
        if kept is None or stop - start > FEW_STATES:
            state = layout.fold(layout.cut(states, start, stop))
        else:
            state = fold_states(manager.monoid, [each[2] for each in kept[start:stop]])
        part = None if kept is None else kept[start:stop]
        walk.put(Slice(first, walk.time(stop - 1), edge, stop - start, state, part))
        start = stop
    walk.end()


class _SliceWalk:
    """One pass over the slices of a stream that is not in use yet; new tuples join slices on the way."""

    def __init__(self, manager: SliceManager, stream: SlicedStream, times: Array) -> None:
        self._manager, self._stream, self._times = manager, stream, times
        #: the times as Python numbers, where slices keep their tuples and get few at a time
        self._plain = times.tolist() if manager.keeps_tuples else None
        firsts, items = stream.slices.first_times, stream.slices.items
        self._start = max(bisect_right(firsts, self.time(0)) - 1, 0) if len(times) else len(firsts)
        #: the slices that the pass has not reached: those from `_next` on
        self._firsts, self._items, self._next = firsts[self._start :], items[self._start :], 0
        #: the slices that the pass has reached
        self._done_firsts: list[Time] = []
        self._done: list[Slice] = []

    def time(self, index: int) -> Time:
        time: Time
        if self._plain is None:
            (time,) = self._times[index : index + 1].tolist()
        else:
            time = self._plain[index]
        return time

    def first_at(self, bound: Time, start: int) -> int:
        """The index of the first time >= bound, from index `start` on."""
        if self._plain is None:
            return first_at(self._times, bound, start)
        return bisect_left(self._plain, bound, start)

    @property
    def next_first(self) -> Time:
        """The time of the first tuple in the slices that the pass has not reached; infinity without one."""
        return self._firsts[self._next] if self._next < len(self._firsts) else math.inf

    def advance_to(self, time: Time) -> Time:
        """Passes the slices that begin at or before a time; returns the edge of a slice there."""
        stop = bisect_right(self._firsts, time, self._next)
        self._done_firsts += self._firsts[self._next : stop]
        self._done += self._items[self._next : stop]
        self._next = stop
        return self._manager.edge_behind(self._done[-1] if self._done else None, self._stream, time)

    def end_inside(self, start: int) -> int:
        """The end of the tuples inside of the last slice reached; it takes all of them before it is split."""
        if self._manager.max_tuples == math.inf or not self._done:
            return start
        return self.first_at(min(after(self._done[-1].last), self.next_first), start)

    def put(self, new: Slice) -> None:
        stream, manager, done = self._stream, self._manager, self._done
        left = done[-1] if done else None
        start, stop = manager.joining(stream, left, self._items, self._next, new)
        old = [*done[len(done) - (self._next - start) :], *self._items[self._next : stop]]
        parts = manager.joined(old, new)
        if start < self._next:
            del done[-1], self._done_firsts[-1]
        done += parts
        self._done_firsts += [each.first for each in parts]
        self._next = stop
        stream.youngest = max(stream.youngest, new.last)
        stream.changed_from = min(stream.changed_from, new.first)
        stream.late |= manager.late_times(stream, parts, new.first)
        stream.arrivals += new.count
        stream.since_trigger += new.count
        slices = stream.slices
        slices.unchanged = min(slices.unchanged, self._start + len(done) - len(parts))

    def end(self) -> None:
        slices = self._stream.slices
        slices.first_times[self._start :] = self._done_firsts + self._firsts[self._next :]
        slices.items[self._start :] = self._done + self._items[self._next :]


def _kept_tuples(tuples: Tuples, arrivals: Array) -> list[KeptTuple]:
    marks = [None] * len(tuples) if tuples.marks is None else tuples.marks
    states = tuples.layout.state_list(tuples.states)
    return list(zip(tuples.times.tolist(), arrivals.tolist(), states, marks, strict=True))


def _session_breaks(times: Array, gap: Time) -> list[int]:
    """The indices at which sessions begin, without the first one."""
    if gap == math.inf or len(times) < 2:
        return []
    first, last = times[[0, -1]].tolist()
    if times.dtype.kind != "O" and not max(abs(first), abs(last)) + gap < _EXACT:
        times = times.astype(object)
    found: list[int] = (np.flatnonzero(times[1:] > times[:-1] + gap) + 1).tolist()
    return found


def first_at(times: Array, bound: Time, start: int) -> int:
    """The index of the first time >= bound, from index `start` on."""
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


def plain_rows(monoid: Monoid, values: Any) -> list[Value]:
    """The elements of a batch one by one, with all their fields."""
    for method in ("to_pylist", "to_dicts"):  # tables of Arrow and polars
        if hasattr(values, method):
            return list(getattr(values, method)())
    if getattr(values, "ndim", 1) == 2 and hasattr(values, "to_dict"):
        return list(values.to_dict("records"))
    if isinstance(values, Mapping):
        columns = [list(each.tolist() if hasattr(each, "tolist") else each) for each in values.values()]
        if len({len(column) for column in columns}) > 1:
            lengths = {name: len(column) for name, column in zip(values, columns, strict=True)}
            raise ValueError(f"the columns of a batch must have one length, got {lengths}")
        return [dict(zip(values, row, strict=True)) for row in zip(*columns, strict=True)]
    return list(values) if isinstance(values, (list, tuple)) and monoid.fields else batch_rows(monoid, values)
