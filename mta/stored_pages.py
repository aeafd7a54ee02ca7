"""Pages of a window in a store: the paper's Buffer on the way out, its Cache on the way in.

Full pages wait in a bounded buffer and are written in the background; pages that will be needed are read
ahead in the background; the caller waits for the store only on a miss, and when the buffer is full.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, Protocol, TypeVar

from mta.codec import decode_page, encode_page
from mta.errors import PagesLost
from mta.pages import Page
from mta.ranges import without
from mta.states import Layout
from stores import Store, StoreError, page_key

P = ParamSpec("P")
R = TypeVar("R")

PageId = tuple[int, int]

#: Youngest full pages that are kept back, so that a window which fits in them never touches the store.
HELD = 2

#: Pages behind the head are deleted once so many have come together.
DELETE_AT_LEAST = 16


class Keys(Protocol):
    """Which keys the pages of a window have in its store."""

    def prefix_to_read(self, tier: int, number: int) -> str: ...

    def prefix_to_write(self, tier: int) -> str: ...

    def ranges(self, tier: int, start: int, stop: int) -> list[tuple[str, int, int]]:
        """The prefixes that pages start to stop of a tier have, with the range of each."""

    def needed(self, tier: int) -> list[range]:
        """The pages of a tier that versions name: those that are retained, and those that may be."""

    def check_hold(self) -> None:
        """Raises Fenced if another writer has taken the window over."""

    def knows_root(self) -> bool:
        """Whether the root is as this writer left it: nobody took over, and no commit is in doubt."""


class StoredPages:
    def __init__(
        self,
        store: Store,
        window: str,
        layout: Layout,
        keys: Keys,
        *,
        buffered: int = 8,
        cached: int = 8,
    ) -> None:
        self._store, self._window, self._layout, self._keys = store, window, layout, keys
        self._buffered = buffered
        self._cached = cached
        self._lock = threading.Lock()
        #: full pages that are not in the store yet, oldest first
        self._buffer: OrderedDict[PageId, Page] = OrderedDict()
        self._cache: OrderedDict[PageId, Page] = OrderedDict()
        self._arriving: dict[PageId, Future[dict[PageId, Page]]] = {}
        #: for each tier, the number that all pages which are still wanted start at …
        self._dead: dict[int, int] = {}
        #: … and the ranges of those that may be in the store, oldest first
        self._stored: dict[int, list[range]] = {}
        #: pages that were asked for, and those of them that were in the process or on their way to it
        self.asked = 0
        self.hits = 0
        #: pages that were handed over before their elements were in the window
        self._early: set[PageId] = set()
        #: how many of the youngest pages are kept back
        self._hold = HELD
        self._writer = _Background("mta-writer")
        self._reader = _Background("mta-reader")
        self._writing: Future[None] | None = None
        self._deleting: Future[None] | None = None

    # -- out --------------------------------------------------------------------------------------------

    def put(self, tier: int, number: int, page: Page) -> None:
        with self._lock:
            if number < self._dead.get(tier, 0):
                return
            if (tier, number) in self._early:
                self._early.discard((tier, number))
                return
            self._buffer[tier, number] = page
            ready = len(self._buffer) > self._hold
        if ready:
            self._start_writing()

    def put_early(self, pages: Sequence[tuple[int, Page]]) -> None:
        """Starts to write pages of leaves that are about to be added, so that no checkpoint waits for them.

        Each is put again when its elements are in. If they do not come, the pages are taken back.
        """
        with self._lock:
            for number, page in pages:
                self._buffer[0, number] = page
                self._early.add((0, number))
        if pages:
            self._start_writing()

    def take_back(self) -> None:
        """Forgets early pages; what was written of them is written again when its number comes."""
        with self._lock:
            for name in self._early:
                self._buffer.pop(name, None)
                self._cache.pop(name, None)
            self._early.clear()

    def admit(self) -> None:
        """Waits until the buffer has room. Raises the store's error if it cannot be emptied."""
        if len(self._buffer) <= self._buffered:
            return
        if self._writing is not None:
            self._writing.exception()
        if len(self._buffer) > self._buffered:
            self._write(self._hold)

    def flush(self) -> None:
        """Writes all pages that are still wanted."""
        if self._writing is not None:
            self._writing.exception()
        self._write(0)

    def _start_writing(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = self._writer.submit(self._write, self._hold)

    def _write(self, held: int) -> None:
        """Writes pages, oldest first, until `held` are left, a few at a time so that memory is bounded."""
        while True:
            with self._lock:
                count = min(len(self._buffer) - held, self._buffered)
                batch = [item for item, _ in zip(self._buffer.items(), range(count), strict=False)]
            if not batch:
                return
            encoded = {
                page_key(self._keys.prefix_to_write(tier), number): encode_page(
                    self._layout, self._window, number, page
                )
                for (tier, number), page in batch
            }
            with self._lock:
                for tier, number in (name for name, _ in batch):
                    _append(self._stored.setdefault(tier, []), number)
            self._store.put_many(encoded)
            with self._lock:
                for name, page in batch:
                    if self._buffer.get(name) is page:
                        del self._buffer[name]
                        # pages that the head will not come to soon would only displace those it will
                        if name[1] < self._dead.get(name[0], 0) + self._cached // 2:
                            self._remember(name, page)

    # -- in ---------------------------------------------------------------------------------------------

    def fetch(self, wanted: Sequence[PageId]) -> list[Page]:
        found: dict[PageId, Page] = {}
        missing = []
        for name in dict.fromkeys(wanted):
            page = self._local(name)
            if page is None:
                missing.append(name)
            else:
                found[name] = page
        self.asked += len(found) + len(missing)
        self.hits += len(found)
        if missing:
            found.update(self._read(missing))
            with self._lock:
                for name in missing:
                    self._remember(name, found[name])
        return [found[name] for name in wanted]

    def prefetch(self, wanted: Sequence[PageId]) -> None:
        with self._lock:
            missing = [
                name
                for name in wanted
                if name not in self._buffer and name not in self._cache and name not in self._arriving
            ]
            if 2 * len(missing) < len(wanted):
                return  # a call for several pages costs little more than a call for one
            self._cached = max(self._cached, 2 * len(wanted) + 4)
            future = self._reader.submit(self._read, missing)
            for name in missing:
                self._arriving[name] = future

    def reserve(self, pages: int) -> None:
        """Makes the cache at least so large."""
        self._cached = max(self._cached, pages)

    def _local(self, name: PageId) -> Page | None:
        """A page that is in the process, or on its way."""
        with self._lock:
            page = self._buffer.get(name) or self._cache.get(name)
            if page is not None:
                if name in self._cache:
                    self._cache.move_to_end(name)
                return page
            arriving = self._arriving.get(name)
        if arriving is None:
            return None
        failed = arriving.exception() is not None
        with self._lock:
            for other in [other for other, future in self._arriving.items() if future is arriving]:
                del self._arriving[other]
                if not failed:
                    self._remember(other, arriving.result()[other])
        return None if failed else arriving.result()[name]

    def _read(self, names: Sequence[PageId]) -> dict[PageId, Page]:
        keys = [page_key(self._keys.prefix_to_read(tier, number), number) for tier, number in names]
        pages = {}
        for (tier, number), key, data in zip(names, keys, self._store.get_many(keys), strict=True):
            if data is None:
                self._keys.check_hold()
                raise PagesLost(
                    f"page {number} of tier {tier} of window {self._window!r} is not in {self._store!r} "
                    f"(key {key!r}); the store lost it, or the window was removed, so it cannot answer: "
                    "restore it from a copy, or start the window anew"
                )
            pages[tier, number] = decode_page(self._layout, data, self._window, tier, number)
        return pages

    def _remember(self, name: PageId, page: Page) -> None:
        if name[1] < self._dead.get(name[0], 0):
            return
        self._cache[name] = page
        while len(self._cache) > self._cached:
            self._cache.popitem(last=False)

    # -- away -------------------------------------------------------------------------------------------

    def drop_below(self, tier: int, number: int) -> None:
        with self._lock:
            if number <= self._dead.get(tier, 0):
                return
            self._dead[tier] = number
            for pages in (self._buffer, self._cache, self._arriving):
                for name in [name for name in pages if name[0] == tier and name[1] < number]:
                    del pages[name]
            unneeded = self._unneeded(tier, number)
        if sum(map(len, unneeded)) >= DELETE_AT_LEAST:
            self._start_deleting()

    def resume(self, tier: int, stored: range) -> None:
        """These pages of a tier are in the store already."""
        self._stored[tier] = [stored]

    def retain(self, unneeded: list[str]) -> None:
        """A version was committed, others were given up, and with them some keys.

        From now on no page is kept back, since the next checkpoint has to write it anyway.
        """
        self._hold = 0
        self._start_deleting(unneeded)

    def _unneeded(self, tier: int, below: int | None = None) -> list[range]:
        """Pages of a tier in the store that no version names, below a number."""
        stored = self._stored.get(tier, [])
        if below is not None:
            stored = [range(pages.start, min(pages.stop, below)) for pages in stored if pages.start < below]
        return without(stored, self._keys.needed(tier))

    def _start_deleting(self, keys: Sequence[str] = ()) -> None:
        if keys or self._deleting is None or self._deleting.done():
            self._deleting = self._writer.submit(self._delete, keys)

    def _delete(self, keys: Sequence[str] = ()) -> None:
        """Deletes what is behind the head and every retained version; what fails is left for next time."""
        if keys:
            self._store.delete_many(keys)
        for tier in list(self._stored):
            with self._lock:
                gone = self._unneeded(tier, self._dead.get(tier, 0))
            self._delete_pages(tier, gone)

    def _delete_pages(self, tier: int, gone: list[range]) -> None:
        for pages in gone:
            for prefix, start, stop in self._keys.ranges(tier, pages.start, pages.stop):
                self._store.delete_range(prefix, start, stop)
        with self._lock:
            self._stored[tier] = without(self._stored[tier], gone)

    def delete_behind(self) -> None:
        """Deletes what is behind the head and no version names, before the window is given up."""
        if self._deleting is not None:
            self._deleting.exception()
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            self._delete()

    def forget(self) -> None:
        """Deletes what no version names."""
        with self._lock:
            self._buffer.clear()
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            if not self._keys.knows_root():
                return  # what this writer takes for uncommitted may be another's, or committed after all
            for tier in list(self._stored):
                self._delete_pages(tier, self._unneeded(tier))

    def close(self) -> None:
        """Ends the background work, and lets go of the pages in memory."""
        self._writer.close()
        self._reader.close()
        self._cache.clear()
        self._arriving.clear()


def _append(ranges: list[range], number: int) -> None:
    """Adds a number at the end; small gaps are taken in."""
    if ranges and number <= ranges[-1].stop + DELETE_AT_LEAST:
        ranges[-1] = range(ranges[-1].start, max(ranges[-1].stop, number + 1))
    else:
        ranges.append(range(number, number + 1))


class _Background:
    """One thread, started when there is work for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return self._executor.submit(work, *args, **kwargs)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None
