"""The store that a streaming task writes to, and which task it is."""

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

#: Pages of an attempt that came to nothing may be cleared away after so many seconds.
LEASE = 3600.0

#: Seconds to wait for a directory that another process still has open.
PATIENCE = 60.0

#: Seconds until a directory is closed that no key has used.
IDLE = 0.3


#: Bytes of a query's part in the names of its windows, and of the longest end that such a name may have:
#: the digest of a key, the number of a micro-batch, and that of a window.
_OPERATOR, _END = 60, len(f"/{'f' * 32}/{2**63}/9")


@dataclass(frozen=True)
class Place:
    """Which attempt of which part of which query this is."""

    query: str
    run: str
    batch: int
    partition: int

    @staticmethod
    def here() -> Place:
        context = TaskContext.get()
        if context is None:
            return Place("none", "none", 0, 0)
        batch = context.getLocalProperty("streaming.sql.batchId")
        run = context.getLocalProperty("spark.jobGroup.id") or context.getLocalProperty("spark.app.id")
        query = context.getLocalProperty("sql.streaming.queryId")
        return Place(query or "batch", run or "run", int(batch or 0), context.partitionId())


class _Shelf:
    """Stores of this process. A server's stay open; a directory is closed soon, for other processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[str, Store] = {}
        #: with how many use them, and since when nobody does
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
        store = self._take(url, options)
        try:
            yield store
        finally:
            self._give_back(url)

    def _take(self, url: str, options: Mapping[str, Any]) -> Store:
        with self._lock:
            store, users, _ = self._directories.get(url) or (
                open_store(url, **{**_patience(url), **options}),
                0,
                0.0,
            )
            self._directories[url] = (store, users + 1, 0.0)
            return store

    def _give_back(self, url: str) -> None:
        with self._lock:
            store, users, _ = self._directories[url]
            self._directories[url] = (store, users - 1, time.monotonic())
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._close_idle, name="mta-idle", daemon=True).start()

    def _close_idle(self) -> None:
        """Until all directories are closed, closes those that nothing has used for a while."""
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
    told = "patience" in parse_qs(urlsplit(url).query)
    return {"patience": PATIENCE} if "patience" in store_class(url).known_options and not told else {}


SHELF = _Shelf()


def partition_url(url: str, place: Place) -> str:
    """Where the windows of a partition of the query are: each embedded store has one process."""
    directory = embedded_in(url)
    if directory is None:
        return url
    return embedded_at(url, directory / place.query / str(place.partition))


# -- names ------------------------------------------------------------------------------------------------


def operator_name(aggregates: Iterable[str]) -> str:
    """The query's part in the names of its windows: its aggregates, as long as a name has room for them."""
    return shortened("rolling_" + "_".join(aggregates), _OPERATOR)


def windows_name(name: str) -> str:
    """How the names of windows begin, where the state of a bucket has `name` for that.

    An earlier version cut names at 60 letters, which may leave no room for what stands behind them.
    """
    if size_in_store(name) + _END <= MAX_NAME_BYTES:
        return name
    *query, operator = name.split("/", 2)
    return "/".join([*query, shortened(operator, _OPERATOR)])


def documents_name(name: str, bucket: int) -> str:
    """The name of a bucket's own documents."""
    found = f"{name}/{bucket}/rows"
    return found if size_in_store(found) <= MAX_NAME_BYTES else f"{windows_name(name)}/{bucket}/rows"
