"""What a store is: named pages and named roots in a key-value store, as bytes.

A page is written once and read by key. A root is small, is swapped atomically, and tells which pages count.
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
from stores.urls import read_option, split_url, without_password

DELETE_CHUNK = 1000
LOOK_CHUNK = 8  # whole values are read to see whether they are there

Token = bytes | int
"""Which version of a root was read. Compare it, hash it, hand it back; never look inside."""


def new_token() -> bytes:
    """Random, so that no two swaps share a token, not even around a deletion."""
    return secrets.token_bytes(16)


class Store(ABC):
    """Thread-safe, synchronous, bytes only. Pickles as its URL and options.

    The public methods check what they are given; a subclass writes the methods with an underscore.
    Its constructor takes a URL and options, and connects no earlier than the first call if it can be forked.
    """

    local: bool = False
    """The data is visible to this process only, and dies with it."""
    shared_across_hosts: bool = False
    """Every host that opens the URL sees the same data, as that of a server."""
    exclusive: bool = False
    """One process at a time has it open; others wait, or are refused.

    Its URL is `scheme:///directory`, and the directory is its own. So whoever has many processes gives each a
    directory beneath it, as a Spark job does for its tasks.
    """
    credentials: ClassVar[str] = ""
    """What the environment variables for user and password begin with: REDIS for REDIS_PASSWORD."""
    known_options: ClassVar[Mapping[str, Callable[[str], Any]]] = {}
    """Every option and how to read it, from text in a URL or as it came; a ValueError says what is wrong."""

    def __init__(self, url: str, **options: Any) -> None:
        parts = split_url(url)
        for key, text in parse_qsl(parts.query, keep_blank_values=True):
            options.setdefault(key, text)
        unknown = sorted(set(options) - set(self.known_options))
        if unknown:
            known = ", ".join(sorted(self.known_options)) or "none"
            raise StoreConfigError(
                f"unknown option {', '.join(unknown)} for {parts.scheme}: (known: {known})"
            )
        for key, value in options.items():
            try:
                options[key] = read_option(self.known_options[key], value)
            except ValueError as error:
                raise StoreConfigError(f"option {key} of {parts.scheme}: {error}") from None
        self._url = url.partition("?")[0]
        self._options = options
        self._closed = False

    # Pages

    def put_many(self, items: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> None:
        """Writes every item, replacing what was there. Nothing is written if any item is not valid."""
        pairs = list(items.items() if isinstance(items, Mapping) else items)
        self._check_open("put_many")
        for key, value in pairs:
            check_key(key)
            if not isinstance(value, bytes):
                raise TypeError(f"the value of {key!r} must be bytes, not {type(value).__name__}")
        if pairs:
            self._put_many(pairs)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values in the order of the keys, None where there is none."""
        wanted = [check_key(key) for key in keys]
        self._check_open("get_many")
        return self._get_many(wanted) if wanted else []

    def missing(self, keys: Sequence[str]) -> list[str]:
        """Those of the keys that are not there, in their order."""
        wanted = [check_key(key) for key in keys]
        self._check_open("missing")
        return self._missing(wanted) if wanted else []

    def delete_many(self, keys: Iterable[str]) -> None:
        """Deletes what is there of the keys."""
        unwanted = [check_key(key) for key in keys]
        self._check_open("delete_many")
        if unwanted:
            self._delete_many(unwanted)

    def delete_range(self, prefix: str, start: int, stop: int) -> None:
        """Deletes the pages `page_key(prefix, i)` with start <= i < stop."""
        if start < 0:
            raise ValueError(f"start must not be negative, got {start}")
        check_key(page_key(prefix, stop))
        self._check_open("delete_range")
        if start < stop:
            self._delete_range(prefix, start, stop)

    def list_keys(self, prefix: str) -> Iterator[str]:
        """The page keys that start with the prefix, in any order; one may come twice.

        A key that is written or deleted meanwhile may come or not.
        """
        self._check_open("list_keys")
        return self._list_keys(prefix)

    # Roots

    def read_root(self, name: str) -> tuple[bytes, Token] | None:
        """The root's data and the token to swap or delete it with, or None."""
        check_name(name)
        self._check_open("read_root")
        return self._read_root(name)

    def read_roots(self, names: Sequence[str]) -> list[tuple[bytes, Token] | None]:
        """`read_root` of many, in the order of the names; they need not be of one moment."""
        wanted = [check_name(name) for name in names]
        self._check_open("read_roots")
        return self._read_roots(wanted) if wanted else []

    def swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        """Atomically replaces the root and returns its new token, which never repeats.

        Raises Conflict unless the root still has the expected token; None stands for no root. Pages that were
        put before are durable when the root is, as far as the store is durable at all.
        """
        check_name(name)
        if not isinstance(data, bytes):
            raise TypeError(f"the data of root {name!r} must be bytes, not {type(data).__name__}")
        self._check_open("swap_root")
        return self._swap_root(name, data, expected_token)

    def delete_root(self, name: str, expected_token: Token) -> None:
        """Deletes the root if it still has the token, else raises Conflict. No root at all is fine."""
        check_name(name)
        self._check_open("delete_root")
        self._delete_root(name, expected_token)

    def delete_roots(self, expected_tokens: Mapping[str, Token]) -> list[str]:
        """`delete_root` of many; the names of those that have another token, and stay."""
        names = [check_name(name) for name in expected_tokens]
        self._check_open("delete_roots")
        return self._delete_roots(dict(expected_tokens)) if names else []

    def list_roots(self, prefix: str = "") -> Iterator[str]:
        """The names of the roots that start with the prefix, in any order; one may come twice."""
        self._check_open("list_roots")
        return self._list_roots(prefix)

    # Life

    def now(self) -> float:
        """Seconds since 1970 by the clock that everybody who uses this store shares, if there is one."""
        return time.time()

    def incarnation(self) -> object:
        """Compare it: if it changed, what was put before may be gone, although it was acknowledged.

        It stays the same while nothing can have been lost, so always for a store that keeps what it took. It
        changes when a server was restarted, or another took its place. The server is asked only if it was not
        heard for a second. A root is never swapped by a call in which this changes: that raises StoreChanged.
        """
        self._check_open("incarnation")
        return self._incarnation()

    @property
    def url(self) -> str:
        """Where the store is, without the password."""
        return without_password(self._url)

    def close(self) -> None:
        """Releases connections and handles. Closing again does nothing; any other call raises StoreClosed."""
        if not self._closed:
            self._closed = True
            self._close()

    def _credential(self, name: str) -> str | None:
        """`username` or `password`, of an option, the URL or the environment."""
        if name in self._options:
            return str(self._options[name])
        told = unquote(getattr(split_url(self._url), name) or "")
        return told or (os.environ.get(f"{self.credentials}_{name.upper()}") if self.credentials else None)

    def _check_open(self, call: str) -> None:
        if self._closed:
            raise StoreClosed(f"{call}: the store {self.url} is closed")

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

    # What a store implements: arguments are checked, batches are not empty

    @abstractmethod
    def _put_many(self, items: list[tuple[str, bytes]]) -> None: ...

    @abstractmethod
    def _get_many(self, keys: list[str]) -> list[bytes | None]: ...

    def _missing(self, keys: list[str]) -> list[str]:
        missing: list[str] = []
        for start in range(0, len(keys), LOOK_CHUNK):
            chunk = keys[start : start + LOOK_CHUNK]
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
