"""Stores around another store: `WrapperStore`, and two made with it, `LatencyStore` and `CountingStore`."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Self, TypeVar

from stores.base import Store, Token
from stores.errors import StoreConfigError

T = TypeVar("T")


class WrapperStore(Store):
    """Passes every call on to the store `inner`, and has that store's properties.

    A subclass overrides `_around`, which every call goes through, or the method of one call. Closing the
    wrapper closes the inner store. The wrapper can be pickled if the subclass defines `__reduce__`.

    >>> from stores import WrapperStore, open_store
    >>> class LoggedStore(WrapperStore):
    ...     def _around(self, call, action):
    ...         print(call)
    ...         return action()
    >>> store = LoggedStore(open_store("memory:"))
    >>> store.put_many({"key": b"value"})
    put_many
    >>> store.get_many(["key"])
    get_many
    [b'value']
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner.url)
        self.inner = inner
        self.local, self.exclusive = inner.local, inner.exclusive
        self.shared_across_hosts = inner.shared_across_hosts
        self.read_only = inner.read_only

    def _around(self, call: str, action: Callable[[], T]) -> T:  # noqa: ARG002
        """Runs `action`, which makes the call named `call` on the inner store, and returns its result."""
        return action()

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        self._around("put_many", lambda: self.inner.put_many(items))

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        return self._around("get_many", lambda: self.inner.get_many(keys))

    def _missing(self, keys: list[str]) -> list[str]:
        return self._around("missing", lambda: self.inner.missing(keys))

    def _delete_many(self, keys: list[str]) -> None:
        self._around("delete_many", lambda: self.inner.delete_many(keys))

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        self._around("delete_range", lambda: self.inner.delete_range(prefix, start, stop))

    def _list_keys(self, prefix: str) -> Iterator[str]:
        return self._around("list_keys", lambda: self.inner.list_keys(prefix))

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        return self._around("read_root", lambda: self.inner.read_root(name))

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        return self._around("read_roots", lambda: self.inner.read_roots(names))

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        return self._around("swap_root", lambda: self.inner.swap_root(name, data, expected_token))

    def _delete_root(self, name: str, expected_token: Token) -> None:
        self._around("delete_root", lambda: self.inner.delete_root(name, expected_token))

    def _delete_roots(self, expected_tokens: dict[str, Token]) -> list[str]:
        return self._around("delete_roots", lambda: self.inner.delete_roots(expected_tokens))

    def _list_roots(self, prefix: str) -> Iterator[str]:
        return self._around("list_roots", lambda: self.inner.list_roots(prefix))

    # These two usually make no round trip, so `_around` does not see them.

    def now(self) -> float:
        return self.inner.now()

    def _incarnation(self) -> object:
        return self.inner.incarnation()

    def close(self) -> None:
        """Closes the inner store, also if called again: the first call may have been interrupted."""
        self._closed = True
        self._close()

    def _close(self) -> None:
        self.inner.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def __copy__(self) -> Self:
        """A wrapper of a copy of the inner store, so that closing one leaves the other open."""
        make, arguments = self.__reduce__()
        made: Self = make(*(copy(each) if each is self.inner else each for each in arguments))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        raise StoreConfigError(
            f"{type(self).__name__} cannot be pickled: it wraps a store, and has no __reduce__ that makes "
            "it again, such as `return type(self), (self.inner,)`"
        )


class LatencyStore(WrapperStore):
    """Every call takes `delay` seconds longer, as over a network, whatever its size.

    Sleeping takes a little longer than `delay`: on Linux about 0.06 ms.

    >>> from stores import LatencyStore, open_store
    >>> store = LatencyStore(open_store("memory:"), delay=0.0005)
    >>> store.put_many({"key": b"half a millisecond later"})
    """

    def __init__(self, inner: Store, delay: float) -> None:
        if isinstance(delay, bool) or not isinstance(delay, (int, float)):
            raise TypeError(f"delay must be a number of seconds, not {delay!r}")
        if not 0 <= delay < float("inf"):
            raise ValueError(f"delay must be seconds, 0 or more, not {delay!r}")
        super().__init__(inner)
        self.delay = delay

    def _around(self, call: str, action: Callable[[], T]) -> T:  # noqa: ARG002
        time.sleep(self.delay)
        return action()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.inner, self.delay)


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
