"""Pages of a window in a store: a buffer on the way out, a cache on the way in, a reaper behind every head.

Full pages wait in a bounded buffer and are written in the background. Pages that a head comes to next are
read ahead in the background. The caller waits for the store only on a miss, and when the buffer is full.
"""

from __future__ import annotations

from collections.abc import Sequence

from mta.core.page import Page
from mta.core.states import Layout
from mta.paging.background import Lane, pool_of
from mta.paging.bounds import AS_IS, Bounds
from mta.paging.buffer import Buffer, worth_a_call
from mta.paging.cache import Cache
from mta.paging.page_names import FirstPages, PageId, WriterKeys
from mta.paging.page_writer import PageWriter
from mta.paging.read_ahead import ReadAhead
from mta.paging.reaper import Reaper
from stores import Store


class Follower:
    """Follows the head of one view, and has the pages read ahead that it comes to next."""

    def __init__(self, head: ReadAhead, cache: Cache, buffer: Buffer) -> None:
        self._head, self._cache, self._buffer = head, cache, buffer

    def head_at(self, page: int) -> None:
        """The head of the view, or of a batch that slides over it, is in a page of elements."""
        walked = self._head.head_at(page)
        if walked:
            self._cache.walked_over([(0, number) for number in walked])
            if self._head.is_due():
                unwritten, coming = self._buffer.pages, self._head.coming(self._buffer.tail)
                self._cache.read_ahead([name for name in coming if name not in unwritten], self._head)


class StoredPages:
    """The source of pages of a log with a store.

    Writing and deleting are done one after the other in one lane, and reading ahead in another.
    """

    def __init__(
        self,
        store: Store,
        window: str,
        layout: Layout,
        keys: WriterKeys,
        shift: int,
        bounds: Bounds = AS_IS,
    ) -> None:
        pool = pool_of(store)
        self._shift, self._bounds = shift, bounds
        self._writer, self._reader = Lane(pool), Lane(pool)
        self._first: FirstPages = {}
        self._page_writer = PageWriter(store, window, layout, keys, shift)
        self._reaper = Reaper(self._page_writer, self._first, self._writer)
        self._cache = Cache(self._page_writer, self._first, self._reader)
        self._buffer = Buffer(
            *(self._page_writer, self._cache, self._reaper, self._writer, self._first),
            together=worth_a_call(shift),
        )
        if bounds.buffered is not None:
            self._buffer.hold(bounds.pages_buffered(shift))
        #: pages that were asked for, and those of them that were in the process or on their way to it
        self.asked = 0
        self.hits = 0
        # these calls of a page source are those of one part
        self.check = layout.check_storable_states
        self.put, self.settle, self.take_back = self._buffer.put, self._buffer.settle, self._buffer.take_back
        self.admit, self.reserve = self._buffer.admit, self._cache.reserve
        self.check_present = self._page_writer.check_present

    # -- out --------------------------------------------------------------------------------------------

    def put_early(self, pages: Sequence[tuple[int, Page]]) -> None:
        """Starts to write pages of elements that are about to be appended, so that no checkpoint waits."""
        self._buffer.put_early([((0, number), page) for number, page in pages])

    def flush(self, tail: int) -> None:
        """Writes all pages of the elements before `tail` that are still wanted."""
        self._buffer.mend(tail)
        self._buffer.flush()

    # -- in ---------------------------------------------------------------------------------------------

    def fetch(self, wanted: Sequence[PageId]) -> list[Page]:
        found: dict[PageId, Page] = {}
        missing = []
        for name in dict.fromkeys(wanted):
            # a page that is written meanwhile leaves the buffer when it is in the cache
            page = self._buffer.pages.get(name) or self._cache.get(name)
            if page is None:
                missing.append(name)
            else:
                found[name] = page
        self.asked += len(found) + len(missing)
        self.hits += len(found)
        if missing:
            found.update(self._cache.read(missing))
        return [found[name] for name in wanted]

    def follow(self) -> Follower:
        """A follower of one view's head. All followers share the cache."""
        bounds, shift = self._bounds, self._shift
        if bounds.cached is None:
            head = ReadAhead(shift)
        else:
            head = ReadAhead(shift, bounds.pages_cached(shift), bounds.refill)
        self._cache.follow(head)
        return Follower(head, self._cache, self._buffer)

    def resume(self, first: int, head: int, tail: int, tiers: int) -> None:
        """Goes on with the pages of the elements from `first` to `tail`, which are in the store already.

        Pages before `head` are behind every head.
        """
        self._buffer.tail = tail
        self._page_writer.resume()
        for tier in range(tiers):
            shift = self._shift * (tier + 1)
            self._first[tier] = head >> shift
            self._reaper.resume(tier, range(first >> shift, tail >> shift))

    # -- away -------------------------------------------------------------------------------------------

    def drop_below(self, tier: int, number: int) -> None:
        """Drops the pages of a tier before a number: they are behind every head."""
        before = self._first.get(tier, 0)
        if number > before:
            self._first[tier] = number
            self._buffer.drop_below(tier, number)
            self._cache.drop_below(tier, number)
            self._reaper.dropped(tier, number - before)

    def committed(self, unneeded: list[str]) -> None:
        """Deletes, in the background, what no version names after a commit; `unneeded` are keys of parts."""
        self._buffer.keep_none_back()
        self._reaper.give_up(unneeded)
        self._reaper.start()

    def check_deletions(self) -> None:
        """Raises the store's error if it goes on refusing to delete: the store would fill up unseen."""
        self._reaper.check()

    def delete_behind(self) -> None:
        """Deletes pages behind every head that no version names, before the window is given up."""
        self._reaper.finish()

    def forget(self, unneeded: Sequence[str] = ()) -> None:
        """Deletes all pages that no version names, and parts: the window is given up."""
        self._buffer.clear()
        self._reaper.give_up(unneeded)
        self._reaper.clear_away()

    def close(self) -> None:
        """Ends the background work, and drops the pages in memory."""
        self._cache.stop()
        self._writer.finish()
        self._cache.close()
