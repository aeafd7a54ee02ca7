"""The Stack of Amortized MTA: what R0 becomes after each coming eviction, made a page at a time.

R0 aggregates from the head up to a boundary, where R1 begins. For each tier above the leaves a frame holds
the suffix aggregates of the page that the head is under, each reaching up to the boundary. When the head
enters another page of leaves, the frame of tier 1 gives the aggregate of all that is behind that page, and
one scan of the page, seeded with it, gives what R0 will be; and so on upwards. Every page is loaded and
scanned once a tier, so a single eviction is amortised O(1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mta.core.forest import Forest, Piece
from mta.core.page import Page
from mta.core.states import NOTHING, SHORT, Layout, Run


class Frame(NamedTuple):
    """Suffix aggregates in one page: suffixes[i - start] is that of entry i up to the boundary."""

    page: int
    start: int
    stop: int
    suffixes: Run | None
    #: the aggregate from entry `stop` to the boundary
    rest: Any

    def after(self, layout: Layout, entry: int) -> Any:
        """The aggregate from the end of an entry to the boundary."""
        if entry + 1 < self.stop:
            return layout.at(self.suffixes, entry + 1 - self.start)
        return self.rest


class Leaves:
    """The leaves of one page from `start` to `stop`, none behind the boundary."""

    __slots__ = ("_folded", "_suffixes", "page", "rest", "start", "stop")

    def __init__(self, start: int, page: Page, rest: Any) -> None:
        self.start = start
        self.stop = start + len(page.times)
        self.page = page
        #: the aggregate from `stop` to the boundary
        self.rest = rest
        self._suffixes: Run | None = None
        self._folded = False

    def suffixes(self, layout: Layout) -> Run:
        """What R0 is at each leaf: entry i - start is the aggregate from leaf i to the boundary."""
        if self._suffixes is None:
            self._suffixes = layout.suffixes(self.page.states(layout), self.rest)
        return self._suffixes

    def times(self, start: int, stop: int) -> list[Any]:
        """Times of leaves, the oldest last."""
        times: list[Any] = self.page.times[start - self.start : stop - self.start].tolist()
        times.reverse()
        return times

    def part(self, layout: Layout, start: int, stop: int) -> Page:
        """Some of the leaves."""
        return self.page.cut(layout, start - self.start, stop - self.start)

    def total(self, layout: Layout, head: int) -> Any:
        """What R0 is at `head`: folded the first time, since a head that leaps may leave the page next."""
        if self._suffixes is None and not self._folded:
            self._folded = True
            return layout.join(layout.fold(self.part(layout, head, self.stop).states(layout)), self.rest)
        return layout.at(self.suffixes(layout), head - self.start)

    def stack(self, layout: Layout, start: int, stop: int) -> list[Any]:
        """What R0 is at each leaf from `start` to `stop`, to be popped in that order."""
        if self._suffixes is None and stop == self.stop <= start + SHORT:
            return layout.stack(self.part(layout, start, stop).states(layout), self.rest)
        some = layout.cut(self.suffixes(layout), start - self.start, stop - self.start)
        return layout.state_list(some)[::-1]


class Stack:
    def __init__(self, forest: Forest, boundary: int) -> None:
        self._forest = forest
        self.boundary = boundary
        self.leaves: Leaves | None = None
        #: of tier 1 and up
        self._frames: list[Frame] = []
        #: for each tier, the aggregate from its last full page to the boundary, at the time of the flip
        self._right: list[Any] = [NOTHING]

    def copy(self, forest: Forest | None = None) -> Stack:
        """For a batch that may fail half-way: frames and leaves are never changed in place."""
        twin = Stack.__new__(Stack)
        twin._forest, twin.boundary, twin.leaves = forest or self._forest, self.boundary, self.leaves
        twin._frames, twin._right = self._frames, self._right
        return twin

    def seek(self, head: int) -> Leaves:
        """The leaves from `head` on. Moves the boundary to the tail if the head has come to it.

        Changes nothing if a page cannot be read.
        """
        forest = self._forest
        if head >= self.boundary:
            moved = Stack(forest, forest.tail)
            leaves = moved.seek(head)
            self.boundary, self._frames, self._right = moved.boundary, moved._frames, moved._right
        elif self.leaves is not None and self.leaves.start <= head < self.leaves.stop:
            return self.leaves
        else:
            leaves = self._enter(head)
        self.leaves = leaves
        forest.pages.head_at(leaves.start >> forest.shift)
        return leaves

    def _enter(self, head: int) -> Leaves:
        """Makes the frames above the page that holds `head`, and the page's leaves."""
        forest, layout, shift = self._forest, self._forest.layout, self._forest.shift
        pieces, kept = self._spine(head)
        top = len(pieces) - 1
        closed = kept is None  # the top piece ends at the boundary
        right = self._right_of(top) if closed else self._right
        wanted = [piece for piece in pieces if piece.start < piece.stop]
        parts = dict(zip(wanted, forest.read(wanted), strict=True))

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
        return Leaves(head, parts[pieces[0]], rest)

    def _spine(self, head: int) -> tuple[list[Piece], Frame | None]:
        """The entries right of the head's path in each page that has to be read, and the frame above them.

        There is no frame above if the path has come to the page that the boundary is in.
        """
        shift, boundary = self._forest.shift, self.boundary
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
        forest, layout, right = self._forest, self._forest.layout, list(self._right)
        while len(right) <= tier:
            below = len(right) - 1
            stop = self.boundary >> forest.shift * below
            start = stop >> forest.shift << forest.shift
            total = right[-1]
            if start < stop:
                part = forest.read([Piece(below, start, stop)])[0]
                total = layout.join(layout.fold(part.states(layout)), total)
            right.append(total)
        return right
