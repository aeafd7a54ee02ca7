"""A store in a bucket of Couchbase Server. It needs the key-value service only: no query, no indexes."""

from __future__ import annotations

import ctypes
import json
import math
import os
import random
import re
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.durability import DurabilityLevel, ServerDurability
from couchbase.exceptions import (
    AmbiguousTimeoutException,
    AuthenticationException,
    BucketNotFoundException,
    CasMismatchException,
    CouchbaseException,
    DocumentExistsException,
    DocumentLockedException,
    DocumentNotFoundException,
    DurabilityImpossibleException,
    DurabilityInvalidLevelException,
    DurabilitySyncWriteAmbiguousException,
    DurabilitySyncWriteInProgressException,
    FeatureUnavailableException,
    InternalServerFailureException,
    InvalidArgumentException,
    QuotaLimitedException,
    RateLimitedException,
    RequestCanceledException,
    ServiceUnavailableException,
    TemporaryFailException,
    TimeoutException,
    UnAmbiguousTimeoutException,
    UnsupportedOperation,
)
from couchbase.kv_range_scan import PrefixScan
from couchbase.mutation_state import MutationState
from couchbase.options import (
    AppendOptions,
    ClusterOptions,
    ClusterTimeoutOptions,
    InsertOptions,
    RemoveMultiOptions,
    RemoveOptions,
    ReplaceOptions,
    ScanOptions,
    UpsertMultiOptions,
)
from couchbase.result import MutationResult
from couchbase.transcoder import RawBinaryTranscoder

from stores.base import (
    Conflict,
    Store,
    StoreConfigError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Token,
    escape_name,
    new_token,
    split_url,
    unescape_name,
)

T = TypeVar("T")

# As short as can be: with a collection, the server ends keys at 246 bytes, and page keys take up to 240.
PAGE = "mta:p:"
ROOT = "mta:r:"
LIST = "mta:l:"
PREFIX_LENGTH = 6

DOCUMENT_BYTES = 20 << 20
TOKEN_BYTES = 16
CHUNK_BYTES = 8 << 20
CHUNK_KEYS = 512
FIRST_GET_KEYS = 32  # while it is not known how big they are
ROOT_TRIES = 10
LONGEST_PAUSE = 2.0
SCAN_SECONDS = 75.0

# The lists of a server without scans.
SHARDS = 64
LISTED = re.compile(r"(mta:p:\{[^{}]+\}:[0-9a-f]{16}:[0-9a-f]{2}:[0-9a-f]{14})[0-9a-f]{2}", re.DOTALL)
LISTED_PAGES = 256
REFRESH_SECONDS = 86400.0
LEASE_SECONDS = 7 * REFRESH_SECONDS

NO_MEMORY = 0x82
TOO_BIG = 0x03
NETWORK_CODES = range(1001, 1100)  # of errors without a class
REFUSED = (AuthenticationException, BucketNotFoundException)
MISUSED = (InvalidArgumentException, DurabilityInvalidLevelException)
PASSING = (
    AmbiguousTimeoutException,
    DocumentLockedException,
    DurabilityImpossibleException,
    DurabilitySyncWriteAmbiguousException,
    DurabilitySyncWriteInProgressException,
    InternalServerFailureException,
    RateLimitedException,
    RequestCanceledException,
    ServiceUnavailableException,
    TemporaryFailException,
    TimeoutException,
    UnAmbiguousTimeoutException,
)
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d+)?")
LEVELS = {level.name.lower(): level for level in DurabilityLevel}


class _Connection:
    """What one process has of a server."""

    def __init__(self, cluster: Any, collection: Any) -> None:
        self.pid = os.getpid()
        self.cluster = cluster
        self.collection = collection
        self.scans: bool | None = None
        self.exists = True
        self.listed: dict[str, float] = {}
        self.written: dict[int, tuple[int, Any]] = {}

    def note(self, results: Iterable[Any]) -> None:
        """Remembers the last write to each partition: a scan reads the disk, and must wait for them."""
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
_connections: weakref.WeakSet[_Connection] = weakref.WeakSet()


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


class CouchbaseStore(Store):
    """`couchbase://user:password@host/bucket`, `couchbases://` for TLS; several hosts with commas between.

    User and password may also come as options, or from COUCHBASE_USERNAME and COUCHBASE_PASSWORD in the
    environment. The bucket is `default` unless named. It must not drop documents of itself, as an ephemeral
    bucket with nruEviction does.
    """

    shared_across_hosts = True
    known_options: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        "username": str,
        "password": str,
        "scope": str,
        "collection": str,
        "max_tries": int,
        "backoff": float,
        "timeout": float,
        "connect_timeout": float,
        "durability": str,
        "ttl": float,
        "network": str,
        "ssl_ca_certs": str,
    }

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        parts = split_url(self._url)
        hosts = parts.netloc.rpartition("@")[2] or "localhost"
        if not all(HOST.fullmatch(host) for host in hosts.split(",")):
            raise StoreConfigError(f"{self.url}: expected {parts.scheme}://host,host:port/bucket")
        self._servers = f"{parts.scheme}://{hosts}"
        self._bucket = unquote(parts.path.strip("/")) or "default"
        if "/" in self._bucket:
            raise StoreConfigError(f"{self.url}: expected one bucket, {parts.scheme}://host/bucket")
        self._credentials = {
            "username": self._option(
                "username", unquote(parts.username or "") or os.environ.get("COUCHBASE_USERNAME", "")
            ),
            "password": self._option(
                "password", unquote(parts.password or "") or os.environ.get("COUCHBASE_PASSWORD", "")
            ),
        }
        self._max_tries = self._option("max_tries", 6)
        self._backoff = self._option("backoff", 0.1)
        self._timeout = self._option("timeout", 5.0)
        self._ttl = math.ceil(self._option("ttl", 0))  # the server counts whole seconds
        if self._max_tries < 1 or self._backoff < 0 or self._ttl < 0 or self._timeout <= 0:
            raise StoreConfigError(
                f"{self.url}: max_tries must be at least 1, timeout positive, backoff and ttl not negative"
            )
        durability = self._option("durability", "none")
        level = LEVELS.get(durability)
        if level is None:
            raise StoreConfigError(
                f"{self.url}: durability must be one of {', '.join(LEVELS)}, not {durability!r}"
            )
        self._durable: dict[str, Any] = {"durability": ServerDurability(level)} if level.value else {}
        self._connected: _Connection | None = None

    def _option(self, name: str, default: Any) -> Any:
        return self._options.get(name, default)

    # Pages

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        pages = {_page(key): value for key, value in items}
        for key, value in pages.items():
            self._check_size("page", key[PREFIX_LENGTH:], len(value))
        self._enlist("put_many", pages)
        settings: dict[str, Any] = dict(self._durable)
        if self._ttl:
            settings["expiry"] = timedelta(seconds=self._ttl)
        chunk: dict[str, bytes] = {}
        size = 0
        for key, value in pages.items():
            if chunk and (size + len(value) > CHUNK_BYTES or len(chunk) == CHUNK_KEYS):
                self._put_chunk(chunk, settings)
                chunk, size = {}, 0
            chunk[key] = value
            size += len(value)
        self._put_chunk(chunk, settings)

    def _put_chunk(self, chunk: dict[str, bytes], settings: dict[str, Any]) -> None:
        def put(connection: _Connection, keys: list[str]) -> Any:
            return connection.collection.upsert_multi(
                {key: chunk[key] for key in keys}, UpsertMultiOptions(**settings)
            )

        self._each("put_many", list(chunk), put)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        pages = [_page(key) for key in keys]
        found = self._fetch("get_many", pages)
        return [found[page] for page in pages]

    def _fetch(self, call: str, keys: Iterable[str]) -> dict[str, bytes | None]:
        def get(connection: _Connection, some: list[str]) -> Any:
            return connection.collection.get_multi(some)

        found: dict[str, bytes | None] = {}
        wanted = iter(dict.fromkeys(keys))
        size = FIRST_GET_KEYS
        while chunk := list(islice(wanted, size)):
            results = self._each(call, chunk, get, absent=True)
            values = [result and result.value for result in results.values()]
            found.update(zip(results, values, strict=True))
            largest = max(len(value or b"") for value in values)
            size = max(1, min(CHUNK_KEYS, CHUNK_BYTES // max(1, largest)))
        return found

    def _delete_many(self, keys: list[str]) -> None:
        def remove(connection: _Connection, some: list[str]) -> Any:
            return connection.collection.remove_multi(some, RemoveMultiOptions(**self._durable))

        for chunk in _chunks(dict.fromkeys(map(_page, keys)), CHUNK_KEYS):
            self._each("delete_many", chunk, remove, absent=True)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        if "\0" not in prefix:
            for key in self._list("list_keys", PAGE + prefix):
                yield key[PREFIX_LENGTH:]

    # Roots: a document that starts with its token

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        document = self._call("read_root", lambda connection: _document(connection, _root(name)))
        return None if document is None else (document[1], document[0])

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        """A write whose reply was lost is read back: the token tells whether it was done."""
        key, token = _root(name), new_token()
        self._check_size("root", name, TOKEN_BYTES + len(data))
        if expected_token is None:
            self._enlist("swap_root", [key])

        def swap(connection: _Connection) -> bool:
            for _ in range(ROOT_TRIES):
                current = _document(connection, key)
                if current is not None and current[0] == token:
                    return True
                if (current and current[0]) != expected_token:
                    return False
                try:
                    if current is None:
                        result = connection.collection.insert(
                            key, token + data, InsertOptions(**self._durable)
                        )
                    else:
                        result = connection.collection.replace(
                            key, token + data, ReplaceOptions(cas=current[2], **self._durable)
                        )
                except (DocumentExistsException, DocumentNotFoundException, CasMismatchException):
                    continue
                connection.note([result])
                return True
            raise RequestCanceledException(message="the root would not stay as it was read")

        if not self._call("swap_root", swap):
            raise Conflict(name)
        return token

    def _delete_root(self, name: str, expected_token: Token) -> None:
        key = _root(name)

        def delete(connection: _Connection) -> bool:
            for _ in range(ROOT_TRIES):
                current = _document(connection, key)
                if current is None:
                    return True
                if current[0] != expected_token:
                    return False
                try:
                    result = connection.collection.remove(key, RemoveOptions(cas=current[2], **self._durable))
                except (DocumentNotFoundException, CasMismatchException):
                    continue
                connection.note([result])
                return True
            raise RequestCanceledException(message="the root would not stay as it was read")

        if not self._call("delete_root", delete):
            raise Conflict(name)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        for key in self._list("list_roots", ROOT + escape_name(prefix)):
            yield unescape_name(key[PREFIX_LENGTH:])

    # Lists: scans where the server has them (7.6), else documents that tell where to look.
    #
    # Such a document has a line for each root and for each 256 numbers of a tier, with the time of writing,
    # and is only appended to, which is atomic. A line is written before what it tells of, and again each day
    # by a writer that goes on, so a crash leaves a line too many and never a page unlisted. A list looks
    # whether each key exists, and drops lines that are a week old and lead to nothing.

    def _list(self, call: str, prefix: str) -> Iterator[str]:
        if self._scans(call, again=True):
            yield from self._scan(call, prefix)
            return
        group = _group(prefix)
        shards = range(SHARDS) if group is None else [_shard(group)]
        for shard in shards:
            self._check_open(call)
            yield from self._list_shard(call, f"{LIST}{prefix[4]}:{shard:02x}", prefix)

    def _scans(self, call: str, again: bool = False) -> bool:
        """Whether the server has scans. A list asks again, since a server may have been upgraded."""

        def ask(connection: _Connection) -> bool:
            if connection.scans is None or (again and not connection.scans):
                scan = connection.collection.scan(PrefixScan(PAGE), ScanOptions(ids_only=True))
                try:
                    iter(scan)
                    scan.cancel_scan()
                    connection.scans = True
                except FeatureUnavailableException:
                    connection.scans = False
                    connection.written.clear()
            return connection.scans

        return self._call(call, ask)

    def _scan(self, call: str, prefix: str) -> Iterator[str]:
        """Starts anew when it breaks off, since a key may come twice."""
        settings: dict[str, Any] = {"ids_only": True, "timeout": timedelta(seconds=SCAN_SECONDS)}
        for attempt in range(1, self._max_tries + 1):
            connection = self._call(call, lambda connection: connection)
            if connection.written:
                written = [result for _, result in list(connection.written.values())]
                settings["consistent_with"] = MutationState(*written)
            try:
                for row in connection.collection.scan(PrefixScan(prefix), ScanOptions(**settings)):
                    yield row.id
                    self._check_open(call)
                return
            except CouchbaseException as error:
                if not _passing(error):
                    raise StoreError(f"{call}: {self.url} replied: {_reason(error)}") from error
                if attempt == self._max_tries:
                    raise self._gave_up(call, error) from error
            self._pause(attempt)

    def _enlist(self, call: str, keys: Iterable[str]) -> None:
        if self._scans(call):
            return
        now = time.time()

        def lines(connection: _Connection) -> dict[str, dict[str, None]]:
            new: dict[str, dict[str, None]] = {}
            for key in keys:
                match = LISTED.fullmatch(key)
                entry = match[1] if match else key
                if entry.startswith(ROOT) or connection.listed.get(entry, 0) < now - REFRESH_SECONDS:
                    new.setdefault(_list_of(key), {})[entry] = None
            return new

        def append(connection: _Connection) -> None:
            for document, entries in lines(connection).items():
                try:
                    _append(
                        connection.collection, document, _lines(dict.fromkeys(entries, now)), self._durable
                    )
                except CouchbaseException as error:
                    if _too_big(error):
                        raise StoreFull(
                            f"{call}: the list {document} in {self.url} is full: list_keys and list_roots "
                            "drop what is old from it"
                        ) from error
                    raise
                connection.listed.update(dict.fromkeys((each for each in entries if each[4] == "p"), now))

        self._call(call, append)

    def _list_shard(self, call: str, document: str, prefix: str) -> Iterator[str]:
        current = self._call(call, lambda connection: _get(connection, document))
        if current is None:
            return
        entries: dict[str, float] = {}
        lines = current.value.decode().split("\n")[:-1]
        for line in lines:
            when, entry = json.loads(line)
            entries[entry] = max(when, entries.get(entry, 0))
        there: set[str] = set()
        asked = [
            (key, entry)
            for entry in entries
            if entry.startswith(prefix) or prefix.startswith(entry)
            for key in _candidates(entry)
            if key.startswith(prefix)
        ]
        for chunk in _chunks(asked, CHUNK_KEYS):
            self._check_open(call)
            found = self._existing(call, [key for key, _ in chunk])
            there.update(entry for key, entry in chunk if key in found)
            yield from found
        oldest = time.time() - LEASE_SECONDS
        kept = {
            entry: when
            for entry, when in entries.items()
            if entry in there or when >= oldest or not entry.startswith(prefix)
        }
        if len(kept) < len(entries) or 2 * len(kept) < len(lines):
            self._call(call, lambda connection: self._shorten(connection, document, kept, current.cas))

    def _shorten(self, connection: _Connection, document: str, kept: dict[str, float], cas: int) -> None:
        # If somebody wrote to it meanwhile, the next list will shorten it.
        with suppress(CasMismatchException, DocumentNotFoundException):
            connection.collection.replace(document, _lines(kept), ReplaceOptions(cas=cas, **self._durable))

    def _existing(self, call: str, keys: list[str]) -> dict[str, None]:
        if self._connection().exists:
            try:
                asked = self._each(
                    call, keys, lambda connection, some: connection.collection.exists_multi(some), absent=True
                )
                return {key: None for key in keys if asked[key] is not None and asked[key].exists}
            except StoreError as error:
                if not isinstance(error.__cause__, UnsupportedOperation):
                    raise
                self._connection().exists = False
        return {key: None for key, value in self._fetch(call, keys).items() if value is not None}

    # Calls

    def _check_size(self, what: str, name: str, size: int) -> None:
        if size > DOCUMENT_BYTES:
            raise StoreError(
                f"the {what} {name!r} takes {size} bytes, and Couchbase ends documents at {DOCUMENT_BYTES}: "
                "make pages smaller"
            )

    def _each(
        self,
        call: str,
        keys: list[str],
        operation: Callable[[_Connection, list[str]], Any],
        absent: bool = False,
    ) -> dict[str, Any]:
        """The result for each key, None where there is no document and that is no error.

        Only the keys that failed are tried again.
        """
        done: dict[str, Any] = {}

        def act(connection: _Connection) -> None:
            left = [key for key in keys if key not in done]
            if not left:
                return
            outcome = operation(connection, left)
            done.update(outcome.results)
            failed = []
            for key, error in outcome.exceptions.items():
                if absent and isinstance(error, DocumentNotFoundException):
                    done[key] = None
                else:
                    failed.append(error)
            connection.note(outcome.results.values())
            if failed:
                raise next((error for error in failed if not _passing(error)), failed[0])
            lost = [key for key in left if key not in done]
            if lost:
                raise StoreError(f"{call}: {self.url} gave no answer for {lost[0]!r}")

        self._call(call, act)
        return done

    def _call(self, call: str, action: Callable[[_Connection], T]) -> T:
        """Every action given here may be done twice: a lost reply does not tell whether it was done."""
        for attempt in range(1, self._max_tries + 1):
            try:
                return action(self._connection())
            except REFUSED as error:
                raise StoreConfigError(
                    f"{call}: {self.url} refuses this user or password, or has no bucket {self._bucket!r}: "
                    f"{_reason(error)}"
                ) from error
            except MISUSED as error:
                raise StoreConfigError(f"{call}: {self.url}: {_reason(error)}") from error
            except CouchbaseException as error:
                if isinstance(error, QuotaLimitedException):
                    raise StoreFull(f"{call}: {self.url} has used up its quota: {_reason(error)}") from error
                if not _passing(error):
                    raise StoreError(f"{call}: {self.url} replied: {_reason(error)}") from error
                if attempt == self._max_tries:
                    raise self._gave_up(call, error) from error
            except RuntimeError:
                self._check_open(call)  # another thread closed the store meanwhile
                raise
            self._check_open(call)
            self._pause(attempt)
        raise AssertionError("unreachable")

    def _pause(self, attempt: int) -> None:
        pause = min(self._backoff * 2 ** (attempt - 1), LONGEST_PAUSE)
        time.sleep(pause * random.uniform(0.5, 1))

    def _gave_up(self, call: str, error: Exception) -> StoreError:
        tries = f"{self._max_tries} {'try' if self._max_tries == 1 else 'tries'}"
        if call in ("put_many", "swap_root") and _out_of_memory(error):
            return StoreFull(
                f"{call}: {self.url} takes no more data after {tries}: {_reason(error)}. "
                "Raise the bucket's memory quota, or delete windows"
            )
        if isinstance(error, DurabilityImpossibleException):
            return StoreUnavailable(
                f"{call}: {self.url} has too few data nodes for durability={self._options['durability']} "
                f"after {tries}: bring nodes back, or lower it"
            )
        return StoreUnavailable(
            f"{call}: {self.url} did not answer after {tries}: {_reason(error)}. "
            "Check that the server runs and can be reached; max_tries and timeout give it more time"
        )

    # Connection

    def _connection(self) -> _Connection:
        connected = self._connected
        if connected is None or connected.pid != os.getpid():
            with _connecting:
                connected = self._connected
                if connected is None or connected.pid != os.getpid():
                    self._connected = connected = self._connect()
        return connected

    def _connect(self) -> _Connection:
        authenticator = PasswordAuthenticator(
            self._credentials["username"],
            self._credentials["password"],
            cert_path=self._option("ssl_ca_certs", None),
        )
        longest = timedelta(seconds=self._timeout)
        connecting = timedelta(seconds=self._option("connect_timeout", 5.0))
        settings: dict[str, Any] = {"network": self._options["network"]} if "network" in self._options else {}
        options = ClusterOptions(
            authenticator,
            timeout_options=ClusterTimeoutOptions(
                bootstrap_timeout=connecting,
                connect_timeout=connecting,
                resolve_timeout=connecting,
                kv_timeout=longest,
                kv_durable_timeout=max(longest, timedelta(seconds=10)),
            ),
            transcoder=RawBinaryTranscoder(),
            enable_tracing=False,
            enable_metrics=False,
            **settings,
        )
        cluster = Cluster(self._servers, options)
        try:
            scope = cluster.bucket(self._bucket).scope(self._option("scope", "_default"))
            collection = scope.collection(self._option("collection", "_default"))
        except BaseException:
            cluster.close()
            raise
        connection = _Connection(cluster, collection)
        _connections.add(connection)
        return connection

    def _close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None and connected.pid == os.getpid():
            connected.cluster.close()


def _page(key: str) -> str:
    if "\0" in key:
        raise ValueError(f"a key must not contain NUL, at which Couchbase's client ends it: {key!r}")
    return PAGE + key


def _root(name: str) -> str:
    return ROOT + escape_name(name)


def _get(connection: _Connection, key: str) -> Any:
    try:
        return connection.collection.get(key)
    except DocumentNotFoundException:
        return None


def _document(connection: _Connection, key: str) -> tuple[bytes, bytes, int] | None:
    """A root's token, data and CAS."""
    result = _get(connection, key)
    if result is None:
        return None
    return result.value[:TOKEN_BYTES], result.value[TOKEN_BYTES:], result.cas


def _append(collection: Any, key: str, data: bytes, durable: dict[str, Any]) -> None:
    try:
        collection.binary().append(key, data, AppendOptions(**durable))
    except DocumentNotFoundException:
        try:
            collection.insert(key, data, InsertOptions(**durable))
        except DocumentExistsException:
            collection.binary().append(key, data, AppendOptions(**durable))


def _group(key: str) -> str | None:
    """What decides in which list a key is, or None if a prefix does not tell."""
    end = key.find("}:")
    return key[:end] if end >= 0 and key.startswith(PAGE) else None


def _shard(group: str) -> int:
    return zlib.crc32(group.encode()) % SHARDS


def _list_of(key: str) -> str:
    return f"{LIST}{key[4]}:{_shard(_group(key) or key):02x}"


def _lines(entries: Mapping[str, float]) -> bytes:
    return "".join(
        f"{json.dumps([round(when), entry], ensure_ascii=False)}\n" for entry, when in entries.items()
    ).encode()


def _candidates(entry: str) -> Iterator[str]:
    """The keys that a line tells of."""
    yield entry
    if LISTED.fullmatch(f"{entry}00"):
        for number in range(LISTED_PAGES):
            yield f"{entry}{number:02x}"


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def _status(error: Exception) -> tuple[int | None, set[str]]:
    """The server's last status, and why the client tried again."""
    context = getattr(error, "error_context", None)
    details: dict[str, Any] = getattr(context, "_base", None) or {}
    return details.get("status_code"), set(details.get("retry_reasons") or ())


def _reason(error: Exception) -> str:
    """In few words: the client's own text names its source code."""
    status, retried = _status(error)
    message = getattr(error, "message", None)
    details = [] if message in (None, "", "Operation failed") else [str(message).rstrip(".")]
    if status:
        details.append(f"status {status:#x}")
    details += sorted(reason.replace("_", " ") for reason in retried)
    return type(error).__name__ + (f" ({', '.join(details)})" if details else "")


def _passing(error: Exception) -> bool:
    return isinstance(error, PASSING) or getattr(error, "error_code", None) in NETWORK_CODES


def _out_of_memory(error: Exception) -> bool:
    status, retried = _status(error)
    return isinstance(error, TemporaryFailException) and (
        status == NO_MEMORY or "key_value_temporary_failure" in retried
    )


def _too_big(error: CouchbaseException) -> bool:
    return _status(error)[0] == TOO_BIG
