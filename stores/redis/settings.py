"""The options of a Redis store, the connections that they ask for, and the servers that they refuse."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from stores import patience
from stores.errors import StoreConfigError
from stores.redis.cluster import Cluster
from stores.redis.connection import ConnectionSettings, ServerCheck
from stores.redis.location import Location
from stores.redis.routes import OneServer, Route
from stores.redis.sentinel import Sentinel
from stores.urls import parse_bool, parse_number, parse_whole, within

_seconds = within(parse_number, 0.001, 86400 * 365)

OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    **patience.OPTIONS,
    "username": str,
    "password": str,
    "sentinel_username": str,
    "sentinel_password": str,
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


@dataclass(frozen=True)
class Settings:
    url: str
    """Has no password: errors show it."""
    location: Location
    options: Mapping[str, Any] = field(repr=False)
    login: Mapping[str, str | None] = field(repr=False)
    patience: patience.Patience

    def route(self, server_changed: Callable[[], None]) -> Route:
        """A route that calls `server_changed` when a server may have lost acknowledged writes."""
        settings = self._settings(self.login, self.location.database, self._check_server, server_changed)
        if self.location.topology == "cluster":
            return Cluster(self.location.addresses, settings)
        if self.location.topology == "sentinel":
            login = {name: self.options.get(f"sentinel_{name}") for name in self.login}
            sentinel_settings = self._settings(login, 0, None, server_changed)
            return Sentinel(self.location.addresses, self.location.service, settings, sentinel_settings)
        return OneServer(self.location.addresses[0], settings)

    def _settings(
        self,
        login: Mapping[str, str | None],
        database: int,
        check_server: ServerCheck,
        server_changed: Callable[[], None],
    ) -> ConnectionSettings:
        return ConnectionSettings(
            redis.SSLConnection if self.location.tls else redis.Connection,
            {"db": database, **login, **self._tls()},
            connect_timeout=self.options.get("socket_connect_timeout", 2.0),
            timeout=min(self.options.get("socket_timeout", 5.0), self.patience.seconds),
            max_connections=self.options.get("max_connections", 50),
            check_server=check_server,
            server_changed=server_changed,
        )

    def _tls(self) -> dict[str, Any]:
        if not self.location.tls:
            return {}
        tls = {name: value for name, value in self.options.items() if name.startswith("ssl_")}
        for name, value in tls.items():
            if isinstance(value, str) and not os.path.isfile(value):
                raise StoreConfigError(f"{self.url}: {name} names no file: {value}")
        return {"ssl_check_hostname": True, **tls}

    def _check_server(self, info: dict[str, str] | None) -> None:
        """Refuses a server that may evict pages, and one named by Sentinels that is no master any more."""
        allowed = self.options.get("allow_eviction", False) or self.options.get("read_only", False)
        if info is None:
            if not allowed:
                raise StoreConfigError(
                    f"{self.url} does not let this user call INFO, so its maxmemory-policy is unknown: "
                    "allow INFO, or pass allow_eviction=True if the policy is noeviction"
                )
            return
        policy = info.get("maxmemory_policy", "noeviction")
        if info.get("maxmemory", "0") != "0" and policy != "noeviction" and not allowed:
            raise StoreConfigError(
                f"{self.url} has maxmemory-policy {policy}, which can drop pages of a live window: "
                "set it to noeviction, or pass allow_eviction=True to take the risk"
            )
        if self.location.topology == "sentinel" and info.get("role", "master") != "master":
            raise redis.ConnectionError("the server that Sentinel names is not a master")
