"""Pages that were read, and pages that are read ahead in the background: the paper's Cache.

The cache is bounded, and drops the pages first that were used longest ago. The caller waits for the store
only where a page is neither in the cache nor on its way to it. All views of a log share one cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from mta.core.page import Page
from mta.errors import WindowError
from mta.paging.background import Lane
from mta.paging.page_names import FirstPages, PageId
from mta.paging.page_reader import PageReader
from mta.paging.read_ahead import ReadAhead
from stores import StoreError

#: Pages that are kept, beside those that are read ahead.
CACHED = 8


class Arrival:
    """Pages that are read ahead for one head; none of them if that failed."""

    def __init__(self, ahead: ReadAhead) -> None:
        self.ahead = ahead
        self.over = False
        self.pages: dict[PageId, Page] = {}


class Cache:
    def __init__(self, reader: PageReader[Any], first: FirstPages, lane: Lane, *, size: int = CACHED) -> None:
        self._reader, self._first, self._lane = reader, first, lane
        self._size = size
        self._lock = threading.Lock()
        self._pages: OrderedDict[PageId, Page] = OrderedDict()
        self._arriving: dict[PageId, Arrival] = {}
        #: the heads that pages are read ahead for, and how many pages that is at most for all of them
        self._heads: list[ReadAhead] = []
        self._depth = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, name: PageId) -> bool:
        """Whether a page is here or on its way."""
        return name in self._pages or name in self._arriving

    def follow(self, head: ReadAhead) -> None:
        """Makes room for the pages that are read ahead for one more head."""
        self._heads.append(head)
        self._depth += head.depth

    def get(self, name: PageId) -> Page | None:
        """A page, if it is here; waits for it if it is on its way."""
        with self._lock:
            page = self._pages.get(name)
            if page is not None:
                self._pages.move_to_end(name)
                return page
            arrival = self._arriving.get(name)
        return None if arrival is None else self._arrived(arrival).get(name)

    def _arrived(self, arrival: Arrival) -> dict[PageId, Page]:
        if not arrival.over:
            arrival.ahead.waited()
            self._depth = sum(head.depth for head in self._heads)
            self._lane.finish(lambda: arrival.over)
        with self._lock:
            for name in [name for name, each in self._arriving.items() if each is arrival]:
                del self._arriving[name]
            for name, page in arrival.pages.items():
                self._keep(name, page)
        return arrival.pages

    def read(self, names: Sequence[PageId]) -> dict[PageId, Page]:
        """Pages that are neither here nor on their way; one round trip."""
        found = self._reader.read(names)
        with self._lock:
            for name, page in found.items():
                self._keep(name, page)
        return found

    def read_ahead(self, names: Sequence[PageId], ahead: ReadAhead) -> None:
        """Starts to read the pages that are missing of those a head comes to next, if enough are missing."""
        with self._lock:
            missing = [name for name in names if name not in self]
            if not ahead.are_enough(len(missing), len(names)):
                return
            arrival = Arrival(ahead)
            for name in missing:
                self._arriving[name] = arrival
        self._lane.submit(lambda: self._arrive(missing, arrival))

    def _arrive(self, names: Sequence[PageId], arrival: Arrival) -> None:
        if not arrival.over:
            with suppress(StoreError, WindowError):  # a caller that needs a page reads it, and gets the error
                arrival.pages = {} if self._closed else self._reader.read(names)
            arrival.over = True

    def reserve(self, pages: int) -> None:
        """Makes room for pages that are needed at once."""
        self._size = max(self._size, pages)

    def offer(self, name: PageId, page: Page) -> None:
        """Keeps a page that was written if a head comes to it soon: others would only displace those."""
        with self._lock:
            if self._is_near(name):
                self._keep(name, page)

    def _is_near(self, name: PageId) -> bool:
        for head in self._heads:  # noqa: SIM110  an interrupt that ends a generator is lost
            if head.comes_to(*name):
                return True
        return False

    def _keep(self, name: PageId, page: Page) -> None:
        if name[1] < self._first.get(name[0], 0):
            return
        self._pages[name] = page
        while len(self._pages) > self._size + self._depth:
            self._pages.popitem(last=False)

    def walked_over(self, names: Iterable[PageId]) -> None:
        """Has the pages dropped first that a head has left behind, unless another head comes to them."""
        with self._lock:
            for name in names:
                if name in self._pages and not self._is_near(name):
                    self._pages.move_to_end(name, last=False)

    def drop_below(self, tier: int, number: int) -> None:
        with self._lock:
            for pages in (self._pages, self._arriving):
                for name in [name for name in pages if name[0] == tier and name[1] < number]:
                    del pages[name]

    def forget(self, names: Iterable[PageId]) -> None:
        """Drops pages whose elements were not appended."""
        with self._lock:
            for name in names:
                self._pages.pop(name, None)

    def clear(self) -> None:
        with self._lock:
            self._pages.clear()
            self._arriving.clear()

    def finish(self) -> None:
        """Waits for what is read ahead."""
        self._lane.finish()

    def stop(self) -> None:
        """Ends reading ahead."""
        self._closed = True

    def close(self) -> None:
        """Drops all pages, once those that are read ahead are there."""
        self._lane.finish()
        self.clear()
