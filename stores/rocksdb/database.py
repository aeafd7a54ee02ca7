"""One open directory of RocksDB: what is written there and how, and what is given back to the disk."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import rocksdict

from stores.errors import StoreError
from stores.os_errors import ignoring
from stores.rocksdb.commits import Change, Commits
from stores.rocksdb.directory import LOCK, file_at, open_directory
from stores.rocksdb.engine_errors import of_the_engine
from stores.rocksdb.layout import COMMITS, PAGE, scan

#: Pages go through the log where roots are swapped at least this often, in bytes of pages. The log costs more
#: than all else of a write, but without it a swap has to flush what was put before it.
LOGGED_BYTES = 16 << 20

#: Bytes of pages between two looks at how much of the files is dead.
TIDY_BYTES = 32 << 20

#: What lives in a directory that is closed is moved together if it is no more: it takes about a second.
QUICK_BYTES = 256 << 20


class Database:
    """Its users are the open stores and the threads in a call: the last one to leave closes it."""

    def __init__(self, directory: str, create: bool, direct: bool) -> None:
        self.directory = directory
        #: a set and not a number, so that who was interrupted on the way in or out counts once
        self.users: set[object] = set()
        self.swapping = threading.Lock()
        self._logging = threading.Lock()
        self._tidying = threading.Lock()
        #: bytes of pages put since the last root was swapped, and whether they are in the log
        self._since_swap = 0
        self._logged = False
        self._unlogged = False
        self._since_look = 0
        self._moving = False
        self._deleted = False
        rocks, self._mark = open_directory(directory, create, direct)
        self.rocks: Any = rocks
        #: no other file gets these numbers while the engine has the directory and its lock open
        self.place, self._lock = file_at(directory), file_at(Path(directory, LOCK))
        self._unchecked = _unchecked()

    def check_in_place(self) -> None:
        """Raises if the path leads elsewhere now: a write there is lost, or damages another database."""
        if not self.in_place():
            raise StoreError(
                f"the directory {self.directory} was removed, renamed or replaced while it was open, and is "
                "written no more: put it back, or start this process again"
            )

    def in_place(self) -> bool:
        return file_at(Path(self.directory, LOCK)) == self._lock

    def never_free(self) -> None:
        """At its end, the engine would write what it has in memory."""
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
        """Pages, without the engine's checksums: each page has one of its own, which is many times faster.

        One by one, since the engine checks what is read together all the same.
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
        """Replaces or deletes roots, under `swapping`: durable then, as is all that was put before."""
        if not changes:
            return
        self.check_in_place()
        self._settle()
        commits = (Commits.stored(self.rocks) or Commits()).then(changes)
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, _, new in changes:
            if new is None:
                batch.delete(key)
            else:
                batch.put(key, new)
        batch.put(COMMITS, commits.pack())
        # Pages and roots share one log, so this makes the pages before it durable too.
        self.rocks.write(batch, _synced())
        self._mark.note(commits.number)

    def _settle(self) -> None:
        """What is not in the log is flushed to files."""
        with self._logging:
            if self._unlogged:
                self.rocks.flush(True)
            self._logged = self._since_swap <= LOGGED_BYTES
            self._since_swap, self._unlogged = 0, False

    # Room

    def _tidy(self) -> None:
        """Lets the engine move what lives where a third of the files is dead, until that is done.

        A file goes when the last page in it is dead, and windows that live long share files with others. Done
        always, it would move pages out of the oldest files, which are the next to die anyway.
        """
        with self._tidying:
            self._deleted = True
            if self._moving or self._since_look >= max(TIDY_BYTES, self._size() // 8):
                self._since_look = 0
                moving = self._dead() * 3 > self._size()
                if moving != self._moving:
                    with ignoring(of_the_engine):  # what was to be deleted is
                        self._move(moving, "0.5")
                        self._moving = moving

    def _move(self, moving: bool, of_files: str) -> None:
        """Whether merging keys also moves their pages out of the oldest files, up to this part of all."""
        self.rocks.set_options(
            {
                "enable_blob_garbage_collection": "true" if moving else "false",
                "blob_garbage_collection_age_cutoff": of_files,
            }
        )

    def _size(self) -> int:
        return self._figure("live-blob-file-size") + self._figure("live-sst-files-size")

    def _dead(self) -> int:
        return self._figure("live-blob-file-garbage-size")

    def _figure(self, name: str) -> int:
        return self.rocks.property_int_value(f"rocksdb.{name}") or 0

    def _give_back(self) -> None:
        """What is dead goes from the disk, as far as that takes no more than a second."""
        if self._figure("live-sst-files-size") <= QUICK_BYTES or not self._has_pages():
            self.rocks.compact_range(None, None)  # of keys alone: files in which nothing lives go
            if self._dead() * 8 > self._size() and self._size() - self._dead() <= QUICK_BYTES:
                self._move(True, "1.0")
                self.rocks.compact_range(None, None, _all_files())

    def _has_pages(self) -> bool:
        return any(True for _ in scan(self.rocks, PAGE, PAGE))

    def close(self) -> None:
        """Closing again ends what an interrupt left undone."""
        try:
            if self._deleted:
                with ignoring(_gone_wrong):  # what is wrong with the directory, closing it says
                    self._give_back()
        finally:
            try:
                with ignoring(_closed):
                    self.rocks.close()
            finally:
                self._mark.close()


def _closed(error: Exception) -> bool:
    return isinstance(error, rocksdict.DbClosedError)


def _gone_wrong(error: Exception) -> bool:
    return of_the_engine(error) or _closed(error)


def _unlogged() -> Any:
    options = rocksdict.WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


def _unchecked() -> Any:
    options = rocksdict.ReadOptions()
    options.set_verify_checksums(False)
    # what was not checked is not for those who read roots
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
