"""Pages of one window, read from its store in the caller's thread. Reading needs no writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from mta.core.page import Page
from mta.core.states import Layout
from mta.errors import PagesLost
from mta.paging.codec import decode_page
from mta.paging.page_names import PageId, PageKeys
from stores import Store, page_key

Keys = TypeVar("Keys", bound=PageKeys)


class PageReader(Generic[Keys]):
    """Reads the pages whose keys a version, or a writer, knows."""

    def __init__(self, store: Store, window: str, layout: Layout, keys: Keys, shift: int) -> None:
        self.store, self.window, self.keys = store, window, keys
        self._layout, self._shift = layout, shift

    def key(self, name: PageId) -> str:
        return page_key(self.keys.prefix(*name), name[1])

    def stored(self, names: Sequence[PageId]) -> Iterator[tuple[PageId, str, bytes | None]]:
        """Pages with their keys and bytes, or None for a page that is not there; one round trip."""
        keys = [self.key(name) for name in names]
        return zip(names, keys, self.store.get_many(keys), strict=True)

    def decode(self, name: PageId, data: bytes) -> Page:
        """A page out of its bytes; PageCorrupt if they are not this page's."""
        return decode_page(self._layout, data, self.window, *name, 1 << self._shift)

    def read(self, names: Sequence[PageId]) -> dict[PageId, Page]:
        """Pages that were written; one round trip. Raises PagesLost if one is not there."""
        pages = {}
        for name, key, data in self.stored(names):
            if data is None:
                self.keys.check_hold()
                raise PagesLost(
                    f"page {name[1]} of tier {name[0]} of window {self.window!r} is not in {self.store!r} "
                    f"(key {key!r}); the store lost it, or the window was removed, so it cannot answer: "
                    "restore it from a copy, or start the window anew"
                )
            pages[name] = self.decode(name, data)
        return pages
