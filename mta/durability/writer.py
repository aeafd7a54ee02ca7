"""The common part of all writers of a window: its root, its lease, and the keys of its pages.

There are two kinds of writers. `Ownership` is for a window that one process writes. `AttemptHold` is for a
window that several processes may write at once, while another party decides whose version counts.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable

from mta.durability import invariants, leases
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import Extents, Named, Root, Version
from stores import Store, Token
from stores.base import check_name


class Writer(ABC):
    """A writer's hold on one window. `root` is the last root that this writer has written."""

    def __init__(self, store: Store, name: str, page_size: int, lease: float | None) -> None:
        self._store, self._name = store, check_name(name)
        self.page_size, self._shift = page_size, page_size.bit_length() - 1
        self._lock = threading.RLock()
        self._lease = lease
        #: when the lease was renewed, by the monotonic clock
        self._renewed = 0.0
        self.root = Root(0, page_size)
        #: versions that are known to be sound
        self._checked: tuple[Version, ...] = ()
        self._kept = False
        #: the epochs of the pages that this window reads and writes
        self.extents: Extents | None = None

    # -- what the kinds do -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def claimed(self) -> bool:
        """Whether this writer has an epoch to write under."""

    @abstractmethod
    def claim(self) -> None:
        """Takes an epoch to write under, unless this writer has one."""

    @abstractmethod
    def commit(self, version: Version, monoid: str, policy: str) -> None:
        """Swaps in a root with a new version."""

    @abstractmethod
    def let_go(self) -> None:
        """Takes back a claim under which no version was committed."""

    @abstractmethod
    def check_hold(self) -> None:
        """Raises Fenced if this writer has lost the window."""

    @abstractmethod
    def knows_root(self) -> bool:
        """Whether the root is the last one that this writer left, and no commit of it is in doubt."""

    def expire_pins(self) -> bool:
        """Takes the pins of readers that have expired out of the root; whether there were some."""
        return False

    @abstractmethod
    def _prolong(self, until: float) -> None:
        """Writes the end of the lease into the root."""

    @abstractmethod
    def _may_count(self) -> Iterable[Version]:
        """The versions whose pages must stay: committed versions, and versions whose commit is in doubt."""

    # -- the root ---------------------------------------------------------------------------------------

    def _encoded(self, root: Root) -> bytes:
        """The bytes of a root that is about to be swapped in. ManifestCorrupt if it violates an invariant."""
        invariants.check(self._name, root, self._checked)
        self._checked = root.retained
        return encode_root(self._name, root)

    def _read(self) -> tuple[Root, Token] | None:
        found = self._store.read_root(self._name)
        if found is None:
            return None
        root = decode_root(self._name, found[0])
        self._checked = root.retained
        return root, found[1]

    # -- the lease --------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Has the lease renewed from now on."""
        self._kept = True
        if self._lease is not None:
            leases.keep(self)

    def end(self) -> None:
        """Ends renewals of the lease, also by a thread that is about to renew it."""
        self._kept = False
        if self._lease is not None:
            leases.end(self)

    def renewal(self) -> float:
        return self._renewed + self.lease * leases.RENEWED_AFTER

    @property
    def store(self) -> Store:
        return self._store

    @property
    def lease(self) -> float:
        return self._lease or 0.0

    def renew_if_free(self) -> None:
        """As `renew`, unless another thread has the root: that thread may wait long for the store."""
        if self._lock.acquire(blocking=False):
            try:
                if self._kept:
                    self.renew()
            finally:
                self._lock.release()

    def renew(self) -> None:
        """Prolongs the lease, if a part of it is over."""
        with self._lock:
            if self._lease is not None and self.claimed and leases.now() >= self.renewal():
                self._prolong(self._store.now() + self._lease)

    # -- keys -------------------------------------------------------------------------------------------

    def prefix(self, tier: int, number: int) -> str:
        return self._known_extents().prefix(self._name, tier, number)

    def prefixes(self, tier: int, pages: range) -> list[tuple[str, range]]:
        return self._known_extents().prefixes(self._name, tier, pages)

    def needed(self, tier: int) -> list[tuple[str, range]]:
        named = Named.by(self._may_count(), (tier,))
        return [(prefix, numbers) for prefix, _, numbers in named.prefixes(self._name)]

    def can_withdraw(self) -> bool:
        return self.claimed and self.extents is not None and self.root.has(self.extents.open + 1)

    def withdraw(self, tail: int) -> None:
        extents = self._known_extents()
        self.extents = extents.taken_over(tail, extents.open + 1)

    def _known_extents(self) -> Extents:
        if self.extents is None:
            self.claim()
        assert self.extents is not None
        return self.extents
