"""Opens a directory, after it was checked for damage.

A database that does not agree with the number and the digest of its commits is not opened, and not changed.
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
from stores.rocksdb.commits import CommitRecord, CommitsFile, damaged, digest_of_roots, read_commits_file
from stores.rocksdb.engine import COMMITS, engine_options, is_engine_error

#: If a directory has one of these files, it has a database. A first opening that died made none of them.
_OF_A_DATABASE = re.compile(rf"CURRENT|{CommitsFile.NAME}|\d+\.(sst|blob|log)")

#: A log of the engine has blocks of records. Before each record stand a checksum, its length and its kind,
#: and no record crosses a block.
BLOCK = 1 << 15
HEADER = struct.Struct("<IHB")
RECYCLED_KINDS = {5, 6, 7, 8, 11}

#: The file that the engine locks, for as long as it has the directory open.
LOCK = "LOCK"


class InUse(Exception):
    """Another process has the directory open."""


def file_id(path: str | Path | int) -> tuple[int, int] | None:
    """The device and inode of the file at a path, which are the same for all its paths; None for no file."""
    try:
        found = os.stat(path)
    except OSError as error:
        if not is_os_error(error):
            raise
        return None
    return found.st_dev, found.st_ino


def open_directory(directory: str, create: bool, direct: bool) -> tuple[Any, CommitsFile]:
    """Opens the database in a directory, if all its commits are there; else raises, and changes nothing."""
    options = engine_options(direct)
    path = Path(directory)
    there = has_database(path)
    if not there and not create:
        raise StoreError(f"there is no RocksDB database in {directory}, and create=False makes none")
    path.mkdir(parents=True, exist_ok=True)
    if direct:
        _check_direct(path)
    if there:
        _check_undamaged(path)
    options.create_if_missing(not there)
    # with options for the column family: else the engine takes those that the directory was created with
    try:
        rocks = rocksdict.Rdict(directory, options=options, column_families={"default": options})
    except Exception as error:
        if is_engine_error(error) and "While lock file" in str(error):
            raise InUse(directory) from error
        raise
    try:
        if read_commits_file(path) is None:  # a new database, or the operator accepted what is left
            commits = CommitRecord.stored(rocks) or CommitRecord()
            rocks.put(COMMITS, commits._replace(roots=digest_of_roots(rocks)).pack())
        return rocks, CommitsFile(path)
    except BaseException:
        rocks.close()  # at once, and not when the traceback is freed
        raise


def _check_direct(path: Path) -> None:
    """Checked before the engine does, which would leave a directory that looks damaged."""
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


def has_database(path: Path) -> bool:
    """Whether there are files of a database in a directory."""
    try:
        return any(_OF_A_DATABASE.fullmatch(name) for name in os.listdir(path))
    except FileNotFoundError as error:
        if not is_os_error(error):
            raise
        return False


def _check_undamaged(path: Path) -> None:
    """Raises if another process has the database open, or if a commit is missing from it."""
    _check_free(path)
    expected = read_commits_file(path)
    check_records(path)
    options = engine_options()
    try:
        rocks = rocksdict.Rdict(
            str(path),
            options=options,
            column_families={"default": options},
            access_type=rocksdict.AccessType.read_only(error_if_log_file_exist=False),
        )
    except Exception as error:
        if not is_engine_error(error):
            raise
        raise damaged(path, str(error)) from error
    try:
        check_commits(path, rocks, expected)
    finally:
        rocks.close()


def check_records(path: Path) -> None:
    """Raises for a record of a kind that only recycled logs have: the engine would never stop reading it."""
    for log in (*path.glob("*.log"), *path.glob("MANIFEST-*")):
        _check_log(log)


def _check_log(log: Path) -> None:
    with open(log, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            start = 0
            while start + HEADER.size <= size:
                room = BLOCK - start % BLOCK - HEADER.size
                _, length, kind = HEADER.unpack_from(data, start) if room >= 0 else (0, 0, 0)
                if kind in RECYCLED_KINDS:
                    raise damaged(
                        log.parent,
                        f"the record at byte {start} of {log.name} cannot be read, nor anything after it",
                    )
                if length > room >= 0:
                    return  # the engine reads no further
                start += HEADER.size + (length if length or kind else room)


def check_commits(path: Path, rocks: Any, expected: int | None) -> None:
    """Raises if a commit is missing, of the number that there must be."""
    commits = CommitRecord.stored(rocks) or CommitRecord()
    if expected is None:
        return
    if commits.number < expected:
        raise damaged(path, f"{expected} commits were made, and the last one it has is {commits.number}")
    if commits.roots != digest_of_roots(rocks):
        raise damaged(path, "roots are missing, or older than the last commit says")


def _check_free(path: Path) -> None:
    """Raises InUse if the engine's lock is held. Tried before reading: an open database may be changing."""
    with ignoring(_is_lock_missing), open(path / LOCK, "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if not is_os_error(error):
                raise
            raise InUse(str(path)) from None


def _is_lock_missing(error: Exception) -> bool:
    """Whether there is no lock file, or this user may not open it."""
    return is_os_error(error) and isinstance(error, (FileNotFoundError, PermissionError))
