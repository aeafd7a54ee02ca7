"""A store that counts what goes through it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from stores.base import Store, Token
from stores.wrapper import WrapperStore

T = TypeVar("T")


class CountingStore(WrapperStore):
    """Counts calls by name, and the pages and bytes that are written, read and deleted.

    >>> from stores import CountingStore, open_store
    >>> store = CountingStore(open_store("memory:"))
    >>> store.put_many({"a": b"123", "b": b"45"})
    >>> store.calls, store.keys_written, store.bytes_written
    (Counter({'put_many': 1}), 2, 5)
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Sets all counts to zero."""
        self.calls: Counter[str] = Counter()
        self.keys_read = self.keys_written = self.keys_deleted = 0
        self.bytes_read = self.bytes_written = 0

    @property
    def round_trips(self) -> int:
        """How many calls the inner store got."""
        return self.calls.total()

    def _around(self, call: str, action: Callable[[], T]) -> T:
        with self._lock:
            self.calls[call] += 1
        return action()

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        super()._put_many(items)
        with self._lock:
            self.keys_written += len(items)
            self.bytes_written += sum(len(value) for _, value in items)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        values = super()._get_many(keys)
        with self._lock:
            self.keys_read += len(keys)
            self.bytes_read += sum(len(value) for value in values if value is not None)
        return values

    def _delete_many(self, keys: list[str]) -> None:
        super()._delete_many(keys)
        with self._lock:
            self.keys_deleted += len(keys)

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        root = super()._read_root(name)
        with self._lock:
            self.bytes_read += len(root[0]) if root else 0
        return root

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        roots = super()._read_roots(names)
        with self._lock:
            self.bytes_read += sum(len(root[0]) for root in roots if root is not None)
        return roots

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        token = super()._swap_root(name, data, expected_token)
        with self._lock:
            self.bytes_written += len(data)
        return token
