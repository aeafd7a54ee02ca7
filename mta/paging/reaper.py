"""Deletion, in the background: pages behind the head that no version names, and keys that were given up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress

from mta.paging.background import Lane
from mta.paging.page_names import Behind, PageId
from mta.paging.page_reader import Shelf
from mta.paging.ranges import without
from stores import StoreError

#: Pages behind the head are deleted once so many have come together.
DELETE_AT_LEAST = 16

_log = logging.getLogger("stores")


class Reaper:
    def __init__(self, shelf: Shelf, behind: Behind, lane: Lane) -> None:
        self._shelf, self._behind, self._lane = shelf, behind, lane
        self._lock = threading.Lock()
        #: for each tier, the ranges of pages that may be in the store, oldest first
        self._stored: dict[int, list[range]] = {}
        #: keys to delete that are not of pages behind the head
        self._doomed: list[str] = []
        #: why the last deletion failed
        self.failure: StoreError | None = None

    def expect(self, name: PageId) -> None:
        """A page is about to be sent, and may be in the store from now on."""
        with self._lock:
            _append(self._stored.setdefault(name[0], []), name[1])

    def resume(self, tier: int, pages: range) -> None:
        """Pages of a tier are in the store already."""
        self._stored[tier] = [pages]

    def doom(self, keys: Iterable[str]) -> None:
        """Nobody needs what is under these keys, or may arrive under them."""
        self._doomed += keys

    def behind_the_head(self, tier: int) -> None:
        """More pages of a tier are behind the head now: deletes them if they are many."""
        if sum(len(pages) for _, pages in self._gone(tier)) >= DELETE_AT_LEAST:
            self._start()

    def start(self) -> None:
        """Deletes what can be deleted, in the background."""
        if self._doomed or any(self._gone(tier) for tier in list(self._stored)):
            self._start()

    def check(self) -> None:
        """Raises the store's error if it goes on refusing to delete: the store would fill up unseen."""
        if self.failure is not None:
            self._lane.finish()
            self._delete()

    def finish(self) -> None:
        """Deletes what is behind the head and no version names, before the window is given up."""
        self._lane.finish()
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            self._delete()

    def clear_away(self) -> None:
        """Deletes what no version names, wherever the head is: nobody goes on with it."""
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            if not self._shelf.keys.knows_root():
                return  # what this writer takes for uncommitted may be another's, or committed after all
            self._delete_doomed()
            for tier in list(self._stored):
                self._delete_pages(tier, self._unneeded(tier))

    def _start(self) -> None:
        self._lane.submit(self._delete_what_can_be)

    def _delete_what_can_be(self) -> None:
        try:
            self._delete()
        except StoreError as error:
            window = self._shelf.window
            _log.warning("what the window %r needs no longer could not be deleted: %s", window, error)

    def _delete(self) -> None:
        """Deletes what is behind the head and every retained version; what fails is left for next time."""
        try:
            self._delete_doomed()
            for tier in list(self._stored):
                self._delete_pages(tier, self._gone(tier))
        except StoreError as error:
            self.failure = error
            raise
        self.failure = None

    def _delete_doomed(self) -> None:
        keys = list(self._doomed)
        if keys:
            self._shelf.store.delete_many(keys)
            del self._doomed[: len(keys)]

    def _delete_pages(self, tier: int, gone: list[tuple[str, range]]) -> None:
        for prefix, pages in gone:
            self._shelf.store.delete_range(prefix, pages.start, pages.stop)
        with self._lock:
            self._stored[tier] = without(self._stored[tier], [pages for _, pages in gone])

    def _gone(self, tier: int) -> list[tuple[str, range]]:
        """Pages of a tier in the store that are behind the head, and that no version names."""
        return self._unneeded(tier, self._behind.first(tier))

    def _unneeded(self, tier: int, below: int | None = None) -> list[tuple[str, range]]:
        """Pages of a tier in the store that no version names, below a number, with their keys' prefix."""
        with self._lock:
            stored = list(self._stored.get(tier, []))
        keys, held = self._shelf.keys, [*stored]
        if below is not None:
            held = [range(each.start, min(each.stop, below)) for each in stored if each.start < below]
        named: dict[str, list[range]] = {}
        for prefix, pages in keys.needed(tier) if held else ():
            named.setdefault(prefix, []).append(pages)
        return [
            (prefix, gone)
            for each in held
            for prefix, pages in keys.prefixes(tier, each)
            for gone in without([pages], named.get(prefix, ()))
        ]


def _append(ranges: list[range], number: int) -> None:
    """Adds a number at the end; small gaps are taken in."""
    if ranges and number <= ranges[-1].stop + DELETE_AT_LEAST:
        ranges[-1] = range(ranges[-1].start, max(ranges[-1].stop, number + 1))
    else:
        ranges.append(range(number, number + 1))
