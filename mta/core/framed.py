"""Several windows over one log, one for each frame, which change together.

A frame holds the elements of some span before a moment, mostly that of the last element. Frames may end
before that moment: then elements that are in the log come into the window later (`View.end`). Fields with the
same frame share a view, and the log keeps elements for the frame that reaches back furthest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mta.core.batch import slide
from mta.core.ends import End
from mta.core.enforcement import first_kept
from mta.core.filled import filled
from mta.core.frame import Frame
from mta.core.keeper import Keeper
from mta.core.log import BEFORE_ALL, Fold, Log, Piece, fast_fold
from mta.core.parts import part_of
from mta.core.spans import BLOCK, Cuts, Spans, SpanWalk, span_at, spans_at
from mta.core.states import NOTHING
from mta.core.view import Added, Batch, Change, Front, Sums, View, commit_all, finish
from mta.frames.limits import Limits
from mta.kinds import UNKNOWN, Array, Result, Results, Row, State, Time
from mta.monoids.base import Monoid, column_of, joined
from mta.monoids.fields import Fields
from mta.times.cuts import cut


def view_of(log: Log, frame: Frame, kind: Callable[[Monoid], type[View]]) -> View:
    """A view of the fields that have a frame; `kind` says which algorithm a monoid has."""
    names = [name for name in frame.least if name is not None]
    layout = part_of(log.layout, names) if names else log.layout
    return kind(layout.monoid)(log, layout=layout)


class FramedLog:
    """A log and its windows. The methods are those of a view, and results are lowered already."""

    def __init__(
        self,
        log: Log,
        frames: Sequence[tuple[Frame, View]],
        keep: Time | None = None,
        shown: Callable[[Time], Any] = lambda time: time,
    ) -> None:
        """`shown` gives a time as users have it, for errors."""
        self.log, self._shown = log, shown
        self._frames = tuple(frames)
        #: the ends that are behind the tail
        self._ends = {view: End(log) for frame, view in frames if frame.lags}
        self.keeper = None if keep is None else Keeper(log, keep)
        self._names = tuple(log.layout.monoid.monoids) if isinstance(log.layout.monoid, Fields) else ()

    @property
    def views(self) -> list[View | Keeper]:
        """The views in the order in which a version saves them."""
        keepers = [] if self.keeper is None else [self.keeper]
        return [*(view for _, view in self._frames), *keepers]

    #: there are no single steps ready
    steps: tuple[()] = ()

    # -- what the windows hold --------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The first position that can be read."""
        finish(self.log)
        return min(view.head for view in self.views)

    def _held(self) -> list[View]:
        finish(self.log)
        return [view for _, view in self._frames if len(view)]

    def _extent(self) -> tuple[int, int]:
        """From where to where there are elements in a window."""
        held = self._held()
        return min((view.head for view in held), default=0), max((view.end for view in held), default=0)

    def __len__(self) -> int:
        head, end = self._extent()
        return end - head

    @property
    def oldest(self) -> Any:
        """The time of the oldest element in a window."""
        return min(((view.head, view.oldest) for view in self._held()), default=(0, None))[1]

    @property
    def youngest(self) -> Any:
        """The time of the youngest element, if any frame may still need it."""
        return self.log.youngest if self.log.tail > self.first else None

    def total(self) -> Result:
        """The results of all fields."""
        finish(self.log)
        return self._results_of([(view.head, view.end) for _, view in self._frames])

    def _results_of(self, windows: Sequence[tuple[int, int]]) -> Result:
        """The results of windows [head, end), one for each frame; all folds take one round trip at most."""
        wanted: dict[View, Fold] = {}
        for (_, view), (head, end) in zip(self._frames, windows, strict=True):
            same = (head, end) == (view.head, view.end)
            fold = view.unread() if same else fast_fold(head, end, view.layout)
            if fold is not None:
                wanted[view] = fold
        states = dict(zip(wanted, self.log.folds(list(wanted.values())), strict=True))
        results = []
        for (frame, view), (head, end) in zip(self._frames, windows, strict=True):
            if view not in states:
                states[view] = view.total()
            elif (head, end) == (view.head, view.end):
                view.keep_total(states[view])
            results.append(self._lowered(frame, view, states[view], end - head))
        return self._result(results)

    def _lowered(self, frame: Frame, view: View, total: State, count: int) -> Result:
        monoid = view.layout.monoid
        lowered = monoid.lower(monoid.identity if total is NOTHING else total)
        short = [name for name, least in frame.least.items() if count < least]
        if not short:
            return lowered
        return None if short == [None] and not self._names else {**lowered, **dict.fromkeys(self._of(short))}

    def _of(self, short: list[Any]) -> Sequence[str]:
        """The names of fields; all where the fields have one frame together."""
        return self._names if short == [None] else short

    def _result(self, parts: list[Any]) -> Any:
        """The results of the frames as one result, with the fields in their order."""
        if len(parts) == 1:
            return parts[0]
        together = {name: each for part in parts for name, each in part.items()}
        return {name: together[name] for name in self._names}

    # -- elements in ------------------------------------------------------------------------------------

    def insert(self, row: Row, state: State, time: Time) -> None:
        """Appends an element, and evicts none. It comes into the windows that end with the last element."""
        finish(self.log)
        tail, changes = self.log.tail, []
        for frame, view in self._frames:
            if not frame.lags:
                changes.append(self._moved(view, view.head, tail + 1, view.layout.narrow(state), time))
        self._append(changes, row, time)

    def push(self, _: Any, row: Row, state: State, time: Time) -> Result:
        """Appends an element and moves all windows; returns the results."""
        finish(self.log)
        tail = self.log.tail
        changes, results = [], []
        for frame, view in self._frames:
            # the coming element is in a window that may end with that element
            behind = self._ends.get(view)
            head, end = span_at(view, frame.limits, time, tail + 1, behind)
            if behind is None or end > tail:
                change, total = self._moved_and_total(view, head, end, view.layout.narrow(state), time)
            else:
                entering = behind.fold(max(view.end, head), end, view.layout)
                oldest = behind.time(head) if view.end <= head < end else None
                change, total = self._moved_and_total(view, head, end, entering, oldest)
            changes.append(change)
            results.append(self._lowered(frame, view, total, end - head))
        result = self._result(results)
        self._append(changes, row, time)
        return result

    @staticmethod
    def _time_at(log: Log, view: View, head: int, end: int) -> Any:
        """The time of the oldest element of a window that begins behind the end that it had."""
        if view.end <= head < end:
            return log.read([Piece(0, head, head + 1)])[0].times.tolist()[0]
        return None

    @staticmethod
    def _moved(view: View, head: int, end: int, entering: State, oldest: Any) -> Change:
        """What becomes of a window that moves to [head, end).

        `entering` is the aggregate of the elements that come in, and `oldest` the time at the head if the
        window begins behind the end that it had.
        """
        if head < view.end:
            front = view.front(head)
            return Change(view, front, view.cheap_sums(front, entering), end)
        front = view.nothing_from(head)
        if head == end:
            return Change(view, front, Sums(NOTHING, UNKNOWN), end)
        known = UNKNOWN if view.layout.monoid.grows else entering
        return Change(view, front._replace(oldest=oldest), Sums(entering, known), end)

    def _moved_and_total(
        self, view: View, head: int, end: int, entering: State, oldest: Any
    ) -> tuple[Change, State]:
        """The same with the window's total, or NOTHING."""
        if head < view.end:
            front = view.front(head)
            sums, total = view.sums_and_total(front, entering)
            return Change(view, front, sums, end), total
        return self._moved(view, head, end, entering, oldest), entering if head < end else NOTHING

    def _append(self, changes: list[Change], row: Row, time: Time) -> None:
        log, tail = self.log, self.log.tail
        changes += self._kept(log, time, changes)
        with log.taking_back():
            if (tail + 1) & log.mask:
                added = Added(log.tails, (time,), (row,), tail + 1, time)
            else:
                added = Added(log.appended(time, row), (), (), tail + 1, time)
            commit_all(log, added, changes)
        self._read_ahead()

    # -- batches ----------------------------------------------------------------------------------------

    def extend(self, batch: Batch) -> None:
        """Appends a batch, and moves all windows to its end."""
        self._extend(batch, None)

    def _extend(self, batch: Batch, moments: Array | None) -> Any:
        finish(self.log)
        log = self.log
        with log.taking_back():
            after, added = self._longer(batch, 0)
            results = None if moments is None else self._results_at(after, moments)
            changes = self._moved_to_tail(after)
            changes += self._kept(after, after.youngest, changes)
            commit_all(log, added, changes)
        self._read_ahead()
        return results

    def _moved_to_tail(self, log: Log) -> list[Change]:
        """What becomes of the windows as of the youngest element of a log."""
        moment, tail, changes = column_of([log.youngest]), np.array([log.tail]), []
        for frame, view in self._frames:
            spans = spans_at(log, frame.limits, view.head, moment, tail)
            head, end = int(spans.heads[0]), int(spans.ends[0])
            entering = log.fold(max(view.end, head), end, view.layout)
            changes.append(self._moved(view, head, end, entering, self._time_at(log, view, head, end)))
        return changes

    def slide(self, batch: Batch) -> Results:
        """Appends a batch; the results of all its rows."""
        finish(self.log)
        log, base = self.log, self.log.tail
        with log.taking_back():
            fronts: list[tuple[Front, Sums, int]] = []
            results = []
            outcomes = {
                view: slide(view, frame.limits, batch)
                for frame, view in self._frames
                if frame.plain and view.end == base
            }
            heads = [outcomes[view].head if view in outcomes else view.head for _, view in self._frames]
            after, added = self._longer(
                batch, min([*heads, *(each.head for each in self.views[len(heads) :])])
            )
            for frame, view in self._frames:
                if view in outcomes:
                    fronts.append((*view.after(outcomes[view]), after.tail))
                    results.append(outcomes[view].results)
                else:
                    tails = np.arange(base + 1, after.tail + 1)
                    found, front = self._walked(after, frame, view, batch.times, tails)
                    fronts.append(front)
                    results.append(found)
            result = self._result(results)
            changes = [Change(view, *front) for (_, view), front in zip(self._frames, fronts, strict=True)]
            changes += self._kept(after, after.youngest, changes)
            commit_all(log, added, changes)
        self._read_ahead()
        return result

    def slide_at(self, batch: Batch, moments: Array) -> Results:
        """Appends a batch; the results as of some moments."""
        if not len(batch):
            finish(self.log)
            return self._results_at(self.log, moments)
        return self._extend(batch, moments)

    def _longer(self, batch: Batch, head: int) -> tuple[Log, Added]:
        """The log with a batch, to read, and what a commit adds to this log."""
        log = self.log
        tails, tail = log.extended(batch.times, batch.elements, head), log.tail + len(batch)
        for old, new in zip(log.tails, tails, strict=False):
            if new is not old:
                old.give_up_nodes()
        after = log.fork(list(tails))
        after.tail, after.youngest = tail, batch.last
        return after, Added(tails, (), (), tail, batch.last)

    def _walked(
        self, log: Log, frame: Frame, view: View, moments: Array, tails: Array
    ) -> tuple[Results, tuple[Front, Sums, int]]:
        """The results of a batch's rows in one frame, and the front, the sums and the end that they leave."""
        behind = self._ends.get(view)
        walk = SpanWalk(log, view.layout, view.follower, None if behind is None else behind.follower)
        walk.resume(*view.walker(), view.end)
        results, head, end = self._walk(walk, log, frame, view, view.head, moments, tails)
        if head == end:
            return results, (view.nothing_from(head), Sums(NOTHING, UNKNOWN), end)
        front, sums = view.after(walk.outcome(results))
        return results, (front._replace(stack=front.stack.copy(self.log)), sums, end)

    def _walk(
        self,
        walk: SpanWalk,
        log: Log,
        frame: Frame,
        view: View,
        start: int,
        moments: Array,
        tails: Array | None = None,
    ) -> tuple[Results, int, int]:
        """The results as of some moments in one frame, and the last window."""
        counts, end = [], start
        for row in range(0, len(moments), BLOCK):
            block = slice(row, row + BLOCK)
            spans = spans_at(
                log, frame.limits, start, moments[block], None if tails is None else tails[block]
            )
            held = spans.heads < spans.ends
            walk.go(Spans(spans.heads[held], spans.ends[held]))
            counts.append(spans.ends - spans.heads)
            start, end = int(spans.heads[-1]), int(spans.ends[-1])
        return filled(frame, view.layout, walk.answers, joined(counts)), start, end

    # -- as of moments ----------------------------------------------------------------------------------

    def at(self, moment: Time) -> Result:
        """The results as of a moment; changes nothing."""
        finish(self.log)
        first = self.first
        cuts = Cuts(self.log, first, moment, [frame.limits for frame, _ in self._frames])
        self._check_there(cuts, first)
        return self._results_of([cuts.window(frame.limits) for frame, _ in self._frames])

    def stays(self, limits: Limits, moment: Time) -> bool:
        """Whether limits on times let the oldest element stay as of a moment after the youngest one."""
        finish(self.log)
        return all(
            first_kept(view, replace(limits, count=None), moment, view.end) == view.head
            for _, view in self._frames
        )

    def _results_at(self, log: Log, moments: Array) -> Results:
        first, results = self.first, []
        if len(moments):
            limits = [frame.limits for frame, _ in self._frames]
            self._check_there(Cuts(log, first, moments[:1].tolist()[0], limits), first)
        for frame, view in self._frames:
            walk = SpanWalk(log, view.layout)
            results.append(
                self._walk(walk, log, frame, view, first, moments)[0]
                if len(moments)
                else view.layout.lower(view.layout.gather([]))
            )
        return self._result(results)

    def _check_there(self, cuts: Cuts, first: int) -> None:
        """Raises ValueError for a moment in the past whose windows may have had elements that are gone."""
        youngest, moment = self.log.youngest, cuts.moment
        if moment >= youngest or not first or youngest == BEFORE_ALL:
            return
        keeper = self.keeper
        if keeper is not None and not keeper.evicted and moment >= cut(youngest, keeper.keep, "left"):
            return
        if all(cuts.is_inside(frame.limits) for frame, _ in self._frames):
            return
        oldest = self.oldest
        there = "" if oldest is None else f", and the windows have those from {self._shown(oldest)!r} on"
        raise ValueError(
            f"the window as of {self._shown(moment)!r} may have had elements that are gone: the youngest "
            f"element is of {self._shown(youngest)!r}{there}; ask for a later time, or open the window with "
            "a larger keep="
        )

    # -- elements out -----------------------------------------------------------------------------------

    def evict(self, k: int) -> None:
        """Evicts the k oldest elements from all windows."""
        if k:
            self._evict_before(self._extent()[0] + k)

    def evict_until(self, time: Time) -> int:
        """Evicts all elements with times up to this one; returns how many there were in the windows."""
        head, end = self._extent()
        position = self.log.first_position(self.first, time, "right")
        self._evict_before(position)
        return max(0, min(position, end) - head)

    def _evict_before(self, position: int) -> None:
        changes = []
        for _, view in self._frames:
            head, end = max(view.head, position), max(view.end, position)
            changes.append(self._moved(view, head, end, NOTHING, None))
        if self.keeper is not None and position > self.keeper.head:
            front = changes[0].front._replace(head=position)
            changes.append(Change(self.keeper, front, Sums(NOTHING, UNKNOWN), position))
        self._commit(changes)

    def enforce(self) -> int:
        """Moves all windows to the frames as of the youngest element; returns how many elements left."""
        finish(self.log)
        log, before = self.log, min(view.head for _, view in self._frames)
        if not log.tail:
            return 0
        self._commit(self._moved_to_tail(log))
        return min(view.head for _, view in self._frames) - before

    def _commit(self, changes: list[Change]) -> None:
        log = self.log
        commit_all(log, Added(log.tails, (), (), log.tail, log.youngest), changes)
        self._read_ahead()

    def _kept(self, log: Log, youngest: Time, changes: Sequence[Change]) -> list[Change]:
        """What becomes of the keeper, where some changes bring a window to another page.

        It gives up elements that nobody may ask for any more. `log` has the elements after the changes, of
        which the last one may be missing, and `youngest` is its time.
        """
        keeper = self.keeper
        if keeper is None:
            return []
        heads = {id(view): view.head for _, view in self._frames}
        heads.update({id(change.view): change.front.head for change in changes})
        page = min(heads.values()) >> log.shift
        if page == keeper.page:
            return []
        keeper.page = page  # if the call fails, the keeper moves at the next page
        head = self._promised(log, youngest)
        if head == keeper.head:
            return []
        front = self._frames[0][1].nothing_from(head)
        return [Change(keeper, front, Sums(NOTHING, UNKNOWN), head + 1)]

    def _promised(self, log: Log, youngest: Time) -> int:
        """The first position that the keeper promises to keep, if this is the youngest time."""
        assert self.keeper is not None
        limits = [frame.limits for frame, _ in self._frames]
        cuts = Cuts(log, self.keeper.head, cut(youngest, self.keeper.keep, "left"), limits)
        return min(cuts.window(each)[0] for each in limits)

    @property
    def first_of_range(self) -> int:
        """The first position of a range in time: of the oldest window, or as far as `keep` reaches."""
        if self.keeper is None or not self.log.tail:
            return self.first
        heads = [view.head for _, view in self._frames]
        return min([self._promised(self.log, self.log.youngest), *heads])

    def _read_ahead(self) -> None:
        """Has pages read ahead of the ends that are behind the tail."""
        for view, behind in self._ends.items():
            behind.moved_to(view.end)
