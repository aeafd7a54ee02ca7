"""The paper's slice manager: puts tuples into slices, in order or late.

Figure 4 has the cases of a tuple that comes late, where there are sessions; `joining` finds which it is:

- 1.1 the tuple is inside a session, 1.2 it extends one at its end: it joins that session's slice;
- 1.3 it extends a session at its start: the slice begins earlier;
- 2 it closes the gap between two sessions: their slices become one;
- 3 it is further than the smallest gap from both: it is a slice of its own, between theirs.

Without sessions all tuples between two edges are one session.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any

from mta.monoids.base import Monoid
from mta.slicing.sliced_stream import Stream
from mta.slicing.slices import STALE, Slice, Slices, folded
from mta.slicing.stream_slicer import StreamSlicer
from mta.slicing.windows import Time


class SliceManager:
    """What is done to the slices of any stream of one slicer."""

    def __init__(
        self, monoid: Monoid, slicer: StreamSlicer, keeps_rows: bool, most: float = math.inf
    ) -> None:
        self.monoid, self.slicer = monoid, slicer
        self.keeps_rows = keeps_rows
        #: a slice gets no more than so many tuples, unless they come late
        self.most = most
        self._combine, self._commutes = monoid.combine, monoid.commutes
        self._gap = slicer.gap

    def add(self, stream: Stream, time: Time, state: Any, mark: Any = None) -> None:
        """Puts one tuple into its slice: one combine where it comes in order, or commutes."""
        book = stream.book
        slices = book.slices
        if slices and time >= stream.youngest and time >= stream.watermark:
            here = slices[-1]
            if time < here.high and time <= here.last + self._gap and here.count < self.most:
                total = STALE if here.state is STALE else self._combine(here.state, state)
                last, rows = len(slices) - 1, here.rows
                # nothing is called from here on
                if rows is not None:
                    rows += ((time, stream.arrivals, state, mark),)
                here.state, here.last = total, time
                here.count += 1
                if book.fresh > last:
                    book.fresh = last
                stream.youngest = time
                stream.arrivals += 1
                stream.since_trigger += 1
                return
            if time > here.last:
                self._append(stream, here, time, state, mark)
                return
        if self._add_inside(stream, time, state, mark):
            return
        rows = [(time, stream.arrivals, state, mark)] if self.keeps_rows else None
        self.put(stream, Slice(time, time, self.high(stream, time), 1, state, rows))

    def _append(self, stream: Stream, here: Slice, time: Time, state: Any, mark: Any) -> None:
        """Begins a slice behind all others, of which `here` is the last."""
        high = here.high if time < here.high else self.slicer.coming_edge(time)
        rows = [(time, stream.arrivals, state, mark)] if self.keeps_rows else None
        new, book = Slice(time, time, high, 1, state, rows), stream.book
        end, changed_from = len(book.slices), min(stream.changed_from, time)
        # nothing is called from here on
        book.firsts[end:end] = (time,)
        book.slices[end:end] = (new,)
        stream.youngest, stream.changed_from = time, changed_from
        stream.arrivals += 1
        stream.since_trigger += 1

    def _add_inside(self, stream: Stream, time: Time, state: Any, mark: Any) -> bool:
        """Puts a late tuple into the slice that it is inside of, if it is."""
        book, late = stream.book, stream.late
        place = bisect_right(book.firsts, time) - 1
        if place < 0:
            return False
        here = book.slices[place]
        rows = here.rows
        if time > here.last or (rows is None and not self._commutes):
            return False
        if rows is not None and here.count >= 2 * self.most:
            return False
        # what does not commute is folded again when the next result asks for it
        total = self._combine(here.state, state) if self._commutes else STALE
        behind_it = 0 if rows is None else bisect_right(rows, (time, math.inf))
        behind = time < stream.watermark
        earliest = min(late.get(here.first, time), time) if behind else None
        # nothing is called from here on
        if rows is not None:
            rows[behind_it:behind_it] = ((time, stream.arrivals, state, mark),)
        here.state = total
        here.count += 1
        if book.fresh > place:
            book.fresh = place
        if stream.changed_from > time:
            stream.changed_from = time
        if behind:
            late[here.first] = earliest
        stream.arrivals += 1
        stream.since_trigger += 1
        return True

    def forget_rows(self, book: Slices, horizon: Time) -> None:
        """Lets go of the tuples of slices that no tuple at `horizon` or later can join: their states stay."""
        start = stop = bisect_left(book.firsts, horizon)
        while start and book.slices[start - 1].rows is not None:
            start -= 1
        # the oldest first, so that the next time finds those that an interrupt leaves
        for each in book.slices[start:stop]:
            if each.high <= horizon or each.last + self._gap < horizon:
                each.total(self.monoid)
                # also if another query's sessions hold longer
                each.high, each.rows = min(each.high, horizon), None

    def final(self, book: Slices, horizon: Time) -> int:
        """How many of the first slices no tuple at `horizon` or later can join."""
        count = 0
        for each in book.slices:
            if each.high > horizon and each.last + self._gap >= horizon:
                break
            count += 1
        return count

    def high(self, stream: Stream, time: Time) -> Time:
        """The edge before which tuples may join a slice that has a tuple at `time`."""
        book = stream.book
        left = bisect_right(book.firsts, time) - 1
        return self.high_behind(book.slices[left] if left >= 0 else None, stream, time)

    def high_behind(self, left: Slice | None, stream: Stream, time: Time) -> Time:
        """The same, where it is known which slice is the last that begins by then."""
        if left is not None and time < left.high:
            return left.high
        if time >= stream.youngest:
            return self.slicer.coming_edge(time)
        return self.slicer.edge_after(time)

    def put(self, stream: Stream, new: Slice) -> None:
        """Puts a tuple that is in no slice into one, or makes a slice of it."""
        book = stream.book
        place = bisect_right(book.firsts, new.first)
        start, stop = self.joining(stream, book.slices[place - 1] if place else None, book.slices, place, new)
        parts = self.joined(book.slices[start:stop], new)
        firsts, fresh = [each.first for each in parts], min(book.fresh, start)
        youngest, changed_from = max(stream.youngest, new.last), min(stream.changed_from, new.first)
        late = self.late(stream, parts, new.first)
        # nothing is called from here on
        book.fresh = fresh
        book.firsts[start:stop] = firsts
        book.slices[start:stop] = parts
        stream.youngest, stream.changed_from = youngest, changed_from
        stream.late |= late
        stream.arrivals += new.count
        stream.since_trigger += new.count

    def joining(
        self, stream: Stream, left: Slice | None, slices: list[Slice], place: int, new: Slice
    ) -> tuple[int, int]:
        """Which slices a tuple, or a run of them within one cell, makes one with itself.

        `left` is before it, and is at `place` - 1; those from `place` on begin behind it.
        """
        gap, start, stop = self._gap, place, place
        last, cut_at, count = new.last, -math.inf, new.count
        if left is not None:
            near = new.first <= left.last + gap and left.count < self.most
            near = near and not stream.is_cut(left.last, new.first)
            if new.first < left.high and (new.first <= left.last or near):
                start -= 1
                last, cut_at, count = max(last, left.last), left.last + gap, count + left.count
        while stop < len(slices) and slices[stop].first < new.high:
            right = slices[stop]
            cut_on_purpose = new.last < right.first <= cut_at or max(count, right.count) >= self.most
            if right.first > last + gap or cut_on_purpose or stream.is_cut(last, right.first):
                break
            last, count = max(last, right.last), count + right.count
            stop += 1
        return start, stop

    def joined(self, old: list[Slice], new: Slice) -> list[Slice]:
        """What some slices and a run that joins them become."""
        whole = self._merged(old, new) if old else new
        return self._parts(whole) if whole.count > 2 * self.most else [whole]

    def late(self, stream: Stream, parts: list[Slice], time: Time) -> dict[Time, Time]:
        """Of slices that a run from a time on has joined, behind the watermark: a time of a tuple in it."""
        upto, late = stream.watermark, stream.late
        if time >= upto:
            return {}
        behind = [each for each in parts if each.last >= time and each.first < upto]
        return {each.first: min(late.get(each.first, math.inf), max(time, each.first)) for each in behind}

    def _parts(self, whole: Slice) -> list[Slice]:
        """A slice with too many tuples in parts, so that a late tuple finds few in each."""
        rows, most, parts = whole.rows, int(self.most), []
        if rows is None:
            return [whole]
        for start in range(0, len(rows), most):
            part = rows[start : start + most]
            state = folded(self.monoid, [row[2] for row in part]) if self._commutes else STALE
            parts.append(Slice(part[0][0], part[-1][0], whole.high, len(part), state, part))
        return parts

    def _merged(self, old: list[Slice], new: Slice) -> Slice:
        """One slice out of some and what joins them."""
        place = 1 if old[0].first <= new.first else 0
        parts = [*old[:place], new, *old[place:]]
        rows = (
            None if any(part.rows is None for part in parts) else [row for p in parts for row in p.rows or ()]
        )
        ordered = all(a.last < b.first or (a.last == b.first and b is new) for a, b in pairwise(parts))
        if rows is not None and not ordered:
            rows.sort()  # by time and arrival, of which no two are the same
        anew = not self._commutes and not ordered
        if rows is not None and (anew or any(part.state is STALE for part in parts)):
            state = STALE
        else:
            # a stale one is folded from its tuples now, of which some will not be kept
            state = folded(self.monoid, [part.total(self.monoid) for part in parts])
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        count = sum(part.count for part in parts)
        # a slice of many that became one ends behind its first edge
        high = new.high if last < new.high else max(part.high for part in parts)
        return Slice(first, last, high, count, state, rows)
