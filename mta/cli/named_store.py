"""The store that a user named on the command line."""

from __future__ import annotations

from stores import Store, open_store


class BadStore(Exception):
    """A user named a store that cannot be opened so."""


def named_store(url: str, *, create: bool = True) -> Store:
    """The store that a user named; mistakes in the URL become BadStore or a StoreError."""
    if ":" not in url:
        raise BadStore(f"{url!r} is no URL of a store; of a directory it is rocksdb:{url}")
    try:
        return open_store(url, create=create)
    except (TypeError, ValueError) as error:
        raise BadStore(str(error)) from error
