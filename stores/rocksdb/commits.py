"""How many commits a database has to have, so that it is noticed where it has fewer.

The engine takes a log that ends too early for one that was not finished, and a list of files without its last
entries for the whole. So each commit also stores how many there were and a digest of all roots (`Commits`),
and the file `COMMITS` says how many there have to be (`Mark`).
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
from stores.rocksdb.layout import COMMITS, ROOT, scan

MARK = "COMMITS"
_MARK = re.compile(rb"commits (\d{20}) checksum ([0-9a-f]{8})\n")

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


def digest_of_roots(rocks: Any) -> int:
    return reduce(xor, (_digest(entry.key(), entry.value()) for entry in scan(rocks, ROOT, ROOT)), 0)


def damaged(path: Path, what: str) -> StoreError:
    return StoreError(
        f"the RocksDB database in {path} is damaged, and nothing in it was changed: {what}. Put back a copy "
        f"of the directory; to go on with what is left, as old as it may be, remove the file {path / MARK}"
    )


def read_mark(path: Path) -> int | None:
    """How many commits were made at least, or None where nobody has noted it."""
    try:
        text = path.read_bytes()
    except FileNotFoundError as error:
        if not is_os_error(error):
            raise
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
        if not os.access(path, os.F_OK):
            _write_first(path)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115

    def note(self, commits: int) -> None:
        with ignoring(is_os_error):  # the commit counts all the same, and the mark may stay behind
            os.pwrite(self._file.fileno(), _mark(commits), 0)

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            with ignoring(is_os_error):
                os.fsync(self._file.fileno())
        finally:
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
