"""Reading ahead: which pages a head that walks will come to next, and how far to look.

The head walks if it goes from page to page, in the window or in a batch that slides over it. It also walks if
it leaps as far each time, as where large batches have one result each: then what it leaps over is not read.
Pages are asked for several at a time, since a call for many costs little more than a call for one: whenever
half of those that come next are not there. Where the head had to wait all the same, it looks further from
then on.
"""

from __future__ import annotations

from collections.abc import Collection

from mta.paging.page_names import PageId

#: The head walks if it goes on by at most so many pages of leaves, or by as many as the last time.
STRIDE = 4

#: Pages to look ahead at first: this many, but more small ones, up to so many entries.
LEAST, MOST_SMALL, ENTRIES = 8, 64, 1 << 12

#: Pages to look ahead where the head had to wait: this many, but fewer large ones, up to so many entries.
FURTHER, MOST_ENTRIES = 32, 1 << 19


class ReadAhead:
    def __init__(self, shift: int, depth: int | None = None, refill: float = 0.5) -> None:
        self._shift = shift
        #: pages that are read ahead at once, at most
        self.depth = max(LEAST, min(MOST_SMALL, ENTRIES >> shift)) if depth is None else depth
        self._deepest = max(self.depth, min(FURTHER, MOST_ENTRIES >> shift)) if depth is None else depth
        #: the part of them that has to be missing before more are read
        self._refill = refill
        #: the page of leaves that the head is in, and the one from which on to look ahead again
        self._page: int | None = None
        self._due = 0
        #: by how many pages the head went on last, and by how many each time, if it was the same twice
        self._step, self._pace = 0, 1

    def head_at(self, page: int) -> range:
        """The head is in a page of leaves. The pages that it has walked over; none if it does not walk."""
        before, self._page = self._page, page
        if page == before:
            return range(0)
        step = 0 if before is None else page - before
        steady = step == self._step and 0 < step <= 1 << self._shift >> 2
        self._step, self._pace = step, step if steady else 1
        if before is not None and (steady or 0 < step <= STRIDE):
            return range(before, page)
        self._due = page
        return range(0)

    def is_due(self) -> bool:
        """Whether to look ahead now: at every large page, and at some of the small ones."""
        if self._page is None or self._page < self._due or not self.depth:
            return False
        self._due = self._page + max(1, self.depth // 16)
        return True

    def coming(self, tail: int) -> list[PageId]:
        """The pages that the head comes to next, of all tiers, of those that are full at a tail."""
        if self._page is None:
            return []
        # above so many pages of leaves there are one in P of the next tier, one in P^2 …
        leaves = self.depth - (self.depth * self._pace >> self._shift)
        here, tier = self._page, 0
        pages: Collection[int] = range(here + self._pace, here + leaves * self._pace + 1, self._pace)
        names: list[PageId] = []
        while pages:
            full = tail >> self._shift * (tier + 1)
            names += [(tier, number) for number in pages if number < full]
            here, tier = here >> self._shift, tier + 1
            pages = {number >> self._shift: None for number in pages if number >> self._shift > here}
        return names

    def are_enough(self, missing: int, coming: int) -> bool:
        """Whether so many missing pages are worth a call, of so many that the head comes to next."""
        return 0 < missing >= self._refill * coming

    def waited(self) -> None:
        """The head had to wait for a page that was read ahead."""
        self.depth = self._deepest
