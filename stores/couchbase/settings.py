"""The settings of a Couchbase store, read from its URL and options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from couchbase.durability import DurabilityLevel, ServerDurability

from stores import patience
from stores.couchbase.diagnosis import HOST
from stores.errors import StoreConfigError
from stores.urls import parse_number, split_url, within

_seconds = within(parse_number, 0.001, 86400 * 365)

LEVELS = {level.name.lower(): level for level in DurabilityLevel}
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "username": str,
    "password": str,
    "scope": str,
    "collection": str,
    **patience.OPTIONS,
    "timeout": _seconds,
    "connect_timeout": _seconds,
    "durability": str,
    "ttl": within(parse_number, 0, 86400 * 36500),
    "network": str,
    "ssl_ca_certs": str,
}


@dataclass(frozen=True)
class Settings:
    """All settings; `url` has no password, because errors show it."""

    url: str
    servers: str
    bucket: str
    scope: str
    collection: str
    username: str
    password: str = field(repr=False)
    patience: patience.Patience
    timeout: float
    connect_timeout: float
    durability: str
    #: seconds, 0 for no limit; the server counts whole seconds
    ttl: int
    network: str | None
    ssl_ca_certs: str | None

    @property
    def durable(self) -> dict[str, Any]:
        """The option that makes each write wait for `durability`; empty for none."""
        level = LEVELS[self.durability]
        return {"durability": ServerDurability(level)} if level.value else {}

    @property
    def longest(self) -> float:
        """How long a request may take: at least 10 s, the client's default, if it waits for other nodes."""
        return max(self.timeout, 10.0) if self.durable else self.timeout


def read_settings(
    url: str, shown: str, options: Mapping[str, Any], username: str | None, password: str | None
) -> Settings:
    parts = split_url(url)
    hosts = parts.netloc.rpartition("@")[2] or "localhost"
    if not all(HOST.fullmatch(host) for host in hosts.split(",")):
        raise StoreConfigError(f"{shown}: expected {parts.scheme}://host,host:port/bucket")
    bucket = unquote(parts.path.strip("/")) or "default"
    if "/" in bucket:
        raise StoreConfigError(f"{shown}: expected one bucket, {parts.scheme}://host/bucket")
    settings = Settings(
        url=shown,
        servers=f"{parts.scheme}://{hosts}",
        bucket=bucket,
        scope=options.get("scope", "_default"),
        collection=options.get("collection", "_default"),
        username=username or "",
        password=password or "",
        patience=patience.Patience.of(options),
        timeout=options.get("timeout", 5.0),
        connect_timeout=options.get("connect_timeout", 5.0),
        durability=options.get("durability", "none"),
        ttl=math.ceil(options.get("ttl", 0)),
        network=options.get("network"),
        ssl_ca_certs=options.get("ssl_ca_certs"),
    )
    if settings.durability not in LEVELS:
        raise StoreConfigError(
            f"{shown}: durability must be one of {', '.join(LEVELS)}, not {settings.durability!r}"
        )
    return settings
