"""Which class opens a URL: a table of the stores of this project, and entry points of installed packages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions, entry_points
from typing import Any, NamedTuple

from stores.base import Store
from stores.errors import StoreConfigError, UnknownStore
from stores.urls import split_url

#: Entry points of this group are named by their scheme, and lead to a subclass of `Store`.
GROUP = "mta.stores"


class _Own(NamedTuple):
    """A class of this project, and the package that it needs, which an extra of the same name installs."""

    module: str
    kind: str
    extra: str | None = None


_OWN = {
    "memory": _Own("stores.memory", "MemoryStore"),
    "rocksdb": _Own("stores.rocksdb", "RocksDBStore"),
    **{
        f"{server}{tls}{form}": _Own("stores.redis", kind, "redis")
        for server, kind in (("redis", "RedisStore"), ("valkey", "ValkeyStore"))
        for form in ("", "+cluster", "+sentinel")
        for tls in ("", "s")
    },
    "couchbase": _Own("stores.couchbase", "CouchbaseStore", "couchbase"),
    "couchbases": _Own("stores.couchbase", "CouchbaseStore", "couchbase"),
}


def open_store(url: str, *, create: bool = True, **options: Any) -> Store:
    """The store at a URL, such as `memory:`, `rocksdb:///var/lib/windows` or `redis://host:6379/0`.

    Options can also stand in the URL: `redis://host?patience=3`. With `create=False`, which every URL takes,
    nothing is made where there is no store yet: the first call raises a StoreError. Installed packages add
    schemes by entry points of the group `mta.stores`.

    >>> from stores import open_store
    >>> with open_store("memory:") as store:
    ...     store.put_many({"key": b"value"})
    ...     store.get_many(["key", "no key"])
    [b'value', None]
    >>> open_store("redis://user:secret@localhost:6379/0", patience=3)
    RedisStore('redis://user@localhost:6379/0')
    """
    kind = store_class(url)
    if not create and "create" in kind.known_options:
        options["create"] = False
    return kind(url, **options)


def store_class(url: str) -> type[Store]:
    """The class that opens a URL. Nothing is opened; what the class says holds for all its stores.

    >>> from stores import store_class
    >>> store_class("redis://localhost").shared_across_hosts
    True
    """
    scheme = split_url(url).scheme
    own = _OWN.get(scheme)
    return _own_class(scheme, own) if own is not None else _installed_class(scheme, tuple(sys.path))


def _own_class(scheme: str, own: _Own) -> type[Store]:
    try:
        module = importlib.import_module(own.module)
    except ModuleNotFoundError as error:
        if own.extra is None or (error.name or "").partition(".")[0] != own.extra:
            raise
        raise StoreConfigError(
            f"{scheme}: needs the package {own.extra}: pip install 'mta-windows[{own.extra}]'"
        ) from error
    kind: type[Store] = getattr(module, own.kind)
    return kind


@lru_cache
def _installed_class(scheme: str, path: tuple[str, ...]) -> type[Store]:  # noqa: ARG001
    """Remembered for as long as packages come from the same places: to look at all of them takes 10 ms."""
    installed = _installed(scheme)
    # one of equal value is the same package found twice, as in a directory and in an archive of it
    found = list({point.value: point for point in installed if point.name.lower() == scheme}.values())
    if not found:
        raise UnknownStore(
            f"no store for the scheme {scheme!r} (known: {_known(installed)}). A package adds one by an "
            f"entry point of the group {GROUP} that is named by the scheme, and is to be installed for every "
            "process"
        )
    if len(found) > 1:
        raise StoreConfigError(
            f"{scheme}: there are several stores for this scheme: {', '.join(map(_told, found))}. "
            "Uninstall all but one of them"
        )
    (point,) = found
    try:
        kind = point.load()
    except Exception as error:
        raise StoreConfigError(
            f"{scheme}: the store {_told(point)} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, Store)):
        raise StoreConfigError(f"{scheme}: the store {_told(point)} is not a subclass of stores.Store")
    return kind


def _installed(scheme: str) -> Iterable[EntryPoint]:
    try:
        return entry_points(group=GROUP)
    except Exception as error:  # one package whose entry points are no text, or malformed, spoils it for all
        raise StoreConfigError(
            f"{scheme}: this is no scheme of mta-windows, and the entry points of {_broken()} cannot be "
            f"read, so that no other store is found: {type(error).__name__}: {error}"
        ) from error


def _broken() -> str:
    for distribution in distributions():
        try:
            len(distribution.entry_points)
        except Exception:
            return f"the installed package {distribution.name}"
    return "an installed package"


def _known(installed: Iterable[EntryPoint]) -> str:
    return ", ".join([*_OWN, *(f"{point.name} {_source(point)}" for point in installed)])


def _told(point: EntryPoint) -> str:
    return f"{point.value} {_source(point)}"


def _source(point: EntryPoint) -> str:
    try:
        name, version = point.dist.metadata["Name"], point.dist.metadata["Version"]  # type: ignore[union-attr]
    except Exception:  # what stands there is not ours, and anything may be missing
        name = version = None
    return f"of the package {name} {version}" if name and version else "of a package without metadata"
