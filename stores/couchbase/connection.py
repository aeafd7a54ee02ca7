"""What one process has of a server, and how it survives that the process forks."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.exceptions import CouchbaseException
from couchbase.options import ClusterOptions, ClusterTimeoutOptions
from couchbase.result import MutationResult
from couchbase.transcoder import RawBinaryTranscoder

from stores.couchbase.diagnosis import obstacles
from stores.couchbase.failures import NoConnection, passes, reason
from stores.couchbase.settings import Settings
from stores.patience import SHORTEST_TRY, Budget

LOOKING = 1.0  # seconds to find out why there is no connection


class AnyBytes(RawBinaryTranscoder):  # type: ignore[misc]
    """Gives the bytes of every document, also of one that somebody else wrote as JSON or text."""

    def decode_value(self, value: bytes, flags: int) -> bytes:  # noqa: ARG002
        return bytes(value)


class Connection:
    """What one process has of a server."""

    def __init__(self, cluster: Any, collection: Any) -> None:
        self.pid = os.getpid()
        self.cluster = cluster
        self.collection = collection
        #: what the server can do, None while that is not known
        self.scans: bool | None = None
        self.exists = True
        #: which lines of lists this process wrote, and when
        self.listed: dict[str, float] = {}
        #: the last write to each partition, which a scan has to wait for, since it reads the disk
        self.written: dict[int, tuple[int, Any]] = {}

    def note(self, results: Iterable[Any]) -> None:
        if self.scans is False:
            return
        for result in results:
            token = result.mutation_token() if isinstance(result, MutationResult) else None
            if token is None:
                continue
            if self.written.get(token.partition_id, (0, None))[0] < token.sequence_number:
                self.written[token.partition_id] = token.sequence_number, result


# The client's threads are not in a forked child. What it made in the parent must not be used there, nor
# freed, not even at exit: that waits for those threads for ever. So the child keeps a reference too many.
# A fork waits for a connection in the making, which it could not keep.
_connecting = threading.Lock()
_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for connection in list(_connections):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _connecting.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_connecting.acquire,
        after_in_parent=_connecting.release,
        after_in_child=_after_fork_in_child,
    )


class Connector:
    """Connects when it is first needed, once in each process, for all threads."""

    def __init__(self, settings: Settings, check_open: Callable[[], None]) -> None:
        self._settings = settings
        self._check_open = check_open
        self._connected: Connection | None = None
        self._failed: tuple[int, NoConnection] = 0, NoConnection()

    @property
    def connected(self) -> Connection | None:
        """The connection of this process, if it has one."""
        connected = self._connected
        return connected if connected is not None and connected.pid == os.getpid() else None

    def connection(self, budget: Budget) -> Connection:
        connected = self.connected
        if connected is None:
            failures = self._failed[0]
            if not _connecting.acquire(timeout=budget.timeout(self._settings.connect_timeout + LOOKING)):
                raise NoConnection(message="another thread is still waiting for a connection")
            try:
                connected = self.connected
                if connected is None and self._failed[0] != failures:
                    raise NoConnection(message=self._failed[1].message)  # while this thread waited
                if connected is None:
                    self._check_open()
                    self._connected = connected = self._connect(budget)
            except NoConnection as error:
                self._failed = self._failed[0] + 1, error
                raise
            finally:
                _connecting.release()
            try:
                self._check_open()
            except BaseException:
                self.close()
                raise
        return connected

    def close(self) -> None:
        connected, self._connected = self.connected, None
        if connected is not None:
            connected.cluster.close()

    def _connect(self, budget: Budget) -> Connection:
        looking = min(LOOKING, budget.left / 4)
        try:
            connection = self._open(
                max(SHORTEST_TRY, min(self._settings.connect_timeout, budget.left - looking))
            )
        except CouchbaseException as error:
            if not passes(error):
                raise
            found = obstacles(self._settings.servers, max(SHORTEST_TRY, looking))
            raise NoConnection(message=f"{found} ({reason(error)})") from error
        _connections.add(connection)
        return connection

    def _open(self, seconds: float) -> Connection:
        settings = self._settings
        connecting, longest = timedelta(seconds=seconds), timedelta(seconds=settings.longest)
        network: dict[str, Any] = {} if settings.network is None else {"network": settings.network}
        options = ClusterOptions(
            PasswordAuthenticator(settings.username, settings.password, cert_path=settings.ssl_ca_certs),
            timeout_options=ClusterTimeoutOptions(
                bootstrap_timeout=connecting,
                connect_timeout=connecting,
                resolve_timeout=connecting,
                kv_timeout=longest,
                kv_durable_timeout=longest,
            ),
            transcoder=AnyBytes(),
            enable_tracing=False,
            enable_metrics=False,
            **network,
        )
        cluster = Cluster(settings.servers, options)
        try:
            scope = cluster.bucket(settings.bucket).scope(settings.scope)
            return Connection(cluster, scope.collection(settings.collection))
        except BaseException:
            cluster.close()
            raise
