"""A directory that is only read, also while another process has it open for writing.

It is opened as it is at one moment, without a lock, in about a millisecond, and opened anew once the writer
has committed more, or has deleted a file that is needed. The engine has an access of its own for this, a
secondary instance; but that crashes when it reads blob files, and pages are in such files.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import rocksdict

from stores.errors import StoreError
from stores.os_errors import ignoring, is_os_error
from stores.rocksdb.commits import CommitRecord, CommitsFile, digest_of_roots, read_commits_file
from stores.rocksdb.database import unchecked
from stores.rocksdb.directory import check_commits, check_records, file_id, has_database
from stores.rocksdb.engine import engine_options, is_engine_error


class Moved(Exception):
    """The writer changed the list of files while it was read, and roots are missing."""


class Replica:
    """A directory as it was when it was opened. Its users take turns."""

    def __init__(self, directory: str, *, check: bool) -> None:
        """With `check`, raises for a damaged directory as an opening for writing does."""
        self._path = Path(directory)
        if not has_database(self._path):
            raise StoreError(f"there is no RocksDB database in {directory}, and read_only=True makes none")
        files, expected = _list_of_files(self._path), read_commits_file(self._path)
        if check:
            _check_records(self._path)
        #: kept open, so that no other file has its id: a directory that was made anew has another one
        self._commits_file = _opened(self._path / CommitsFile.NAME)
        options = engine_options()
        try:
            self.rocks: Any = rocksdict.Rdict(
                directory,
                options=options,
                column_families={"default": options},
                access_type=rocksdict.AccessType.read_only(error_if_log_file_exist=False),
            )
        except BaseException:
            self._close_commits_file()
            raise
        self._unchecked = unchecked()
        try:
            commits = CommitRecord.stored(self.rocks) or CommitRecord()
            self._commits = commits.number
            #: whether the list of files stayed as it was; if not, a page may be in a file that is not known
            self._whole = files == _list_of_files(self._path)
            if not self._whole and (
                commits.number < (expected or 0) or commits.roots != digest_of_roots(self.rocks)
            ):
                raise Moved(directory)
            if self._whole and check:
                check_commits(self._path, self.rocks, expected)
        except BaseException:
            self.close()
            raise

    def is_current(self) -> bool:
        """Whether no root was committed since."""
        file = self._commits_file
        if file is None or file_id(file.fileno()) != file_id(self._path / CommitsFile.NAME):
            return False
        commits = read_commits_file(self._path)
        return commits is not None and commits <= self._commits

    def knows_pages(self) -> bool:
        """Whether a page that is not here is not there."""
        return self._whole and self.is_current()

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """The pages, read as `Database.get` reads them."""
        return [self.rocks.get(key, read_opt=self._unchecked) for key in keys]

    def never_free(self) -> None:
        """Keeps this object alive for good: a forked child has none of the engine's threads."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def close(self) -> None:
        try:
            with suppress(rocksdict.DbClosedError), ignoring(is_engine_error):
                self.rocks.close()
        finally:
            self._close_commits_file()

    def _close_commits_file(self) -> None:
        if self._commits_file is not None:
            self._commits_file.close()


def _opened(path: Path) -> BinaryIO | None:
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        if not is_os_error(error):
            raise
        return None


def _check_records(path: Path) -> None:
    try:
        check_records(path)
    except FileNotFoundError as error:
        if not is_os_error(error):
            raise
        raise Moved(str(path)) from None


def _list_of_files(path: Path) -> tuple[str, int]:
    """The name and the size of the engine's list of files, which grows when files come or go."""
    try:
        name = os.fsdecode((path / "CURRENT").read_bytes().strip())
        return name, os.stat(path / name).st_size
    except (OSError, ValueError) as error:  # the latter for a byte that no name has
        if isinstance(error, OSError) and not is_os_error(error):
            raise
        return "", 0
