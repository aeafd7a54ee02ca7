"""A directory of RocksDB on disk, and what is looked at before it is opened.

What does not agree with the number and the digest of its commits is not opened, and nothing in it is changed.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import struct
import tempfile
from pathlib import Path
from typing import Any

import rocksdict

from stores.errors import StoreConfigError, StoreError
from stores.os_errors import ignoring, is_os_error
from stores.rocksdb.commits import MARK, Commits, Mark, damaged, digest_of_roots, read_mark
from stores.rocksdb.engine_errors import of_the_engine
from stores.rocksdb.engine_options import settings
from stores.rocksdb.layout import COMMITS

#: Files without which nothing that was stored can be read. A first opening that died has made none of them.
_OF_A_DATABASE = re.compile(rf"CURRENT|{MARK}|\d+\.(sst|blob|log)")

#: How a log of the engine is laid out: blocks, records that do not cross them, and before each of them a
#: checksum, its length and its kind.
BLOCK = 1 << 15
HEADER = struct.Struct("<IHB")
OF_LOGS_USED_AGAIN = {5, 6, 7, 8, 11}


#: The file that the engine locks, for as long as it has the directory open.
LOCK = "LOCK"


class InUse(Exception):
    """Another process has the directory open."""


def file_at(path: str | Path) -> tuple[int, int] | None:
    """The device and the number of the file that a path leads to, whatever the path; None for no file."""
    try:
        found = os.stat(path)
    except OSError as error:
        if not is_os_error(error):
            raise
        return None
    return found.st_dev, found.st_ino


def open_directory(directory: str, create: bool, direct: bool) -> tuple[Any, Mark]:
    """The database in a directory, if all that was committed is in it; else nothing is changed there."""
    options = settings(direct)
    path = Path(directory)
    there = _has_database(path)
    if not there and not create:
        raise StoreError(f"there is no RocksDB database in {directory}, and create=False makes none")
    path.mkdir(parents=True, exist_ok=True)
    if direct:
        _check_direct(path)
    if there:
        _look(path)
    options.create_if_missing(not there)
    # the settings for the column family too: the engine would take those that the directory was made with
    try:
        rocks = rocksdict.Rdict(directory, options=options, column_families={"default": options})
    except Exception as error:
        if of_the_engine(error) and "While lock file" in str(error):
            raise InUse(directory) from error
        raise
    try:
        if read_mark(path / MARK) is None:  # it is new, or what is left was accepted
            commits = Commits.stored(rocks) or Commits()
            rocks.put(COMMITS, commits._replace(roots=digest_of_roots(rocks)).pack())
        return rocks, Mark(path / MARK)
    except BaseException:
        rocks.close()  # not only when nobody has the error any more
        raise


def _check_direct(path: Path) -> None:
    """The engine would find it out too, but leave a directory that looks damaged."""
    with tempfile.NamedTemporaryFile(dir=path) as probe:
        try:
            os.close(os.open(probe.name, os.O_RDWR | getattr(os, "O_DIRECT", 0)))
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise StoreConfigError(
                    f"direct=True: the file system of {path} does not write past the page cache; leave the "
                    "option out, or use a directory of another file system"
                ) from error
            raise


def _has_database(path: Path) -> bool:
    try:
        return any(_OF_A_DATABASE.fullmatch(name) for name in os.listdir(path))
    except FileNotFoundError as error:
        if not is_os_error(error):
            raise
        return False


def _look(path: Path) -> None:
    """Raises if another process has the database open, or if it has not all that was committed."""
    _check_free(path)
    expected = read_mark(path / MARK)
    for log in (*path.glob("*.log"), *path.glob("MANIFEST-*")):
        _check_records(log)
    options = settings()
    try:
        rocks = rocksdict.Rdict(
            str(path),
            options=options,
            column_families={"default": options},
            access_type=rocksdict.AccessType.read_only(error_if_log_file_exist=False),
        )
    except Exception as error:
        if not of_the_engine(error):
            raise
        raise damaged(path, str(error)) from error
    try:
        _check_commits(path, rocks, expected)
    finally:
        rocks.close()


def _check_records(log: Path) -> None:
    """Raises for a record of a kind that only logs used again have: the engine would read it for ever."""
    with open(log, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = 0
            while at + HEADER.size <= size:
                room = BLOCK - at % BLOCK - HEADER.size
                _, length, kind = HEADER.unpack_from(data, at) if room >= 0 else (0, 0, 0)
                if kind in OF_LOGS_USED_AGAIN:
                    raise damaged(
                        log.parent,
                        f"the record at byte {at} of {log.name} cannot be read, nor what comes after it",
                    )
                if length > room >= 0:
                    return  # the engine reads no further
                at += HEADER.size + (length if length or kind else room)


def _check_commits(path: Path, rocks: Any, expected: int | None) -> None:
    commits = Commits.stored(rocks) or Commits()
    if expected is None:
        return
    if commits.number < expected:
        raise damaged(path, f"{expected} commits were made, and it ends with number {commits.number}")
    if commits.roots != digest_of_roots(rocks):
        raise damaged(path, "roots are missing, or older than the last commit says")


def _check_free(path: Path) -> None:
    """The engine's own lock, tried before anything is read: a database at work may be between two states."""
    with ignoring(_no_lock), open(path / LOCK, "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if not is_os_error(error):
                raise
            raise InUse(str(path)) from None


def _no_lock(error: Exception) -> bool:
    """Whether there is none, or none for this user."""
    return is_os_error(error) and isinstance(error, (FileNotFoundError, PermissionError))
