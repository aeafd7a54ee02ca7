"""The store that a streaming task writes to, and the attempt that the task is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyspark import TaskContext

from spark_integration.running.storage import embedded_at, embedded_in, shortened, size_in_store
from stores import Store, open_store, store_class
from stores.names import MAX_NAME_BYTES

#: Seconds after which the pages of an attempt that is silent may be cleared away.
LEASE = 3600.0

#: Seconds to wait for a directory that another process still has open.
PATIENCE = 60.0

#: Seconds until an unused directory is closed.
IDLE = 0.3

#: Bytes of a query's part in the names of its windows, and of the longest end that such a name may have:
#: the digest of a key, the number of a micro-batch, and that of a window.
_OPERATOR, _END = 60, len(f"/{'f' * 32}/{2**63}/9")


@dataclass(frozen=True)
class TaskAttempt:
    """One attempt at a partition of a micro-batch: Spark may start several, and one of them counts."""

    query: str
    #: one execution of the query, from its start to its end
    run: str
    batch: int
    partition: int

    @staticmethod
    def current() -> TaskAttempt:
        context = TaskContext.get()
        if context is None:
            return TaskAttempt("none", "none", 0, 0)
        batch = context.getLocalProperty("streaming.sql.batchId")
        run = context.getLocalProperty("spark.jobGroup.id") or context.getLocalProperty("spark.app.id")
        query = context.getLocalProperty("sql.streaming.queryId")
        return TaskAttempt(query or "batch", run or "run", int(batch or 0), context.partitionId())


class _OpenStores:
    """The open stores of this process.

    Those of servers stay open. A directory is closed soon after its use, since another process may need it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, Store] = {}
        #: with the number of users, and the time at which the last one left
        self._directories: dict[str, tuple[Store, int, float]] = {}
        self._watched = False

    @contextmanager
    def store(self, url: str, options: Mapping[str, Any]) -> Iterator[Store]:
        if embedded_in(url) is None:
            with self._lock:
                key = f"{url} {sorted(options.items())!r}"
                if key not in self._servers:
                    self._servers[key] = open_store(url, **options)
            yield self._servers[key]
            return
        with self._lock:
            if url not in self._directories:
                self._directories[url] = (open_store(url, **{**_patience(url), **options}), 0, 0.0)
            store, users, _ = self._directories[url]
            self._directories[url] = (store, users + 1, 0.0)
        try:
            yield store
        finally:
            with self._lock:
                _, users, _ = self._directories[url]
                self._directories[url] = (store, users - 1, time.monotonic())
                if not self._watched:
                    self._watched = True
                    threading.Thread(target=self._close_idle, name="mta-idle", daemon=True).start()

    def _close_idle(self) -> None:
        """Closes each directory that has been unused for a while, until all are closed."""
        while True:
            time.sleep(IDLE)
            with self._lock:
                for url, (store, users, since) in list(self._directories.items()):
                    if not users and time.monotonic() - since >= IDLE:
                        del self._directories[url]
                        store.close()
                if not self._directories:
                    self._watched = False
                    return


def _patience(url: str) -> dict[str, float]:
    """An option for stores that have it, unless the URL says it."""
    given = "patience" in parse_qs(urlsplit(url).query)
    return {"patience": PATIENCE} if "patience" in store_class(url).known_options and not given else {}


OPEN_STORES = _OpenStores()


def partition_url(url: str, attempt: TaskAttempt) -> str:
    """The URL of the store of a partition of the query: only one process at a time can open a directory."""
    directory = embedded_in(url)
    if directory is None:
        return url
    return embedded_at(url, directory / attempt.query / str(attempt.partition))


def operator_name(aggregates: Iterable[str]) -> str:
    """The query's part in the names of its windows: its aggregates, as long as a name has room for them."""
    return shortened("rolling_" + "_".join(aggregates), _OPERATOR)


def windows_name(name: str) -> str:
    """The beginning of the names of windows, for the `name` in the state of a bucket.

    An earlier version cut names at 60 letters, which may leave no room for the rest of a window's name.
    """
    if size_in_store(name) + _END <= MAX_NAME_BYTES:
        return name
    *query, operator = name.split("/", 2)
    return "/".join([*query, shortened(operator, _OPERATOR)])


def documents_name(name: str, bucket: int) -> str:
    """The name of a bucket's own documents."""
    found = f"{name}/{bucket}/rows"
    return found if size_in_store(found) <= MAX_NAME_BYTES else f"{windows_name(name)}/{bucket}/rows"
