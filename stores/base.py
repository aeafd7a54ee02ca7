"""The contract of stores: pages and roots, both bytes, in a key-value store.

A page is written once and read by its key. A root is a small document that names the pages that count, and is
replaced by compare-and-swap.
"""

from __future__ import annotations

import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, unquote

from stores.errors import Conflict, StoreClosed, StoreConfigError
from stores.names import (
    PageKey,
    check_key,
    check_name,
    escape_name,
    page_key,
    page_prefix,
    pages_of,
    parse_page_key,
)
from stores.urls import parse_bool, read_option, split_url, without_password

DELETE_CHUNK = 1000
TOKEN_BYTES = 16
MISSING_CHUNK = 8  # few keys at once, because `_missing` reads whole values

Token = bytes | int
"""Identifies one state of a root. Compare it, hash it, pass it back; never look inside."""


def new_token() -> bytes:
    """A random token, so that no two swaps have the same one, even if the root was deleted in between."""
    return secrets.token_bytes(TOKEN_BYTES)


def data_and_token(stored: bytes | None) -> tuple[bytes, Token] | None:
    """A root that is stored as its token and then its data, as `read_root` returns it."""
    return None if stored is None else (stored[TOKEN_BYTES:], stored[:TOKEN_BYTES])


class Store(ABC):
    """Stores bytes under keys. Thread-safe, synchronous, and pickled as its URL and options.

    The public methods check their arguments and call the methods with an underscore, which a subclass writes.
    The constructor takes a URL and options. A store that survives a fork connects at its first call.

    Every call may raise StoreClosed, StoreUnavailable, StoreConfigError and StoreError (see `stores.errors`),
    and a call that writes StoreFull. A ValueError or TypeError names a wrong argument; nothing is sent then.

    Costs are in round trips to a server; requests that are sent together count once, in a Redis cluster once
    for each server. After a second's pause the store for Redis makes one more, to see which server answers. A
    store in this machine makes none.
    """

    local: bool = False
    """Whether the data is visible to this process only, and is lost when it ends."""
    shared_across_hosts: bool = False
    """Whether every host that opens the URL sees the same data, as with a server."""
    exclusive: bool = False
    """Whether only one process at a time can have the store open; others wait or are refused.

    The URL of such a store is `scheme:///directory`. A program with many processes, such as a Spark job,
    gives each of them a directory below it.
    """
    credentials: ClassVar[str] = ""
    """The prefix of the environment variables for user and password: REDIS for REDIS_PASSWORD."""
    known_options: ClassVar[Mapping[str, Callable[[str], Any]]] = {}
    """The name of each option, and the function that reads its value from text in a URL or from a keyword.

    Every store also has the option `read_only`.
    """
    read_only: bool = False
    """Whether the store refuses to write, because it was opened with `read_only=True`."""

    def __init__(self, url: str, **options: Any) -> None:
        parts = split_url(url)
        for key, text in parse_qsl(parts.query, keep_blank_values=True):
            options.setdefault(key, text)
        readers = {"read_only": parse_bool, **self.known_options}
        unknown = sorted(set(options) - set(readers))
        if unknown:
            known = ", ".join(sorted(readers))
            raise StoreConfigError(
                f"unknown option {', '.join(unknown)} for {parts.scheme}: (known: {known})"
            )
        for key, value in options.items():
            try:
                options[key] = read_option(readers[key], value)
            except ValueError as error:
                raise StoreConfigError(f"option {key} of {parts.scheme}: {error}") from None
        self._url = url.partition("?")[0]
        self._options = options
        self.read_only = bool(options.get("read_only", False))
        self._closed = False

    # Pages

    def put_many(self, items: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> None:
        """Writes the items, which are keys with their values, and replaces older values.

        Raises ValueError or TypeError, and writes nothing, if any item is not valid. If it fails later, some
        items may be written; the call can be repeated. Cost: a round trip for each 8 MB.
        """
        pairs = list(items.items() if isinstance(items, Mapping) else items)
        self._check_open("put_many", writes=True)
        for key, value in pairs:
            check_key(key)
            if not isinstance(value, bytes):
                raise TypeError(f"the value of {key!r} must be bytes, not {type(value).__name__}")
        if pairs:
            self._put_many(pairs)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values in the order of the keys, None for a key without one.

        Cost: a round trip for each 8 keys in Redis, or up to 8 MB of small values; for each 8 MB or 32 keys
        in Couchbase.
        """
        wanted = [check_key(key) for key in keys]
        self._check_open("get_many")
        return self._get_many(wanted) if wanted else []

    def missing(self, keys: Sequence[str]) -> list[str]:
        """The keys that have no value, in the order of `keys`.

        Cost: a round trip for each 1,000 keys in Redis; elsewhere that of `get_many`, 8 keys at a time.
        """
        wanted = [check_key(key) for key in keys]
        self._check_open("missing")
        return self._missing(wanted) if wanted else []

    def delete_many(self, keys: Iterable[str]) -> None:
        """Deletes the keys; one without a value is no error. Cost: a round trip for each 512 keys or more."""
        unwanted = [check_key(key) for key in keys]
        self._check_open("delete_many", writes=True)
        if unwanted:
            self._delete_many(unwanted)

    def delete_range(self, prefix: str, start: int, stop: int) -> None:
        """Deletes the pages `page_key(prefix, i)` with start <= i < stop.

        Cost: one step in RocksDB; elsewhere that of `delete_many` for all the keys of the range.
        """
        if start < 0:
            raise ValueError(f"start must not be negative, got {start}")
        check_key(page_key(prefix, stop))
        self._check_open("delete_range", writes=True)
        if start < stop:
            self._delete_range(prefix, start, stop)

    def list_keys(self, prefix: str) -> Iterator[str]:
        """The page keys that start with the prefix, in any order; a key may come twice.

        A key that is written or deleted while the iterator runs may come or not. Cost: in proportion to all
        keys of a Redis server, whatever the prefix is; to the keys found elsewhere.
        """
        self._check_open("list_keys")
        return self._list_keys(prefix)

    # Roots

    def read_root(self, name: str) -> tuple[bytes, Token] | None:
        """The root's data, and the token to swap or delete it with, or None. Cost: one round trip."""
        check_name(name)
        self._check_open("read_root")
        return self._read_root(name)

    def read_roots(self, names: Sequence[str]) -> list[tuple[bytes, Token] | None]:
        """The same as `read_root` for each name, in their order. The roots may be read at different moments.

        Cost: a round trip for the first 500 names in Redis, and then for each 4,000 or 8 MB; for each 32 or
        more in Couchbase.
        """
        wanted = [check_name(name) for name in names]
        self._check_open("read_roots")
        return self._read_roots(wanted) if wanted else []

    def swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        """Replaces the root by compare-and-swap, and returns its new token, which never repeats.

        Raises Conflict unless the root still has `expected_token`, or there is no root and it is None; raises
        StoreChanged if the server may have lost pages (see `incarnation`). After any other StoreUnavailable
        the root may be swapped or not. Pages put before are at least as durable as the root. Cost: one round
        trip in Redis, two in Couchbase.
        """
        check_name(name)
        if not isinstance(data, bytes):
            raise TypeError(f"the data of root {name!r} must be bytes, not {type(data).__name__}")
        self._check_open("swap_root", writes=True)
        return self._swap_root(name, data, expected_token)

    def delete_root(self, name: str, expected_token: Token) -> None:
        """Deletes the root if it has the token, else raises Conflict. No root is no error. Cost: a swap's."""
        check_name(name)
        self._check_open("delete_root", writes=True)
        self._delete_root(name, expected_token)

    def delete_roots(self, expected_tokens: Mapping[str, Token]) -> list[str]:
        """The same as `delete_root` for each name; returns the names whose roots had other tokens, and stay.

        Cost: a round trip for each 100 names in Redis; elsewhere that of `delete_root` for each.
        """
        names = [check_name(name) for name in expected_tokens]
        self._check_open("delete_roots", writes=True)
        return self._delete_roots(dict(expected_tokens)) if names else []

    def list_roots(self, prefix: str = "") -> Iterator[str]:
        """The names of the roots that start with the prefix, in any order; a name may come twice."""
        self._check_open("list_roots")
        return self._list_roots(prefix)

    # Life

    def now(self) -> float:
        """Seconds since 1970, by the server's clock if the store has one, else by this machine's.

        Cost: a round trip every 15 seconds in Redis, none elsewhere.
        """
        return time.time()

    def incarnation(self) -> object:
        """A value to compare: once it differs, the store may have lost pages and roots that it acknowledged.

        It changes when a server was restarted or replaced, and never in a store that cannot lose data so. A
        `swap_root` during which it changes swaps nothing and raises StoreChanged. Cost: a round trip, if the
        server has not answered for a second.
        """
        self._check_open("incarnation")
        return self._incarnation()

    @property
    def url(self) -> str:
        """The URL of the store, without the password."""
        return without_password(self._url)

    def close(self) -> None:
        """Closes connections and files; other methods then raise StoreClosed. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close()

    def _credential(self, name: str) -> str | None:
        """The `username` or `password`: from the options, else the URL, else the environment."""
        if name in self._options:
            return str(self._options[name])
        in_url = unquote(getattr(split_url(self._url), name) or "")
        return in_url or (os.environ.get(f"{self.credentials}_{name.upper()}") if self.credentials else None)

    def _check_open(self, call: str, *, writes: bool = False) -> None:
        if self._closed:
            raise StoreClosed(f"{call}: the store {self.url} is closed")
        if writes and self.read_only:
            raise StoreConfigError(
                f"{call}: the store {self.url} was opened for reading only: open it without read_only=True"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._url, self._options)

    # The methods that a subclass writes: their arguments are valid, and batches are not empty

    @abstractmethod
    def _put_many(self, items: list[tuple[str, bytes]]) -> None: ...

    @abstractmethod
    def _get_many(self, keys: list[str]) -> list[bytes | None]: ...

    def _missing(self, keys: list[str]) -> list[str]:
        missing: list[str] = []
        for start in range(0, len(keys), MISSING_CHUNK):
            chunk = keys[start : start + MISSING_CHUNK]
            found = self._get_many(chunk)
            missing += [key for key, value in zip(chunk, found, strict=True) if value is None]
        return missing

    @abstractmethod
    def _delete_many(self, keys: list[str]) -> None: ...

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        indices = iter(range(start, stop))
        while chunk := [page_key(prefix, index) for index in islice(indices, DELETE_CHUNK)]:
            self._delete_many(chunk)

    @abstractmethod
    def _list_keys(self, prefix: str) -> Iterator[str]: ...

    @abstractmethod
    def _read_root(self, name: str) -> tuple[bytes, Token] | None: ...

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        return [self._read_root(name) for name in names]

    @abstractmethod
    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token: ...

    @abstractmethod
    def _delete_root(self, name: str, expected_token: Token) -> None: ...

    def _delete_roots(self, expected_tokens: dict[str, Token]) -> list[str]:
        kept = []
        for name, token in expected_tokens.items():
            try:
                self._delete_root(name, token)
            except Conflict:
                kept.append(name)
        return kept

    @abstractmethod
    def _list_roots(self, prefix: str) -> Iterator[str]: ...

    def _incarnation(self) -> object:
        return None

    @abstractmethod
    def _close(self) -> None: ...


def _reopen(kind: type[Store], url: str, options: dict[str, Any]) -> Store:
    return kind(url, **options)


__all__ = [
    "PageKey",
    "Store",
    "Token",
    "check_key",
    "check_name",
    "escape_name",
    "new_token",
    "page_key",
    "page_prefix",
    "pages_of",
    "parse_page_key",
]
