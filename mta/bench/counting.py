"""A store that counts what goes through it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

from stores import Store, Token


class CountingStore(Store):
    """Hands every call to another store, and counts calls, keys read and bytes written."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner.url)
        self._inner = inner
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.calls: Counter[str] = Counter()
        self.keys_read = self.bytes_written = 0

    def _count(self, call: str, *, keys: int = 0, written: int = 0) -> None:
        with self._lock:
            self.calls[call] += 1
            self.keys_read += keys
            self.bytes_written += written

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        self._count("put_many", written=sum(len(value) for _, value in items))
        self._inner.put_many(items)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        self._count("get_many", keys=len(keys))
        return self._inner.get_many(keys)

    def _delete_many(self, keys: list[str]) -> None:
        self._count("delete_many")
        self._inner.delete_many(keys)

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        self._count("delete_range")
        self._inner.delete_range(prefix, start, stop)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        return self._inner.list_keys(prefix)

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        self._count("read_root")
        return self._inner.read_root(name)

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        self._count("swap_root", written=len(data))
        return self._inner.swap_root(name, data, expected_token)

    def _delete_root(self, name: str, expected_token: Token) -> None:
        self._inner.delete_root(name, expected_token)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        return self._inner.list_roots(prefix)

    def _close(self) -> None:
        pass
