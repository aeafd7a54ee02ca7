"""The store: the keys that each call reads and writes, and its errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar, cast
from urllib.parse import quote, unquote
from weakref import WeakSet

import rocksdict

from stores.base import TOKEN_BYTES, Store, Token, data_and_token, new_token
from stores.errors import Conflict, StoreConfigError, StoreError, StoreFull, StoreUnavailable
from stores.names import check_key, check_name, page_key, valid_or_none
from stores.patience import Budget, Patience, Patient
from stores.rocksdb.database import Database
from stores.rocksdb.directory import InUse
from stores.rocksdb.engine import PAGE, ROOT, is_directory_error, is_engine_error, scan
from stores.rocksdb.replica import Moved, Replica
from stores.rocksdb.sharing import Forked, acquire, release
from stores.urls import parse_bool, parse_number, split_url, within

T = TypeVar("T")

BATCH_BYTES = 2 << 20
LIST_CHUNK = 1000

#: How often a call opens a directory that is only read: the writer may have deleted a file of it meanwhile.
OPENINGS = 20

READ_ONLY = ("Read-only file system", "Permission denied", "Operation not permitted")
FULL = ("No space left on device", "Disk quota exceeded", "File too large", "Writer has previous error")


@dataclass(frozen=True)
class OpeningFailures:
    """The errors for a directory that this process may not open."""

    directory: str

    errors = (InUse, Forked)

    def final(self, call: str, error: Exception) -> StoreError | None:
        if isinstance(error, InUse):
            return None
        return StoreUnavailable(
            f"{call}: the directory {self.directory} was open when this process was forked: close the store "
            "before a fork, or start processes by spawn"
        )

    def gave_up(self, call: str, error: Exception, budget: Budget) -> StoreError:  # noqa: ARG002
        return StoreUnavailable(
            f"{call}: the directory {self.directory} is open in another process ({budget.spent()}): close it "
            "there, wait longer by patience=, or use another directory"
        )


class RocksDBStore(Store):
    """`rocksdb:///var/lib/windows`. A relative directory, `rocksdb:directory`, is made absolute at once.

    The first call opens the database, and creates it if there is none. One process at a time has it open for
    writing; with `read_only=True` any number of others read it meanwhile. Its options `patience`, `create`
    and `direct` are explained in docs/rocksdb.md.

    >>> import tempfile
    >>> from stores import open_store
    >>> with tempfile.TemporaryDirectory() as directory, open_store(f"rocksdb://{directory}") as store:
    ...     store.put_many({"key": b"value"})
    ...     store.get_many(["key"])
    [b'value']
    """

    exclusive = True
    known_options: ClassVar[dict[str, Callable[[Any], Any]]] = {
        "patience": within(parse_number, 0),
        "create": parse_bool,
        "direct": parse_bool,
    }

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._create: bool = self._options.get("create", True)
        self._direct: bool = self._options.get("direct", False)
        parts = split_url(url)
        if parts.netloc or not parts.path:
            raise StoreConfigError(
                "expected a URL such as rocksdb:///absolute/directory or rocksdb:relative/directory"
            )
        self._directory = os.path.realpath(unquote(parts.path))
        self._url = f"rocksdb://{quote(self._directory)}"
        self._patient = Patient(
            Patience.of(self._options, 0.0), OpeningFailures(self._directory), self._check_open
        )
        #: what a store that only reads has instead of the database that a process shares
        self._replica: Replica | None = None
        #: whether the directory was looked at for damage, as its first opening does
        self._checked = False
        self._reading = threading.Lock()
        if self.read_only:
            self.exclusive = False
            _readers.add(self)

    # Pages

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        batch, size = rocksdict.WriteBatch(raw_mode=True), 0
        for key, value in items:
            batch.put(_page(key), value)
            size += len(value)
            if size >= BATCH_BYTES:
                self._put(batch, size)
                batch, size = rocksdict.WriteBatch(raw_mode=True), 0
        self._put(batch, size)

    def _put(self, batch: Any, size: int) -> None:
        self._call("put_many", lambda database: database.put(batch, size))

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        wanted = [_page(key) for key in keys]
        return self._call("get_many", lambda database: database.get(wanted))

    def _delete_many(self, keys: list[str]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in keys:
            batch.delete(_page(key))
        self._call("delete_many", lambda database: database.delete(batch))

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        first, end = _page(page_key(prefix, start)), _page(page_key(prefix, stop))
        self._call("delete_range", lambda database: database.delete_range(first, end))

    def _list_keys(self, prefix: str) -> Iterator[str]:
        return self._scan("list_keys", PAGE, prefix, check_key)

    # Roots

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        return data_and_token(self._call("read_root", lambda database: database.rocks.get(_root(name))))

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        keys = [_root(name) for name in names]
        return list(map(data_and_token, self._call("read_roots", lambda database: database.rocks.get(keys))))

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        token = new_token()

        def swap(database: Database) -> None:
            with database.swapping:
                stored = database.rocks.get(_root(name))
                if _token(stored) != expected_token:
                    raise Conflict(name)
                database.commit([(_root(name), stored, token + data)])

        self._call("swap_root", swap)
        return token

    def _delete_root(self, name: str, expected_token: Token) -> None:
        if self._delete("delete_root", {name: expected_token}):
            raise Conflict(name)

    def _delete_roots(self, expected_tokens: dict[str, Token]) -> list[str]:
        return self._delete("delete_roots", expected_tokens)

    def _delete(self, call: str, expected_tokens: dict[str, Token]) -> list[str]:
        def delete(database: Database) -> list[str]:
            with database.swapping:
                stored = {name: database.rocks.get(_root(name)) for name in expected_tokens}
                there = {name: root for name, root in stored.items() if root is not None}
                kept = [name for name, root in there.items() if _token(root) != expected_tokens[name]]
                for name in kept:
                    del there[name]
                database.commit([(_root(name), root, None) for name, root in there.items()])
                return kept

        return self._call(call, delete)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        return self._scan("list_roots", ROOT, prefix, check_name)

    def _scan(self, call: str, kind: bytes, prefix: str, check: Callable[[object], str]) -> Iterator[str]:
        first = start = kind + prefix.encode()

        def some(database: Database) -> list[bytes]:
            # In one call, since an iterator that is kept would keep the directory locked after close().
            return [entry.key() for entry in islice(scan(database.rocks, first, start), LIST_CHUNK)]

        while keys := self._call(call, some):
            for key in keys:
                found = valid_or_none(key[len(kind) :], check)
                if found is not None:
                    yield found
            start = keys[-1] + b"\0"
            self._check_open(call)

    # Life

    def _call(self, call: str, action: Callable[[Any], T]) -> T:
        caller = self, threading.get_ident()
        try:
            if self.read_only:
                return self._read(call, action)
            try:
                return action(self._patient.call(call, lambda _: self._acquire(call, caller)))
            finally:
                release(caller)
        except Exception as error:
            if not is_directory_error(error):
                raise
            raise self._explained(call, str(error)) from error

    def _read(self, call: str, action: Callable[[Replica], T]) -> T:
        """Runs `action` on what the writer has committed by now; pages are looked for there as needed."""
        with self._reading:
            for left in reversed(range(OPENINGS)):
                self._check_open(call)
                try:
                    if self._replica is None or (call != "get_many" and not self._replica.is_current()):
                        self._end_reading()
                        self._replica = Replica(self._directory, check=not self._checked)
                        self._checked = True
                    found = action(self._replica)
                    lacking = call == "get_many" and None in cast("list[object]", found)
                    if not lacking or self._replica.knows_pages() or not left:
                        return found
                    self._end_reading()
                except Exception as error:
                    if not (isinstance(error, Moved) or is_engine_error(error)) or not left:
                        raise
                    self._end_reading()
            raise AssertionError("the last try returns or raises")

    def _end_reading(self) -> None:
        replica, self._replica = self._replica, None
        if replica is not None:
            replica.close()

    def _acquire(self, call: str, caller: object) -> Database:
        return acquire(
            self._directory, self._create, self._direct, (self, caller), lambda: self._check_open(call)
        )

    def _explained(self, call: str, text: str) -> StoreError:
        where = f"{call}: the directory {self._directory}"
        if any(reason in text for reason in FULL):
            return StoreFull(f"{where} takes no more data: make room and open the store again ({text})")
        if any(reason in text for reason in READ_ONLY):
            return StoreFull(f"{where} cannot be written by this user: {text}")
        return StoreError(f"{where}: {text}")

    def close(self) -> None:
        """Closes the store. A second call completes one that was interrupted."""
        self._closed = True
        self._close()

    def _close(self) -> None:
        if self.read_only:
            with self._reading:
                self._end_reading()
            return
        try:
            release(self, (self, threading.get_ident()))
        except Exception as error:  # what was put since the last root did not count yet
            if not is_directory_error(error):
                raise
            raise self._explained("close", str(error)) from error


def _page(key: str) -> bytes:
    return PAGE + key.encode()


def _root(name: str) -> bytes:
    return ROOT + name.encode()


def _token(stored: bytes | None) -> bytes | None:
    return None if stored is None else stored[:TOKEN_BYTES]


_readers: WeakSet[RocksDBStore] = WeakSet()


def _reset_after_fork() -> None:
    """Runs in the child of a fork, which opens the directory anew."""
    for store in list(_readers):
        if store._replica is not None:
            store._replica.never_free()
        store._replica, store._reading = None, threading.Lock()


os.register_at_fork(after_in_child=_reset_after_fork)
