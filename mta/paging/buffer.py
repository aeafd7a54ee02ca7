"""Full pages on their way to the store: the paper's Buffer.

Pages are written in the background, oldest first, a few a call. The buffer is bounded: a caller that puts
more waits until there is room, and gets the store's error if no room can be made.

No key is ever written with two contents, since a write that failed may still arrive. So if pages were sent
and their elements were not appended after all, later pages are written under a new epoch.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Protocol

from mta.core.page import Page
from mta.errors import WindowError
from mta.paging.background import Lane
from mta.paging.page_names import FirstPages, PageId
from mta.paging.page_writer import PageWriter, Sending
from stores import StoreError

#: The youngest full pages are kept back, so that a window which fits in them never touches the store.
KEPT_BACK = 2

#: With more pages than these in the buffer, the caller waits.
BUFFERED = 8

#: Entries that are worth a call. A call for fewer takes a good part of the time in which their pages are
# filled.
WORTH_A_CALL = 1 << 12


class Written(Protocol):
    """Takes the pages that were written: a cache."""

    def offer(self, name: PageId, page: Page) -> None: ...

    def forget(self, names: Iterable[PageId]) -> None: ...


class Sent(Protocol):
    """Deletes pages that are, or may be, in the store: a reaper."""

    def expect(self, name: PageId) -> None: ...

    def give_up(self, keys: Iterable[str]) -> None: ...


def worth_a_call(shift: int) -> int:
    """How many pages are written in one call: at most half of the pages that may wait."""
    return max(1, min(BUFFERED // 2, WORTH_A_CALL >> shift))


class Buffer:
    """Its lock is taken before those of the cache and of the reaper, and never after."""

    def __init__(
        self,
        writer: PageWriter,
        cache: Written,
        reaper: Sent,
        lane: Lane,
        first: FirstPages,
        *,
        size: int = BUFFERED,
        together: int = 1,
    ) -> None:
        self._writer, self._cache, self._reaper = writer, cache, reaper
        self._lane, self._first, self._size = lane, first, size
        self._lock = threading.Lock()
        #: full pages that are not in the store yet, oldest first; read without the lock
        self.pages: OrderedDict[PageId, Page] = OrderedDict()
        #: how many elements were appended; pages that end behind them may be taken back
        self.tail = 0
        #: pages that are written although they may be taken back, and those of them that were sent
        self.early: set[PageId] = set()
        self._sent: set[PageId] = set()
        #: whether pages were put, and neither settled nor taken back: so it is after an interrupt
        self._unsettled = False
        self._kept_back = KEPT_BACK
        #: pages are written when there are this many beside those that are kept back
        self._together = together
        #: why the last writing in the background failed
        self._failure: StoreError | WindowError | None = None

    def __len__(self) -> int:
        return len(self.pages)

    def __contains__(self, name: PageId) -> bool:
        return name in self.pages

    # -- pages come -------------------------------------------------------------------------------------

    def put(self, tier: int, number: int, page: Page) -> None:
        """Takes a full page whose elements are about to be appended, unless it is behind every head."""
        name = tier, number
        with self._lock:
            self._unsettled = True
            if number >= self._first.get(tier, 0) and name not in self.early:
                self.pages[name] = page

    def put_early(self, pages: Sequence[tuple[PageId, Page]]) -> None:
        """Starts to write pages of elements that are about to be appended, so that no checkpoint waits."""
        if not pages or not self._writer.keys.can_withdraw():
            return
        with self._lock:
            self._unsettled = True
            for name, page in pages:
                self.pages[name] = page
                self.early.add(name)
        self._lane.submit(self._write_in_background)

    def settle(self, tail: int) -> None:
        """The elements before `tail` have been appended: pages of them count."""
        with self._lock:
            self.tail = tail
            self.early.clear()
            self._sent.clear()
            self._unsettled = False
            ready = len(self.pages) >= self._kept_back + self._together
        if ready:
            self._lane.submit(self._write_in_background)

    def take_back(self, tail: int) -> None:
        """The elements from `tail` on were not appended: drops the pages of them."""
        with self._lock:
            self.tail = tail
            behind = [name for name in (*self.pages, *self._sent) if self._writer.end(name) > tail]
            sent = [name for name in self._sent if self._writer.end(name) > tail]
            for name in behind:
                self.pages.pop(name, None)
            self._cache.forget(behind)
            if sent:
                self._reaper.give_up([self._writer.key(name) for name in sent])
                self._writer.keys.withdraw(tail)
            self.early.clear()
            self._sent.clear()
            self._unsettled = False

    # -- pages go ---------------------------------------------------------------------------------------

    def admit(self, tail: int) -> None:
        """Waits until no more pages wait than may. Raises the store's error if they cannot be written."""
        if self._unsettled:
            self.take_back(tail)
        if len(self.pages) > self._size:
            self.make_room()

    def mend(self, tail: int) -> None:
        """Takes back the pages of elements from `tail` on, if an interrupt kept others from doing so."""
        if self._unsettled:
            self.take_back(tail)

    def make_room(self) -> None:
        """Writes pages, if more wait than may. Raises the store's error if they cannot be written."""
        if len(self.pages) <= self._size:
            return
        self.finish()
        if len(self.pages) > self._size:
            self._write(self._kept_back)

    def flush(self) -> None:
        """Writes all pages of elements that were appended."""
        self.finish()
        self._write(0)

    def hold(self, pages: int | None) -> None:
        """Has this many pages written together, in one call, while as many more may wait."""
        if pages is not None:
            self._together, self._kept_back, self._size = max(1, pages), 0, max(2 * pages, 1)

    def keep_none_back(self) -> None:
        """Keeps no pages back from now on: each checkpoint would have to write them."""
        self._kept_back = 0

    def drop_below(self, tier: int, number: int) -> None:
        with self._lock:
            for name in [name for name in self.pages if name[0] == tier and name[1] < number]:
                del self.pages[name]

    def clear(self) -> None:
        with self._lock:
            self.pages.clear()

    def finish(self) -> None:
        """Waits for the work in the background. Work that fails meanwhile is not tried a second time."""
        self._failure = None
        self._lane.finish()
        if self._failure is not None:
            raise self._failure

    def _write_in_background(self) -> None:
        try:
            self._write(self._kept_back)
        except (StoreError, WindowError) as error:  # the pages stay here
            self._failure = error

    def _write(self, left: int) -> None:
        """Writes the oldest pages until `left` are left, a few at a time so that memory is bounded."""
        while self._has_more_than(left):
            self._writer.claim()
            batch = self._pick(left)
            self._writer.write(batch)
            with self._lock:
                for name, _, page in batch:
                    if self.pages.get(name) is page:
                        del self.pages[name]
                        self._cache.offer(name, page)

    def _pick(self, left: int) -> list[Sending]:
        with self._lock:
            # key and page together: a page that is taken back meanwhile keeps the key that it had
            batch = [Sending(name, self._writer.key(name), self.pages[name]) for name in self._next(left)]
            for name, _, _ in batch:
                self._reaper.expect(name)
                if self._writer.end(name) > self.tail:
                    self._sent.add(name)
        return batch

    def _has_more_than(self, left: int) -> bool:
        with self._lock:  # pages come meanwhile
            return bool(self._next(left))

    def _next(self, left: int) -> list[PageId]:
        """The oldest of the pages that may be written, so that `left` are left."""
        count = min(len(self.pages) - left, self._size)
        ready = (name for name in self.pages if self._writer.end(name) <= self.tail or name in self.early)
        return [name for _, name in zip(range(count), ready, strict=False)]
