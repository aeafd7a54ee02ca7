"""Detects lost commits: each commit is counted, inside the database and in a file beside it.

The engine opens a log that was cut off as if the rest was never written, and a list of files without its last
entries as if it was whole. So each commit stores the number of commits and a digest of all roots
(`CommitRecord`), and the file `COMMITS` has the number that there must be (`CommitsFile`).
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from functools import reduce
from hashlib import blake2b
from operator import xor
from pathlib import Path
from typing import Any, NamedTuple

from stores.errors import StoreError
from stores.os_errors import ignoring, is_os_error
from stores.rocksdb.engine import COMMITS, ROOT, scan

_CONTENT = re.compile(rb"commits (\d{20}) checksum ([0-9a-f]{8})\n")

Change = tuple[bytes, bytes | None, bytes | None]
"""A root's key, its old value and its new value; None stands for no root."""


class CommitRecord(NamedTuple):
    """The number of commits, and the digests of all roots combined by XOR."""

    number: int = 0
    roots: int = 0

    def then(self, changes: list[Change]) -> CommitRecord:
        digests = (_digest(key, old) ^ _digest(key, new) for key, old, new in changes)
        return CommitRecord(self.number + 1, reduce(xor, digests, self.roots))

    def pack(self) -> bytes:
        return struct.pack(">QQ", *self)

    @classmethod
    def stored(cls, rocks: Any) -> CommitRecord | None:
        packed = rocks.get(COMMITS)
        return None if packed is None else cls(*struct.unpack(">QQ", packed))


def _digest(key: bytes, value: bytes | None) -> int:
    if value is None:
        return 0
    return int.from_bytes(blake2b(value, digest_size=8, key=blake2b(key).digest()).digest(), "big")


def digest_of_roots(rocks: Any) -> int:
    return reduce(xor, (_digest(entry.key(), entry.value()) for entry in scan(rocks, ROOT, ROOT)), 0)


def damaged(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"the RocksDB database in {path} is damaged, and nothing in it was changed: {reason}. Put back a "
        "copy of the directory; to go on with what is left, as old as it may be, remove the file "
        f"{path / CommitsFile.NAME}"
    )


def read_commits_file(path: Path) -> int | None:
    """The number of commits in the directory's `CommitsFile`, or None if there is no file."""
    file = path / CommitsFile.NAME
    try:
        text = file.read_bytes()
    except FileNotFoundError as error:
        if not is_os_error(error):
            raise
        return None
    match = _CONTENT.fullmatch(text)
    if match is None or int(match[2], 16) != zlib.crc32(match[1]):
        raise damaged(path, f"{file}, which says how many commits were made, cannot be read")
    return int(match[1])


class CommitsFile:
    """The file with the number of commits.

    It is written after each commit and not synced. If the process dies, the system still writes it; after a
    power failure the number may be too small, and then fewer commits are required.
    """

    NAME = "COMMITS"

    def __init__(self, directory: Path) -> None:
        path = directory / self.NAME
        if not os.access(path, os.F_OK):
            _write_first(path)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115

    def note(self, commits: int) -> None:
        with ignoring(is_os_error):  # the commit counts all the same, and the file may have an older number
            os.pwrite(self._file.fileno(), _commits_file(commits), 0)

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            with ignoring(is_os_error):
                os.fsync(self._file.fileno())
        finally:
            self._file.close()


def _commits_file(commits: int) -> bytes:
    number = b"%020d" % commits
    return b"commits %b checksum %08x\n" % (number, zlib.crc32(number))


def _write_first(path: Path) -> None:
    """Creates the file whole or not at all; later numbers overwrite the first in place."""
    first = path.with_name(f"{path.name}.new")
    with open(first, "wb") as file:
        file.write(_commits_file(0))
        file.flush()
        os.fsync(file.fileno())
    os.replace(first, path)
