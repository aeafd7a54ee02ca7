"""The Scotty paper's slice manager: it puts tuples into slices, in order or late.

Where there are sessions, figure 4 of the paper names the cases of a late tuple; `joining` finds the case:

- 1.1 the tuple is inside a session, or 1.2 it extends a session at its end: it joins that session's slice;
- 1.3 it extends a session at its start: the slice begins earlier;
- 2 it closes the gap between two sessions: their slices become one;
- 3 it is further than the smallest gap from both neighbours: it becomes a slice between theirs.

Without sessions all tuples between two edges are one session.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any

from mta.core.states import fold_states
from mta.kinds import State, Time
from mta.monoids.base import Monoid
from mta.slicing.sliced_stream import SlicedStream
from mta.slicing.slices import STALE, Slice, SliceList
from mta.slicing.stream_slicer import StreamSlicer


class SliceManager:
    """Puts tuples into the slices of any stream of one slicer."""

    def __init__(
        self, monoid: Monoid, slicer: StreamSlicer, keeps_tuples: bool, max_tuples: float = math.inf
    ) -> None:
        self.monoid, self.slicer = monoid, slicer
        self.keeps_tuples = keeps_tuples
        #: a slice takes no more tuples than this in order; late tuples may double it
        self.max_tuples = max_tuples
        self._combine, self._commutes = monoid.combine, monoid.commutes
        self._gap = slicer.gap

    def add(self, stream: SlicedStream, time: Time, state: State, marks: Any = None) -> None:
        """Puts one tuple into its slice: one combine if the tuple comes in order, or the monoid commutes."""
        slices = stream.slices
        items = slices.items
        if items and time >= stream.youngest and time >= stream.watermark:
            here = items[-1]
            if time < here.edge and time <= here.last + self._gap and here.count < self.max_tuples:
                total = STALE if here.state is STALE else self._combine(here.state, state)
                last, tuples = len(items) - 1, here.tuples
                # nothing is called from here on
                if tuples is not None:
                    tuples += ((time, stream.arrivals, state, marks),)
                here.state, here.last = total, time
                here.count += 1
                if slices.unchanged > last:
                    slices.unchanged = last
                stream.youngest = time
                stream.arrivals += 1
                stream.since_trigger += 1
                return
            if time > here.last:
                self._append(stream, here, time, state, marks)
                return
        if self._add_inside(stream, time, state, marks):
            return
        tuples = [(time, stream.arrivals, state, marks)] if self.keeps_tuples else None
        self.put(stream, Slice(time, time, self.edge(stream, time), 1, state, tuples))

    def _append(self, stream: SlicedStream, here: Slice, time: Time, state: State, marks: Any) -> None:
        """Adds a slice with one tuple behind `here`, which is the last slice."""
        edge = here.edge if time < here.edge else self.slicer.next_edge(time)
        tuples = [(time, stream.arrivals, state, marks)] if self.keeps_tuples else None
        new, slices = Slice(time, time, edge, 1, state, tuples), stream.slices
        end, changed_from = len(slices.items), min(stream.changed_from, time)
        # nothing is called from here on
        slices.first_times[end:end] = (time,)
        slices.items[end:end] = (new,)
        stream.youngest, stream.changed_from = time, changed_from
        stream.arrivals += 1
        stream.since_trigger += 1

    def _add_inside(self, stream: SlicedStream, time: Time, state: State, marks: Any) -> bool:
        """Adds a late tuple to the slice around it; False if no slice is around it or may take it."""
        slices, late = stream.slices, stream.late
        index = bisect_right(slices.first_times, time) - 1
        if index < 0:
            return False
        here = slices.items[index]
        tuples = here.tuples
        if time > here.last or (tuples is None and not self._commutes):
            return False
        if tuples is not None and here.count >= 2 * self.max_tuples:
            return False
        # the next result that asks for a stale state folds it again
        total = self._combine(here.state, state) if self._commutes else STALE
        insert_at = 0 if tuples is None else bisect_right(tuples, (time, math.inf))
        is_late = time < stream.watermark
        earliest = min(late.get(here.first, time), time) if is_late else None
        # nothing is called from here on
        if tuples is not None:
            tuples[insert_at:insert_at] = ((time, stream.arrivals, state, marks),)
        here.state = total
        here.count += 1
        if slices.unchanged > index:
            slices.unchanged = index
        if stream.changed_from > time:
            stream.changed_from = time
        if is_late:
            late[here.first] = earliest  # type: ignore[assignment]
        stream.arrivals += 1
        stream.since_trigger += 1
        return True

    def drop_tuples(self, slices: SliceList, horizon: Time) -> None:
        """Drops the tuples of slices that no tuple at `horizon` or later can join. Their states stay."""
        start = stop = bisect_left(slices.first_times, horizon)
        while start and slices.items[start - 1].tuples is not None:
            start -= 1
        # the oldest first: after an interrupt, the next call finds the slices that still have tuples
        for each in slices.items[start:stop]:
            if each.edge <= horizon or each.last + self._gap < horizon:
                each.aggregate(self.monoid)
                # the lower edge keeps tuples out that only a session of a greater gap would let in
                each.edge, each.tuples = min(each.edge, horizon), None

    def final_count(self, slices: SliceList, horizon: Time) -> int:
        """The number of the first slices that no tuple at `horizon` or later can join."""
        for index, each in enumerate(slices.items):
            if each.edge > horizon and each.last + self._gap >= horizon:
                return index
        return len(slices.items)

    def edge(self, stream: SlicedStream, time: Time) -> Time:
        """The edge before which tuples may join a slice that holds a tuple at `time`."""
        left = bisect_right(stream.slices.first_times, time) - 1
        return self.edge_behind(stream.slices.items[left] if left >= 0 else None, stream, time)

    def edge_behind(self, left: Slice | None, stream: SlicedStream, time: Time) -> Time:
        """`edge`, where `left` is known to be the last slice that begins at or before `time`."""
        if left is not None and time < left.edge:
            return left.edge
        if time >= stream.youngest:
            return self.slicer.next_edge(time)
        return self.slicer.edge_after(time)

    def put(self, stream: SlicedStream, new: Slice) -> None:
        """Joins a slice of new tuples, which no slice holds, to its neighbours, or puts it between them."""
        slices = stream.slices
        index = bisect_right(slices.first_times, new.first)
        left = slices.items[index - 1] if index else None
        start, stop = self.joining(stream, left, slices.items, index, new)
        parts = self.joined(slices.items[start:stop], new)
        firsts, unchanged = [each.first for each in parts], min(slices.unchanged, start)
        youngest, changed_from = max(stream.youngest, new.last), min(stream.changed_from, new.first)
        late = self.late_times(stream, parts, new.first)
        # nothing is called from here on
        slices.unchanged = unchanged
        slices.first_times[start:stop] = firsts
        slices.items[start:stop] = parts
        stream.youngest, stream.changed_from = youngest, changed_from
        stream.late |= late
        stream.arrivals += new.count
        stream.since_trigger += new.count

    def joining(
        self, stream: SlicedStream, left: Slice | None, items: list[Slice], index: int, new: Slice
    ) -> tuple[int, int]:
        """The range of the slices that become one with new tuples, which are all before one edge.

        `left` begins before the new tuples and is at `index` - 1; slices from `index` on begin after them.
        """
        gap, start, stop = self._gap, index, index
        last, cut_at, count = new.last, -math.inf, new.count
        if left is not None:
            near = new.first <= left.last + gap and left.count < self.max_tuples
            near = near and not stream.is_cut(left.last, new.first)
            if new.first < left.edge and (new.first <= left.last or near):
                start -= 1
                last, cut_at, count = max(last, left.last), left.last + gap, count + left.count
        while stop < len(items) and items[stop].first < new.edge:
            right = items[stop]
            cut_on_purpose = new.last < right.first <= cut_at or max(count, right.count) >= self.max_tuples
            if right.first > last + gap or cut_on_purpose or stream.is_cut(last, right.first):
                break
            last, count = max(last, right.last), count + right.count
            stop += 1
        return start, stop

    def joined(self, old: list[Slice], new: Slice) -> list[Slice]:
        """The slices that replace old ones after new tuples have joined them."""
        whole = self._merged(old, new) if old else new
        return self._parts(whole) if whole.count > 2 * self.max_tuples else [whole]

    def late_times(self, stream: SlicedStream, parts: list[Slice], time: Time) -> dict[Time, Time]:
        """New entries of `stream.late`, after tuples at `time` and later have joined some slices."""
        watermark, late = stream.watermark, stream.late
        if time >= watermark:
            return {}
        changed = [each for each in parts if each.last >= time and each.first < watermark]
        return {each.first: min(late.get(each.first, math.inf), max(time, each.first)) for each in changed}

    def _parts(self, whole: Slice) -> list[Slice]:
        """Splits a slice with too many tuples, so that a late tuple finds few in each part."""
        tuples, size, parts = whole.tuples, int(self.max_tuples), []
        if tuples is None:
            return [whole]
        for start in range(0, len(tuples), size):
            part = tuples[start : start + size]
            state = fold_states(self.monoid, [each[2] for each in part]) if self._commutes else STALE
            parts.append(Slice(part[0][0], part[-1][0], whole.edge, len(part), state, part))
        return parts

    def _merged(self, old: list[Slice], new: Slice) -> Slice:
        """One slice out of old ones and the new tuples that join them."""
        index = 1 if old[0].first <= new.first else 0
        parts = [*old[:index], new, *old[index:]]
        tuples = None
        if all(part.tuples is not None for part in parts):
            tuples = [each for part in parts for each in part.tuples or ()]
        ordered = all(a.last < b.first or (a.last == b.first and b is new) for a, b in pairwise(parts))
        if tuples is not None and not ordered:
            tuples.sort()  # by time and arrival; no two tuples have the same arrival
        reordered = not self._commutes and not ordered
        if tuples is not None and (reordered or any(part.state is STALE for part in parts)):
            state = STALE
        else:
            # a stale part is folded now, since the whole does not keep its tuples
            state = fold_states(self.monoid, [part.aggregate(self.monoid) for part in parts])
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        count = sum(part.count for part in parts)
        # merged slices may reach beyond the first edge of the oldest part
        edge = new.edge if last < new.edge else max(part.edge for part in parts)
        return Slice(first, last, edge, count, state, tuples)
