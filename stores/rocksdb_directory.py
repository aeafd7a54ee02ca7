"""A directory of RocksDB on disk: its settings, and what is looked at before it is opened.

The engine takes a log that ends too early for one that was not finished, and a list of files without its last
entries for the whole. So each commit also stores how many there were and a digest of all roots (`Commits`),
and the file `COMMITS` says how many there have to be. What does not agree is not opened.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from hashlib import blake2b
from operator import xor
from pathlib import Path
from typing import Any, NamedTuple

import rocksdict

from stores.base import StoreError

PAGE = b"p"
ROOT = b"r"
COMMITS = b"s"

MARK = "COMMITS"
_MARK = re.compile(rb"commits (\d{20}) checksum ([0-9a-f]{8})\n")

#: Files without which nothing that was stored can be read. A first opening that died has made none of them.
_OF_A_DATABASE = re.compile(rf"CURRENT|{MARK}|\d+\.(sst|blob|log)")

#: How a log of the engine is laid out: blocks, records that do not cross them, and before each of them a
#: checksum, its length and its kind.
BLOCK = 1 << 15
HEADER = struct.Struct("<IHB")
OF_LOGS_USED_AGAIN = {5, 6, 7, 8, 11}


class InUse(Exception):
    """Another process has the directory open."""


def settings() -> rocksdict.Options:
    """Memory that does not grow with the data, for pages of some 100 KB written once in order of their keys.

    Pages are in blob files, and only their keys are merged: a page is written once, and a file of pages goes
    when the last of them is dead. Smaller values may live much longer than the pages they came with, and are
    merged. Compression costs more than it saves on packed columns.
    """
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    # a log is taken as far as it can be read; that all commits were in it is found by their number and digest
    options.set_wal_recovery_mode(rocksdict.DBRecoveryMode.point_in_time())
    options.set_write_buffer_size(8 << 20)
    options.set_max_write_buffer_number(3)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(4 << 10)
    options.set_blob_compression_type(rocksdict.DBCompressionType.none())
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_level_zero_file_num_compaction_trigger(2)
    # a write that has to wait for a flush waits with the interpreter's lock held: leave it room
    options.set_level_zero_slowdown_writes_trigger(64)
    options.set_level_zero_stop_writes_trigger(128)
    options.set_max_total_wal_size(16 << 20)
    options.set_target_file_size_base(32 << 20)
    options.set_max_bytes_for_level_base(256 << 20)
    options.set_max_open_files(64)
    # each of the usual 16 threads reserves address space, of which a Spark worker may have little
    options.set_max_file_opening_threads(1)
    options.set_max_background_jobs(2)
    # what the engine tells of itself grows without an end otherwise
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(2 << 20))
    options.set_block_based_table_factory(tables)
    return options


Change = tuple[bytes, bytes | None, bytes | None]
"""A root's key, what it was, and what it becomes; None for no root."""


class Commits(NamedTuple):
    """How often roots were swapped or deleted, and the digests of all roots in one."""

    number: int = 0
    roots: int = 0

    def then(self, changes: list[Change]) -> Commits:
        digests = (_digest(key, old) ^ _digest(key, new) for key, old, new in changes)
        return Commits(self.number + 1, reduce(xor, digests, self.roots))

    def pack(self) -> bytes:
        return struct.pack(">QQ", *self)

    @classmethod
    def stored(cls, rocks: Any) -> Commits | None:
        packed = rocks.get(COMMITS)
        return None if packed is None else cls(*struct.unpack(">QQ", packed))


def _digest(key: bytes, value: bytes | None) -> int:
    if value is None:
        return 0
    return int.from_bytes(blake2b(value, digest_size=8, key=blake2b(key).digest()).digest(), "big")


def _digest_of_roots(rocks: Any) -> int:
    return reduce(xor, (_digest(entry.key(), entry.value()) for entry in scan(rocks, ROOT, ROOT)), 0)


def scan(rocks: Any, prefix: bytes, start: bytes) -> Iterator[Any]:
    """The entries from a key on that begin with a prefix, each as the engine's iterator that stands on it."""
    entry = rocks.iter()
    entry.seek(start)
    while entry.valid() and entry.key().startswith(prefix):
        yield entry
        entry.next()
    entry.status()  # an iterator that comes to a damaged place ends there, and says so only if asked


def open_directory(directory: str, create: bool) -> tuple[Any, Mark]:
    """The database in a directory, if all that was committed is in it; else nothing is changed there."""
    options = settings()
    path = Path(directory)
    if _has_database(path):
        _look(path)
    elif create:
        path.mkdir(parents=True, exist_ok=True)
        options.create_if_missing(True)
    else:
        raise StoreError(f"there is no RocksDB database in {directory}, and create=False makes none")
    # the settings for the column family too: the engine would take those that the directory was made with
    try:
        rocks = rocksdict.Rdict(directory, options=options, column_families={"default": options})
    except Exception as error:
        if "While lock file" in str(error):
            raise InUse(directory) from error
        raise
    if read_mark(path / MARK) is None:  # it is new, or what is left was accepted
        commits = Commits.stored(rocks) or Commits()
        rocks.put(COMMITS, commits._replace(roots=_digest_of_roots(rocks)).pack())
    return rocks, Mark(path / MARK)


def _has_database(path: Path) -> bool:
    try:
        return any(_OF_A_DATABASE.fullmatch(name) for name in os.listdir(path))
    except FileNotFoundError:
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
    if commits.roots != _digest_of_roots(rocks):
        raise damaged(path, "roots are missing, or older than the last commit says")


def _check_free(path: Path) -> None:
    """The engine's own lock, tried before anything is read: a database at work may be between two states."""
    with suppress(FileNotFoundError, PermissionError), open(path / "LOCK", "r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(str(path)) from None


def damaged(path: Path, what: str) -> StoreError:
    return StoreError(
        f"the RocksDB database in {path} is damaged, and nothing in it was changed: {what}. Put back a copy "
        f"of the directory; to go on with what is left, as old as it may be, remove the file {path / MARK}"
    )


def read_mark(path: Path) -> int | None:
    """How many commits were made at least, or None where nobody has noted it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    match = _MARK.fullmatch(text)
    if match is None or int(match[2], 16) != zlib.crc32(match[1]):
        raise damaged(path.parent, f"{path}, which says how many commits were made, cannot be read")
    return int(match[1])


class Mark:
    """The file that says how many commits were made.

    It is written after each of them and not synced: a process that dies leaves it to the system, and after a
    power failure the number may be older, which asks for less.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            _write_first(path)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115

    def note(self, commits: int) -> None:
        with suppress(OSError):  # the commit counts all the same, and the mark may stay behind
            os.pwrite(self._file.fileno(), _mark(commits), 0)

    def close(self) -> None:
        with suppress(OSError):
            os.fsync(self._file.fileno())
        self._file.close()


def _mark(commits: int) -> bytes:
    number = b"%020d" % commits
    return b"commits %b checksum %08x\n" % (number, zlib.crc32(number))


def _write_first(path: Path) -> None:
    """A whole file or none: what comes later overwrites it in place."""
    first = path.with_name(f"{path.name}.new")
    with open(first, "wb") as file:
        file.write(_mark(0))
        file.flush()
        os.fsync(file.fileno())
    os.replace(first, path)
