"""Deletes, in the background, pages before every head that no version names, and keys that were given up.

`PageWriter.keys.needed` says what versions name: the retained ones, and one whose commit is in doubt.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress

from mta.paging.background import Lane
from mta.paging.page_names import FirstPages, PageId
from mta.paging.page_writer import PageWriter
from mta.paging.ranges import without
from stores import StoreError

#: Pages behind every head are deleted when there are this many of a tier.
DELETE_AT_LEAST = 16

_log = logging.getLogger("stores")


class Reaper:
    def __init__(self, writer: PageWriter, first: FirstPages, lane: Lane) -> None:
        self._writer, self._first, self._lane = writer, first, lane
        self._lock = threading.Lock()
        #: for each tier, the ranges of pages that may be in the store, oldest first
        self._stored: dict[int, list[range]] = {}
        #: for each tier, how many pages were dropped since its pages were last looked through
        self._dropped: dict[int, int] = {}
        #: keys to delete, beside those of pages behind every head
        self._given_up: list[str] = []
        #: why the last deletion failed
        self.failure: StoreError | None = None

    def expect(self, name: PageId) -> None:
        """Notes a page that is about to be sent: it may be in the store from now on."""
        with self._lock:
            _append(self._stored.setdefault(name[0], []), name[1])

    def resume(self, tier: int, pages: range) -> None:
        """Notes pages of a tier that are in the store already. Some may be behind every head."""
        self._stored[tier] = [pages]
        self._dropped[tier] = max(0, self._first.get(tier, 0) - pages.start)

    def give_up(self, keys: Iterable[str]) -> None:
        """Has keys deleted that no version names, nor will: something may be, or arrive, under them."""
        self._given_up += keys

    def dropped(self, tier: int, count: int) -> None:
        """`count` more pages of a tier are behind every head: deletes them if they are many."""
        self._dropped[tier] = self._dropped.get(tier, 0) + count
        if self._dropped[tier] >= DELETE_AT_LEAST and tier in self._stored:
            self._lane.submit(self._delete_if_many)

    def start(self) -> None:
        """Deletes what can be deleted, in the background; wakes no thread where nothing can be."""
        stored = list(self._stored.items())
        if self._given_up or any(
            pages and pages[0].start < self._first.get(tier, 0) for tier, pages in stored
        ):
            self._lane.submit(self._delete_in_background)

    def check(self) -> None:
        """Raises the store's error if it goes on refusing to delete: the store would fill up unseen."""
        if self.failure is not None:
            self._lane.finish()
            self._delete()

    def finish(self) -> None:
        """Deletes pages behind every head that no version names, before the window is given up."""
        self._lane.finish()
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            self._delete()

    def clear_away(self) -> None:
        """Deletes all pages that no version names, wherever the heads are: the window is given up."""
        with suppress(StoreError):  # what cannot be deleted now is left for `mta gc`
            if not self._writer.keys.knows_root():
                return  # pages that this writer takes for uncommitted may be another's, or be committed
            self._delete_given_up()
            for tier in list(self._stored):
                self._delete_pages(tier, self._unneeded(tier))

    def _delete_if_many(self) -> None:
        """Deletes what can be deleted, if it is many pages. Versions may name pages that were dropped."""
        many = False
        for tier in list(self._stored):
            self._dropped[tier] = sum(len(pages) for _, pages in self._gone(tier))
            many = many or self._dropped[tier] >= DELETE_AT_LEAST
        if many:
            self._delete_in_background()

    def _delete_in_background(self) -> None:
        try:
            self._delete()
        except StoreError as error:
            window = self._writer.window
            _log.warning("what the window %r needs no longer could not be deleted: %s", window, error)

    def _delete(self) -> None:
        """Deletes pages behind every head that no version names; what fails is left for the next time."""
        try:
            self._delete_given_up()
            for tier in list(self._stored):
                self._delete_pages(tier, self._gone(tier))
        except StoreError as error:
            self.failure = error
            raise
        self.failure = None

    def _delete_given_up(self) -> None:
        keys = list(self._given_up)
        if keys:
            self._writer.store.delete_many(keys)
            del self._given_up[: len(keys)]

    def _delete_pages(self, tier: int, gone: list[tuple[str, range]]) -> None:
        for prefix, pages in gone:
            self._writer.store.delete_range(prefix, pages.start, pages.stop)
        with self._lock:
            self._stored[tier] = without(self._stored[tier], [pages for _, pages in gone])

    def _gone(self, tier: int) -> list[tuple[str, range]]:
        """Pages of a tier in the store that are behind every head, and that no version names."""
        return self._unneeded(tier, self._first.get(tier, 0))

    def _unneeded(self, tier: int, below: int | None = None) -> list[tuple[str, range]]:
        """Pages of a tier in the store that no version names, below a number, with their keys' prefix."""
        with self._lock:
            stored = list(self._stored.get(tier, []))
        keys, held = self._writer.keys, [*stored]
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
