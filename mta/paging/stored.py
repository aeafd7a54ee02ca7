"""Pages of a window in a store: a buffer on the way out, a cache on the way in, and a reaper behind the head.

Full pages wait in a bounded buffer and are written in the background; pages that the head will come to are
read ahead in the background; the caller waits for the store only on a miss, and when the buffer is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from mta.core.page import Page
from mta.core.states import Layout, Run
from mta.paging.background import Lane, pool_of
from mta.paging.bounds import AS_IS, Bounds
from mta.paging.buffer import Buffer, worth_a_call
from mta.paging.cache import Cache
from mta.paging.page_names import Behind, Keys, PageId
from mta.paging.page_reader import Shelf
from mta.paging.read_ahead import ReadAhead
from mta.paging.reaper import Reaper
from stores import Store


class Naming(Protocol):
    """A version of a window, which names what belongs to it."""

    def keys(self, name: str) -> Iterable[str]: ...


class StoredPages:
    """The source of pages of a window with a store.

    Writing and deleting are done one after the other in one lane, and reading ahead in another.
    """

    def __init__(
        self,
        store: Store,
        window: str,
        layout: Layout,
        keys: Keys,
        shift: int,
        bounds: Bounds = AS_IS,
    ) -> None:
        pool = pool_of(store)
        self._window, self._layout, self._shift = window, layout, shift
        self._writer, self._reader = Lane(pool), Lane(pool)
        self._shelf = Shelf(store, window, layout, keys, shift)
        self._behind = Behind()
        self._reaper = Reaper(self._shelf, self._behind, self._writer)
        self._ahead = ReadAhead(shift, bounds.pages_cached(shift), bounds.refill)
        self._cache = Cache(self._shelf, self._behind, self._ahead, self._reader)
        self._buffer = Buffer(
            self._shelf, self._cache, self._reaper, self._writer, together=worth_a_call(shift)
        )
        self._buffer.hold(bounds.pages_buffered(shift))
        #: pages that were asked for, and those of them that were in the process or on their way to it
        self.asked = 0
        self.hits = 0

    # -- out --------------------------------------------------------------------------------------------

    def check(self, states: Run) -> None:
        self._layout.check_storable_states(states)

    def put(self, tier: int, number: int, page: Page) -> None:
        if (tier, number) not in self._behind:
            self._buffer.put((tier, number), page)

    def put_early(self, pages: Sequence[tuple[int, Page]]) -> None:
        """Starts to write pages of leaves that are about to come, so that no checkpoint waits for them."""
        self._buffer.put_early([((0, number), page) for number, page in pages])

    def settle(self, tail: int) -> None:
        self._buffer.settle(tail)

    def take_back(self, tail: int) -> None:
        self._buffer.take_back(tail)

    def admit(self, tail: int) -> None:
        """Waits until the buffer has room. Raises the store's error if it cannot be emptied."""
        self._buffer.mend(tail)
        self._buffer.make_room()

    def flush(self, tail: int) -> None:
        """Writes all pages of elements before `tail` that are still wanted."""
        self._buffer.mend(tail)
        self._buffer.flush()

    # -- in ---------------------------------------------------------------------------------------------

    def fetch(self, wanted: Sequence[PageId]) -> list[Page]:
        found: dict[PageId, Page] = {}
        missing = []
        for name in dict.fromkeys(wanted):
            # one that is written meanwhile leaves the buffer when it is in the cache
            page = self._buffer.get(name) or self._cache.get(name)
            if page is None:
                missing.append(name)
            else:
                found[name] = page
        self.asked += len(found) + len(missing)
        self.hits += len(found)
        if missing:
            found.update(self._cache.read(missing))
        return [found[name] for name in wanted]

    def head_at(self, page: int) -> None:
        walked = self._ahead.head_at(page)
        if walked:
            self._cache.walked_over([(0, number) for number in walked])
            if self._ahead.is_due():
                coming = self._ahead.coming(self._buffer.tail)
                self._cache.read_ahead([name for name in coming if name not in self._buffer])

    def reserve(self, pages: int) -> None:
        self._cache.reserve(pages)

    def resume(self, tail: int, first: int, tiers: int) -> None:
        """The pages of leaves from `first` to `tail` are in the store already."""
        self._buffer.tail = tail
        self._shelf.resume()
        for tier in range(tiers):
            shift = self._shift * (tier + 1)
            self._reaper.resume(tier, range(first >> shift, tail >> shift))

    # -- away -------------------------------------------------------------------------------------------

    def drop_below(self, tier: int, number: int) -> None:
        if self._behind.move(tier, number):
            self._buffer.drop_below(tier, number)
            self._cache.drop_below(tier, number)
            self._reaper.behind_the_head(tier)

    def committed(self, unneeded: list[str]) -> None:
        """A version was committed, others were given up, and with them some keys."""
        self._buffer.keep_none_back()
        self._reaper.doom(unneeded)
        self._reaper.start()

    def check_deletions(self) -> None:
        """Raises the store's error if it goes on refusing to delete: the store would fill up unseen."""
        self._reaper.check()

    def check_present(self, version: Naming) -> None:
        """Before a version is committed: that what it names is there, if the store may have lost some."""
        self._shelf.check_present(lambda: version.keys(self._window))

    def delete_behind(self) -> None:
        """Deletes what is behind the head and no version names, before the window is given up."""
        self._reaper.finish()

    def forget(self) -> None:
        """Deletes what no version names."""
        self._buffer.clear()
        self._reaper.clear_away()

    def close(self) -> None:
        """Ends the background work, and lets go of the pages in memory."""
        self._cache.stop()
        self._writer.finish()
        self._cache.close()
