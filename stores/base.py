"""What a store is: named pages and named roots in a key-value store, as bytes.

A page is written once and read by key. A root is small, is swapped atomically, and tells which pages count.
"""

from __future__ import annotations

import importlib
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import parse_qsl

from stores.errors import (
    Conflict,
    StoreChanged,
    StoreClosed,
    StoreConfigError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnknownStore,
)
from stores.urls import parse_bool, read_option, split_url, without_password

MAX_NAME_BYTES = 200
MAX_KEY_BYTES = 240  # a page key of the longest name; Couchbase ends keys at 246 bytes
DELETE_CHUNK = 1000
LOOK_CHUNK = 8  # whole values are read to see whether they are there

Token = bytes | int
"""Which version of a root was read. Compare it, hash it, hand it back; never look inside."""


class PageKey(NamedTuple):
    """What a page key says."""

    name: str
    epoch: int
    tier: int
    number: int


def escape_name(name: str) -> str:
    """The name without braces and control characters, so that it can stand in a `{hash tag}`.

    Works character by character, so the escape of a prefix is a prefix of the escape.
    """
    return re.sub(r"[%{}\x00-\x1f\x7f]", lambda match: f"%{ord(match[0]):02X}", name)


def unescape_name(escaped: str) -> str:
    return re.sub(r"%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), escaped)


def check_name(name: object) -> str:
    """The name of a window or root, if every store can hold it."""
    return _check_text("name", name, MAX_NAME_BYTES, escape_name)


def check_key(key: object) -> str:
    return _check_text("key", key, MAX_KEY_BYTES, str)


def _check_text(what: str, text: object, limit: int, stored: Callable[[str], str]) -> str:
    if not isinstance(text, str):
        raise ValueError(f"a {what} must be a str, not {text!r}")
    if not text:
        raise ValueError(f"a {what} must not be empty, got ''")
    try:
        size = len(stored(text).encode())
    except UnicodeEncodeError:
        raise ValueError(f"a {what} must be valid Unicode, got {text!r}") from None
    if size > limit:
        raise ValueError(f"a {what} must take at most {limit} UTF-8 bytes once escaped, got {size}: {text!r}")
    return text


def page_key(prefix: str, index: int) -> str:
    """Fixed width, so that keys sort as their indices do."""
    return f"{prefix}{index:016x}"


def pages_of(name: str) -> str:
    """The common prefix of all pages of a window, and of no other window's."""
    return f"{{{escape_name(check_name(name))}}}:"


def page_prefix(name: str, epoch: int, tier: int) -> str:
    """The prefix of the pages that one writer wrote for one tier of a window."""
    if not (0 <= epoch < 1 << 64 and 0 <= tier < 1 << 8):
        raise ValueError(f"epoch must fit in 64 bits and tier in 8, got {epoch} and {tier}")
    return f"{pages_of(name)}{epoch:016x}:{tier:02x}:"


_PAGE_KEY = re.compile(r"\{([^{}]+)\}:([0-9a-f]{16}):([0-9a-f]{2}):([0-9a-f]{16})")


def parse_page_key(key: str) -> PageKey:
    match = _PAGE_KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"not a page key: {key!r}")
    name, epoch, tier, index = match.groups()
    return PageKey(unescape_name(name), int(epoch, 16), int(tier, 16), int(index, 16))


def new_token() -> bytes:
    """Random, so that no two swaps share a token, not even around a deletion."""
    return secrets.token_bytes(16)


class Store(ABC):
    """Thread-safe, synchronous, bytes only. Pickles as its URL and options.

    The public methods check what they are given; a subclass writes the methods with an underscore.
    Its constructor takes a URL and options, and connects no earlier than the first call if it can be forked.
    """

    local: ClassVar[bool] = False
    """The data is visible to this process only, and dies with it."""
    shared_across_hosts: ClassVar[bool] = False
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


class _Scheme(NamedTuple):
    module: str
    kind: str
    extra: str | None


_SCHEMES = {
    "memory": _Scheme("stores.memory", "MemoryStore", None),
    "rocksdb": _Scheme("stores.rocksdb", "RocksDBStore", None),
    **{
        f"{server}{tls}{form}": _Scheme("stores.redis", "RedisStore", "redis")
        for server in ("redis", "valkey")
        for form in ("", "+cluster", "+sentinel")
        for tls in ("", "s")
    },
    "couchbase": _Scheme("stores.couchbase", "CouchbaseStore", "couchbase"),
    "couchbases": _Scheme("stores.couchbase", "CouchbaseStore", "couchbase"),
}


def open_store(url: str, *, create: bool = True, **options: Any) -> Store:
    """The store at a URL, such as `memory:`, `rocksdb:///var/lib/windows` or `redis://host:6379/0`.

    Options can also stand in the URL: `redis://host?patience=3`. With `create=False`, which every URL takes,
    nothing is made where there is no store yet: the first call raises a StoreError.
    """
    scheme = split_url(url).scheme
    known = _SCHEMES.get(scheme)
    if known is None:
        raise UnknownStore(f"no store for the scheme {scheme!r} (known: {', '.join(_SCHEMES)})")
    try:
        module = importlib.import_module(known.module)
    except ModuleNotFoundError as error:
        if known.extra is None or (error.name or "").partition(".")[0] != known.extra:
            raise
        raise StoreConfigError(
            f"{scheme}: needs the package {known.extra}: pip install 'mta-windows[{known.extra}]'"
        ) from error
    kind = getattr(module, known.kind)
    if not create and "create" in kind.known_options:
        options["create"] = False
    store: Store = kind(url, **options)
    return store


__all__ = [
    "Conflict",
    "PageKey",
    "Store",
    "StoreChanged",
    "StoreClosed",
    "StoreConfigError",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "Token",
    "UnknownStore",
    "check_key",
    "check_name",
    "escape_name",
    "new_token",
    "open_store",
    "page_key",
    "page_prefix",
    "pages_of",
    "parse_bool",
    "parse_page_key",
    "split_url",
    "unescape_name",
]
