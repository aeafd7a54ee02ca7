"""A store in this process: `memory:` is private, `memory:name` is shared by all who open it by that name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from stores.base import Store, Token, new_token
from stores.errors import Conflict, StoreConfigError
from stores.urls import split_url


class _Contents:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pages: dict[str, bytes] = {}
        self.roots: dict[str, tuple[bytes, Token]] = {}
        _all.add(self)


_all: WeakSet[_Contents] = WeakSet()


def _unlock_after_fork() -> None:
    """Runs in the child of a fork, where the thread that held a lock does not exist."""
    global _named_lock
    _named_lock = threading.Lock()
    for contents in list(_all):
        contents.lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock_after_fork)


_named: dict[str, _Contents] = {}
_named_lock = threading.Lock()


class MemoryStore(Store):
    """`memory:` opens a new private store each time; `memory:name` opens one that this process shares.

    >>> from stores import open_store
    >>> with open_store("memory:shared") as one, open_store("memory:shared") as other:
    ...     one.put_many({"key": b"value"})
    ...     other.get_many(["key"])
    [b'value']
    """

    local = True

    def __init__(self, url: str = "memory:", **options: Any) -> None:
        super().__init__(url, **options)
        name = split_url(url).path
        if name:
            with _named_lock:
                self._contents = _named.setdefault(name, _Contents())
        else:
            self._contents = _Contents()

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        with self._contents.lock:
            self._contents.pages.update(items)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        with self._contents.lock:
            return [self._contents.pages.get(key) for key in keys]

    def _delete_many(self, keys: list[str]) -> None:
        with self._contents.lock:
            for key in keys:
                self._contents.pages.pop(key, None)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        with self._contents.lock:
            return iter([key for key in self._contents.pages if key.startswith(prefix)])

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        with self._contents.lock:
            return self._contents.roots.get(name)

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        with self._contents.lock:
            return [self._contents.roots.get(name) for name in names]

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        with self._contents.lock:
            _, token = self._contents.roots.get(name, (b"", None))
            if token != expected_token:
                raise Conflict(name)
            token = new_token()
            self._contents.roots[name] = data, token
            return token

    def _delete_root(self, name: str, expected_token: Token) -> None:
        with self._contents.lock:
            _, token = self._contents.roots.get(name, (b"", expected_token))
            if token != expected_token:
                raise Conflict(name)
            self._contents.roots.pop(name, None)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        with self._contents.lock:
            return iter([name for name in self._contents.roots if name.startswith(prefix)])

    def _close(self) -> None:
        self._contents = _Contents()

    def __reduce__(self) -> tuple[Any, ...]:
        if not split_url(self._url).path:
            raise StoreConfigError("a private memory: store cannot be pickled: open it as memory:name")
        return _reopen_here, (self._url, os.getpid(), self._options)


def _reopen_here(url: str, pid: int, options: dict[str, Any]) -> MemoryStore:
    # Another process would open an empty store, and a window there would have silently lost its pages.
    if pid != os.getpid():
        raise StoreConfigError(f"the store {url} lives in process {pid} only: use rocksdb: or redis:")
    return MemoryStore(url, **options)
