"""Full pages on their way to the store: the paper's Buffer.

Pages are written in the background, oldest first, a few a call. The buffer is bounded: who has more to put
waits until there is room, and hears the store's error if it cannot be made.

What was once sent under a key is never followed by anything else under it: a write that failed may still
arrive. So pages whose elements did not come into the window after all make way for a new epoch.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from mta.core.page import Page
from mta.errors import WindowError
from mta.paging.background import Lane
from mta.paging.page_names import PageId
from mta.paging.page_reader import Sending, Shelf
from stores import StoreError

#: Youngest full pages that are kept back, so that a window which fits in them never touches the store.
KEPT_BACK = 2

#: Pages that wait before the caller does.
BUFFERED = 8

#: Entries that are worth a call: with fewer, it takes a good part of the time that filling their pages takes.
WORTH_A_CALL = 1 << 12


class Written(Protocol):
    """Where pages go that are in the store now: a cache."""

    def offer(self, name: PageId, page: Page) -> None: ...

    def forget(self, names: Iterable[PageId]) -> None: ...


class Sent(Protocol):
    """Who clears up after pages that are in the store, or may be: a reaper."""

    def expect(self, name: PageId) -> None: ...

    def doom(self, keys: Iterable[str]) -> None: ...


def worth_a_call(shift: int) -> int:
    """How many pages are written in one call, of half of those that may wait."""
    return max(1, min(BUFFERED // 2, WORTH_A_CALL >> shift))


class Buffer:
    """Its lock is taken before those of the cache and of the reaper, and never after."""

    def __init__(
        self,
        shelf: Shelf,
        cache: Written,
        reaper: Sent,
        lane: Lane,
        *,
        size: int = BUFFERED,
        together: int = 1,
    ) -> None:
        self._shelf, self._cache, self._reaper = shelf, cache, reaper
        self._lane, self._size = lane, size
        self._lock = threading.Lock()
        #: full pages that are not in the store yet, oldest first
        self._pages: OrderedDict[PageId, Page] = OrderedDict()
        #: how many elements are in the window or were; pages that end behind them may be taken back
        self.tail = 0
        #: pages that are written although they may be taken back, and those of them that were sent
        self.early: set[PageId] = set()
        self._sent: set[PageId] = set()
        self._kept_back = KEPT_BACK
        #: so many pages come together, beside those that are kept back, before they are written
        self._together = together
        #: why the last writing in the background failed
        self._failure: StoreError | WindowError | None = None

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, name: PageId) -> bool:
        return name in self._pages

    def get(self, name: PageId) -> Page | None:
        return self._pages.get(name)

    # -- pages come -------------------------------------------------------------------------------------

    def put(self, name: PageId, page: Page) -> None:
        """Takes a full page, before its elements are in the window: `settle` says when they are."""
        with self._lock:
            if name not in self.early:
                self._pages[name] = page

    def put_early(self, pages: Sequence[tuple[PageId, Page]]) -> None:
        """Starts to write pages whose elements are about to come, so that no checkpoint waits for them."""
        if not pages or not self._shelf.keys.can_withdraw():
            return
        with self._lock:
            for name, page in pages:
                self._pages[name] = page
                self.early.add(name)
        self._start()

    def settle(self, tail: int) -> None:
        """All elements before `tail` are in the window, or were."""
        with self._lock:
            self.tail = tail
            self.early.clear()
            self._sent.clear()
            ready = len(self._pages) >= self._kept_back + self._together
        if ready:
            self._start()

    def take_back(self, tail: int) -> None:
        """Forgets the pages of elements from `tail` on, which did not come in."""
        with self._lock:
            self.tail = tail
            behind = [name for name in (*self._pages, *self._sent) if self._shelf.end(name) > tail]
            sent = [name for name in self._sent if self._shelf.end(name) > tail]
            for name in behind:
                self._pages.pop(name, None)
            self._cache.forget(behind)
            if sent:
                self._reaper.doom([self._shelf.key(name) for name in sent])
                self._shelf.keys.withdraw(tail)
            self.early.clear()
            self._sent.clear()

    def mend(self, tail: int) -> None:
        """After an interrupt it may not have been said which elements are in."""
        if self.tail != tail or self.early or self._sent:
            self.take_back(tail)

    # -- pages go ---------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Waits until no more pages wait than may. Raises the store's error if they cannot be written."""
        if len(self._pages) > self._size:
            self.finish()
        if len(self._pages) > self._size:
            self._write(self._kept_back)

    def flush(self) -> None:
        """Writes all pages of elements that are in."""
        self.finish()
        self._write(0)

    def hold(self, pages: int | None) -> None:
        """So many pages come together before they are written, in one call, and so many more may wait."""
        if pages is not None:
            self._together, self._kept_back, self._size = max(1, pages), 0, max(2 * pages, 1)

    def keep_none_back(self) -> None:
        """From now on: where checkpoints are made, each has to write what was kept back."""
        self._kept_back = 0

    def drop_below(self, tier: int, number: int) -> None:
        with self._lock:
            for name in [name for name in self._pages if name[0] == tier and name[1] < number]:
                del self._pages[name]

    def clear(self) -> None:
        with self._lock:
            self._pages.clear()

    def finish(self) -> None:
        """Waits for what is done in the background. What fails meanwhile is not tried a second time."""
        self._failure = None
        self._lane.finish()
        if self._failure is not None:
            raise self._failure

    def _start(self) -> None:
        self._lane.submit(self._write_what_can_be)

    def _write_what_can_be(self) -> None:
        try:
            self._write(self._kept_back)
        except (StoreError, WindowError) as error:  # the pages stay here
            self._failure = error

    def _write(self, left: int) -> None:
        """Writes pages, oldest first, until so many are left, a few at a time so that memory is bounded."""
        while self._has_more_than(left):
            self._shelf.claim()
            batch = self._pick(left)
            self._shelf.write(batch)
            with self._lock:
                for name, _, page in batch:
                    if self._pages.get(name) is page:
                        del self._pages[name]
                        self._cache.offer(name, page)

    def _pick(self, left: int) -> list[Sending]:
        with self._lock:
            # key and page together: a page that is taken back meanwhile keeps the key that it had
            batch = [Sending(name, self._shelf.key(name), self._pages[name]) for name in self._next(left)]
            for name, _, _ in batch:
                self._reaper.expect(name)
                if self._shelf.end(name) > self.tail:
                    self._sent.add(name)
        return batch

    def _has_more_than(self, left: int) -> bool:
        with self._lock:  # pages come meanwhile
            return bool(self._next(left))

    def _next(self, left: int) -> list[PageId]:
        """The oldest pages that are to be written next."""
        count = min(len(self._pages) - left, self._size)
        ready = (name for name in self._pages if self._shelf.end(name) <= self.tail or name in self.early)
        return [name for _, name in zip(range(count), ready, strict=False)]
