"""The end of a view that ends before the tail. The page of elements there is kept, as the head's page is."""

from __future__ import annotations

from typing import Any

from mta.core.log import Log, Piece
from mta.core.page import Follower, Page
from mta.core.states import NOTHING, Layout
from mta.kinds import Time
from mta.times.cuts import Side, before


class End:
    """Searches and folds elements behind the end of a view, which mostly moves within a page.

    The page is kept, so an end that moves within it reads nothing, whatever is read meanwhile.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        #: has pages read ahead of the end
        self.follower: Follower = log.pages.follow()
        #: full pages of elements by number: that of the end, and those that the end is about to move to
        self._kept: dict[int, Page] = {}

    def _page(self, position: int) -> Page | None:
        """The page of an element, or None for the tail, which is in the process anyway."""
        log, number = self._log, position >> self._log.shift
        page = self._kept.get(number)
        if page is None and not log.is_tail(0, number):
            page = self._kept[number] = log.page(0, number)
        return page

    def first_position(self, start: int, time: Time, side: Side) -> int:
        """`Log.first_position` in a log that has an element from `start` on, mostly close behind `start`."""
        log, position = self._log, start
        for _ in range(2):
            page = self._page(position)
            if page is None:
                break
            at = position & log.mask
            found = before(page.times[at:], time, side)
            position += found
            if at + found < log.page_size:
                return position
        return log.first_position(position, time, side)

    def fold(self, start: int, stop: int, layout: Layout) -> Any:
        """`Log.fold` of mostly no element or a single one."""
        log, total = self._log, NOTHING
        while start < stop:
            page, edge = self._page(start), ((start >> log.shift) + 1) << log.shift
            if page is None or (start == edge - log.page_size and edge < stop):
                return layout.join(total, log.fold_few(start, stop, layout))
            part = self._part(page, start, min(edge, stop))
            total = layout.join(total, layout.fold(part.states(layout)))
            start = min(edge, stop)
        return total

    def _part(self, page: Page, start: int, stop: int) -> Page:
        at = start & self._log.mask
        return page.cut(self._log.layout, at, at + stop - start)

    def time(self, position: int) -> Any:
        """The time of an element."""
        page = self._page(position)
        if page is None:
            page = self._log.read([Piece(0, position, position + 1)])[0]
        else:
            page = self._part(page, position, position + 1)
        return page.times.tolist()[0]

    def moved_to(self, position: int) -> None:
        """The end of the view is at a position, after a commit."""
        number = position >> self._log.shift
        self.follower.head_at(number)
        if len(self._kept) > 1 or number not in self._kept:
            self._kept = {each: page for each, page in self._kept.items() if each == number}
