"""Pages that were read, and those that are read ahead in the background: the paper's Cache.

Bounded, and the pages that were used longest ago go first. The caller waits for the store only where a page
is neither here nor on its way.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from mta.core.page import Page
from mta.errors import WindowError
from mta.paging.background import Lane
from mta.paging.page_names import Behind, PageId
from mta.paging.page_reader import Shelf
from mta.paging.read_ahead import ReadAhead
from stores import StoreError

#: Pages that are kept, beside those that are read ahead.
CACHED = 8


class Arrival:
    """Pages that are read ahead; none of them if that failed."""

    def __init__(self) -> None:
        self.over = False
        self.pages: dict[PageId, Page] = {}


class Cache:
    def __init__(
        self, shelf: Shelf, behind: Behind, ahead: ReadAhead, lane: Lane, *, size: int = CACHED
    ) -> None:
        self._shelf, self._behind, self._ahead, self._lane = shelf, behind, ahead, lane
        self._size = size
        self._lock = threading.Lock()
        self._pages: OrderedDict[PageId, Page] = OrderedDict()
        self._arriving: dict[PageId, Arrival] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._pages)

    def __contains__(self, name: PageId) -> bool:
        """Whether a page is here or on its way."""
        return name in self._pages or name in self._arriving

    # -- reading ----------------------------------------------------------------------------------------

    def get(self, name: PageId) -> Page | None:
        """A page that is here, or on its way: then this waits for it."""
        with self._lock:
            page = self._pages.get(name)
            if page is not None:
                self._pages.move_to_end(name)
                return page
            arrival = self._arriving.get(name)
        return None if arrival is None else self._arrived(arrival).get(name)

    def _arrived(self, arrival: Arrival) -> dict[PageId, Page]:
        if not arrival.over:
            self._ahead.waited()
            self._lane.finish(lambda: arrival.over)
        with self._lock:
            for name in [name for name, each in self._arriving.items() if each is arrival]:
                del self._arriving[name]
            for name, page in arrival.pages.items():
                self._keep(name, page)
        return arrival.pages

    def read(self, names: Sequence[PageId]) -> dict[PageId, Page]:
        """Pages that are neither here nor on their way; one round trip."""
        found = self._shelf.read(names)
        with self._lock:
            for name, page in found.items():
                self._keep(name, page)
        return found

    def read_ahead(self, names: Sequence[PageId]) -> None:
        """Starts to read those of the pages that are not here, if they are many of them: half as a rule."""
        with self._lock:
            missing = [name for name in names if name not in self]
            if not self._ahead.are_enough(len(missing), len(names)):
                return
            arrival = Arrival()
            for name in missing:
                self._arriving[name] = arrival
        self._lane.submit(lambda: self._arrive(missing, arrival))

    def _arrive(self, names: Sequence[PageId], arrival: Arrival) -> None:
        if not arrival.over:
            with suppress(StoreError, WindowError):  # who needs them reads them again, and hears it
                arrival.pages = {} if self._closed else self._shelf.read(names)
            arrival.over = True

    # -- keeping ----------------------------------------------------------------------------------------

    def reserve(self, pages: int) -> None:
        """So many pages may be needed at once."""
        self._size = max(self._size, pages)

    def offer(self, name: PageId, page: Page) -> None:
        """A page that was written: kept if the head comes to it soon, else it would only displace others."""
        with self._lock:
            if name[1] < self._behind.first(name[0]) + self._ahead.depth:
                self._keep(name, page)

    def _keep(self, name: PageId, page: Page) -> None:
        if name in self._behind:
            return
        self._pages[name] = page
        while len(self._pages) > self._size + self._ahead.depth:
            self._pages.popitem(last=False)

    def walked_over(self, names: Iterable[PageId]) -> None:
        """Pages that the head has been in go before those that it will come to."""
        with self._lock:
            for name in names:
                if name in self._pages:
                    self._pages.move_to_end(name, last=False)

    def drop_below(self, tier: int, number: int) -> None:
        with self._lock:
            for pages in (self._pages, self._arriving):
                for name in [name for name in pages if name[0] == tier and name[1] < number]:
                    del pages[name]

    def forget(self, names: Iterable[PageId]) -> None:
        """Pages whose elements did not come into the window."""
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
        """Reads nothing ahead any more."""
        self._closed = True

    def close(self) -> None:
        """Lets go of all pages, once what is read ahead is there."""
        self._lane.finish()
        self.clear()
