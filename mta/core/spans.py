"""The positions of frames as of moments, and the aggregates of windows whose ends move on.

`slide` (`mta.core.batch`) is for windows that end with their row. Here are the others: windows that end
before the youngest element, and windows as of given moments. Their heads and their ends are positions of a
log that holds all elements already, and neither heads nor ends ever go back.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mta.core.ends import End
from mta.core.enforcement import first_kept
from mta.core.folds import take, window_folds
from mta.core.log import Log, Piece
from mta.core.page import Follower
from mta.core.stack import Stack
from mta.core.states import NOTHING, Layout, Lowered, Run
from mta.core.view import Outcome, View
from mta.frames.limits import Limits
from mta.kinds import Array, State, Time
from mta.times.cuts import Side, before, boundaries, cut

#: Moments are looked at in blocks of this many, so that the pages of a block are still in the cache when its
#: windows are aggregated.
BLOCK = 1 << 14

#: Windows that lie among this many elements are folded there, without a stack.
NEAR = 1 << 14


#: Windows are folded one by one if there are this many elements for each: reading these elements would take
#: longer.
APART = 512


class Spans(NamedTuple):
    """The windows of some moments: positions [head, end), with head = end where a window is empty."""

    heads: Array
    ends: Array


def positions(log: Log, start: int, cuts: Array, side: Side) -> Array:
    """The first position from `start` on with a time > cut (right) or >= cut (left), for each of some cuts.

    The cuts never go backwards. A page of elements is read once for all cuts in it.
    """
    found = np.empty(len(cuts), np.int64)
    row, at = 0, start
    while row < len(cuts):
        at = log.first_position(at, cuts[row : row + 1].tolist()[0], side)
        if at >= log.tail or row + 1 == len(cuts):
            found[row:] = at
            break
        number = at >> log.shift
        times = log.page(0, number).times[at - (number << log.shift) :]
        inside: Side = "left" if side == "right" else "right"
        stop = row + before(cuts[row:], times[-1:].tolist()[0], inside)
        found[row:stop] = at + boundaries(times, cuts[row:stop], side)
        at, row = int(found[stop - 1]), stop
    return found


def span_at(view: View, limits: Limits, moment: Time, tail: int, behind: End | None) -> tuple[int, int]:
    """A view's window as of a moment that no element is after, where `tail` elements have come.

    The last of them may be missing in the log: it comes at this moment. `behind` is the end of a view that
    may end before the tail.
    """
    log, head, end = view.log, view.head, tail
    if behind is not None:
        for lag, side in limits.lags():
            end = min(end, _first_after(log, behind, view.end, cut(moment, lag, side), side))
    if head < view.end:
        head = first_kept(view, limits, moment, tail)
    else:
        for start, side in limits.cuts(moment):
            head = max(head, _first_after(log, behind, head, start, side))
    if limits.count is not None:
        head = max(head, tail - limits.count)
    return min(head, end), end


def _first_after(log: Log, behind: End | None, start: int, time: Time, side: Side) -> int:
    """`Log.first_position`, where mostly no element of the log is after the time."""
    if log.youngest < time or (log.youngest == time and side == "right"):
        return log.tail
    return (behind or log).first_position(start, time, side)


def spans_at(log: Log, limits: Limits, start: int, moments: Array, tails: Array | None = None) -> Spans:
    """The windows as of moments that never go backwards, among the elements from position `start` on.

    As of a moment there are the elements with times up to the moment, or those before its entry in `tails`.
    """
    if tails is None:
        tails = positions(log, start, moments, "right")
    heads, ends = np.full(len(moments), start, np.int64), tails
    for cuts, side in limits.lag_columns(moments):
        ends = np.minimum(ends, positions(log, start, cuts, side))
    for cuts, side in limits.cut_columns(moments):
        heads = np.maximum(heads, positions(log, start, cuts, side))
    if limits.count is not None:
        heads = np.maximum(heads, tails - min(limits.count, 2**62))
    return Spans(np.minimum(heads, ends), ends)


class Cuts:
    """Where the windows of several frames begin and end as of a moment, among the elements from `start` on.

    All positions are searched together, in one round trip a tier.
    """

    def __init__(self, log: Log, start: int, moment: Time, frames: Iterable[Limits]) -> None:
        self.moment, self._start = moment, start
        wanted: dict[tuple[Time, Side], None] = {(moment, "right"): None}
        for limits in frames:
            wanted.update(dict.fromkeys([*limits.cuts(moment), *self._lags(limits)]))
        self._positions = dict(zip(wanted, log.first_positions(start, list(wanted)), strict=True))

    def _lags(self, limits: Limits) -> list[tuple[Time, Side]]:
        return [(cut(self.moment, lag, side), side) for lag, side in limits.lags()]

    def window(self, limits: Limits) -> tuple[int, int]:
        """The window [head, end) of one of the frames, with head = end where it is empty."""
        found = self._positions
        tail = found[self.moment, "right"]
        end = min([tail, *(found[each] for each in self._lags(limits))])
        head = max([self._start, *(found[each] for each in limits.cuts(self.moment))])
        return min(max(head, limits.first_kept(tail)), end), end

    def is_inside(self, limits: Limits) -> bool:
        """Whether no element before `start` can belong to the window of one of the frames."""
        found = self._positions
        if any(found[each] > self._start for each in limits.cuts(self.moment)):
            return True
        return limits.count is not None and found[self.moment, "right"] - limits.count >= self._start


class SpanWalk:
    """Aggregates windows one after the other. Each element is scanned a constant number of times.

    A window consists of a part before the stack's boundary, and of R1 from the boundary to the window's end.
    """

    def __init__(
        self,
        log: Log,
        layout: Layout,
        of_heads: Follower | None = None,
        of_ends: Follower | None = None,
    ) -> None:
        """The followers have pages read ahead of the heads and of the ends."""
        self._log, self._layout = log, layout
        self._of_heads, self._of_ends = of_heads, of_ends
        #: None while the next window is to make one
        self._stack: Stack | None = None
        #: the aggregate from the stack's boundary to `end`
        self._r1: State = NOTHING
        self._end = 0
        self.answers: list[Lowered] = []
        #: the last window that was not empty: its head, the time there, and its aggregate
        self._head, self._total = 0, NOTHING
        #: None where it was not read
        self._oldest: Any = None

    def resume(self, stack: Stack, r1: State, end: int) -> None:
        """Goes on with the stack of a view, whose window ends at `end`."""
        self._stack, self._r1, self._end = stack.copy(self._log), r1, end

    def go(self, spans: Spans) -> None:
        """Adds the results of some windows, none of which is empty."""
        heads, ends = spans
        row = 0
        while row < len(heads):
            if self._layout.monoid.grows:
                self._answer(self._layout.gather([self._nodes(heads, ends, row)]), heads[row : row + 1])
                row += 1
            elif self._stack is not None and heads[row] < self._stack.boundary:
                row = self._walk(self._stack, heads, ends, row)
            elif ends[row] - heads[row] <= NEAR >> 1:
                row = self._near(heads, ends, row)
            else:
                end = int(ends[row])
                self._stack, self._r1, self._end = Stack(self._log, end, self._layout), NOTHING, end

    def outcome(self, results: Any) -> Outcome:
        """What the last window, which is not empty, leaves to its view."""
        stack, oldest = self._stack, self._oldest
        if oldest is None:
            oldest = self._log.read([Piece(0, self._head, self._head + 1)])[0].times.tolist()[0]
        if stack is not None:
            return Outcome(results, self._head, oldest, stack, self._r1, self._total)
        return Outcome(results, self._head, oldest, None, self._total, self._total)

    # -- the three ways ---------------------------------------------------------------------------------

    def _nodes(self, heads: Array, ends: Array, row: int) -> Any:
        """A state that grows with its window is folded of nodes of the trees."""
        self._stack = None
        return self._log.fold_nodes(int(heads[row]), int(ends[row]), self._layout)

    def _near(self, heads: Array, ends: Array, row: int) -> int:
        """Folds windows that lie close together, without a stack; returns the next row."""
        layout, first = self._layout, int(heads[row])
        stop = row + int(ends[row:].searchsorted(first + NEAR, "right"))
        self._stack = None
        if (stop - row) * APART <= int(ends[stop - 1]) - first:
            fold = self._log.fold_fast
            folds = [fold(int(heads[each]), int(ends[each]), layout) for each in range(row, stop)]
            self._answer(layout.gather(folds), heads[row:stop])
            return stop
        states = self._states(first, int(ends[stop - 1]))
        folds = window_folds(layout, states, heads[row:stop] - first, ends[row:stop] - 1 - first)
        self._answer(folds, heads[row:stop])
        return stop

    def _states(self, start: int, stop: int) -> Run:
        layout, log, size = self._layout, self._log, self._log.page_size
        edges = [start, *range((start // size + 1) * size, stop, size), stop]
        pieces = [Piece(0, first, last) for first, last in pairwise(edges)]
        return layout.concat([part.states(layout) for part in log.read(pieces)])

    def _walk(self, stack: Stack, heads: Array, ends: Array, row: int) -> int:
        """Adds the results of the windows whose heads are in one page; returns the row of the next one."""
        layout, log = self._layout, self._log
        head = int(heads[row])
        page = stack.seek(head, self._end)
        if self._of_heads is not None:
            self._of_heads.head_at(head >> log.shift)
        stop = row + int(heads[row:].searchsorted(page.stop, "left"))
        alone = stop == row + 1
        while row < stop:
            before_all, last = self._r1, self._end
            if self._of_ends is not None:
                self._of_ends.head_at(last >> log.shift)
            bound = min(int(ends[stop - 1]), ((last >> log.shift) + 1) << log.shift)
            after = row + int(ends[row:stop].searchsorted(bound, "right"))
            same = row + int(ends[row:stop].searchsorted(last, "right"))
            if same > row:  # these end where the window before them ended
                after = same
            elif after == row or alone:
                end = int(ends[row])
                self._r1 = layout.join(before_all, log.fold(last, end, layout))
                self._end = end
                continue
            if alone:
                older = layout.gather([page.total(layout, head)])
            else:
                older = take(layout, page.suffixes(layout), heads[row:after], page.start)
            totals = layout.followed_by(older, before_all)
            if same == row:
                end = int(ends[after - 1])
                states = log.read([Piece(0, last, end)])[0].states(layout)
                prefixes = layout.prefixes(states)
                totals = layout.combine(totals, take(layout, prefixes, ends[row:after] - 1, last))
                self._r1 = layout.join(before_all, layout.at(prefixes, end - 1 - last))
                self._end = end
            self._answer(totals, heads[row:after])
            row = after
        self._oldest = page.times(self._head, self._head + 1)[0]
        return row

    def _answer(self, totals: Run, heads: Array) -> None:
        layout = self._layout
        self.answers.append(layout.lowered(totals))
        self._total, self._head = layout.at(totals, layout.length(totals) - 1), int(heads[-1])
        if self._stack is None:
            self._oldest = None
