"""A store in Redis or Valkey, or in a cluster of them; 6.2 or newer, or a server that speaks as they do."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from urllib.parse import unquote
from weakref import WeakSet

import redis

from stores.base import Conflict, Store, StoreConfigError, Token, new_token
from stores.errors import StoreChanged
from stores.patience import Budget
from stores.redis_connections import Command, Server, Settings
from stores.redis_keys import Keys
from stores.redis_places import read_place
from stores.redis_replies import ERRORS, final, gave_up
from stores.redis_routes import Cluster, OneServer, Route, Sentinel, checked
from stores.urls import parse_bool, parse_number, parse_whole, split_url, within

T = TypeVar("T")

PUT_CHUNK_BYTES = 8 << 20
GET_CHUNK_KEYS = 8  # redis-py's parser slows down on replies of many megabytes
DELETE_CHUNK_KEYS = 1000
SCAN_COUNT = 1000
ROOTS_CHUNK = 100
#: Stands for the server whose clock counts, of a cluster; nothing is stored there.
CLOCK = b"mta:clock"
CLOCK_LASTS = 15.0

# A call that is retried because its reply was lost finds its own token, and has succeeded. It writes again,
# so that WAIT on its connection waits for the root.
SWAP = """
local found = redis.call('HMGET', KEYS[1], 'token', 'spread')
if found[1] and (found[2] or '') ~= ARGV[4] then return -1 end
if (found[1] or '') ~= ARGV[1] and found[1] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[2], 'data', ARGV[3])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'spread', ARGV[4]) end
return 1
"""
DELETE = """
local token = redis.call('HGET', KEYS[1], 'token')
if token and token ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""

_seconds = within(parse_number, 0.001, 86400 * 365)


class RedisStore(Store):
    """`redis://user:password@host:6379/0`, `rediss://` for TLS, and the same with `valkey`.

    `redis+cluster://host,host:port` is a cluster, of which any node will do to begin with, and
    `redis+sentinel://host,host:port/service/0` the master that Sentinels name. User and password may also
    come as options or from the environment: REDIS_USERNAME, REDIS_PASSWORD, or VALKEY_ for valkey.
    """

    shared_across_hosts = True
    known_options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "username": str,
        "password": str,
        "sentinel_username": str,
        "sentinel_password": str,
        "patience": _seconds,
        "max_tries": within(parse_whole, 1, 10**9),
        "backoff": within(parse_number, 0, 3600),
        "socket_timeout": _seconds,
        "socket_connect_timeout": _seconds,
        "max_connections": within(parse_whole, 1, 10**6),
        "min_replicas": within(parse_whole, 0, 1000),
        "spread": within(parse_whole, 0, 16384),
        "ssl_ca_certs": str,
        "ssl_certfile": str,
        "ssl_keyfile": str,
        "ssl_check_hostname": parse_bool,
        "allow_eviction": parse_bool,
        "ttl": within(parse_number, 0, 86400 * 36500),
    }

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._place = read_place(self._url)
        parts = split_url(self._url)
        product = "VALKEY" if parts.scheme.startswith("valkey") else "REDIS"
        self._credentials = {
            name: self._option(name, unquote(told or "") or os.environ.get(f"{product}_{name.upper()}"))
            for name, told in (("username", parts.username), ("password", parts.password))
        }
        self._patience = self._option("patience", 10.0)
        self._ttl_ms = math.ceil(self._option("ttl", 0) * 1000)
        self._min_replicas = self._option("min_replicas", 0)
        self._keys = Keys(self._option("spread", 0))
        self._changes = 0
        self._opened: Route | None = None
        self._opening = threading.Lock()
        _stores.add(self)
        #: how far the server's clock is ahead of the monotonic one here, and when that was asked
        self._clock = 0.0, float("-inf")

    def _option(self, name: str, default: Any) -> Any:
        return self._options.get(name, default)

    # Pages

    def _put_many(self, items: list[tuple[str, bytes]]) -> None:
        chunk: list[Command] = []
        size = 0
        expiry: Command = ("PX", self._ttl_ms) if self._ttl_ms else ()
        for key, value in dict(items).items():
            if chunk and size + len(value) > PUT_CHUNK_BYTES:
                self._put_chunk(chunk)
                chunk, size = [], 0
            chunk.append(("SET", self._keys.page(key), value, *expiry))
            size += len(value)
        self._put_chunk(chunk)

    def _put_chunk(self, chunk: list[Command]) -> None:
        # What a swap waits for includes the pages that its server got before, and not those of other servers.
        replicas = self._min_replicas if self._keys.spread else 0
        self._call("put_many", lambda route, budget: route.run(chunk, budget, replicas=replicas))

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for start in range(0, len(keys), GET_CHUNK_KEYS):
            chunk: list[Command] = [
                ("GET", self._keys.page(key)) for key in keys[start : start + GET_CHUNK_KEYS]
            ]
            found += self._call("get_many", lambda route, budget: route.run(chunk, budget))  # noqa: B023
        return found

    def _missing(self, keys: list[str]) -> list[str]:
        missing: list[str] = []
        for start in range(0, len(keys), DELETE_CHUNK_KEYS):
            chunk = keys[start : start + DELETE_CHUNK_KEYS]
            commands: list[Command] = [("EXISTS", self._keys.page(key)) for key in chunk]
            try:
                found = self._call("missing", lambda route, budget: route.run(commands, budget))  # noqa: B023
            except StoreConfigError:  # a user who may not ask may still read
                return super()._missing(keys)
            missing += [key for key, there in zip(chunk, found, strict=True) if not there]
        return missing

    def _delete_many(self, keys: list[str]) -> None:
        def delete(route: Route, budget: Budget) -> None:
            route.run(
                [("UNLINK", key) for key in chunk] if route.one_key_each else [("UNLINK", *chunk)], budget
            )

        for start in range(0, len(keys), DELETE_CHUNK_KEYS):
            chunk = [self._keys.page(key) for key in keys[start : start + DELETE_CHUNK_KEYS]]
            self._call("delete_many", delete)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        for pages in self._scan("list_keys", self._keys.pages_like(prefix)):
            for page in pages:
                yield self._keys.key_of(page)

    # Roots

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        return self._roots("read_root", [name])[0]

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        return self._roots("read_roots", names)

    def _roots(self, call: str, names: list[str]) -> list[tuple[bytes, Token] | None]:
        commands = [("HMGET", self._keys.root(name), "data", "token", "spread") for name in names]
        roots: list[tuple[bytes, Token] | None] = []
        for name, (data, token, spread) in zip(names, self._in_chunks(call, commands), strict=True):
            if token is not None and (spread or b"") != self._keys.mark:
                raise self._spread_otherwise(call, name, f"with spread={(spread or b'0').decode()}")
            roots.append(None if token is None else (data or b"", token))
        return roots

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        expected = b"" if expected_token is None else expected_token
        token, changes = new_token(), self._changes

        def check() -> None:
            if self._changes != changes:
                raise StoreChanged(
                    f"swap_root: {self.url} was started again, or another server took its place, so that "
                    "pages put before may be gone: see that they are there, and repeat the call"
                )

        swap: Command = ("EVAL", SWAP, 1, self._keys.root(name), expected, token, data, self._keys.mark)
        (done,) = self._call(
            "swap_root",
            lambda route, budget: route.run([swap], budget, replicas=self._min_replicas, check=check),
        )
        if done < 0:
            raise self._spread_otherwise("swap_root", name, "with another spread")
        if not done:
            raise Conflict(name)
        return token

    def _delete_root(self, name: str, expected_token: Token) -> None:
        (done,) = self._in_chunks("delete_root", [self._delete(name, expected_token)])
        if not done:
            raise Conflict(name)

    def _delete_roots(self, expected_tokens: dict[str, Token]) -> list[str]:
        deleted = self._in_chunks("delete_roots", [self._delete(*each) for each in expected_tokens.items()])
        return [name for name, done in zip(expected_tokens, deleted, strict=True) if not done]

    def _delete(self, name: str, expected_token: Token) -> Command:
        return "EVAL", DELETE, 1, self._keys.root(name), expected_token

    def _in_chunks(self, call: str, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands for roots, a hundred in a round trip."""
        replies: list[Any] = []
        for start in range(0, len(commands), ROOTS_CHUNK):
            some = commands[start : start + ROOTS_CHUNK]
            replies += self._call(call, lambda route, budget: route.run(some, budget))  # noqa: B023
        return replies

    def _list_roots(self, prefix: str) -> Iterator[str]:
        for roots in self._scan("list_roots", self._keys.roots_like(prefix)):
            marks: list[Command] = [("HGET", root, "spread") for root in roots]
            found = self._call("list_roots", lambda route, budget: route.run(marks, budget))  # noqa: B023
            for root, mark in zip(roots, found, strict=True):
                if (mark or b"") == self._keys.mark:
                    yield self._keys.name_of(root)

    def _spread_otherwise(self, call: str, name: str, how: str) -> StoreConfigError:
        return StoreConfigError(
            f"{call}: the pages of the window {name!r} in {self.url} were written {how}, and this "
            f"store was opened with spread={self._keys.spread}: every process has to open it with the same"
        )

    # Clock

    def now(self) -> float:
        """By the clock of one server, which is asked a few times a minute."""
        self._check_open("now")
        ahead, asked = self._clock
        if time.monotonic() - asked > CLOCK_LASTS:
            command: Command = ("EVAL", "return redis.call('TIME')", 1, CLOCK)
            ((seconds, micros),) = self._call("now", lambda route, budget: route.run([command], budget))
            asked = time.monotonic()
            ahead = int(seconds) + int(micros) / 1e6 - asked
            self._clock = ahead, asked
        return time.monotonic() + ahead

    # Listing

    def _scan(self, call: str, pattern: bytes) -> Iterator[list[bytes]]:
        """Keys that move between servers while these are asked are found the second time at the latest."""
        layout = self._call(call, lambda route, budget: route.layout(budget))
        yield from self._scan_once(call, pattern)
        now = self._call(call, lambda route, budget: route.layout(budget))
        if now != layout or any("[" in line for line in now):
            yield from self._scan_once(call, pattern)

    def _scan_once(self, call: str, pattern: bytes) -> Iterator[list[bytes]]:
        """A cursor means nothing to another server: if one is replaced, all are asked again."""
        changes = None
        while changes != self._changes:
            servers = self._call(call, lambda route, budget: route.servers(budget))
            changes = self._changes
            for server in servers:
                cursor: bytes | None = b"0"
                while cursor is not None and changes == self._changes:
                    self._check_open(call)
                    cursor, keys = self._call(call, _scanning(server, cursor, pattern))
                    if keys:
                        yield keys

    # Calls

    def _call(self, call: str, action: Callable[[Route, Budget], T]) -> T:
        """Every action given here may be done twice: a lost reply does not tell whether it was done.

        The budget is that of one part of a call: the next 8 MB or 1,000 keys have another.
        """
        budget = Budget(
            self._patience,
            backoff=self._option("backoff", 0.05),
            max_tries=self._options.get("max_tries"),
        )
        while True:
            route = self._route()
            try:
                return action(route, budget)
            except ERRORS as error:
                self._check_open(call)
                wrong = final(call, self.url, error, cluster=self._place.form == "cluster")
                if wrong is not None:
                    raise wrong from error
                route.failed()
                if not budget.again():
                    raise gave_up(call, self.url, error, budget) from error
            self._check_open(call)

    def _incarnation(self) -> object:
        self._call("incarnation", lambda route, budget: route.verify(budget))
        return self._changes

    def _changed(self) -> None:
        with self._opening:
            self._changes += 1

    def _route(self) -> Route:
        with self._opening:
            self._check_open("connect")
            if self._opened is None:
                self._opened = self._new_route()
            return self._opened

    def _forget_connections(self) -> None:
        """In the child of a fork, which neither connections nor locks survive."""
        self._opened, self._opening = None, threading.Lock()
        self._changes += 1

    def _new_route(self) -> Route:
        settings = self._settings(self._credentials, self._place.database, self._greet)
        if self._place.form == "cluster":
            return Cluster(self._place.addresses, settings)
        if self._place.form == "sentinel":
            credentials = {name: self._option(f"sentinel_{name}", None) for name in self._credentials}
            asking = self._settings(credentials, 0, None)
            return Sentinel(self._place.addresses, self._place.service, settings, asking)
        return OneServer(self._place.addresses[0], settings)

    def _settings(
        self,
        credentials: Mapping[str, str | None],
        database: int,
        greet: Callable[[dict[str, str] | None], None] | None,
    ) -> Settings:
        tls: dict[str, Any] = {}
        if self._place.tls:
            tls = {name: value for name, value in self._options.items() if name.startswith("ssl_")}
            for name, value in tls.items():
                if isinstance(value, str) and not os.path.isfile(value):
                    raise StoreConfigError(f"{self.url}: {name} names no file: {value}")
            tls.setdefault("ssl_check_hostname", True)
        return Settings(
            redis.SSLConnection if self._place.tls else redis.Connection,
            {"db": database, **credentials, **tls},
            connect_timeout=self._option("socket_connect_timeout", 2.0),
            timeout=min(self._option("socket_timeout", 5.0), self._patience),
            max_connections=self._option("max_connections", 50),
            greet=greet,
            changed=self._changed,
        )

    def _greet(self, info: dict[str, str] | None) -> None:
        """Refuses a server that may drop pages, and for Sentinel one that is no master any more."""
        if info is None:
            if not self._option("allow_eviction", False):
                raise StoreConfigError(
                    f"{self.url} does not let this user call INFO, so its maxmemory-policy is unknown: "
                    "allow INFO, or pass allow_eviction=True if the policy is noeviction"
                )
            return
        policy = info.get("maxmemory_policy", "noeviction")
        evicts = info.get("maxmemory", "0") != "0" and policy != "noeviction"
        if evicts and not self._option("allow_eviction", False):
            raise StoreConfigError(
                f"{self.url} has maxmemory-policy {policy}, which can drop pages of a live window: "
                "set it to noeviction, or pass allow_eviction=True to take the risk"
            )
        if self._place.form == "sentinel" and info.get("role", "master") != "master":
            raise redis.ConnectionError("the server that Sentinel names is not a master")

    def _close(self) -> None:
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


_stores: WeakSet[RedisStore] = WeakSet()


def _forget_after_fork() -> None:
    for store in list(_stores):
        store._forget_connections()


os.register_at_fork(after_in_child=_forget_after_fork)


def _scanning(
    server: Server, cursor: bytes, pattern: bytes
) -> Callable[[Route, Budget], tuple[bytes | None, list[bytes]]]:
    """One step of a scan, and the cursor of the next one or None."""

    def scan(_: Route, budget: Budget) -> tuple[bytes | None, list[bytes]]:
        (reply,) = checked(server.run([("SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT)], budget))
        following, keys = reply
        return (None if following == b"0" else following), keys

    return scan
