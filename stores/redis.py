"""A store in Redis or a Redis cluster, of 6.2 or newer, or in a server that speaks as Redis does."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import Connection, SSLConnection
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

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
    parse_bool,
    split_url,
    unescape_name,
)

T = TypeVar("T")

PAGE = "mta:page:"
ROOT = "mta:root:{"
PUT_CHUNK_BYTES = 8 << 20
GET_CHUNK_KEYS = 8  # redis-py's parser slows down on replies of many megabytes
DELETE_CHUNK_KEYS = 1000
# With the default of 64 KB redis-py reads values of 256 KB three times slower.
SOCKET_READ_SIZE = 1 << 20
LONGEST_PAUSE = 2.0

# A call that is retried because its reply was lost finds its own token, and has succeeded.
SWAP = """
local token = redis.call('HGET', KEYS[1], 'token')
if token == ARGV[2] then return 1 end
if (token or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[2], 'data', ARGV[3])
return 1
"""
DELETE = """
local token = redis.call('HGET', KEYS[1], 'token')
if token and token ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""

# Beside lost connections: replies of a server that fails over or moves slots.
PASSING = (
    redis.ReadOnlyError,
    redis.exceptions.AskError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.MovedError,
    redis.exceptions.TryAgainError,
)
PASSING_REPLIES = ("NOREPLICAS", "BUSY ")


class RedisStore(Store):
    """`redis://user:password@host:6379/0`, `rediss://` for TLS, `redis+cluster://` for a cluster.

    The password may also come as an option or from the environment: REDIS_USERNAME, REDIS_PASSWORD.
    """

    shared_across_hosts = True
    known_options: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        "username": str,
        "password": str,
        "max_tries": int,
        "backoff": float,
        "socket_timeout": float,
        "socket_connect_timeout": float,
        "ssl_ca_certs": str,
        "ssl_certfile": str,
        "ssl_keyfile": str,
        "ssl_check_hostname": parse_bool,
        "allow_eviction": parse_bool,
        "ttl": float,
    }

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        parts = split_url(self._url)
        self._tls = parts.scheme.startswith("rediss")
        self._cluster = parts.scheme.endswith("+cluster")
        try:
            self._host, self._port = parts.hostname or "localhost", parts.port or 6379
            self._database = int(parts.path.strip("/") or 0)
        except ValueError:
            raise StoreConfigError(f"{self.url}: expected {parts.scheme}://host:port/database") from None
        if self._cluster and self._database:
            raise StoreConfigError(f"{self.url}: a cluster has database 0 only")
        self._credentials = {
            "username": self._option(
                "username", unquote(parts.username or "") or os.environ.get("REDIS_USERNAME")
            ),
            "password": self._option(
                "password", unquote(parts.password or "") or os.environ.get("REDIS_PASSWORD")
            ),
        }
        self._max_tries = self._option("max_tries", 6)
        self._backoff = self._option("backoff", 0.1)
        self._ttl_ms = round(self._option("ttl", 0) * 1000)
        if self._max_tries < 1 or self._backoff < 0 or self._ttl_ms < 0:
            raise StoreConfigError(f"{self.url}: max_tries must be at least 1, backoff and ttl not negative")
        self._connected: tuple[int, Any] | None = None

    def _option(self, name: str, default: Any) -> Any:
        return self._options.get(name, default)

    # Pages

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        chunk: dict[bytes, bytes] = {}
        size = 0
        for key, value in items:
            if chunk and size + len(value) > PUT_CHUNK_BYTES:
                self._put_chunk(chunk)
                chunk, size = {}, 0
            chunk[_page(key)] = value
            size += len(value)
        self._put_chunk(chunk)

    def _put_chunk(self, chunk: dict[bytes, bytes]) -> None:
        def put(client: Any) -> None:
            if self._ttl_ms:
                pipeline = client.pipeline(transaction=False)
                for key, value in chunk.items():
                    pipeline.set(key, value, px=self._ttl_ms)
                pipeline.execute()
            else:
                for keys in self._by_slot(client, list(chunk)):
                    client.mset({key: chunk[key] for key in keys})

        self._call("put_many", put)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        found: dict[bytes, bytes | None] = {}

        def get(client: Any) -> None:
            for slot in self._by_slot(client, missing):
                found.update(zip(slot, client.mget(slot), strict=True))

        wanted = [_page(key) for key in keys]
        for start in range(0, len(wanted), GET_CHUNK_KEYS):
            missing = wanted[start : start + GET_CHUNK_KEYS]
            self._call("get_many", get)
        return [found[key] for key in wanted]

    def _delete_many(self, keys: list[str]) -> None:
        def delete(client: Any) -> None:
            for slot in self._by_slot(client, unwanted):
                client.unlink(*slot)

        for start in range(0, len(keys), DELETE_CHUNK_KEYS):
            unwanted = [_page(key) for key in keys[start : start + DELETE_CHUNK_KEYS]]
            self._call("delete_many", delete)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        for key in self._scan("list_keys", PAGE + prefix):
            yield key.removeprefix(PAGE)

    # Roots

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        data, token = self._call("read_root", lambda client: client.hmget(_root(name), "data", "token"))
        return None if token is None else (data, token)

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        expected = b"" if expected_token is None else expected_token
        token = new_token()
        if not self._call(
            "swap_root", lambda client: client.eval(SWAP, 1, _root(name), expected, token, data)
        ):
            raise Conflict(name)
        return token

    def _delete_root(self, name: str, expected_token: Token) -> None:
        if not self._call("delete_root", lambda client: client.eval(DELETE, 1, _root(name), expected_token)):
            raise Conflict(name)

    def _list_roots(self, prefix: str) -> Iterator[str]:
        for key in self._scan("list_roots", ROOT + escape_name(prefix)):
            yield unescape_name(key[len(ROOT) : -1])

    def _scan(self, call: str, prefix: str) -> Iterator[str]:
        match = re.sub(r"([*?\[\]\\])", r"\\\1", prefix).encode() + b"*"
        nodes = self._call(call, lambda client: client.get_primaries() if self._cluster else [None])
        for node in nodes:
            where = {"target_nodes": node} if self._cluster else {}
            cursor = 0
            while True:
                self._check_open(call)
                cursor, keys = self._call(
                    call,
                    lambda client: client.scan(cursor, match=match, count=1000, **where),  # noqa: B023
                )
                for key in keys:
                    yield key.decode()
                if self._cluster:
                    (cursor,) = cursor.values()
                if not cursor:
                    break

    # Connection

    def _by_slot(self, client: Any, keys: list[bytes]) -> list[list[bytes]]:
        """The keys in groups that one command may name. All pages of a window are one group."""
        if not self._cluster:
            return [keys]
        slots: dict[int, list[bytes]] = {}
        for key in keys:
            slots.setdefault(client.keyslot(key), []).append(key)
        return list(slots.values())

    def _call(self, call: str, action: Callable[[Any], T]) -> T:
        """Every action given here may be done twice: a lost reply does not tell whether it was done."""
        for attempt in range(1, self._max_tries + 1):
            try:
                return action(self._client())
            except (AuthenticationError, AuthorizationError, NoPermissionError) as error:
                raise StoreConfigError(
                    f"{call}: {self.url} refuses this user or password: {error}"
                ) from error
            except (RedisError, RedisClusterException) as error:
                text = str(error)
                if isinstance(error, redis.OutOfMemoryError) or "OOM command" in text:  # the latter from Lua
                    raise StoreFull(
                        f"{call}: {self.url} is out of memory: raise maxmemory, or delete windows"
                    ) from error
                if "MISCONF" in text:
                    raise StoreFull(
                        f"{call}: {self.url} cannot write to its disk: make room there"
                    ) from error
                passing = isinstance(error, PASSING) or text.startswith(PASSING_REPLIES)
                if isinstance(error, ResponseError) and not passing:
                    raise StoreError(f"{call}: {self.url} replied: {text}") from error
                if attempt == self._max_tries:
                    raise self._gave_up(call, error) from error
            self._check_open(call)
            pause = min(self._backoff * 2 ** (attempt - 1), LONGEST_PAUSE)
            time.sleep(pause * random.uniform(0.5, 1))
        raise AssertionError("unreachable")

    def _gave_up(self, call: str, error: Exception) -> StoreError:
        tries = f"{self._max_tries} {'try' if self._max_tries == 1 else 'tries'}"
        if isinstance(error, redis.ReadOnlyError):
            return StoreFull(f"{call}: {self.url} is read-only after {tries}: connect to the primary")
        return StoreUnavailable(
            f"{call}: {self.url} did not answer after {tries}: {str(error).rstrip('.')}. "
            "Check that the server runs and can be reached; max_tries and socket_timeout give it more time"
        )

    def _client(self) -> Any:
        connected = self._connected
        if connected is None or connected[0] != os.getpid():  # a connection does not survive a fork
            client = self._connect()
            self._connected = connected = os.getpid(), client
        return connected[1]

    def _connect(self) -> Any:
        settings: dict[str, Any] = {
            "socket_timeout": self._option("socket_timeout", 5.0),
            "socket_connect_timeout": self._option("socket_connect_timeout", 2.0),
            "socket_keepalive": True,
            "socket_read_size": SOCKET_READ_SIZE,
            "retry": Retry(NoBackoff(), 0),
            **self._credentials,
        }
        if self._tls:
            settings["ssl_check_hostname"] = self._option("ssl_check_hostname", True)
            settings |= {name: value for name, value in self._options.items() if name.startswith("ssl_")}
        client: Any
        if self._cluster:
            if self._tls:
                settings["ssl"] = True
            client = RedisCluster(host=self._host, port=self._port, **settings)
        else:
            kind = SSLConnection if self._tls else Connection
            pool = redis.ConnectionPool(kind, host=self._host, port=self._port, db=self._database, **settings)
            client = redis.Redis(connection_pool=pool)
        try:
            self._check_eviction(client)
        except BaseException:
            _disconnect(client)
            raise
        return client

    def _check_eviction(self, client: Any) -> None:
        if self._option("allow_eviction", False):
            return
        try:
            if self._cluster:
                nodes = [client.info("memory", target_nodes=node) for node in client.get_primaries()]
            else:
                nodes = [client.info("memory")]
        except NoPermissionError as error:
            raise StoreConfigError(
                f"{self.url} does not let this user call INFO, so its maxmemory-policy is unknown: "
                "allow INFO, or pass allow_eviction=True if the policy is noeviction"
            ) from error
        for memory in nodes:
            policy = memory.get("maxmemory_policy", "noeviction")
            if memory.get("maxmemory", 0) and policy != "noeviction":
                raise StoreConfigError(
                    f"{self.url} has maxmemory-policy {policy}, which can drop pages of a live window: "
                    "set it to noeviction, or pass allow_eviction=True to take the risk"
                )

    def _close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None and connected[0] == os.getpid():
            _disconnect(connected[1])


def _disconnect(client: Any) -> None:
    client.close()
    if not isinstance(client, RedisCluster):
        client.connection_pool.disconnect()


def _page(key: str) -> bytes:
    return f"{PAGE}{key}".encode()


def _root(name: str) -> bytes:
    return f"{ROOT}{escape_name(name)}}}".encode()
