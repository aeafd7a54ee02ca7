"""Pages of a window in a store: the paper's Buffer on the way out, its Cache on the way in.

Full pages wait in a bounded buffer and are written in the background; pages that will be needed are read
ahead in the background; the caller waits for the store only on a miss, and when the buffer is full.

What was once sent under a key is never followed by anything else under it: a write that failed may still
arrive. So pages whose elements did not come into the window after all make way for a new epoch.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from mta.background import Lane, pool_of
from mta.codec import decode_page, encode_page
from mta.errors import PagesLost, WindowError
from mta.manifest import Version
from mta.pages import Page
from mta.ranges import without
from mta.states import Layout
from stores import Store, StoreError, page_key

PageId = tuple[int, int]

_log = logging.getLogger("stores")

#: Youngest full pages that are kept back, so that a window which fits in them never touches the store.
HELD = 2

#: Pages behind the head are deleted once so many have come together.
DELETE_AT_LEAST = 16


class Keys(Protocol):
    """Which keys the pages of a window have in its store."""

    def claim(self) -> None:
        """Takes epochs to write under, unless this writer has some."""

    def prefix(self, tier: int, number: int) -> str: ...

    def can_withdraw(self) -> bool:
        """Whether there is an epoch left to withdraw to."""

    def withdraw(self, tail: int) -> None:
        """Pages that end behind `tail` have other keys from now on than they had."""

    def prefixes(self, tier: int, pages: range) -> list[tuple[str, range]]:
        """The prefixes that pages of a tier have, with the range of each."""

    def needed(self, tier: int) -> list[tuple[str, range]]:
        """The pages of a tier that versions name: those that are retained, and those that may be."""

    def check_hold(self) -> None:
        """Raises Fenced if another writer has taken the window over."""

    def knows_root(self) -> bool:
        """Whether the root is as this writer left it: nobody took over, and no commit is in doubt."""


class _Arrival:
    """Pages that are read ahead; none of them if that failed."""

    def __init__(self) -> None:
        self.over = False
        self.pages: dict[PageId, Page] = {}


class StoredPages:
    def __init__(
        self,
        store: Store,
        window: str,
        layout: Layout,
        keys: Keys,
        shift: int,
        *,
        buffered: int = 8,
        cached: int = 8,
    ) -> None:
        self._store, self._window, self._layout, self._keys = store, window, layout, keys
        self._shift = shift
        self._buffered = buffered
        self._cached = cached
        self._lock = threading.Lock()
        #: full pages that are not in the store yet, oldest first
        self._buffer: OrderedDict[PageId, Page] = OrderedDict()
        self._cache: OrderedDict[PageId, Page] = OrderedDict()
        self._arriving: dict[PageId, _Arrival] = {}
        #: how many elements are in the window or were; pages that end behind them may be taken back
        self._tail = 0
        #: pages that are written although they may be taken back, and those of them that were sent
        self._early: set[PageId] = set()
        self._sent: set[PageId] = set()
        #: for each tier, the number that all pages which are still wanted start at …
        self._dead: dict[int, int] = {}
        #: … and the ranges of those that may be in the store, oldest first
        self._stored: dict[int, list[range]] = {}
        #: pages that were asked for, and those of them that were in the process or on their way to it
        self.asked = 0
        self.hits = 0
        #: how many of the youngest pages are kept back
        self._held = HELD
        #: keys to delete that are not of pages behind the head
        self._doomed: list[str] = []
        #: of the store when pages were put for the first time, or when they were all there
        self._incarnation: object = None
        #: why the last writing in the background failed
        self._not_written: StoreError | WindowError | None = None
        #: why the last deletion failed
        self._not_deleted: StoreError | None = None
        pool = pool_of(store)
        self._writer, self._reader = Lane(pool), Lane(pool)
        self._closed = False

    # -- out --------------------------------------------------------------------------------------------

    def put(self, tier: int, number: int, page: Page) -> None:
        """Takes a full page, before its elements are in the window: `settle` says when they are."""
        with self._lock:
            if number >= self._dead.get(tier, 0) and (tier, number) not in self._early:
                self._buffer[tier, number] = page

    def put_early(self, pages: Sequence[tuple[int, Page]]) -> None:
        """Starts to write pages of leaves that are about to come, so that no checkpoint waits for them."""
        if not pages or not self._keys.can_withdraw():
            return
        with self._lock:
            for number, page in pages:
                self._buffer[0, number] = page
                self._early.add((0, number))
        self._start_writing()

    def settle(self, tail: int) -> None:
        """All elements before `tail` are in the window, or were."""
        with self._lock:
            self._tail = tail
            self._early.clear()
            self._sent.clear()
            ready = len(self._buffer) > self._held
        if ready:
            self._start_writing()

    def take_back(self, tail: int) -> None:
        """Forgets the pages of elements from `tail` on, which did not come in."""
        with self._lock:
            self._tail = tail
            sent = [name for name in self._sent if self._end(name) > tail]
            for pages in (self._buffer, self._cache):
                for name in [name for name in pages if self._end(name) > tail]:
                    del pages[name]
            if sent:
                self._doomed += [self._key(name) for name in sent]
                self._keys.withdraw(tail)
            self._early.clear()
            self._sent.clear()

    def admit(self, tail: int) -> None:
        """Waits until the buffer has room. Raises the store's error if it cannot be emptied."""
        self._mend(tail)
        if len(self._buffer) > self._buffered:
            self._finish_writing()
        if len(self._buffer) > self._buffered:
            self._write(self._held)

    def _mend(self, tail: int) -> None:
        """After an interrupt it may not have been said which elements are in."""
        if self._tail != tail or self._early or self._sent:
            self.take_back(tail)

    def flush(self, tail: int) -> None:
        """Writes all pages of elements before `tail` that are still wanted."""
        self._mend(tail)
        self._finish_writing()
        self._write(0)

    def _finish_writing(self) -> None:
        """Waits for what is written in the background. What fails meanwhile is not tried a second time."""
        self._not_written = None
        self._writer.finish()
        if self._not_written is not None:
            raise self._not_written

    def _start_writing(self) -> None:
        self._writer.submit(self._write_what_can_be)

    def _write_what_can_be(self) -> None:
        try:
            self._write(self._held)
        except (StoreError, WindowError) as error:  # the pages stay in the buffer
            self._not_written = error

    def _write(self, held: int) -> None:
        """Writes pages, oldest first, until `held` are left, a few at a time so that memory is bounded."""
        while self._to_write(held):
            self._keys.claim()
            if self._incarnation is None:
                self._incarnation = self._store.incarnation()
            with self._lock:
                # key and page together: a page that is taken back meanwhile keeps the key that it had
                batch = [(name, self._key(name), self._buffer[name]) for name in self._to_write(held)]
                for name, _, _ in batch:
                    _append(self._stored.setdefault(name[0], []), name[1])
                    if self._end(name) > self._tail:
                        self._sent.add(name)
            self._store.put_many(
                {key: encode_page(self._layout, self._window, name[1], page) for name, key, page in batch}
            )
            with self._lock:
                for name, _, page in batch:
                    if self._buffer.get(name) is page:
                        del self._buffer[name]
                        # pages that the head will not come to soon would only displace those it will
                        if name[1] < self._dead.get(name[0], 0) + self._cached // 2:
                            self._remember(name, page)

    def _to_write(self, held: int) -> list[PageId]:
        """The oldest pages that are to be written next."""
        count = min(len(self._buffer) - held, self._buffered)
        ready = (name for name in self._buffer if self._end(name) <= self._tail or name in self._early)
        return [name for _, name in zip(range(count), ready, strict=False)]

    def _key(self, name: PageId) -> str:
        return page_key(self._keys.prefix(*name), name[1])

    def _end(self, name: PageId) -> int:
        """The leaf behind a page."""
        tier, number = name
        return (number + 1) << self._shift * (tier + 1)

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
            if not missing or 2 * len(missing) < len(wanted):
                return  # a call for several pages costs little more than a call for one
            self._cached = max(self._cached, 2 * len(wanted) + 4)
            arrival = _Arrival()
            for name in missing:
                self._arriving[name] = arrival
        self._reader.submit(lambda: self._read_ahead(missing, arrival))

    def _read_ahead(self, names: Sequence[PageId], arrival: _Arrival) -> None:
        if not arrival.over:
            with suppress(StoreError, WindowError):  # who needs them reads them again, and hears it
                arrival.pages = {} if self._closed else self._read(names)
            arrival.over = True

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
            arrival = self._arriving.get(name)
        if arrival is None:
            return None
        if not arrival.over:
            self._reader.finish()
        with self._lock:
            for other in [other for other, each in self._arriving.items() if each is arrival]:
                del self._arriving[other]
            for other, page in arrival.pages.items():
                self._remember(other, page)
        return arrival.pages.get(name)

    def _read(self, names: Sequence[PageId]) -> dict[PageId, Page]:
        keys = [self._key(name) for name in names]
        pages = {}
        for (tier, number), key, data in zip(names, keys, self._store.get_many(keys), strict=True):
            if data is None:
                self._keys.check_hold()
                raise PagesLost(
                    f"page {number} of tier {tier} of window {self._window!r} is not in {self._store!r} "
                    f"(key {key!r}); the store lost it, or the window was removed, so it cannot answer: "
                    "restore it from a copy, or start the window anew"
                )
            pages[tier, number] = decode_page(
                self._layout, data, self._window, tier, number, 1 << self._shift
            )
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
        if sum(len(pages) for _, pages in unneeded) >= DELETE_AT_LEAST:
            self._start_deleting()

    def resume(self, tail: int, first: int, tiers: int) -> None:
        """The pages of leaves from `first` to `tail` are in the store already."""
        self._tail = tail
        self._incarnation = self._store.incarnation()
        for tier in range(tiers):
            shift = self._shift * (tier + 1)
            self._stored[tier] = [range(first >> shift, tail >> shift)]

    def committed(self, unneeded: list[str]) -> None:
        """A version was committed, others were given up, and with them some keys.

        From now on no page is kept back, since the next checkpoint has to write it anyway.
        """
        self._held = 0
        self._doomed += unneeded
        if self._doomed or any(self._gone(tier) for tier in list(self._stored)):
            self._start_deleting()

    def _unneeded(self, tier: int, below: int | None = None) -> list[tuple[str, range]]:
        """Pages of a tier in the store that no version names, below a number, with their keys' prefix."""
        needed = self._keys.needed(tier)
        unneeded = []
        for stored in self._stored.get(tier, []):
            stop = stored.stop if below is None else min(stored.stop, below)
            for prefix, pages in self._keys.prefixes(tier, range(stored.start, stop)):
                others = [other for each, other in needed if each == prefix]
                unneeded += [(prefix, gone) for gone in without([pages], others)]
        return unneeded

    def _gone(self, tier: int) -> list[tuple[str, range]]:
        """Pages of a tier in the store that are behind the head, and that no version names."""
        with self._lock:
            return self._unneeded(tier, self._dead.get(tier, 0))

    def _start_deleting(self) -> None:
        self._writer.submit(self._delete_what_can_be)

    def _delete_what_can_be(self) -> None:
        try:
            self._delete()
        except StoreError as error:
            _log.warning("what the window %r needs no longer could not be deleted: %s", self._window, error)

    def _delete(self) -> None:
        """Deletes what is behind the head and every retained version; what fails is left for next time."""
        try:
            self._delete_doomed()
            for tier in list(self._stored):
                self._delete_pages(tier, self._gone(tier))
        except StoreError as error:
            self._not_deleted = error
            raise
        self._not_deleted = None

    def _delete_doomed(self) -> None:
        keys = list(self._doomed)
        if keys:
            self._store.delete_many(keys)
            del self._doomed[: len(keys)]

    def _delete_pages(self, tier: int, gone: list[tuple[str, range]]) -> None:
        for prefix, pages in gone:
            self._store.delete_range(prefix, pages.start, pages.stop)
        with self._lock:
            self._stored[tier] = without(self._stored[tier], [pages for _, pages in gone])

    def check_deletions(self) -> None:
        """Raises the store's error if it goes on refusing to delete: the store would fill up unseen."""
        if self._not_deleted is not None:
            self._writer.finish()
            self._delete()

    def check_present(self, version: Version) -> None:
        """Before a version is committed: that what it names is there, if the store may have lost some."""
        incarnation = self._store.incarnation()
        if self._incarnation not in (None, incarnation):
            missing = self._store.missing(list(version.keys(self._window)))
            if missing:
                self._keys.check_hold()
                raise PagesLost(
                    f"{len(missing)} pages of window {self._window!r} are not in {self._store!r} any more "
                    f"(such as {missing[0]!r}), which was restarted or taken over by another server since "
                    "they were put: this window cannot go on; restore its last checkpoint (see min_replicas)"
                )
        self._incarnation = incarnation

    def delete_behind(self) -> None:
        """Deletes what is behind the head and no version names, before the window is given up."""
        self._writer.finish()
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            self._delete()

    def forget(self) -> None:
        """Deletes what no version names."""
        with self._lock:
            self._buffer.clear()
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            if not self._keys.knows_root():
                return  # what this writer takes for uncommitted may be another's, or committed after all
            self._delete_doomed()
            for tier in list(self._stored):
                self._delete_pages(tier, self._unneeded(tier))

    def close(self) -> None:
        """Ends the background work, and lets go of the pages in memory."""
        self._closed = True
        self._writer.finish()
        self._reader.finish()
        self._cache.clear()
        self._arriving.clear()


def _append(ranges: list[range], number: int) -> None:
    """Adds a number at the end; small gaps are taken in."""
    if ranges and number <= ranges[-1].stop + DELETE_AT_LEAST:
        ranges[-1] = range(ranges[-1].start, max(ranges[-1].stop, number + 1))
    else:
        ranges.append(range(number, number + 1))
