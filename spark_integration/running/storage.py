"""Where the windows of one task attempt keep their pages, and how nothing of it stays behind."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

from pyspark import TaskContext

from spark_integration.running.notes import Note, left_by_killed, new_name, sweep
from stores import StoreError, open_store, store_class
from stores.names import escape_name

#: Seconds without a write after which `mta gc` may delete the pages of a killed attempt.
LEASE = 3600.0

#: Stands for the embedded store in a directory of Spark's own.
EMBEDDED = "rocksdb"

#: How the directories of embedded stores begin.
PREFIX = "mta-rolling"

#: How Spark's local directories of an executor begin.
_OF_EXECUTOR = "blockmgr-"


class TaskStorage:
    """A store for one task attempt, opened when the first page needs it."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._directory: Path | None = None
        base = embedded_in(url)
        self._root = base if base is not None and base.parts else _local_directory()
        for directory in _beside(self._root):
            clear_leftovers(directory)
        if base is None:
            self.store = open_store(url, **options)
        else:
            self._directory = self._root / new_name(PREFIX)
            self.store = open_store(embedded_at(url, self._directory), **options)
        self._name = _task_name()
        self._windows = 0
        #: of a server, which knows nothing of the end of a process
        self._noted_url = url if base is None and not self.store.local else None
        self._note: Note | None = None

    def next_name(self) -> str:
        """A name that no other window has, of this attempt or any other."""
        if self._noted_url is not None and self._note is None:
            self._note = Note(self._noted_url, self._name)
            sweep(self.store, self._noted_url)
        self._windows += 1
        return f"{self._name}/{self._windows}"

    def spool(self) -> Path:
        """A path for a file of rows; the caller removes it."""
        return spool_file(self._root)

    def close(self) -> None:
        self.store.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # a store that fails may have kept pages, which a later process deletes
        if self._note is not None and not isinstance(error, StoreError):
            self._note.remove()
        self.close()


def embedded_in(url: str) -> Path | None:
    """The directory that embedded stores are made in, one for each process; an empty path for Spark's own.

    None for a store that many processes may have open, such as that of a server.
    """
    if url == EMBEDDED:
        return Path()
    return Path(unquote(urlsplit(url).path)) if store_class(url).exclusive else None


def embedded_at(url: str, directory: Path) -> str:
    """The URL of an embedded store of the same kind, and with the same options, in another directory."""
    scheme, _, _, query, _ = urlsplit(url if url != EMBEDDED else f"{EMBEDDED}:")
    return f"{scheme}://{quote(str(directory))}{'?' if query else ''}{query}"


def spool_file(directory: Path | None = None) -> Path:
    """A new file in a directory, by default Spark's own; if it is left, it is cleared away as windows are."""
    directory = directory or _local_directory()
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{new_name(PREFIX)}.arrow"


def _local_directory() -> Path:
    """A directory of this executor that Spark removes when it ends."""
    for directory in os.environ.get("SPARK_LOCAL_DIRS", "").split(","):
        if directory and os.access(directory, os.W_OK):
            return Path(directory)
    return Path(tempfile.gettempdir())


def _beside(root: Path) -> list[Path]:
    """The directory, and the directories beside it if it is an executor's: a killed executor had another."""
    if not root.name.startswith(_OF_EXECUTOR):
        return [root]
    with suppress(OSError):
        return list(root.parent.glob(f"{_OF_EXECUTOR}*"))
    return [root]


def clear_leftovers(root: Path) -> None:
    """Removes files that killed workers of this host have left in a directory."""
    with suppress(OSError):
        for path in left_by_killed(root, PREFIX):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _task_name() -> str:
    """Application, stage, partition and attempt for people to read, and chance so that it never repeats."""
    context = TaskContext.get()
    if context is None:
        return f"spark/{secrets.token_hex(8)}"
    application = context.getLocalProperty("spark.app.id") or "app"
    task = f"{context.stageId()}.{context.partitionId()}.{context.taskAttemptId()}"
    return f"spark/{shortened(application, 80)}/{task}/{secrets.token_hex(4)}"


def shortened(name: str, most: int) -> str:
    """A part of a name with a limit on its bytes in a store: a longer one is cut, and ends with a digest."""
    if size_in_store(name) <= most:
        return name
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    while size_in_store(name) + len(digest) + 1 > most:
        name = name[:-1]
    return f"{name}_{digest}"


def size_in_store(name: str) -> int:
    """Bytes that a name takes in a store."""
    return len(escape_name(name).encode())
