"""What can go wrong with a store, as callers tell it apart."""

from __future__ import annotations


class StoreError(Exception):
    """A store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """The store did not answer; the message names the store, the call and the number of tries."""


class StoreChanged(StoreUnavailable):
    """A root was not swapped by the server that is there now, since what was put before may be gone.

    Look for it, then swap again; an earlier server may have swapped it all the same, as after a lost answer.
    """


class StoreFull(StoreError):
    """The store takes no more data: memory or disk is full, or it is read-only."""


class StoreClosed(StoreError):
    """The store was used after close()."""


class StoreConfigError(StoreError):
    """The store, its URL or its options are set up so that pages would not be safe."""


class UnknownStore(StoreError, ValueError):
    """No store is known for the scheme of a URL."""


class Conflict(StoreError):
    """Somebody else swapped, created or deleted the root first."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the root {name!r} is not as expected: another writer changed it first")
        self.name = name

    def __reduce__(self) -> tuple[type[Conflict], tuple[str]]:
        return Conflict, (self.name,)
