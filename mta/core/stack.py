"""The Stack of Amortized MTA: R0 after each coming eviction, made a page at a time.

R0 aggregates from the head up to a boundary, where R1 begins. Each tier above the elements has a frame: the
suffix aggregates of the page that the head is under, each of which reaches up to the boundary. When the head
enters another page of elements, the frame of tier 1 gives the aggregate of all that follows that page, and
one scan of the page, seeded with this aggregate, gives every R0 of the page. The same happens a tier higher
when the head leaves a page there. Every page is read and scanned once a tier, so a single eviction is
amortised O(1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mta.core.log import Log, Piece
from mta.core.page import Page
from mta.core.states import NOTHING, SHORT, Layout, Run
from mta.kinds import State


class Frame(NamedTuple):
    """Suffix aggregates in one page: suffixes[i - start] aggregates from entry i up to the boundary."""

    page: int
    start: int
    stop: int
    suffixes: Run | None
    #: the aggregate from entry `stop` to the boundary
    rest: State

    def after(self, layout: Layout, entry: int) -> Any:
        """The aggregate from the end of an entry to the boundary."""
        if entry + 1 < self.stop:
            return layout.at(self.suffixes, entry + 1 - self.start)
        return self.rest


class HeadPage:
    """The elements of the head's page from `start` to `stop`, all of them before the boundary."""

    __slots__ = ("_folded", "_suffixes", "entries", "rest", "start", "stop")

    def __init__(self, start: int, entries: Page, rest: State) -> None:
        self.start = start
        self.stop = start + len(entries.times)
        self.entries = entries
        #: the aggregate from `stop` to the boundary
        self.rest = rest
        self._suffixes: Run | None = None
        self._folded = False

    def suffixes(self, layout: Layout) -> Run:
        """R0 at each element: entry i - start aggregates from position i to the boundary."""
        if self._suffixes is None:
            self._suffixes = layout.suffixes(self.entries.states(layout), self.rest)
        return self._suffixes

    def times(self, start: int, stop: int) -> list[Any]:
        """Times of elements, the oldest last."""
        times: list[Any] = self.entries.times[start - self.start : stop - self.start].tolist()
        times.reverse()
        return times

    def part(self, layout: Layout, start: int, stop: int) -> Page:
        """Some of the elements."""
        return self.entries.cut(layout, start - self.start, stop - self.start)

    def total(self, layout: Layout, head: int) -> Any:
        """R0 at `head`: folded the first time, since a head that leaps may leave the page next."""
        if self._suffixes is None and not self._folded:
            self._folded = True
            return layout.join(layout.fold(self.part(layout, head, self.stop).states(layout)), self.rest)
        return layout.at(self.suffixes(layout), head - self.start)

    def stack(self, layout: Layout, start: int, stop: int) -> list[Any]:
        """R0 at each element from `start` to `stop`, the oldest last."""
        if self._suffixes is None and stop == self.stop <= start + SHORT:
            return layout.stack(self.part(layout, start, stop).states(layout), self.rest)
        some = layout.cut(self.suffixes(layout), start - self.start, stop - self.start)
        return layout.state_list(some)[::-1]


class Stack:
    def __init__(self, log: Log, boundary: int, layout: Layout) -> None:
        self._log, self._layout = log, layout
        self.boundary = boundary
        self.head_page: HeadPage | None = None
        #: of tier 1 and up
        self._frames: list[Frame] = []
        #: for each tier, the aggregate from its last full page to the boundary, at the time of the flip
        self._right: list[Any] = [NOTHING]

    def copy(self, log: Log | None = None) -> Stack:
        """A stack to walk while this one stays as it is: frames and head pages are never changed in place."""
        twin = Stack.__new__(Stack)
        twin._log, twin._layout = log or self._log, self._layout
        twin.boundary, twin.head_page = self.boundary, self.head_page
        twin._frames, twin._right = self._frames, self._right
        return twin

    def seek(self, head: int, end: int) -> HeadPage:
        """The elements from `head` on. Moves the boundary to `end` if the head has reached the boundary.

        Changes nothing if a page cannot be read.
        """
        if head >= self.boundary:
            moved = Stack(self._log, end, self._layout)
            found = moved.seek(head, end)
            self.boundary, self._frames, self._right = moved.boundary, moved._frames, moved._right
        elif self.head_page is not None and self.head_page.start <= head < self.head_page.stop:
            return self.head_page
        else:
            found = self._enter(head)
        self.head_page = found
        return found

    def _enter(self, head: int) -> HeadPage:
        """Makes the frames above the page that holds `head`, and reads that page."""
        log, layout, shift = self._log, self._layout, self._log.shift
        pieces, kept = self._spine(head)
        top = len(pieces) - 1
        closed = kept is None  # the top piece ends at the boundary
        right = self._right_of(top) if closed else self._right
        wanted = [piece for piece in pieces if piece.start < piece.stop]
        parts = dict(zip(wanted, log.read(wanted), strict=True))

        frames = self._frames[top:] if kept is not None else []
        rest = right[top] if kept is None else kept.after(layout, head >> shift * (top + 1))
        for piece in reversed(pieces[1:]):
            suffixes = None
            if piece.start < piece.stop:
                suffixes = layout.suffixes(parts[piece].states(layout), rest)
            frame = Frame(head >> shift * (piece.tier + 1), piece.start, piece.stop, suffixes, rest)
            frames.insert(0, frame)
            rest = frame.after(layout, head >> shift * piece.tier)
        self._frames, self._right = frames, right
        return HeadPage(head, parts[pieces[0]], rest)

    def _spine(self, head: int) -> tuple[list[Piece], Frame | None]:
        """The entries right of the head's path in each page that has to be read, and the frame above them.

        There is no frame above if the path has come to the page that the boundary is in.
        """
        shift, boundary = self._log.shift, self.boundary
        pieces: list[Piece] = []
        tier = 0
        while True:
            page, start = head >> shift * (tier + 1), head >> shift * tier
            last = boundary >> shift * (tier + 1) == page
            stop = boundary >> shift * tier if last else (page + 1) << shift
            pieces.append(Piece(tier, start if tier == 0 else start + 1, stop))
            if last:
                return pieces, None
            tier += 1
            if tier <= len(self._frames) and self._frames[tier - 1].page == head >> shift * (tier + 1):
                return pieces, self._frames[tier - 1]

    def _right_of(self, tier: int) -> list[Any]:
        """The aggregates right of the last full page of each tier up to `tier`; local when just flipped."""
        log, layout, right = self._log, self._layout, list(self._right)
        while len(right) <= tier:
            below = len(right) - 1
            stop = self.boundary >> log.shift * below
            start = stop >> log.shift << log.shift
            total = right[-1]
            if start < stop:
                part = log.read([Piece(below, start, stop)])[0]
                total = layout.join(layout.fold(part.states(layout)), total)
            right.append(total)
        return right
