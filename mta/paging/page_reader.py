"""The pages of one window in its store: written, read and missed here and now, in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mta.core.page import Page
from mta.core.states import Layout
from mta.errors import PagesLost
from mta.paging.codec import decode_page, encode_page
from mta.paging.page_names import Keys, PageId
from stores import Store, page_key


class Sending(NamedTuple):
    """A page on its way to the store, with the key that it had when it was picked."""

    name: PageId
    key: str
    page: Page


class Shelf:
    def __init__(self, store: Store, window: str, layout: Layout, keys: Keys, shift: int) -> None:
        self.store, self.window, self.keys = store, window, keys
        self._layout, self._shift = layout, shift
        #: of the store when pages were put for the first time, or when they were all there
        self._incarnation: object = None

    def key(self, name: PageId) -> str:
        return page_key(self.keys.prefix(*name), name[1])

    def end(self, name: PageId) -> int:
        """The leaf behind a page."""
        tier, number = name
        return (number + 1) << self._shift * (tier + 1)

    def claim(self) -> None:
        """Before pages are picked to be written: the writer has an epoch, and it is known to what store."""
        self.keys.claim()
        if self._incarnation is None:
            self._incarnation = self.store.incarnation()

    def resume(self) -> None:
        """The pages of a version are there."""
        self._incarnation = self.store.incarnation()

    def write(self, batch: Sequence[Sending]) -> None:
        self.store.put_many(
            {key: encode_page(self._layout, self.window, name[1], page) for name, key, page in batch}
        )

    def read(self, names: Sequence[PageId]) -> dict[PageId, Page]:
        """Pages that were written; one round trip."""
        keys = [self.key(name) for name in names]
        pages = {}
        for (tier, number), key, data in zip(names, keys, self.store.get_many(keys), strict=True):
            if data is None:
                self.keys.check_hold()
                raise PagesLost(
                    f"page {number} of tier {tier} of window {self.window!r} is not in {self.store!r} "
                    f"(key {key!r}); the store lost it, or the window was removed, so it cannot answer: "
                    "restore it from a copy, or start the window anew"
                )
            pages[tier, number] = decode_page(self._layout, data, self.window, tier, number, 1 << self._shift)
        return pages

    def check_present(self, keys: Callable[[], Iterable[str]]) -> None:
        """Raises PagesLost if something is not there any more, where the store may have lost some."""
        incarnation = self.store.incarnation()
        if self._incarnation not in (None, incarnation):
            missing = self.store.missing(list(keys()))
            if missing:
                self.keys.check_hold()
                raise PagesLost(
                    f"{len(missing)} pages of window {self.window!r} are not in {self.store!r} any more "
                    f"(such as {missing[0]!r}), which was restarted or taken over by another server since "
                    "they were put: this window cannot go on; restore its last checkpoint (see min_replicas)"
                )
        self._incarnation = incarnation
