"""The writer of a window that one process writes: epochs, fencing, and the commits of manifests.

A process that opens a window for writing raises the epoch in its root. An older writer then finds the root
changed at its next commit, and is fenced. Page keys hold the epoch, so no page that an older writer writes
after that is ever read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, Self

import xxhash

from mta.durability import leases
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import Extents, Root, Version, next_epoch
from mta.durability.owners import this_process
from mta.durability.writer import Writer
from mta.errors import Fenced, WindowExists, WindowNotFound
from stores import Conflict, Store, Token


class _Sent(NamedTuple):
    """A root whose swap was sent."""

    #: of the root without pins
    digest: bytes
    root: Root
    lineage: int


#: What a swap makes of a root, and of the version that its writer's window goes on from.
_Change = Callable[[Root, int], tuple[Root, int]]


class _Found(NamedTuple):
    """A root as it was read, and the version in it to go on from, by its number, or the last one."""

    root: Root
    version: Version
    token: Token
    number: int | None
    check: Callable[[Root], None]


class Ownership(Writer):
    """One writer's hold on one window. It claims an epoch when the first page is written, or to restore."""

    def __init__(
        self, store: Store, name: str, page_size: int, *, retain: int = 2, lease: float | None = None
    ) -> None:
        super().__init__(store, name, page_size, lease)
        self._retain = retain
        #: the window to go on with, as it was found
        self._found: _Found | None = None
        self._token: Token | None = None
        #: the last version that this writer's window goes on from
        self._lineage = 0
        #: the last root that was swapped in, and roots that may have been: their answers were lost
        self._answered: _Sent | None = None
        self._unanswered: tuple[_Sent, ...] = ()

    @property
    def claimed(self) -> bool:
        return self.extents is not None

    def _may_count(self) -> Iterator[Version]:
        roots = (self.root, *(each.root for each in self._unanswered))
        return (version for root in roots for version in root.retained)

    @classmethod
    def find(
        cls,
        store: Store,
        name: str,
        number: int | None,
        check: Callable[[Root], None],
        *,
        retain: int = 2,
        lease: float | None = None,
    ) -> Self:
        """The hold on a window that has checkpoints, to take over from a version, the last one by default.

        Reads the root, and takes nothing over yet. `check` may refuse the root.
        """
        hold = cls(store, name, 2, retain=retain, lease=lease)
        hold._look(number, check)
        return hold

    # -- taking over ------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Raises the epoch for a new window, unless this writer has the epoch already."""
        with self._lock:
            if self.claimed:
                if self._unanswered:  # a version that was committed all the same keeps its number for itself
                    self._find_out()
                self.renew()
                return
            doubtful = bool(self._unanswered)
            while True:
                root, token = self._unused()
                try:
                    self._swap(self._next, replace(root, page_size=self.page_size), token)
                    break
                except Fenced:
                    if doubtful:  # an earlier claim may have been done, and was removed then
                        raise
            self.extents = Extents(((self.root.epoch, None),), self._shift)
            self._keep()

    def _unused(self) -> tuple[Root, Token | None]:
        """The root that a new window goes on from, which has no version; one of its own if there is none."""
        root, token = self._read() or (Root(0, self.page_size), None)
        if root.attempts:
            raise self._shared("give the new window another name, or remove the old one by `mta rm`")
        if root.versions:
            raise WindowExists(
                f"the window {self._name!r} has checkpoints in {self._store!r}: go on with it by "
                "restore(), give the new window another name, or remove the old one by `mta rm`"
            )
        return root, token

    def _look(self, number: int | None, check: Callable[[Root], None]) -> _Found:
        """Reads the root of a window to go on with."""
        root, token = self._read() or (None, b"")
        if root is not None and root.attempts:
            raise self._shared("start the query again instead")
        version = root.version(number) if root else None
        if root is None or version is None:
            raise WindowNotFound(self._not_found(root, number))
        check(root)
        self.page_size, self._shift = root.page_size, root.page_size.bit_length() - 1
        self._found = _Found(root, version, token, number, check)
        return self._found

    def _shared(self, instead: str) -> WindowExists:
        return WindowExists(
            f"the window {self._name!r} in {self._store!r} is that of a streaming query, whose state says "
            f"where it goes on: {instead}"
        )

    def take_over(self) -> Version:
        """Raises the epoch, to go on from the version that `find` has found."""
        found = self._found
        assert found is not None
        with self._lock:
            while True:
                try:
                    self._swap(self._next, found.root, found.token, found.version.number)
                except Fenced:  # another writer was first: it is taken over in its turn
                    found = self._look(found.number, found.check)
                    continue
                version, self._found = found.version, None
                self.extents = version.extents.taken_over(version.tail, self.root.epoch)
                self._keep()
                return version

    def commit(self, version: Version, monoid: str, policy: str) -> None:
        """Makes a version the last one, and gives up the versions that it does not go on from.

        It keeps its number, unless the root that it replaces has gone on: then it gets the next one.
        """
        with self._lock:
            lease = None if self._lease is None else self._store.now() + self._lease

            def committed(root: Root, lineage: int) -> tuple[Root, int]:
                number = max(version.number, root.next_version)
                kept = [old for old in root.versions if old.number <= lineage]
                changed = replace(
                    root,
                    monoid=monoid,
                    policy=policy,
                    lease=lease,
                    next_version=number + 1,
                    versions=(*kept, replace(version, number=number))[-self._retain :],
                )
                return changed, number

            self._swap(committed, self.root, self._token)

    def let_go(self) -> None:
        """Removes the root of a window that has no checkpoint."""
        with self._lock:
            if self._unanswered:
                self._find_out()
            if self._token is not None and not self.root.versions:
                self._store.delete_root(self._name, self._token)

    def _next(self, root: Root, lineage: int) -> tuple[Root, int]:
        """A root with a higher epoch, which is this writer's."""
        now = self._store.now()
        lease = None if self._lease is None else now + self._lease
        return replace(root, epoch=next_epoch(root.epoch, now), owner=this_process(), lease=lease), lineage

    def expire_pins(self) -> bool:
        with self._lock:
            if not self.root.pins or self.root.pinned_as(self.root, self._store.now()) is self.root:
                return False
            self._swap(lambda root, lineage: (root, lineage), self.root, self._token)
            return True

    def _swap(
        self, change: _Change, before: Root, expected: Token | None, lineage: int | None = None
    ) -> None:
        """Swaps in what a change makes of a root, with the pins of that root.

        The window goes on from version `lineage`, by default from the same one as before, unless the change
        says another. A reader that sets a pin swaps the root too, and fences nobody; and an earlier commit of
        this writer may be done late. Then the root that is there is the one to be changed, so that none is
        taken back.
        """
        lineage = self._lineage if lineage is None else lineage
        now = leases.now()
        token: Token | None = None
        while token is None:
            root, goes_on_from = change(before, lineage)
            if before.pins or root.pins:
                root = root.pinned_as(before, self._store.now())
            data = self._encoded(root)
            digest = self._digest(root, data) if root.pins else xxhash.xxh3_64_digest(data)
            sent = _Sent(digest, root, goes_on_from)
            self._unanswered += (sent,)
            try:
                token = self._store.swap_root(self._name, data, expected)
            except Conflict:
                before, expected, found = self._instead()
                lineage = found.lineage
                if found.digest == sent.digest:  # it was done, and only its answer was lost
                    token, root = expected, before
        # nothing is called from here on, so that no interrupt comes between
        self._token, self.root, self._lineage = token, root, goes_on_from
        self._unanswered, self._answered, self._renewed = (), sent, now

    def _instead(self) -> tuple[Root, Token, _Sent]:
        """The present root with its token, and as this writer sent it, after a conflict.

        A reader has pinned a version in it, or an earlier swap was done and only its answer lost. Raises
        Fenced if this writer did not send it.
        """
        found = self._store.read_root(self._name)
        if found is None:
            raise Fenced(self._fenced(None)) from None
        root = decode_root(self._name, found[0])
        sent = self._sent(root, found[0])
        if sent is not None:
            return root, found[1], sent
        if not self._is_mine(root):
            raise Fenced(self._fenced(root)) from None
        raise Fenced(self._went_back()) from None

    def _sent(self, root: Root, data: bytes) -> _Sent | None:
        """The root as this writer sent it, without the pins of readers; None if it did not."""
        digest = self._digest(root, data)
        sent = (*self._unanswered, *([self._answered] if self._answered else ()))
        return next((each for each in sent if each.digest == digest), None)

    def _digest(self, root: Root, data: bytes) -> bytes:
        return xxhash.xxh3_64_digest(encode_root(self._name, root.without_pins()) if root.pins else data)

    def _is_mine(self, root: Root) -> bool:
        return self.root.epoch > 0 and (root.epoch, root.owner) == (self.root.epoch, self.root.owner)

    def check_hold(self) -> None:
        """Raises Fenced if another writer has taken over, or the store went back to an earlier state."""
        with self._lock:
            found = self._store.read_root(self._name)
            if self._token is None or found is None or found[1] == self._token:
                return
            root = decode_root(self._name, found[0])
            if not self._is_mine(root):
                raise Fenced(self._fenced(root))
            if self._sent(root, found[0]) is None:
                raise Fenced(self._went_back())

    def knows_root(self) -> bool:
        """Whether the root is the last one that this writer left, and no commit of it is in doubt."""
        with self._lock:
            found = self._store.read_root(self._name)
            if found is None or found[1] == self._token:
                return found is not None
            root = decode_root(self._name, found[0])
            sent = self._sent(root, found[0])
            if sent is None or sent is not self._answered:
                return False
            self._token, self.root = found[1], root  # a reader has pinned a version since
            return True

    # -- after an answer that was lost ------------------------------------------------------------------

    def _prolong(self, until: float) -> None:
        self._swap(lambda root, lineage: (replace(root, lease=until), lineage), self.root, self._token)

    def _find_out(self) -> None:
        """Goes on from a swap that was done without an answer: its commit must not be taken back."""
        found = self._store.read_root(self._name)
        if found is None:
            return
        root = decode_root(self._name, found[0])
        sent = self._sent(root, found[0])
        if sent is not None:
            self._token, self.root, self._lineage, self._answered = found[1], root, sent.lineage, sent

    def _fenced(self, root: Root | None) -> str:
        if root is None:
            return f"the window {self._name!r} was removed from {self._store!r}; this writer of it must stop"
        return (
            f"another writer took over the window {self._name!r} in {self._store!r} (epoch {root.epoch}, "
            f"this writer has {self.root.epoch}); this one must stop, and nothing since its last checkpoint "
            "counts"
        )

    def _went_back(self) -> str:
        return (
            f"the root of window {self._name!r} in {self._store!r} is not what this writer left: the "
            "store went back to an earlier state, or a forked copy of this process writes too; this "
            "writer must stop, and can go on by restore() from the last checkpoint that is there"
        )

    def _not_found(self, root: Root | None, number: int | None) -> str:
        if root is None or not root.versions:
            return f"no checkpoint of a window {self._name!r} in {self._store!r}"
        kept = ", ".join(str(version.number) for version in root.versions)
        return f"no version {number} of the window {self._name!r} in {self._store!r}; retained: {kept}"
