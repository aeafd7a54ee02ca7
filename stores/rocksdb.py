"""A store in a directory of this machine: `rocksdb:///var/lib/windows`, on RocksDB. One process at a time."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote, unquote

import rocksdict

from stores.base import (
    Conflict,
    Store,
    StoreConfigError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Token,
    new_token,
    page_key,
    split_url,
)

T = TypeVar("T")

PAGE = b"p"
ROOT = b"r"
TOKEN_BYTES = 16
BATCH_BYTES = 2 << 20
LIST_CHUNK = 1000

#: Pages go through the log where roots are swapped at least this often, in bytes of pages. The log costs more
#: than all else of a write, but without it a swap has to flush what was put before it.
LOGGED_BYTES = 16 << 20

#: Seconds between two tries to open a directory that another process has open.
PAUSE = 0.05

READ_ONLY = ("Read-only file system", "Permission denied", "Operation not permitted")
FULL = ("No space left on device", "Disk quota exceeded", "File too large", "Writer has previous error")


def _settings() -> rocksdict.Options:
    """Memory that does not grow with the data, for pages of some 100 KB written once in order of their keys.

    Files of 32 MB write half as much in compaction as the default at a small write buffer. Blob files write
    more, since pages die by range deletes, and compression costs more than it saves on packed columns.
    """
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(4 << 20)
    options.set_max_write_buffer_number(3)
    # a write that has to wait for a flush waits with the interpreter's lock held: leave it room
    options.set_level_zero_file_num_compaction_trigger(16)
    options.set_level_zero_slowdown_writes_trigger(64)
    options.set_level_zero_stop_writes_trigger(128)
    options.set_max_total_wal_size(16 << 20)
    options.set_target_file_size_base(32 << 20)
    options.set_max_bytes_for_level_base(256 << 20)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_max_open_files(64)
    # each of the usual 16 threads reserves address space, of which a Spark worker may have little
    options.set_max_file_opening_threads(1)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(2 << 20))
    options.set_block_based_table_factory(tables)
    return options


class _Database:
    """One open directory, shared by all stores of this process that name it.

    Its users are the open stores and the calls under way: the last one to leave closes it.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.users = 0
        self.swapping = threading.Lock()
        self.logging = threading.Lock()
        #: bytes of pages put since the last root was swapped, and whether they are in the log
        self.since_swap = 0
        self.logged = False
        self.unlogged = False
        os.makedirs(directory, exist_ok=True)
        self.rocks: Any = rocksdict.Rdict(directory, options=_settings())

    def put(self, batch: Any, size: int) -> None:
        with self.logging:
            self.since_swap += size
            if self.since_swap > LOGGED_BYTES:
                self.logged = False
            self.unlogged = self.unlogged or not self.logged
            self.rocks.write(batch, None if self.logged else _unlogged())

    def settle(self) -> None:
        """Before a root is swapped: what is not in the log is flushed to files."""
        with self.logging:
            if self.unlogged:
                self.rocks.flush(True)
            self.logged = self.since_swap <= LOGGED_BYTES
            self.since_swap, self.unlogged = 0, False


_databases: dict[str, _Database] = {}
_databases_lock = threading.Lock()


def _forget_after_fork() -> None:
    # RocksDB's threads stay in the parent, and closing the child's copy would wait for them: never free it.
    global _databases_lock
    for database in _databases.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database.rocks))
    _databases.clear()
    _databases_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


class RocksDBStore(Store):
    """A relative directory is written `rocksdb:directory`, and is made absolute at once."""

    #: patience: seconds to wait for another process to close the directory
    known_options: ClassVar[dict[str, Callable[[str], Any]]] = {"patience": float}

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._patience = float(self._options.get("patience", 0.0))
        parts = split_url(url)
        if parts.netloc or not parts.path:
            raise StoreConfigError(
                "expected a URL such as rocksdb:///absolute/directory or rocksdb:relative/directory"
            )
        self._directory = os.path.realpath(unquote(parts.path))
        self._url = f"rocksdb://{quote(self._directory)}"
        self._opened: tuple[int, _Database] | None = None

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
        return self._call("get_many", lambda database: list(database.rocks.get(wanted)))

    def _delete_many(self, keys: list[str]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in keys:
            batch.delete(_page(key))
        self._write("delete_many", batch)

    def _delete_range(self, prefix: str, start: int, stop: int) -> None:
        first, end = _page(page_key(prefix, start)), _page(page_key(prefix, stop))
        self._call("delete_range", lambda database: database.rocks.delete_range(first, end))

    def _list_keys(self, prefix: str) -> Iterator[str]:
        return self._scan("list_keys", PAGE, prefix)

    def _write(self, call: str, batch: Any) -> None:
        self._call(call, lambda database: database.rocks.write(batch))

    # Roots

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        return _data_and_token(self._call("read_root", lambda database: database.rocks.get(_root(name))))

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        keys = [_root(name) for name in names]
        return list(map(_data_and_token, self._call("read_roots", lambda database: database.rocks.get(keys))))

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        token = new_token()

        def swap(database: _Database) -> None:
            with database.swapping:
                if _token(database, name) != expected_token:
                    raise Conflict(name)
                database.settle()
                # Pages and roots share one log, so this makes the pages before it durable too.
                database.rocks.put(_root(name), token + data, write_opt=_synced())

        self._call("swap_root", swap)
        return token

    def _delete_root(self, name: str, expected_token: Token) -> None:
        def delete(database: _Database) -> None:
            with database.swapping:
                if _token(database, name) not in (None, expected_token):
                    raise Conflict(name)
                database.rocks.delete(_root(name), write_opt=_synced())

        self._call("delete_root", delete)

    def _delete_roots(self, expected_tokens: dict[str, Token]) -> list[str]:
        def delete(database: _Database) -> list[str]:
            with database.swapping:
                found = {name: _token(database, name) for name in expected_tokens}
                batch = rocksdict.WriteBatch(raw_mode=True)
                for name, token in found.items():
                    if token == expected_tokens[name]:
                        batch.delete(_root(name))
                database.rocks.write(batch, _synced())
                return [name for name, token in found.items() if token not in (None, expected_tokens[name])]

        return self._call("delete_roots", delete)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        return self._scan("list_roots", ROOT, prefix)

    def _scan(self, call: str, kind: bytes, prefix: str) -> Iterator[str]:
        first = start = kind + prefix.encode()

        def some(database: _Database) -> list[bytes]:
            # No iterator outlives this call, since an iterator keeps the directory locked after close().
            return list(islice(database.rocks.keys(from_key=start), LIST_CHUNK))

        while keys := self._call(call, some):
            for key in keys:
                if not key.startswith(first):
                    return
                yield key[len(kind) :].decode()
            start = keys[-1] + b"\0"
            self._check_open(call)

    # Life

    def _call(self, call: str, action: Callable[[_Database], T]) -> T:
        try:
            database = self._enter(call)
            try:
                return action(database)
            finally:
                _leave(database)
        except StoreError:
            raise
        except Exception as error:
            if type(error) is not Exception and not isinstance(error, OSError):
                raise  # rocksdict raises plain exceptions; anything else is a mistake of ours
            raise self._explained(call, str(error)) from error

    def _explained(self, call: str, text: str) -> StoreError:
        where = f"{call}: the directory {self._directory}"
        if any(reason in text for reason in FULL):
            return StoreFull(f"{where} takes no more data: make room and open the store again ({text})")
        if any(reason in text for reason in READ_ONLY):
            return StoreFull(f"{where} cannot be written by this user: {text}")
        if "lock hold by current process" in text:
            return StoreUnavailable(
                f"{where} was open when this process was forked (1 try): close the store before a fork, "
                "or start processes by spawn"
            )
        if "While lock file" in text:
            return StoreUnavailable(
                f"{where} is open in another process (1 try): close it there, or use another directory"
            )
        return StoreError(f"{where}: {text}")

    def _enter(self, call: str) -> _Database:
        patient_until = time.monotonic() + self._patience
        while True:
            try:
                return self._entered(call)
            except Exception as error:
                if "While lock file" not in str(error) or time.monotonic() > patient_until:
                    raise
                time.sleep(PAUSE)

    def _entered(self, call: str) -> _Database:
        with _databases_lock:
            self._check_open(call)
            if self._opened is None or self._opened[0] != os.getpid():
                database = _databases.get(self._directory) or _Database(self._directory)
                _databases[self._directory] = database
                database.users += 1
                self._opened = os.getpid(), database
            database = self._opened[1]
            database.users += 1
            return database

    def _close(self) -> None:
        with _databases_lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            try:
                _leave(opened[1])
            except Exception as error:  # of what was put since the last root, nothing counted yet
                raise self._explained("close", str(error)) from error


def _leave(database: _Database) -> None:
    with _databases_lock:
        database.users -= 1
        if not database.users:
            del _databases[database.directory]
            database.rocks.close()


def _page(key: str) -> bytes:
    return PAGE + key.encode()


def _root(name: str) -> bytes:
    return ROOT + name.encode()


def _data_and_token(stored: bytes | None) -> tuple[bytes, Token] | None:
    return None if stored is None else (stored[TOKEN_BYTES:], stored[:TOKEN_BYTES])


def _token(database: _Database, name: str) -> bytes | None:
    stored: bytes | None = database.rocks.get(_root(name))
    return None if stored is None else stored[:TOKEN_BYTES]


def _unlogged() -> Any:
    options = rocksdict.WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


def _synced() -> Any:
    options = rocksdict.WriteOptions()
    options.sync = True
    return options
