"""Writers of one window that may run at once. Another party decides which one of them counts.

A task of a streaming query may run twice at once, or again after a crash. Spark's own state says afterwards
which attempt counts: the state of a key holds the version of its window. The root in the store only says
which pages are needed: the pages of the version that all attempts go on from, the pages of each attempt that
has published, and for a while the pages of attempts that are at work.

An attempt claims an epoch before it writes its first page. Then it deletes the pages that only earlier
versions named: it was given a version of the micro-batch before, so that version is committed. It publishes
its own version before its result goes back to Spark. An attempt that dies in between leaves pages that `mta
gc` finds.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mta.durability import leases
from mta.durability.coding import decode_root, pack_version
from mta.durability.manifest import DOCUMENTS, PART, Attempt, Extents, Named, Root, Version, next_epoch
from mta.durability.owners import surely_dead, this_process
from mta.durability.writer import Writer
from mta.errors import Fenced, PagesLost, WindowExists
from stores import Conflict, Store, page_key


class AttemptHold(Writer):
    """One attempt's hold on one window, under whose epoch pages and tails are written."""

    def __init__(
        self,
        store: Store,
        name: str,
        page_size: int,
        base: Version | None,
        *,
        batch: int,
        run: str,
        lease: float,
    ) -> None:
        super().__init__(store, name, page_size, lease)
        self._base = base
        self._batch, self._run, self._seconds = batch, run, lease
        self._id = secrets.token_hex(8)
        self._claimed = False
        #: whether there may be pages of a dead attempt, which no version names
        self.beside_gone = False
        self.extents = (
            Extents(((0, None),), self._shift) if base is None else replace(base.extents, shift=self._shift)
        )
        if base is not None:
            self.root = replace(self.root, versions=(base,))

    @property
    def claimed(self) -> bool:
        """Whether this attempt has an epoch. Without one it has no pages."""
        return self._claimed

    def _may_count(self) -> tuple[Version, ...]:
        return () if self._base is None else (self._base,)

    # -- claiming and publishing ------------------------------------------------------------------------

    def claim(self) -> None:
        with self._lock:
            if self._claimed:
                self.renew()
                return
            while True:
                found = self._read()
                if found is None:
                    self._check_not_lost()
                root, token = found or (self.root, None)
                claimed, epoch = self._with_me(root)
                try:
                    self._store.swap_root(self._name, self._encoded(claimed), token)
                except Conflict:
                    mine = self._in_root()
                    if mine is None or mine.epoch != epoch:
                        continue
                break
            self._claimed, self._renewed = True, leases.now()
            assert self.extents is not None
            if self._base is None:
                self.extents = Extents(((epoch, None),), self._shift)
            elif epoch != self.extents.open:
                self.extents = self.extents.taken_over(self._base.tail, epoch)
            self.root = replace(self.root, epoch=epoch)
            self._keep()
            clear(self._store, self._name, root.retained, claimed.retained)

    def _prolong(self, until: float) -> None:
        self._change({"lease": until})
        self._renewed = leases.now()

    def _check_not_lost(self) -> None:
        """Raises PagesLost if there is no root, and the version to go on from names pages."""
        if Named.by(self._may_count()):
            raise PagesLost(
                f"the window {self._name!r} has pages, and none are in {self._store!r}: it was removed or "
                "lost, or this is not the store that was written to"
            )

    def _with_me(self, root: Root) -> tuple[Root, int]:
        for each in root.attempts:
            if each.batch > self._batch:
                raise Fenced(
                    f"the window {self._name!r} in {self._store!r} is at batch {each.batch} already, and "
                    f"this attempt is of batch {self._batch}: it comes too late, or the query was started "
                    "from an older checkpoint than the window's"
                )
        if root.owner[0]:
            raise WindowExists(
                f"the window {self._name!r} in {self._store!r} is none of a streaming query: give the "
                "query's windows another name, or remove the old one by `mta rm`"
            )
        size = self.page_size
        kept = [
            each
            for each in root.attempts
            if self._stays(each) and (each.version is None or root.page_size == size)
        ]
        now = self._store.now()
        self.beside_gone = any(each.version is None and is_gone(each, now) for each in kept)
        epoch = next_epoch(max(root.epoch, self.extents.open if self.extents else 0), now)
        if self._goes_on(root):
            epoch, kept = root.epoch, []
        mine = Attempt(self._id, epoch, self._batch, self._run, this_process(), now + self._seconds)
        versions = self._may_count()
        claimed = replace(root, epoch=epoch, page_size=size, versions=versions, attempts=(*kept, mine))
        return claimed, epoch

    def _stays(self, other: Attempt) -> bool:
        """Whether another attempt may have won this batch, or is at work, or leaves pages."""
        if other.id == self._id:
            return False  # a claim of its own whose answer was lost; no page was written under its epoch
        if other.version is None:
            return True  # when it is gone, `mta gc` deletes its pages
        if other.batch != self._batch:
            return False
        return other.run == self._run or not is_gone(other, self._store.now())

    def _goes_on(self, root: Root) -> bool:
        """Whether the base is the version of the only other attempt, so that its epoch can be used again."""
        if self._base is None or len(root.attempts) != 1:
            return False
        last = root.attempts[0]
        if last.version is None or last.batch >= self._batch or last.epoch != root.epoch:
            return False
        return self._base.extents.open == root.epoch and pack_version(last.version) == pack_version(
            self._base
        )

    def commit(self, version: Version, monoid: str, policy: str) -> None:
        """Publishes a version. Spark's state says afterwards whether it counts."""
        with self._lock:
            self.end()
            self._change({"version": version}, monoid, policy)

    def let_go(self) -> None:
        """Takes back the claim of an attempt that failed, once its pages are deleted."""
        with self._lock:
            if self._claimed:
                self.end()
                self._change(None)
                self._claimed = False

    def _change(self, fields: dict[str, Any] | None, monoid: str = "", policy: str = "") -> None:
        """Swaps in other fields of this attempt, or for None a root without it."""
        while True:
            found = self._read()
            mine = None if found is None else self._mine(found[0])
            if found is None or mine is None:
                raise Fenced(
                    f"this attempt's claim on the window {self._name!r} in {self._store!r} was cleared away: "
                    f"the window was removed, or nothing came of it for more than {self._seconds:g} seconds"
                )
            root, token = found
            attempts = list(root.attempts)
            index = attempts.index(mine)
            attempts[index : index + 1] = [] if fields is None else [replace(mine, **fields)]
            if monoid:
                root = replace(root, monoid=monoid, policy=policy)
            if fields is None:
                # pages that are left are then of an old epoch, and `mta gc` finds them
                root = replace(root, epoch=next_epoch(root.epoch, self._store.now()))
            root = replace(root, attempts=tuple(attempts))
            try:
                if not root.attempts and not root.versions:
                    self._store.delete_root(self._name, token)
                else:
                    self._store.swap_root(self._name, self._encoded(root), token)
                return
            except Conflict:
                # another attempt was first, or this swap was done and its answer lost
                if monoid and self._is_there(published=True):
                    return

    def _mine(self, root: Root) -> Attempt | None:
        return next((each for each in root.attempts if each.id == self._id), None)

    def _in_root(self) -> Attempt | None:
        """This attempt as the root has it."""
        found = self._read()
        return None if found is None else self._mine(found[0])

    def _is_there(self, *, published: bool = False) -> bool:
        mine = self._in_root()
        return mine is not None and (mine.version is not None or not published)

    def check_hold(self) -> None:
        """Raises Fenced if this attempt was given up."""
        if self._claimed and not self._is_there():
            raise Fenced(f"this attempt's claim on the window {self._name!r} was cleared away")

    def knows_root(self) -> bool:
        return self._claimed and self._is_there() and not self._is_there(published=True)


def is_gone(attempt: Attempt, now: float) -> bool:
    """Whether an attempt is surely no longer at work."""
    return surely_dead(attempt.owner) or attempt.lease < now


def retire(store: Store, name: str, batch: int) -> None:
    """Removes a window that ended before a batch: its root, and the pages and parts that it names."""
    found = store.read_root(name)
    if found is None:
        return
    root = decode_root(name, found[0])
    if any(attempt.batch >= batch for attempt in root.attempts):
        return  # the window has begun anew, and its first claim deletes the older pages
    try:
        store.delete_root(name, found[1])
    except Conflict:
        return  # another attempt has claimed the window
    clear(store, name, root.retained, ())


def clear(store: Store, name: str, before: Iterable[Version], after: Iterable[Version]) -> None:
    """Deletes the pages, parts and documents that only the versions in `before` name."""
    for prefix, tier, numbers in Named.by(before).less(Named.by(after)).prefixes(name):
        if tier & PART or tier == DOCUMENTS:
            store.delete_many([page_key(prefix, number) for number in numbers])
        else:
            store.delete_range(prefix, numbers.start, numbers.stop)
