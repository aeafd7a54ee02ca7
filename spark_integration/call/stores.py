"""Whether the tasks of a job can use the store that a call names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from spark_integration.errors import StoreNotUsable
from spark_integration.running.storage import EMBEDDED, embedded_in
from stores import Store, StoreError, UnknownStore, open_store, store_class

_SECRETS = ("password", "username")


def check_store(store: Any, options: Mapping[str, Any], *, several_processes: bool, reachable: bool) -> str:
    """The store's URL, if the tasks of this job can use it."""
    if not isinstance(store, str):
        raise StoreNotUsable(
            f'store= is "rocksdb" or the URL of a store, got {store!r}: tasks open it themselves'
        )
    for name in options:
        if name in _SECRETS:
            raise StoreNotUsable(_no_secrets(f"store_options={{{name!r}: ...}}"))
    if store == EMBEDDED:
        _check_options(options)
        return store
    scheme = store.partition(":")[0]
    if scheme == store:
        raise StoreNotUsable(
            f'store={store!r} is no URL: give "rocksdb" for the embedded store, or for example redis://host:6379/0'
        )
    try:
        if urlsplit(store).password:
            raise StoreNotUsable(_no_secrets("the store's URL"))
        kind = store_class(store)
        if kind.local and several_processes:
            raise StoreNotUsable(
                f'store="{scheme}:" keeps every window in the memory of a worker, and this job has several '
                'executors: use "rocksdb", or the URL of a store that all executors can reach'
            )
        opened = open_store(store, **options)
    except UnknownStore as error:
        raise StoreNotUsable(f"store={store!r}: {error}") from None
    except ValueError as error:
        if isinstance(error, StoreNotUsable):
            raise
        # not with its text, which may have a password somewhere
        raise StoreNotUsable(
            f"store= is a URL that cannot be read, {error}: write it as in redis://host:6379/0"
        ) from None
    except (StoreError, TypeError) as error:
        raise StoreNotUsable(f"store={store!r}: {error}") from error
    directory = embedded_in(store)
    if directory is not None and not directory.is_absolute():
        raise StoreNotUsable(
            f"store={store!r}: executors need an absolute directory, as in {scheme}:///mnt/disk"
        )
    with opened:
        if reachable and not kind.local and directory is None:
            try_store(opened, store, options)
    return store


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuses a store and options that the tasks could not open; opens nothing."""
    try:
        open_store(f"{EMBEDDED}:///nowhere", **options).close()
    except (StoreError, TypeError, ValueError) as error:
        raise StoreNotUsable(f"store_options={dict(options)!r}: {error}") from None


def try_store(opened: Store, url: str, options: Mapping[str, Any]) -> None:
    """Asks the store for a page, to see whether it answers."""
    quick = dict(options)
    if "max_tries" in opened.known_options:
        quick["max_tries"] = 1
    try:
        with open_store(url, **quick) as store:
            store.get_many(["probe"])
    except StoreError as error:
        raise StoreNotUsable(f"the driver cannot use the store {opened.url}: {error}") from error


def _no_secrets(where: str) -> str:
    return (
        f"{where} names a user or a password, which would be readable in the job's plan: set them in the "
        "environment of the executors and the driver instead, for example spark.executorEnv.REDIS_PASSWORD"
    )
