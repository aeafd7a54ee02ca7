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

from mta.ownership import surely_dead, this_process
from spark_integration.errors import StoreNotUsable
from spark_integration.notes import Note, sweep
from stores import Store, StoreError, UnknownStore, open_store

#: Pages of a killed attempt may be cleared away by `mta gc` after so many seconds without a write.
LEASE = 3600.0

#: How the directories of embedded stores begin.
PREFIX = "mta-rolling"

#: How Spark's local directories of an executor begin.
_OF_EXECUTOR = "blockmgr-"

_SECRETS = ("password", "username")


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
            self._directory = self._root / _directory_name()
            self.store = open_store(f"rocksdb://{quote(str(self._directory))}", **options)
        self._name = _task_name()
        self._windows = 0
        #: of a server, which knows nothing of the end of a process
        self._noted_url = url if base is None and urlsplit(url).scheme != "memory" else None
        self._note: Note | None = None

    def next_name(self) -> str:
        """A name that no other window has, of this attempt or any other."""
        if self._noted_url is not None and self._note is None:
            self._note = Note(self._noted_url, self._name)
            sweep(self.store, self._noted_url)
        self._windows += 1
        return f"{self._name}/{self._windows}"

    def spool(self) -> Path:
        """A file to keep rows in for a while; whoever asks for it removes it."""
        self._root.mkdir(parents=True, exist_ok=True)
        return self._root / f"{_directory_name()}.arrow"

    def close(self) -> None:
        self.store.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # a store that fails may have kept pages, for whoever comes when this process is gone
        if self._note is not None and not isinstance(error, StoreError):
            self._note.remove()
        self.close()


def embedded_in(url: str) -> Path | None:
    """The directory that embedded stores are made in; an empty path for Spark's own, None for a server."""
    if url == "rocksdb":
        return Path()
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "rocksdb" else None


def _local_directory() -> Path:
    """A directory of this executor that Spark removes when it ends."""
    for directory in os.environ.get("SPARK_LOCAL_DIRS", "").split(","):
        if directory and os.access(directory, os.W_OK):
            return Path(directory)
    return Path(tempfile.gettempdir())


def _beside(root: Path) -> list[Path]:
    """The directory, and those beside it if it is an executor's: one that was killed had another."""
    if not root.name.startswith(_OF_EXECUTOR):
        return [root]
    with suppress(OSError):
        return list(root.parent.glob(f"{_OF_EXECUTOR}*"))
    return [root]


def _directory_name() -> str:
    host, pid, start = this_process()
    return f"{PREFIX}-{_short(host)}-{pid}-{start}-{secrets.token_hex(4)}"


def _short(text: str) -> str:
    return blake2b(text.encode(), digest_size=4).hexdigest()


def clear_leftovers(root: Path) -> None:
    """Removes what killed workers of this host have left in a directory."""
    host = this_process()[0]
    with suppress(OSError):
        for path in root.glob(f"{PREFIX}-{_short(host)}-*"):
            parts = path.name.split("-")
            if (
                parts[3].isdigit()
                and parts[4].isdigit()
                and surely_dead((host, int(parts[3]), int(parts[4])))
            ):
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
    place = f"{context.stageId()}.{context.partitionId()}.{context.taskAttemptId()}"
    return f"spark/{application[:80]}/{place}/{secrets.token_hex(4)}"


# -- on the driver ----------------------------------------------------------------------------------------


def check_store(store: Any, options: Mapping[str, Any], *, several_processes: bool, reachable: bool) -> str:
    """The store's URL, if the tasks of this job can use it."""
    if not isinstance(store, str):
        raise StoreNotUsable(
            f'store= is "rocksdb" or the URL of a store, got {store!r}: tasks open it themselves'
        )
    for name in options:
        if name in _SECRETS:
            raise StoreNotUsable(_no_secrets(f"store_options={{{name!r}: ...}}"))
    if store == "rocksdb":
        return store
    scheme = store.partition(":")[0]
    if scheme == store:
        raise StoreNotUsable(
            f'store={store!r} is no URL: give "rocksdb" for the embedded store, or for example redis://host:6379/0'
        )
    try:
        if urlsplit(store).password:
            raise StoreNotUsable(_no_secrets("the store's URL"))
        if scheme == "memory" and several_processes:
            raise StoreNotUsable(
                'store="memory:" keeps every window in the memory of a worker, and this job has several '
                'executors: use "rocksdb", or the URL of a store that all executors can reach'
            )
        opened = open_store(store, **options)
    except UnknownStore as error:
        raise StoreNotUsable(f"store={store!r}: {error}") from None
    except ValueError as error:
        raise error if isinstance(error, StoreNotUsable) else StoreNotUsable(f"store: {error}") from None
    except (StoreError, TypeError) as error:
        raise StoreNotUsable(f"store={store!r}: {error}") from error
    directory = embedded_in(store)
    if directory is not None and not directory.is_absolute():
        raise StoreNotUsable(
            f"store={store!r}: executors need an absolute directory, as in rocksdb:///mnt/disk"
        )
    with opened:
        if reachable and scheme not in ("memory", "rocksdb"):
            _try(opened, store, options)
    return store


def _try(opened: Store, url: str, options: Mapping[str, Any]) -> None:
    quick = dict(options)
    if url.startswith(("redis", "valkey")):
        quick["max_tries"] = 1
    try:
        with open_store(url, **quick) as store:
            store.get_many(["probe"])
    except StoreError as error:
        raise StoreNotUsable(f"the driver cannot use the store {opened.url}: {error}") from error


def _no_secrets(where: str) -> str:
    return (
        f"{where} names a user or a password, which would be readable in the job's plan: set them in the "
        "environment of the executors and the driver instead, for example spark.executorEnv.REDIS_PASSWORD"
    )
