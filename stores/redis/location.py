"""The location of a Redis store: the part of its URL that says which servers it is on."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from stores.errors import StoreConfigError
from stores.redis.routes import Address
from stores.urls import split_url, without_password

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w-]{1,63}(?:\.[\w-]{1,63})*\.?)(?::([0-9]{1,5}))?")
SERVICE = re.compile(r"[\w.:-]+")
DATABASE = re.compile(r"[0-9]{1,9}", re.ASCII)
PATHS = {"": "/0", "cluster": "", "sentinel": "/service/0"}


class Location(NamedTuple):
    topology: str
    """The part of the scheme after the +: empty, `cluster` or `sentinel`."""
    tls: bool
    addresses: list[Address]
    service: str
    database: int


def read_location(url: str) -> Location:
    """The location that a URL names. Errors never show a malformed URL: any part of it may be a password."""
    parts = split_url(url)
    topology = parts.scheme.partition("+")[2]
    hosts = "host:port,host:port" if topology else "host:6379"
    expected = f"{parts.scheme}://user:password@{hosts}{PATHS[topology]}"
    malformed = StoreConfigError(
        f"this {parts.scheme}: URL is malformed: expected {expected}, with special characters of user and "
        "password percent-encoded"
    )
    if not url.partition(":")[2].startswith("//"):
        raise malformed
    addresses = []
    for host in (parts.netloc.rpartition("@")[2] or "localhost").split(","):
        found = HOST.fullmatch(host)
        port = int(found[2] or (26379 if topology == "sentinel" else 6379)) if found else 0
        if found is None or not 0 < port < 65536:
            raise malformed
        addresses.append((found[1].strip("[]"), port))
    names = [unquote(name) for name in parts.path.strip("/").split("/") if name]
    service = names.pop(0) if topology == "sentinel" and names else ""
    database = names.pop(0) if names else "0"
    service_is_valid = topology != "sentinel" or SERVICE.fullmatch(service)
    if names or not DATABASE.fullmatch(database) or not service_is_valid:
        raise malformed
    if len(addresses) > 1 and not topology:
        raise StoreConfigError(
            f"{without_password(url)}: several hosts are a cluster or Sentinels: "
            f"{parts.scheme}+cluster:// or {parts.scheme}+sentinel://"
        )
    if topology == "cluster" and int(database):
        raise StoreConfigError(f"{without_password(url)}: a cluster has database 0 only")
    tls = parts.scheme.startswith(("rediss", "valkeys"))
    return Location(topology, tls, addresses, service, int(database))
