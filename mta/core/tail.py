"""The partial last page of one tier: the paper's Tails."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

from mta.core.page import Page, Pyramid
from mta.core.states import NOTHING, Layout, Run
from mta.kinds import State, Time
from mta.monoids.base import Array, column_of, joined
from mta.times.cuts import Side, before

#: This many runs of about one length are joined. So there are never many runs, and the time of a call does
#: not depend on the number of calls in which the entries came.
ALIKE = 16


class Tail:
    """The entries of a tier that do not fill a page yet, appended one by one or a run at a time.

    Single entries are kept in plain lists, which grow fastest, and become a run when a run is needed.
    """

    __slots__ = ("_gather", "_layout", "_packed", "_pyramid", "_runs", "entries", "start", "tier", "times")

    def __init__(self, layout: Layout, tier: int, start: int = 0) -> None:
        self._layout = layout
        self.tier = tier
        self._gather: Callable[[list[Any]], Run] = layout.gather if tier else layout.gather_rows
        #: the absolute number of the first entry; a multiple of the page size
        self.start = start
        self.entries: list[Any] = []
        self.times: list[Any] = []
        self._runs: list[tuple[Array, Run]] = []
        self._packed = 0
        self._pyramid: Pyramid | None = None

    def __len__(self) -> int:
        return self._packed + len(self.entries)

    @property
    def stop(self) -> int:
        return self.start + self._packed + len(self.entries)

    def followed(self, times: Array, run: Run) -> Tail:
        """A tail with more entries, which fill no page; this tail stays as it is."""
        twin = Tail(self._layout, self.tier, self.start)
        twin._runs = self._packed_runs()
        twin._packed = len(self)
        twin._pyramid = self._pyramid
        if len(times):
            twin._runs.append((times, run))
            twin._packed += len(times)
        while len(twin._runs) >= ALIKE and len(twin._runs[-ALIKE][0]) < ALIKE * len(twin._runs[-1][0]):
            twin._runs[-ALIKE:] = [self._joined(twin._runs[-ALIKE:])]
        return twin

    def fork(self) -> Tail:
        """A tail to go on with while this tail stays as it is. The fork takes the nodes, which grow."""
        twin = self.followed(column_of([]), None)
        self._pyramid = None
        return twin

    def give_up_nodes(self) -> None:
        """Leaves the nodes to a longer tail that was made of this one, for which they grow."""
        self._pyramid = None

    def page(self) -> Page:
        """All entries, as a page that is not full."""
        self._pack()
        if len(self._runs) != 1:
            self._runs = [self._joined(self._runs)]
        return Page(self.tier, *self._runs[0])

    def filled(self, time: Time, entry: State) -> Page:
        """The page that one more entry fills; the tail stays as it is."""
        if not self._runs:
            return Page(self.tier, column_of([*self.times, time]), self._gather([*self.entries, entry]))
        return Page(
            self.tier, *self._joined([*self._packed_runs(), (column_of([time]), self._gather([entry]))])
        )

    def _joined(self, runs: list[tuple[Array, Run]]) -> tuple[Array, Run]:
        if not runs:
            return column_of([]), self._gather([])
        return joined([times for times, _ in runs]), self._layout.concat([run for _, run in runs])

    def part(self, start: int, stop: int) -> Page:
        """Some of the entries (by absolute number), without a copy of the rest."""
        first, last, begin = start - self.start, stop - self.start, 0
        parts: list[tuple[Array, Run]] = []
        for times, run in self._runs:
            end = begin + len(times)
            if first < end and begin < last:
                page = Page(self.tier, times, run)
                page = page.cut(self._layout, max(first - begin, 0), min(last, end) - begin)
                parts.append((page.times, page.run))
            begin = end
        if last > begin:
            young = slice(max(first - begin, 0), last - begin)
            parts.append((column_of(self.times[young]), self._gather(self.entries[young])))
        if len(parts) > 1 and 2 * (last - first) > len(self):  # most entries: the runs stay joined then
            return self.page().cut(self._layout, first, last)
        return Page(self.tier, *(parts[0] if len(parts) == 1 else self._joined(parts)))

    def single(self, number: int) -> Any:
        """An entry by its number, if it came alone and is in no run yet; else NOTHING."""
        at = number - self.start - self._packed
        return self.entries[at] if 0 <= at < len(self.entries) else NOTHING

    def first_after(self, start: int, time: Time, side: Side) -> int:
        """The first entry from `start` on with a time >= `time` (side left) or > `time` (side right)."""
        begin = self.start
        for times, _ in self._runs:
            at, end = max(start - begin, 0), begin + len(times)
            if at < len(times) and before(times[-1:], time, side) == 0:
                return begin + at + before(times[at:], time, side)
            begin = end
        search = bisect_left if side == "left" else bisect_right
        return begin + search(self.times, time, max(start - begin, 0))

    def pyramid(self) -> Pyramid:
        """The complete nodes over the entries; the pyramid grows with the tail."""
        if self._pyramid is None:
            self._pyramid = Pyramid(self._layout)
        missing = len(self) - len(self._pyramid)
        if missing == 1 and self.entries:
            entry = self.entries[-1]
            state = self._layout.monoid.lift_row(entry) if self.tier == 0 else entry
            self._pyramid.push(state)
        elif missing:
            young = self.part(self.start + len(self._pyramid), self.stop)
            self._pyramid.add(young.states(self._layout))
        return self._pyramid

    def followed_by(self, times: Array, run: Run) -> Page:
        """A page of the entries and more; the tail stays as it is."""
        if not len(self):
            return Page(self.tier, times, run)
        page = self.page()
        return Page(self.tier, joined((page.times, times)), self._layout.concat([page.run, run]))

    def _pack(self) -> None:
        count = len(self.entries)
        if count:
            packed = self._packed_runs()
            # nothing is called from here on, so that an interrupt comes before or after
            self._runs = packed
            self._packed += count
            del self.entries[:count]
            del self.times[:count]

    def _packed_runs(self) -> list[tuple[Array, Run]]:
        if not self.entries:
            return list(self._runs)
        return [*self._runs, (column_of(self.times), self._gather(list(self.entries)))]
