"""The connection of a process to a server, made anew in the child of a fork."""

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

from stores.couchbase.diagnosis import diagnose
from stores.couchbase.failures import NoConnection, is_transient, reason
from stores.couchbase.settings import Settings
from stores.patience import SHORTEST_TRY, Budget

DIAGNOSIS_SECONDS = 1.0  # to find out why there is no connection


class AnyBytes(RawBinaryTranscoder):  # type: ignore[misc]
    """Returns the bytes of any document, even one that another program wrote as JSON or text."""

    def decode_value(self, value: bytes, flags: int) -> bytes:  # noqa: ARG002
        return bytes(value)


class Connection:
    """One connection, and what its process has learned about the server and written there."""

    def __init__(self, cluster: Any, collection: Any) -> None:
        self.pid = os.getpid()
        self.cluster = cluster
        self.collection = collection
        #: whether the server has scans (None: not known yet), and whether it has `exists`
        self.scans: bool | None = None
        self.exists = True
        #: the entries that this process has added to lists, and when
        self.listed: dict[str, float] = {}
        #: the last write to each partition: a scan reads the disk, and has to wait for these
        self.written: dict[int, tuple[int, Any]] = {}

    def note(self, results: Iterable[Any]) -> None:
        """Remembers writes that a later scan has to wait for."""
        if self.scans is False:
            return
        for result in results:
            token = result.mutation_token() if isinstance(result, MutationResult) else None
            if token is None:
                continue
            if self.written.get(token.partition_id, (0, None))[0] < token.sequence_number:
                self.written[token.partition_id] = token.sequence_number, result


# A forked child has none of the client's threads. It must neither use the parent's connections nor free them,
# even at exit, because freeing waits for those threads for ever. So the child adds a reference to each
# connection. A fork waits until no connection is being opened, since the child could not know of it.
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
    """Connects when it is first used, once in each process, for all its threads."""

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
            if not _connecting.acquire(
                timeout=budget.timeout(self._settings.connect_timeout + DIAGNOSIS_SECONDS)
            ):
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
        reserved = min(DIAGNOSIS_SECONDS, budget.left / 4)
        try:
            connection = self._open(
                max(SHORTEST_TRY, min(self._settings.connect_timeout, budget.left - reserved))
            )
        except CouchbaseException as error:
            if not is_transient(error):
                raise
            found = diagnose(self._settings.servers, max(SHORTEST_TRY, reserved))
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
