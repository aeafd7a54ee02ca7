"""The store itself: which commands its calls are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from stores.base import Store, Token, new_token
from stores.errors import Conflict, StoreChanged, StoreConfigError
from stores.patience import Budget, Patience
from stores.redis.client import Calls
from stores.redis.connection import Command
from stores.redis.key_names import Keys
from stores.redis.location import read_place
from stores.redis.routes import Route
from stores.redis.settings import OPTIONS, Setup

PUT_CHUNK_BYTES = 8 << 20
GET_CHUNK_KEYS = 8  # redis-py's parser slows down on replies of many megabytes
DELETE_CHUNK_KEYS = 1000
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


class RedisStore(Store):
    """`redis://user:password@host:6379/0`, `rediss://` for TLS, and the same with `valkey`.

    `redis+cluster://host,host:port` is a cluster, of which any node will do to begin with, and
    `redis+sentinel://host,host:port/service/0` the master that Sentinels name. User and password may also
    come as options or from the environment: REDIS_USERNAME, REDIS_PASSWORD, or VALKEY_ for valkey.

    >>> from stores import open_store
    >>> open_store("rediss+cluster://user:secret@one:7000,two:7001", patience=30)  # connects when it is used
    RedisStore('rediss+cluster://user@one:7000,two:7001')
    """

    shared_across_hosts = True
    credentials = "REDIS"
    known_options: ClassVar[Mapping[str, Callable[[Any], Any]]] = OPTIONS

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        login = {name: self._credential(name) for name in ("username", "password")}
        setup = Setup(self.url, read_place(self._url), self._options, login, Patience.of(self._options))
        self._calls = Calls(setup, self._check_open)
        self._keys = Keys(self._options.get("spread", 0))
        self._ttl_ms = math.ceil(self._options.get("ttl", 0) * 1000)
        self._min_replicas: int = self._options.get("min_replicas", 0)
        #: how far the server's clock is ahead of the monotonic one here, and when that was asked
        self._clock = 0.0, float("-inf")

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
        self._calls.run("put_many", chunk, replicas=self._min_replicas if self._keys.spread else 0)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        return self._in_chunks("get_many", [("GET", self._keys.page(key)) for key in keys], GET_CHUNK_KEYS)

    def _missing(self, keys: list[str]) -> list[str]:
        commands: list[Command] = [("EXISTS", self._keys.page(key)) for key in keys]
        try:
            found = self._in_chunks("missing", commands, DELETE_CHUNK_KEYS)
        except StoreConfigError:  # a user who may not ask may still read
            return super()._missing(keys)
        return [key for key, there in zip(keys, found, strict=True) if not there]

    def _delete_many(self, keys: list[str]) -> None:
        def delete(route: Route, budget: Budget) -> None:
            route.run(
                [("UNLINK", key) for key in chunk] if route.one_key_each else [("UNLINK", *chunk)], budget
            )

        for start in range(0, len(keys), DELETE_CHUNK_KEYS):
            chunk = [self._keys.page(key) for key in keys[start : start + DELETE_CHUNK_KEYS]]
            self._calls.call("delete_many", delete)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        for pages in self._calls.scan("list_keys", self._keys.pages_like(prefix), "string"):
            for page in pages:
                key = self._keys.key_of(page)
                if key is not None:
                    yield key

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
                told = (spread or b"0").decode(errors="backslashreplace")
                raise self._spread_otherwise(call, name, f"with spread={told}")
            roots.append(None if token is None else (data or b"", token))
        return roots

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        expected = b"" if expected_token is None else expected_token
        token, changes = new_token(), self._calls.changes

        def check() -> None:
            if self._calls.changes != changes:
                raise StoreChanged(
                    f"swap_root: {self.url} was started again, or another server took its place, so that "
                    "pages put before may be gone: see that they are there, and repeat the call"
                )

        swap: Command = ("EVAL", SWAP, 1, self._keys.root(name), expected, token, data, self._keys.mark)
        (done,) = self._calls.run("swap_root", [swap], replicas=self._min_replicas, check=check)
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

    def _list_roots(self, prefix: str) -> Iterator[str]:
        for roots in self._calls.scan("list_roots", self._keys.roots_like(prefix), "hash"):
            found = self._calls.run("list_roots", [("HGET", root, "spread") for root in roots])
            for root, mark in zip(roots, found, strict=True):
                name = self._keys.name_of(root)
                if name is not None and (mark or b"") == self._keys.mark:
                    yield name

    def _spread_otherwise(self, call: str, name: str, how: str) -> StoreConfigError:
        return StoreConfigError(
            f"{call}: the pages of the window {name!r} in {self.url} were written {how}, and this "
            f"store was opened with spread={self._keys.spread}: every process has to open it with the same"
        )

    def _in_chunks(self, call: str, commands: Sequence[Command], size: int = ROOTS_CHUNK) -> list[Any]:
        """The replies to commands, so many in a round trip."""
        replies: list[Any] = []
        for start in range(0, len(commands), size):
            replies += self._calls.run(call, commands[start : start + size])
        return replies

    # Life

    def now(self) -> float:
        """By the clock of one server, which is asked a few times a minute."""
        self._check_open("now")
        ahead, asked = self._clock
        if time.monotonic() - asked > CLOCK_LASTS:
            ((seconds, micros),) = self._calls.run("now", [("EVAL", "return redis.call('TIME')", 1, CLOCK)])
            asked = time.monotonic()
            ahead = int(seconds) + int(micros) / 1e6 - asked
            self._clock = ahead, asked
        return time.monotonic() + ahead

    def _incarnation(self) -> object:
        self._calls.call("incarnation", lambda route, budget: route.verify(budget))
        return self._calls.changes

    def _close(self) -> None:
        self._calls.close()


class ValkeyStore(RedisStore):
    """The same for the schemes of Valkey, whose user and password the environment has under its own name."""

    credentials = "VALKEY"
