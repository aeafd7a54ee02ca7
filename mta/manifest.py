"""Who may write a window, and under which keys its pages are."""

from __future__ import annotations

import threading
from typing import Any

import msgpack

from stores import Conflict, Store
from stores.base import check_name, page_prefix

FORMAT = 1


class Ownership:
    """The writer's epoch of one window, taken from the store when the first page is written.

    Pages are written under keys that carry the epoch, so that an older writer of the same window can never
    overwrite a page that is read.
    """

    def __init__(self, store: Store, name: str, page_size: int) -> None:
        self._store, self._name, self._page_size = store, check_name(name), page_size
        self._lock = threading.Lock()
        self._epoch: int | None = None

    def epoch(self) -> int:
        """This writer's epoch; the first call raises it in the store."""
        with self._lock:
            if self._epoch is None:
                self._epoch = self._claim()
            return self._epoch

    def _claim(self) -> int:
        while True:
            found = self._store.read_root(self._name)
            root: dict[str, Any] = {"format": FORMAT, "epoch": 0} if found is None else msgpack.unpackb(found[0])
            root["epoch"] += 1
            try:
                self._store.swap_root(self._name, msgpack.packb(root), None if found is None else found[1])
            except Conflict:
                continue
            return int(root["epoch"])

    def prefix_to_write(self, tier: int) -> str:
        return page_prefix(self._name, self.epoch(), tier)

    def prefix_to_read(self, tier: int, number: int) -> str:
        return page_prefix(self._name, self.epoch(), tier)

    def ranges(self, tier: int, start: int, stop: int) -> list[tuple[str, int, int]]:
        return [(page_prefix(self._name, self.epoch(), tier), start, stop)]
