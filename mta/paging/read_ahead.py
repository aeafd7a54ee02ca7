"""Which pages the head of a view comes to next, and how many of them to read ahead.

A head walks if it goes from page to page, in its window or in a batch that slides over it. It also walks if
it leaps by the same distance each time, as under large batches with one result each: then the pages that it
leaps over are not read. Pages are read ahead several at a time, since a call for many costs little more than
a call for one: a call is made when half of the pages to come are missing. If the head still has to wait for a
page, more pages are read ahead from then on.
"""

from __future__ import annotations

from collections.abc import Collection

from mta.paging.page_names import PageId

#: The head walks if it moves by at most this many pages of elements, or by as many as the last time.
STRIDE = 4

#: Pages to read ahead at first: `LEAST`; more of small pages, up to `ENTRIES` in at most `MOST_SMALL` pages.
LEAST, MOST_SMALL, ENTRIES = 8, 64, 1 << 12

#: Pages to read ahead once the head had to wait: `FURTHER`; fewer of large pages, up to `MOST_ENTRIES`.
FURTHER, MOST_ENTRIES = 32, 1 << 19


class ReadAhead:
    """Knows where the head of one view is, and how it moves."""

    def __init__(self, shift: int, depth: int | None = None, refill: float = 0.5) -> None:
        self._shift = shift
        #: the most pages that are read ahead
        self.depth = max(LEAST, min(MOST_SMALL, ENTRIES >> shift)) if depth is None else depth
        self._deepest = max(self.depth, min(FURTHER, MOST_ENTRIES >> shift)) if depth is None else depth
        #: the part of the pages to come that has to be missing before more are read
        self._refill = refill
        #: the page of elements that the head is in, and the first page at which to look ahead again
        self._page: int | None = None
        self._due = 0
        #: by how many pages the head moved last, and by how many it moves each time, if it was the same twice
        self._step, self._pace = 0, 1

    def head_at(self, page: int) -> range:
        """Notes the page of elements that the head is in; returns the pages that it has walked over.

        A head that does not walk has walked over none.
        """
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
        """The pages of all tiers that the head comes to next, of the pages that are full at a tail."""
        if self._page is None:
            return []
        # for P pages of a tier that come next there is one of the tier above
        elements = self.depth - (self.depth * self._pace >> self._shift)
        here, tier = self._page, 0
        pages: Collection[int] = range(here + self._pace, here + elements * self._pace + 1, self._pace)
        names: list[PageId] = []
        while pages:
            full = tail >> self._shift * (tier + 1)
            names += [(tier, number) for number in pages if number < full]
            here, tier = here >> self._shift, tier + 1
            pages = {number >> self._shift: None for number in pages if number >> self._shift > here}
        return names

    def are_enough(self, missing: int, coming: int) -> bool:
        """Whether some missing pages are worth a call, where `coming` pages come next."""
        return 0 < missing >= self._refill * coming

    def comes_to(self, tier: int, number: int) -> bool:
        """Whether the head is in or below a page, or comes to it within the pages to read ahead."""
        here = (self._page or 0) >> self._shift * tier
        return here <= number < here + self.depth

    def waited(self) -> None:
        """Reads further ahead from now on: the head had to wait for a page that was read ahead."""
        self.depth = self._deepest
