"""The log: the stored elements of one stream, and the partial aggregates over them. The paper's log.

The log grows at the young end and drops pages at the old end. It finds positions by time or by a predicate,
and folds ranges. Windows are views of a log (`mta.core.view`): a log may have several.

Position i is the number of the i-th element ever appended. Tier 0 holds the elements. Entry i of tier t
aggregates positions i·P^t … (i+1)·P^t - 1, with P the page size. The paper's levels between two tiers are
inside a page and follow from it. No entry is renumbered and no full page changes, so parent, child and page
are arithmetic: entry i of tier t is in page i // P, and entry i of tier t + 1 aggregates page i of tier t.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, Protocol
from weakref import ref

from mta.core.page import Page, PageSource, Pyramid
from mta.core.states import NOTHING, ColumnLayout, Layout, Run
from mta.core.tail import Tail
from mta.kinds import Row, State, Time
from mta.monoids.base import Array, column_of, joined
from mta.monoids.columns import apart
from mta.times.cuts import Side, before

#: From this page size on, folding page by page beats halving all pages together.
LARGE_PAGE = 256

#: Before all times.
BEFORE_ALL = -(2**63) + 1


class Viewing(Protocol):
    """What a log asks of its views: the oldest position that the view still reads."""

    head: int


class Piece(NamedTuple):
    """Entries `start` to `stop` of a tier, all in one page."""

    tier: int
    start: int
    stop: int


class Fold(NamedTuple):
    """A range of positions to fold in a layout: over whole runs of entries, or over nodes of the trees."""

    start: int
    stop: int
    layout: Layout
    by_nodes: bool


class Growth(NamedTuple):
    """New entries of one tier: the pages that they fill, the rest, and the entries of the tier above."""

    pages: list[Page]
    rest_times: Array
    rest: Run
    last_times: Array
    totals: Run | None


class Log:
    def __init__(self, layout: Layout, pages: PageSource, page_size: int) -> None:
        self.layout = layout
        self.pages = pages
        self.page_size = page_size
        #: log2 of the page size
        self.shift = page_size.bit_length() - 1
        self.mask = page_size - 1
        #: the partial last page of each tier
        self.tails = [Tail(layout, 0)]
        #: the position of the next element: how many elements were ever appended
        self.tail = 0
        #: the time of the youngest element
        self.youngest: Any = BEFORE_ALL
        #: the windows over this log, weakly: a log that nobody uses is freed at once, as it is in no cycle
        self.views: list[ref[Viewing]] = []
        #: what an interrupted commit has yet to change in its views (`view.finish`)
        self.unfinished: Sequence[Any] = ()
        #: whether this is a fork, whose pages count only if the log that was forked becomes it
        self.trial = False

    # -- growing ----------------------------------------------------------------------------------------
    #
    # These methods make new tails, and hand full pages to the page source. The log itself changes in a commit
    # of its views (`mta.core.view`), together with them.

    def appended(self, time: Time, row: Row) -> list[Tail]:
        """The tails with an element that fills a page."""
        layout, tails, tier = self.layout, list(self.tails), 0
        while tier == 0 or len(tails[tier]) + 1 == self.page_size:
            page = tails[tier].filled(time, row)
            time, row = page.times[-1:].tolist()[0], layout.fold(page.states(layout))
            total = layout.gather([row])
            self.pages.check(total)
            self.pages.put(tier, tails[tier].start >> self.shift, page)
            tails[tier] = Tail(layout, tier, tails[tier].start + self.page_size)
            tier += 1
            if tier == len(tails):
                tails.append(self._new_tail(tier))
        tails[tier] = tails[tier].followed(column_of([time]), total)
        return tails

    def extended(self, times: Array, run: Run, head: int = 0) -> list[Tail]:
        """The tails with a run of elements. Pages that end before position `head` are not put.

        Pages and tails have memory of their own: a NumPy view of the run would keep all of it.
        """
        tails, layout = list(self.tails), self.layout
        tier = 0
        while len(times):
            if tier == len(tails):
                tails.append(self._new_tail(tier))
            tail = tails[tier]
            growth = self._growth(tail, times, run)
            if growth.totals is not None:
                self.pages.check(growth.totals)
            behind = head >> self.shift * (tier + 1)
            for number, page in enumerate(growth.pages, tail.start >> self.shift):
                if number >= behind:
                    self.pages.put(tier, number, page.apart(layout))
            if growth.pages:
                tail = Tail(layout, tier, tail.start + (len(growth.pages) << self.shift))
            tails[tier] = tail.followed(apart(growth.rest_times), layout.apart(growth.rest))
            times, run = growth.last_times, growth.totals
            tier += 1
        return tails

    def coming_pages(self, times: Array, run: Run) -> list[tuple[int, Page]]:
        """The pages of elements, by number, that `extended` will make of this run alone."""
        tail = self.tails[0]
        first = -len(tail) % self.page_size
        if self.page_size < LARGE_PAGE:
            return []
        pages = self._pages(0, times[first:], self.layout.cut(run, first, len(times)))
        own = [page.apart(self.layout) for page in pages]
        return list(enumerate(own, tail.start + len(tail) + first >> self.shift))

    def _growth(self, tail: Tail, times: Array, run: Run) -> Growth:
        """What a tail grows to with these entries; changes nothing."""
        size, layout, count = self.page_size, self.layout, len(times)
        first = -len(tail) % size
        if first > count:
            return Growth([], times, run, times[:0], None)
        pages = self._pages(tail.tier, times[first:], layout.cut(run, first, count))
        done = first + len(pages) * size
        last_times, totals = times[first + size - 1 : done : size], []
        if first:
            full = tail.followed_by(times[:first], layout.cut(run, 0, first))
            totals.append(layout.gather([self._fold(full)]))
            last_times = joined((full.times[-1:], last_times))
            pages.insert(0, full)
        if done > first:
            totals.append(
                self._totals(pages[-(done - first) // size :], tail.tier, layout.cut(run, first, done))
            )
        rest = layout.cut(run, done, count)
        return Growth(pages, times[done:], rest, last_times, layout.concat(totals) if totals else None)

    def _pages(self, tier: int, times: Array, run: Run) -> list[Page]:
        size, cut = self.page_size, self.layout.cut
        return [
            Page(tier, times[start : start + size], cut(run, start, start + size))
            for start in range(0, len(times) - size + 1, size)
        ]

    def _totals(self, pages: list[Page], tier: int, run: Run) -> Run:
        """The aggregate of each page, where `run` has the entries of all of them."""
        layout = self.layout
        if self.page_size >= LARGE_PAGE:
            return layout.gather([self._fold(page) for page in pages])
        totals = layout.lift(run) if tier == 0 else run
        for _ in range(self.shift):
            totals = layout.halve(totals)
        return totals

    def _fold(self, page: Page) -> Any:
        return self.layout.fold(page.states(self.layout))

    def _new_tail(self, tier: int) -> Tail:
        # two paths for each view
        self.pages.reserve((2 * (tier + 1) + 4) * max(1, len(self.views)))
        return Tail(self.layout, tier)

    @contextmanager
    def taking_back(self) -> Iterator[None]:
        """Takes pages back if the call fails."""
        try:
            yield
        except BaseException:
            self.take_back()
            raise

    def take_back(self) -> None:
        """Pages that were put for elements which were not appended do not count.

        A fork takes nothing back: its tail is not the window's, and the page source would take the pages
        before it for pages that count.
        """
        if not self.trial:
            self.pages.take_back(self.tail)

    def fork(self, tails: list[Tail] | None = None) -> Log:
        """A log to go on with while this one stays as it is, with these tails if given. It has no views."""
        twin = Log(self.layout, self.pages, self.page_size)
        twin.trial = True
        twin.tails = [tail.fork() for tail in self.tails] if tails is None else tails
        twin.tail, twin.youngest = self.tail, self.youngest
        return twin

    # -- reading ----------------------------------------------------------------------------------------

    def read(self, pieces: Sequence[Piece]) -> list[Page]:
        """The entries of each piece, as a page cut to it; at most one round trip."""
        pages = self._pages_of(pieces)
        return [self._part(pages, *piece) for piece in pieces]

    def _pages_of(self, pieces: Sequence[Piece]) -> dict[tuple[int, int], Page]:
        return self._fetch([(tier, start >> self.shift) for tier, start, _ in pieces])

    def _part(self, pages: dict[tuple[int, int], Page], tier: int, start: int, stop: int) -> Page:
        """Some entries of one of these pages, or of a tail."""
        page = pages.get((tier, start >> self.shift))
        if page is None:
            return self.tails[tier].part(start, stop)
        at = start & (self.page_size - 1)
        return page.cut(self.layout, at, at + stop - start)

    def page(self, tier: int, number: int) -> Page:
        """A page; the tail is the last page of a tier."""
        if self.is_tail(tier, number):
            return self.tails[tier].page()
        return self.pages.fetch([(tier, number)])[0]

    def is_tail(self, tier: int, number: int) -> bool:
        return tier < len(self.tails) and number == self.tails[tier].start >> self.shift

    # -- dropping ---------------------------------------------------------------------------------------

    def drop_behind_views(self) -> None:
        """Drops the pages that lie before the oldest head of all views."""
        views = [view for each in self.views if (view := each()) is not None]
        head = min([view.head for view in views], default=self.tail)
        for tier in range(len(self.tails)):
            number = head >> self.shift * (tier + 1)
            if not number:
                break
            self.pages.drop_below(tier, min(number, self.tails[tier].start >> self.shift))

    # -- aggregates -------------------------------------------------------------------------------------

    def cover(self, start: int, stop: int) -> list[Piece]:
        """Pieces, oldest first, that make up positions start to stop: two paths, O(log n) pages."""
        left: list[Piece] = []
        right: list[Piece] = []
        shift, mask, tier = self.shift, self.page_size - 1, 0
        while start < stop:
            if start >> shift == (stop - 1) >> shift:
                left.append(Piece(tier, start, stop))
                break
            if start & mask:
                edge = ((start >> shift) + 1) << shift
                left.append(Piece(tier, start, edge))
                start = edge
            if stop & mask:
                right.append(Piece(tier, stop >> shift << shift, stop))
            start >>= shift
            stop >>= shift
            tier += 1
        return left + right[::-1]

    def load_cover(self, start: int, stop: int) -> None:
        """Reads the pages that a fold of these positions needs, in one round trip."""
        self._pages_of(self.cover(start, stop))

    def _fetch(self, names: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Page]:
        """The full ones among some pages, by tier and number; at most one round trip."""
        full = [name for name in names if not self.is_tail(*name)]
        return dict(zip(full, self.pages.fetch(full), strict=True)) if full else {}

    def fold(self, start: int, stop: int, layout: Layout | None = None) -> Any:
        """The aggregate of positions start to stop, or NOTHING, over whole runs of entries.

        In a layout of some fields, their states alone.
        """
        pieces = self.cover(start, stop)
        return self._folded(self._pages_of(pieces), pieces, layout or self.layout)

    def _folded(self, pages: dict[tuple[int, int], Page], pieces: Sequence[Piece], layout: Layout) -> Any:
        total = NOTHING
        for piece in pieces:
            total = layout.join(total, layout.fold(self._part(pages, *piece).states(layout)))
        return total

    def folds(self, wanted: Sequence[Fold]) -> list[Any]:
        """The aggregates of several ranges, each of them or NOTHING; at most one round trip for all."""
        covers = [self.cover(each.start, each.stop) for each in wanted]
        pages = self._pages_of(list(chain.from_iterable(covers)))
        return [
            (self._folded_nodes if each.by_nodes else self._folded)(pages, pieces, each.layout)
            for each, pieces in zip(wanted, covers, strict=True)
        ]

    def fold_few(self, start: int, stop: int, layout: Layout) -> Any:
        """`fold` of mostly no element or a single one, which came lately."""
        if start >= stop:
            return NOTHING
        if start + 1 == stop and (row := self.tails[0].single(start)) is not NOTHING:
            return layout.narrow(self.layout.monoid.lift_row(row))
        return self.fold(start, stop, layout)

    def fold_fast(self, start: int, stop: int, layout: Layout) -> Any:
        """`fold` for columns, which take few calls, and `fold_nodes` for objects, where combines cost."""
        return self.folds([fast_fold(start, stop, layout)])[0]

    def fold_nodes(self, start: int, stop: int, layout: Layout | None = None) -> Any:
        """The aggregate of positions start to stop, or NOTHING, over O(log2 n) nodes of the binary trees."""
        pieces = self.cover(start, stop)
        return self._folded_nodes(self._pages_of(pieces), pieces, layout or self.layout)

    def _folded_nodes(
        self, pages: dict[tuple[int, int], Page], pieces: Sequence[Piece], layout: Layout
    ) -> Any:
        mask, total = self.page_size - 1, NOTHING
        for piece in pieces:
            at = piece.start & mask
            nodes = self._pyramid(pages, piece).cover(at, at + piece.stop - piece.start)
            for state in map(layout.narrow, nodes) if layout.is_part else nodes:
                total = layout.join(total, state)
        return total

    def _pyramid(self, pages: dict[tuple[int, int], Page], piece: Piece) -> Pyramid:
        """The nodes over the page, or the tail, that a piece is in."""
        page = pages.get((piece.tier, piece.start >> self.shift))
        return self.tails[piece.tier].pyramid() if page is None else page.pyramid(self.layout)

    # -- searches ---------------------------------------------------------------------------------------

    def first_position(self, head: int, time: Time, side: Side) -> int:
        """The first position from `head` on with a time >= `time` (side left) or > `time` (side right).

        From the top tier down, one page a tier, and none where there is nothing to choose.
        """
        tier, entry = self._in_tails(head, time, side)
        while tier:
            tier -= 1
            first = max(entry << self.shift, head >> self.shift * tier)
            if not tier or first & self.mask != self.mask:
                first += _search(self.page(tier, entry).times, first & self.mask, time, side)
            entry = first
        return entry

    def first_positions(self, head: int, wanted: Sequence[tuple[Time, Side]]) -> list[int]:
        """`first_position` for each of several times and sides; at most one round trip a tier for all."""
        found = [self._in_tails(head, time, side) for time, side in wanted]
        for tier in reversed(range(len(self.tails) - 1)):
            inside = [at for at, (above, _) in enumerate(found) if above == tier + 1]
            firsts = {at: max(found[at][1] << self.shift, head >> self.shift * tier) for at in inside}
            searched = [at for at in inside if not tier or firsts[at] & self.mask != self.mask]
            pages = self._fetch(list(dict.fromkeys((tier, found[at][1]) for at in searched)))
            for at in searched:
                times = pages[tier, found[at][1]].times
                firsts[at] += _search(times, firsts[at] & self.mask, *wanted[at])
            for at, first in firsts.items():
                found[at] = tier, first
        return [position for _, position in found]

    def _in_tails(self, head: int, time: Time, side: Side) -> tuple[int, int]:
        """The highest entry of a tail that has such a position, with its tier; (0, tail) if none has."""
        for tier in reversed(range(len(self.tails))):
            tail = self.tails[tier]
            start = max(tail.start, head >> self.shift * tier)
            if start < tail.stop:
                entry = tail.first_after(start, time, side)
                if entry < tail.stop:
                    return tier, entry
        return 0, self.tail

    def longest_prefix(
        self, head: int, rejects: Callable[[Any], bool], before: State = NOTHING
    ) -> tuple[int, Any]:
        """The first position from `head` on that stays, and the aggregate of the elements before it.

        A position stays if `rejects(before ⊕ aggregate of head … position)` is false. The search goes up the
        left spine to a subtree that stays, and down in it: a page a tier each way, and one round trip for all
        pages of the way up.
        """
        pieces = self.cover(head, self.tail)
        pages, total = self._pages_of(pieces), before
        for piece in pieces:
            entry, total = self._search_piece(pages, piece, total, rejects)
            if entry < piece.stop:
                break
        else:
            return self.tail, total
        tier = piece.tier
        while tier:
            tier -= 1
            # the last entry stays if no other does, however its sum is rounded
            inside = Piece(tier, entry << self.shift, ((entry + 1) << self.shift) - 1)
            entry, total = self._search_piece(self._pages_of([inside]), inside, total, rejects)
        return entry, total

    def _search_piece(
        self,
        pages: dict[tuple[int, int], Page],
        piece: Piece,
        before: State,
        rejects: Callable[[Any], bool],
    ) -> tuple[int, Any]:
        """The first entry of a piece that stays, and the aggregate of all entries before it.

        The runs that are looked at get longer, so the cost is in proportion to the elements that leave.
        """
        layout, (tier, start, stop), step = self.layout, piece, 8
        while start < stop:
            end = min(stop, start + step)
            states = self._part(pages, tier, start, end).states(layout)
            total = layout.join(before, layout.fold(states))
            if not rejects(total):
                return self._search_run(states, start, before, rejects)
            start, before, step = end, total, step if layout.monoid.grows else 4 * step
        return stop, before

    def _search_run(
        self, states: Run, start: int, before: State, rejects: Callable[[Any], bool]
    ) -> tuple[int, Any]:
        """The same in a run in which one entry stays, by halves and not entry by entry."""
        layout, low, high = self.layout, 0, self.layout.length(states) - 1
        while low < high:
            middle = (low + high) >> 1
            total = layout.join(before, layout.fold(layout.cut(states, low, middle + 1)))
            if rejects(total):
                low, before = middle + 1, total
            else:
                high = middle
        return start + low, before

    def shortest_suffix(self, head: int, after: State, enough: Callable[[Any], Any]) -> int:
        """The last position from `head` on whose aggregate to the tail, with `after`, is enough; else `head`.

        `after` is an aggregate behind the tail, or NOTHING; the tail itself if `after` alone is enough. The
        search comes from the young end, so it adds up only elements that stay. The pages of both paths are
        read in one round trip.
        """
        if after is not NOTHING and enough(after):
            return self.tail
        pieces = self.cover(head, self.tail)
        pages = self._pages_of(pieces)
        for piece in reversed(pieces):
            entry, after = self._search_back(pages, piece, after, enough)
            if entry >= piece.start:
                break
        else:
            return head
        tier = piece.tier
        while tier:
            tier -= 1
            # the first entry is enough if no other is
            inside = Piece(tier, (entry << self.shift) + 1, (entry + 1) << self.shift)
            entry, after = self._search_back(self._pages_of([inside]), inside, after, enough)
        return entry

    def _search_back(
        self, pages: dict[tuple[int, int], Page], piece: Piece, after: State, enough: Callable[[Any], Any]
    ) -> tuple[int, Any]:
        """The last entry from which on the aggregate is enough, and the aggregate behind that entry."""
        first = piece.start & -self.page_size
        pyramid = self._pyramid(pages, piece)
        found, after = pyramid.last_with(piece.start - first, piece.stop - first, after, enough)
        return first + found, after


def count_first(layout: Layout, aggregates: Run, holds: Callable[[Any], Any]) -> int:
    """For how many of the first aggregates a question holds, which is monotone."""
    return bisect_left(
        range(layout.length(aggregates)), True, key=lambda at: not holds(layout.at(aggregates, at))
    )


def fast_fold(start: int, stop: int, layout: Layout) -> Fold:
    """A fold over runs for columns, which take few calls, and over nodes for objects, where combines cost."""
    return Fold(start, stop, layout, not isinstance(layout, ColumnLayout))


def _search(times: Array, start: int, time: Time, side: Side) -> int:
    """How many entries from `start` on come before the first such time."""
    return before(times[start:], time, side)
