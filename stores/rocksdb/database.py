"""One open RocksDB database: how pages and roots are written, and how disk space is freed."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import rocksdict

from stores.errors import StoreError
from stores.os_errors import ignoring
from stores.rocksdb.commits import Change, CommitRecord
from stores.rocksdb.directory import LOCK, file_id, open_directory
from stores.rocksdb.engine import COMMITS, PAGE, is_engine_error, scan

#: Pages go through the log while there are at most this many bytes of pages between two swaps. The log costs
#: more than the rest of a write, but without it a swap has to flush the pages that were put before.
LOGGED_BYTES = 16 << 20

#: Bytes of pages between two checks of how much of the files is dead.
TIDY_BYTES = 32 << 20

#: Closing a directory compacts at most this many live bytes: that takes about a second.
QUICK_BYTES = 256 << 20


class Database:
    """Its users are open stores and the threads in a call. When the last one releases it, it is closed."""

    def __init__(self, directory: str, create: bool, direct: bool) -> None:
        self.directory = directory
        #: a set and not a number, so that a user that was interrupted in `acquire` or `release` counts once
        self.users: set[object] = set()
        self.swapping = threading.Lock()
        self._logging = threading.Lock()
        self._tidying = threading.Lock()
        #: bytes of pages put since the last swap; whether pages go to the log; whether any page is not in it
        self._since_swap = 0
        self._logged = False
        self._unlogged = False
        self._since_look = 0
        self._moving = False
        self._deleted = False
        rocks, self._commits_file = open_directory(directory, create, direct)
        self.rocks: Any = rocks
        #: no other file can have these ids while the engine keeps the directory and its lock file open
        self.directory_id, self._lock_id = file_id(directory), file_id(Path(directory, LOCK))
        self._unchecked = unchecked()

    def check_in_place(self) -> None:
        """Raises if the path names another directory now: a write would be lost, or damage that one."""
        if not self.is_in_place():
            raise StoreError(
                f"the directory {self.directory} was removed, renamed or replaced while it was open, and is "
                "written no more: put it back, or start this process again"
            )

    def is_in_place(self) -> bool:
        return file_id(Path(self.directory, LOCK)) == self._lock_id

    def never_free(self) -> None:
        """Keeps this object alive for good: the engine writes its buffers to the path when it is freed."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def put(self, batch: Any, size: int) -> None:
        self.check_in_place()
        with self._logging:
            self._since_swap += size
            self._since_look += size
            if self._since_swap > LOGGED_BYTES:
                self._logged = False
            self._unlogged = self._unlogged or not self._logged
            self.rocks.write(batch, None if self._logged else _unlogged())

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """The pages, read without the engine's slow checksums: each page has a checksum of its own.

        One by one, because the engine checks pages that are read together all the same.
        """
        return [self.rocks.get(key, read_opt=self._unchecked) for key in keys]

    def delete(self, batch: Any) -> None:
        self.check_in_place()
        self.rocks.write(batch)
        self._tidy()

    def delete_range(self, first: bytes, end: bytes) -> None:
        self.check_in_place()
        self.rocks.delete_range(first, end)
        self._tidy()

    def commit(self, changes: list[Change]) -> None:
        """Replaces or deletes roots, under `swapping`. They and all pages put before are durable then."""
        if not changes:
            return
        self.check_in_place()
        self._flush_unlogged()
        commits = (CommitRecord.stored(self.rocks) or CommitRecord()).then(changes)
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, _, new in changes:
            if new is None:
                batch.delete(key)
            else:
                batch.put(key, new)
        batch.put(COMMITS, commits.pack())
        # Pages and roots share one log, so syncing it makes the pages durable too.
        self.rocks.write(batch, _synced())
        self._commits_file.note(commits.number)

    def _flush_unlogged(self) -> None:
        """Flushes pages that are not in the log, and decides whether the next pages go to the log."""
        with self._logging:
            if self._unlogged:
                self.rocks.flush(True)
            self._logged = self._since_swap <= LOGGED_BYTES
            self._since_swap, self._unlogged = 0, False

    # Room

    def _tidy(self) -> None:
        """Lets the engine move live pages to new files while more than a third of the files is dead.

        The engine deletes a file when the last page in it is dead, and long-lived windows share files with
        others. Moving always would be a waste: the oldest files are the next to die anyway.
        """
        with self._tidying:
            self._deleted = True
            if self._moving or self._since_look >= max(TIDY_BYTES, self._stored_bytes() // 8):
                self._since_look = 0
                moving = self._dead_bytes() * 3 > self._stored_bytes()
                if moving != self._moving:
                    with ignoring(is_engine_error):  # the deletion itself has succeeded
                        self._set_moving(moving, "0.5")
                        self._moving = moving

    def _set_moving(self, moving: bool, part: str) -> None:
        """Sets whether compaction also moves live pages out of the oldest files, up to this part of them."""
        self.rocks.set_options(
            {
                "enable_blob_garbage_collection": "true" if moving else "false",
                "blob_garbage_collection_age_cutoff": part,
            }
        )

    def _stored_bytes(self) -> int:
        return self._property("live-blob-file-size") + self._property("live-sst-files-size")

    def _dead_bytes(self) -> int:
        return self._property("live-blob-file-garbage-size")

    def _property(self, name: str) -> int:
        return self.rocks.property_int_value(f"rocksdb.{name}") or 0

    def _free_disk(self) -> None:
        """Frees the disk space of dead pages, as far as that takes no more than about a second."""
        small = self._property("live-sst-files-size") <= QUICK_BYTES
        if small or not any(True for _ in scan(self.rocks, PAGE, PAGE)):
            self.rocks.compact_range(None, None)  # merges keys only, and deletes files without live pages
            dead, stored = self._dead_bytes(), self._stored_bytes()
            if dead * 8 > stored and stored - dead <= QUICK_BYTES:
                self._set_moving(True, "1.0")
                self.rocks.compact_range(None, None, _all_files())

    def close(self) -> None:
        """Closes the database. A second call completes one that was interrupted."""
        try:
            if self._deleted:
                # `rocks.close` raises if the directory is broken
                with suppress(rocksdict.DbClosedError), ignoring(is_engine_error):
                    self._free_disk()
        finally:
            try:
                with suppress(rocksdict.DbClosedError):
                    self.rocks.close()
            finally:
                self._commits_file.close()


def _unlogged() -> Any:
    options = rocksdict.WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


def unchecked() -> Any:
    options = rocksdict.ReadOptions()
    options.set_verify_checksums(False)
    # unchecked blocks must not be in the cache, from which roots are read
    options.fill_cache(False)  # type: ignore[call-arg]
    return options


def _synced() -> Any:
    options = rocksdict.WriteOptions()
    options.sync = True
    return options


def _all_files() -> Any:
    options = rocksdict.CompactOptions()
    options.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
    return options
