"""The aggregate store over a key-value store: slices that cannot change are leaves of an AmortizedMTA.

In the process are the slices within the lateness, and up to `local` of those before, so that short windows
need no page. All older ones page out, and a window of any length is one range of the same tree.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import Any

from mta.algorithms import AmortizedMTA
from mta.core.states import NOTHING
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.slicing.aggregate_store.base import AggregateStore
from mta.slicing.aggregate_store.memory import Lazy
from mta.slicing.slices import Slice, Slices, folded, states_of
from mta.slicing.windows import EdgeWindow, Session, Time, Window, before, is_counted

#: How many slices that cannot change stay in the process.
LOCAL = 1024


def check_local(local: Any) -> int:
    if isinstance(local, bool) or not isinstance(local, int):
        raise TypeError(f"local is a whole number of slices, got {local!r}")
    if local < 0:
        raise ValueError(f"local is 0 or more slices, got {local}")
    return local


def check_pages(name: str, kind: Window) -> None:
    """Refuses a query for which slices in a store would have to be told apart by more than time."""
    if not isinstance(kind, Session) and (not isinstance(kind, EdgeWindow) or is_counted(kind)):
        raise ValueError(
            f"the query {name!r} is {kind!r}, whose windows a late tuple shifts, and slices in a store do "
            'not change: take store="lazy" or "eager" for it'
        )


class Paged(AggregateStore):
    """Aggregates over leaves, and over slices behind them."""

    #: leaves are told apart by queries that come later
    joins = False

    def __init__(self, monoid: Monoid, window: AmortizedMTA, local: int) -> None:
        super().__init__(monoid)
        #: a leaf's time is that of the first tuple in its slice
        self.window = window
        self._local = local
        #: aggregates of the slices that are in the process
        self._lazy = Lazy(monoid)

    def fold(self, book: Slices, start: int, stop: int) -> Any:
        return self._lazy.fold(book, start, stop)

    def between(self, book: Slices, start: Time, end: Time) -> Any:
        known = self.known(book)
        first = max(bisect_left(book.firsts, start), known)
        stop = bisect_left(book.firsts, end)
        states = []
        youngest = self.window.youngest
        if youngest is not None and start <= youngest:
            older = self.window.range_query(start, min(before(end), youngest))
            if older is not NOTHING:
                states.append(older)
        if first < stop:
            states.append(self.fold(book, first, stop))
        return folded(self.monoid, states) if states else NOTHING

    def has_before(self, book: Slices, time: Time) -> bool:  # noqa: ARG002
        youngest = self.window.youngest
        return youngest is not None and bool(time <= youngest)

    def known(self, book: Slices) -> int:
        """How many of the first slices are leaves already: an interrupt may come before they are dropped."""
        youngest = self.window.youngest
        return 0 if youngest is None else bisect_right(book.firsts, youngest)

    def page_out(self, book: Slices, final: int) -> int:
        """Makes leaves of slices, of which so many cannot change; returns how many are to be dropped."""
        count = final - self._local
        if count < max(self._local // 2, 1):
            return self.known(book)
        start = self.known(book)
        if start < count:
            older = book.slices[start:count]
            self.window.extend(self._leaves(older), [each.first for each in older])
        return max(count, start)

    def let_go(self, needed: Time) -> None:
        """Evicts the leaves before a time."""
        oldest = self.window.oldest
        if oldest is not None and oldest < needed:
            self.window.evict_until(before(needed) if needed < math.inf else self.window.youngest)

    def _leaves(self, slices: list[Slice]) -> Any:
        states = states_of(self.monoid, slices)
        if not isinstance(self.monoid, ColumnarMonoid):
            return states
        columns = self.monoid.columns_of(states)
        return columns[0] if len(columns) == 1 else columns
