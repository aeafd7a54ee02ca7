"""The store: the commands that each call sends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from stores.base import Store, Token, new_token
from stores.errors import Conflict, StoreChanged, StoreConfigError
from stores.patience import Budget, Patience
from stores.redis.client import Client
from stores.redis.connection import Command
from stores.redis.key_names import KeyNames
from stores.redis.location import read_location
from stores.redis.routes import Route
from stores.redis.settings import OPTIONS, Settings

PUT_CHUNK_BYTES = 8 << 20
GET_CHUNK_KEYS = 8  # redis-py's parser slows down on replies of many megabytes
READ_ROOTS_CHUNK = 500
#: Where the values are small, a round trip reads up to `GROWTH` times the keys of the one before, and up to
#: this many bytes, as far as the values before tell.
READ_CHUNK_BYTES = 8 << 20
GROWTH = 8
DELETE_CHUNK_KEYS = 1000
ROOTS_CHUNK = 100
#: A key that chooses the server of a cluster whose clock counts; nothing is stored under it.
CLOCK = b"mta:clock"
CLOCK_SECONDS = 15.0

# A swap that is retried because its reply was lost finds its own token, and has succeeded. It writes again,
# so that WAIT on the new connection waits for the root.
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

    `redis+cluster://host,host:port` names some nodes of a cluster, `redis+sentinel://host,host:port/service/0`
    the Sentinels of a master. User and password may also come as options or from the environment
    (REDIS_USERNAME, REDIS_PASSWORD; VALKEY_ for valkey). Options and their defaults: docs/redis.md.

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
        location, patience = read_location(self._url), Patience.of(self._options)
        settings = Settings(self.url, location, self._options, login, patience)
        self._client = Client(settings, self._check_open)
        self._names = KeyNames(self._options.get("spread", 0))
        self._ttl_ms = math.ceil(self._options.get("ttl", 0) * 1000)
        self._min_replicas: int = self._options.get("min_replicas", 0)
        #: the server's clock minus the monotonic one here, and when that was asked
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
            chunk.append(("SET", self._names.page(key), value, *expiry))
            size += len(value)
        self._put_chunk(chunk)

    def _put_chunk(self, chunk: list[Command]) -> None:
        # With `spread`, pages are on other servers than the root, whose replicas a swap does not wait for.
        self._client.execute("put_many", chunk, replicas=self._min_replicas if self._names.spread else 0)

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        return self._read("get_many", [("GET", self._names.page(key)) for key in keys], GET_CHUNK_KEYS)

    def _missing(self, keys: list[str]) -> list[str]:
        commands: list[Command] = [("EXISTS", self._names.page(key)) for key in keys]
        try:
            found = self._in_chunks("missing", commands, DELETE_CHUNK_KEYS)
        except StoreConfigError:  # this user may read, but not ask
            return super()._missing(keys)
        return [key for key, there in zip(keys, found, strict=True) if not there]

    def _delete_many(self, keys: list[str]) -> None:
        def delete(route: Route, budget: Budget) -> None:
            one_by_one = route.one_key_per_command
            route.execute([("UNLINK", key) for key in chunk] if one_by_one else [("UNLINK", *chunk)], budget)

        for start in range(0, len(keys), DELETE_CHUNK_KEYS):
            chunk = [self._names.page(key) for key in keys[start : start + DELETE_CHUNK_KEYS]]
            self._client.call("delete_many", delete)

    def _list_keys(self, prefix: str) -> Iterator[str]:
        for pages in self._client.scan("list_keys", self._names.page_pattern(prefix), "string"):
            for page in pages:
                key = self._names.key_of_page(page)
                if key is not None:
                    yield key

    # Roots

    def _read_root(self, name: str) -> tuple[bytes, Token] | None:
        return self._roots("read_root", [name])[0]

    def _read_roots(self, names: list[str]) -> list[tuple[bytes, Token] | None]:
        return self._roots("read_roots", names)

    def _roots(self, call: str, names: list[str]) -> list[tuple[bytes, Token] | None]:
        commands = [("HMGET", self._names.root(name), "data", "token", "spread") for name in names]
        roots: list[tuple[bytes, Token] | None] = []
        for name, (data, token, spread) in zip(
            names, self._read(call, commands, READ_ROOTS_CHUNK), strict=True
        ):
            if token is not None and (spread or b"") != self._names.spread_mark:
                written = (spread or b"0").decode(errors="backslashreplace")
                raise self._wrong_spread(call, name, f"with spread={written}")
            roots.append(None if token is None else (data or b"", token))
        return roots

    def _swap_root(self, name: str, data: bytes, expected_token: Token | None) -> Token:
        expected = b"" if expected_token is None else expected_token
        token, changes = new_token(), self._client.server_changes

        def check() -> None:
            if self._client.server_changes != changes:
                raise StoreChanged(
                    f"swap_root: {self.url} was started again, or another server took its place, so "
                    "pages put before may be gone: check that they are there, and repeat the call"
                )

        mark = self._names.spread_mark
        swap: Command = ("EVAL", SWAP, 1, self._names.root(name), expected, token, data, mark)
        (done,) = self._client.execute("swap_root", [swap], replicas=self._min_replicas, check=check)
        if done < 0:
            raise self._wrong_spread("swap_root", name, "with another spread")
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
        return "EVAL", DELETE, 1, self._names.root(name), expected_token

    def _list_roots(self, prefix: str) -> Iterator[str]:
        for roots in self._client.scan("list_roots", self._names.root_pattern(prefix), "hash"):
            found = self._client.execute("list_roots", [("HGET", root, "spread") for root in roots])
            for root, mark in zip(roots, found, strict=True):
                name = self._names.name_of_root(root)
                if name is not None and (mark or b"") == self._names.spread_mark:
                    yield name

    def _wrong_spread(self, call: str, name: str, how: str) -> StoreConfigError:
        return StoreConfigError(
            f"{call}: the pages of the window {name!r} in {self.url} were written {how}, and this "
            f"store was opened with spread={self._names.spread}: open it with the same in every process"
        )

    def _read(self, call: str, commands: Sequence[Command], size: int) -> list[Any]:
        """The replies to commands that read: at first `size` in one round trip, more of small values."""
        replies: list[Any] = []
        least = size
        while True:
            some = self._client.execute(call, commands[len(replies) : len(replies) + size])
            replies += some
            if len(replies) == len(commands):
                return replies
            size = min(GROWTH * size, max(least, READ_CHUNK_BYTES * len(some) // (_bytes_of(some) or 1)))

    def _in_chunks(self, call: str, commands: Sequence[Command], size: int = ROOTS_CHUNK) -> list[Any]:
        """The replies to commands, of which `size` are sent in one round trip."""
        replies: list[Any] = []
        for start in range(0, len(commands), size):
            replies += self._client.execute(call, commands[start : start + size])
        return replies

    # Life

    def now(self) -> float:
        """Seconds since 1970, by the clock of one server, which is asked every 15 seconds at most."""
        self._check_open("now")
        offset, asked = self._clock
        if time.monotonic() - asked > CLOCK_SECONDS:
            ((seconds, micros),) = self._client.execute(
                "now", [("EVAL", "return redis.call('TIME')", 1, CLOCK)]
            )
            asked = time.monotonic()
            offset = int(seconds) + int(micros) / 1e6 - asked
            self._clock = offset, asked
        return time.monotonic() + offset

    def _incarnation(self) -> object:
        self._client.call("incarnation", lambda route, budget: route.check_servers(budget))
        return self._client.server_changes

    def _close(self) -> None:
        self._client.close()


def _bytes_of(replies: Sequence[Any]) -> int:
    """The size of some values, or of lists of values."""
    parts = (each if isinstance(each, list) else (each,) for each in replies)
    return sum(len(part) for values in parts for part in values if part is not None)


class ValkeyStore(RedisStore):
    """The same for the schemes of Valkey; the environment has VALKEY_USERNAME and VALKEY_PASSWORD."""

    credentials = "VALKEY"
