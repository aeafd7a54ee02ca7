"""Pages of one window, written to its store in the caller's thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mta.core.page import Page
from mta.errors import PagesLost
from mta.paging.codec import encode_page
from mta.paging.page_names import PageId, WriterKeys
from mta.paging.page_reader import PageReader


class Sending(NamedTuple):
    """A page on its way to the store, with the key that it had when it was picked."""

    name: PageId
    key: str
    page: Page


class PageWriter(PageReader[WriterKeys]):
    """Writes pages under the keys that a writer gives to them, and reads them."""

    #: the store's incarnation when the first page was put, or when all pages were last found there
    _incarnation: object = None

    def end(self, name: PageId) -> int:
        """The position behind a page's last element."""
        tier, number = name
        return (number + 1) << self._shift * (tier + 1)

    def claim(self) -> None:
        """Takes an epoch to write under, and notes the store's incarnation; before pages are picked."""
        self.keys.claim()
        if self._incarnation is None:
            self._incarnation = self.store.incarnation()

    def resume(self) -> None:
        """Notes the store's incarnation, in which all pages of a version are there."""
        self._incarnation = self.store.incarnation()

    def write(self, batch: Sequence[Sending]) -> None:
        """Writes pages; one round trip."""
        self.store.put_many(
            {key: encode_page(self._layout, self.window, name[1], page) for name, key, page in batch}
        )

    def check_present(self, keys: Iterable[str]) -> None:
        """Raises PagesLost if the store may have lost pages since they were put, and some of these keys."""
        incarnation = self.store.incarnation()
        if self._incarnation not in (None, incarnation):
            missing = self.store.missing(list(keys))
            if missing:
                self.keys.check_hold()
                raise PagesLost(
                    f"{len(missing)} pages of window {self.window!r} are not in {self.store!r} any more "
                    f"(such as {missing[0]!r}), which was restarted or taken over by another server since "
                    "they were put: this window cannot go on; restore its last checkpoint (see min_replicas)"
                )
        self._incarnation = incarnation
