"""Pages of one version of a window, which are read and never written. Reading needs no writer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mta.core.page import Page
from mta.core.states import Layout
from mta.paging.local import NoFollower
from mta.paging.page_names import PageId
from mta.paging.page_reader import PageReader
from stores import Store

#: Pages that are kept, beside those that one call may need at once.
KEPT = 8


class KeptPages(OrderedDict[str, Page]):
    """Pages by their keys in the store, the one that was used last at the end.

    A page under a key never changes, so the versions of a window share them.
    """

    #: how many are kept
    most = KEPT

    def used(self, key: str, page: Page) -> None:
        """Keeps a page that is in use, and drops those that were used longest ago."""
        self[key] = page
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)


class VersionKeys:
    """The keys of the pages of one version."""

    def __init__(self, prefix: Callable[[int, int], str]) -> None:
        self.prefix = prefix

    def check_hold(self) -> None:
        """A reader has no hold on the window, and finds out itself why a page is missing."""


class VersionPages:
    """The page source of a log that is a version of a window in a store."""

    def __init__(
        self, store: Store, window: str, layout: Layout, keys: VersionKeys, shift: int, kept: KeptPages
    ) -> None:
        self._reader = PageReader(store, window, layout, keys, shift)
        self._kept = kept

    def fetch(self, wanted: Sequence[PageId]) -> list[Page]:
        kept = self._kept
        keys = {name: self._reader.key(name) for name in wanted}
        found = {name: kept[key] for name, key in keys.items() if key in kept}
        missing = [name for name in keys if name not in found]
        if missing:
            found.update(self._reader.read(missing))
        for name, page in found.items():
            kept.used(keys[name], page)
        return [found[name] for name in wanted]

    def follow(self) -> NoFollower:
        """A reader goes wherever it is asked to, and nothing is read ahead."""
        return NoFollower()

    def reserve(self, pages: int) -> None:
        self._kept.most = max(self._kept.most, pages + KEPT)

    def close(self) -> None:
        self._kept.clear()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a version of a window is only read, and takes no elements")

    check = put = settle = take_back = drop_below = admit = _refuse
