"""Finds the class for a URL: a built-in store, or an entry point of an installed package."""

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

#: The group of the entry points. Each is named by its scheme and names a subclass of `Store`.
GROUP = "mta.stores"


class _BuiltIn(NamedTuple):
    """A class of this project, and the package that it needs, which the extra of the same name installs."""

    module: str
    class_name: str
    extra: str | None = None


_BUILT_IN = {
    "memory": _BuiltIn("stores.memory", "MemoryStore"),
    "rocksdb": _BuiltIn("stores.rocksdb", "RocksDBStore"),
    **{
        f"{server}{tls}{topology}": _BuiltIn("stores.redis", class_name, "redis")
        for server, class_name in (("redis", "RedisStore"), ("valkey", "ValkeyStore"))
        for topology in ("", "+cluster", "+sentinel")
        for tls in ("", "s")
    },
    "couchbase": _BuiltIn("stores.couchbase", "CouchbaseStore", "couchbase"),
    "couchbases": _BuiltIn("stores.couchbase", "CouchbaseStore", "couchbase"),
}


def open_store(url: str, *, create: bool = True, **options: Any) -> Store:
    """Opens the store at a URL, such as `memory:`, `rocksdb:///var/lib/windows` or `redis://host:6379/0`.

    `options` are those of the store's class; they can also stand in the URL: `redis://host?patience=3`. With
    `create=False`, which every URL takes, nothing is created where there is no store yet: the first call
    raises a StoreError. With `read_only=True`, which every URL takes too, the store refuses to write; a
    RocksDB directory can then be read while another process writes it. Installed packages add schemes by
    entry points of the group `mta.stores`.

    No round trip: the store connects at its first call. Raises UnknownStore for an unknown scheme,
    StoreConfigError for a malformed URL, a wrong option or a missing package.

    >>> from stores import open_store
    >>> with open_store("memory:") as store:
    ...     store.put_many({"key": b"value"})
    ...     store.get_many(["key", "no key"])
    [b'value', None]
    >>> open_store("redis://user:secret@localhost:6379/0", patience=3)
    RedisStore('redis://user@localhost:6379/0')
    """
    opener = store_class(url)
    if not create and "create" in opener.known_options:
        options["create"] = False
    return opener(url, **options)


def store_class(url: str) -> type[Store]:
    """The class for a URL; opens nothing. Raises UnknownStore, or StoreConfigError if its package is missing.

    >>> from stores import store_class
    >>> store_class("redis://localhost").shared_across_hosts
    True
    """
    scheme = split_url(url).scheme
    built_in = _BUILT_IN.get(scheme)
    if built_in is None:
        return _installed_class(scheme, tuple(sys.path))
    try:
        module = importlib.import_module(built_in.module)
    except ModuleNotFoundError as error:
        if built_in.extra is None or (error.name or "").partition(".")[0] != built_in.extra:
            raise
        raise StoreConfigError(
            f"{scheme}: needs the package {built_in.extra}: pip install 'mta-windows[{built_in.extra}]'"
        ) from error
    found: type[Store] = getattr(module, built_in.class_name)
    return found


@lru_cache
def _installed_class(scheme: str, path: tuple[str, ...]) -> type[Store]:  # noqa: ARG001
    """Cached by `sys.path`, because a look at all installed packages takes 10 ms."""
    installed = _installed(scheme)
    # entry points of equal value are one package found twice, as in a directory and in an archive of it
    found = list({point.value: point for point in installed if point.name.lower() == scheme}.values())
    if not found:
        raise UnknownStore(
            f"no store for the scheme {scheme!r} (known: {_known(installed)}). A package adds one by an "
            f"entry point of the group {GROUP} that is named by the scheme, and has to be installed for "
            "every process"
        )
    if len(found) > 1:
        raise StoreConfigError(
            f"{scheme}: there are several stores for this scheme: {', '.join(map(_describe, found))}. "
            "Uninstall all but one of them"
        )
    (point,) = found
    try:
        loaded = point.load()
    except Exception as error:
        raise StoreConfigError(
            f"{scheme}: the store {_describe(point)} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Store)):
        raise StoreConfigError(f"{scheme}: the store {_describe(point)} is not a subclass of stores.Store")
    return loaded


def _installed(scheme: str) -> Iterable[EntryPoint]:
    try:
        return entry_points(group=GROUP)
    except Exception as error:  # one package with malformed entry points makes all of them unreadable
        raise StoreConfigError(
            f"{scheme}: this is no scheme of mta-windows, and other packages cannot be searched, because "
            f"the entry points of {_broken()} cannot be read: {type(error).__name__}: {error}"
        ) from error


def _broken() -> str:
    for distribution in distributions():
        try:
            len(distribution.entry_points)
        except Exception:
            return f"the installed package {distribution.name}"
    return "an installed package"


def _known(installed: Iterable[EntryPoint]) -> str:
    return ", ".join([*_BUILT_IN, *(f"{point.name} {_source(point)}" for point in installed)])


def _describe(point: EntryPoint) -> str:
    return f"{point.value} {_source(point)}"


def _source(point: EntryPoint) -> str:
    try:
        name, version = point.dist.metadata["Name"], point.dist.metadata["Version"]  # type: ignore[union-attr]
    except Exception:  # the metadata of a foreign package: anything may be missing
        name = version = None
    return f"of the package {name} {version}" if name and version else "of a package without metadata"
