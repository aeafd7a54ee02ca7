"""The errors of stores, one class for each way in which a caller may react."""

from __future__ import annotations


class StoreError(Exception):
    """A store could not carry out a call. Base class of the errors below."""


class StoreUnavailable(StoreError):
    """The store did not answer; the message names the store, the call and the number of tries."""


class StoreChanged(StoreUnavailable):
    """A root was not swapped: the server was replaced or restarted, and may have lost pages put before.

    Look with `missing` for the pages, then swap again. The earlier server may have swapped the root all the
    same, as after a lost reply.
    """


class StoreFull(StoreError):
    """The store takes no more data: its memory or disk is full, or it is read-only."""


class StoreClosed(StoreError):
    """A call on a store after its `close`."""


class StoreConfigError(StoreError):
    """The URL, an option or the server's settings are wrong, or would put pages at risk."""


class UnknownStore(StoreError, ValueError):
    """No class is known for the scheme of a URL."""


class Conflict(StoreError):
    """A compare-and-swap failed: another writer created, swapped or deleted the root first."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the root {name!r} is not as expected: another writer changed it first")
        self.name = name

    def __reduce__(self) -> tuple[type[Conflict], tuple[str]]:
        return Conflict, (self.name,)
