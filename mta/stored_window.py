"""A window in a store: the pages of its log, a writer's hold on its name, and its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mta.core.keeper import Keeper
from mta.core.log import Log
from mta.core.view import Batch, View, finish
from mta.durability.attempts import AttemptHold
from mta.durability.checkpoints import INLINE, Checkpoints, Content, fingerprint
from mta.durability.manifest import SavedView, Version
from mta.durability.ownership import Ownership
from mta.encoding.packing import pack
from mta.errors import WindowError
from mta.monoids.base import Monoid
from mta.paging.stored import StoredPages
from mta.policies import Policy
from mta.times.kinds import NUMBERS, TimeKind
from stores import Conflict, Store, StoreError

#: The offset of a window without a checkpoint, packed.
NO_OFFSET = pack(None)


class StoredWindow:
    """The durable part of a window: a log and its views, whose pages are kept in a store under a name."""

    def __init__(
        self,
        store: Store,
        name: str,
        log: Log,
        views: Sequence[View | Keeper],
        pages: StoredPages,
        hold: Ownership | AttemptHold,
        inline: int = INLINE,
    ) -> None:
        """`inline` bytes of each tail may stand in a version itself."""
        self._log, self._views, self._name = log, views, name
        self.hold, self.pages = hold, pages
        self.checkpoints = Checkpoints(store, name, log.layout, hold, inline)
        #: the caller's offset in the last checkpoint, packed, and the number of that checkpoint
        self.offset = NO_OFFSET
        self.version: int | None = None

    def _content(self, kind: TimeKind) -> Content:
        log = self._log
        if log.unfinished:  # after an interrupt: views would end before the tail
            finish(log)
        views = tuple(
            SavedView(view.head, view.end, view.oldest if len(view) else None) for view in self._views
        )
        return Content(views, log.tail, log.youngest, log.tails, kind)

    def checkpoint(
        self,
        offset: Any,
        monoid: Monoid,
        policy: Policy | None,
        kind: TimeKind = NUMBERS,
        keep: str | None = None,
    ) -> int:
        """Commits a version with the caller's offset; returns its number.

        `kind` is that of the window's times. Writes the pages and the entries of tails since the last
        checkpoint. Raises Fenced if another writer has taken the window over.
        """
        packed = pack(offset)
        self.pages.check_deletions()
        self.pages.flush(self._log.tail)
        version = self.checkpoints.commit(
            *(self._content(kind), packed, monoid.fingerprint(), fingerprint(policy, keep)),
            check=lambda version: self.pages.check_present(version.keys(self._name)),
        )
        self.offset, self.version = packed, version.number
        self.pages.committed(self.checkpoints.unneeded_parts())
        return version.number

    def restore(self, version: Version) -> None:
        """Makes the log and its views, which are empty, what a version says; one round trip if it has parts.

        Raises PagesLost or PageCorrupt if a part of a tail is gone or damaged.
        """
        log, pages = self._log, self.pages
        tails = self.checkpoints.load(version)
        pages.reserve((2 * len(tails) + 4) * len(version.views))
        pages.resume(self.hold.root.first_needed() or 0, version.head, version.tail, len(tails))
        log.tails, log.tail, log.youngest = tails, version.tail, version.youngest
        for view, saved in zip(self._views, version.views, strict=True):
            view.resume(*saved)
        self.offset, self.version = version.offset, version.number

    def write_early(self, batch: Batch) -> None:
        """Has the pages of a batch written while its results are computed, where checkpoints are made."""
        if self.version is not None:
            self.pages.put_early(self._log.coming_pages(batch.times, batch.elements))

    def close(self) -> None:
        """Ends the background work, and deletes what no checkpoint names."""
        self.hold.end()
        self.pages.close()
        if self.hold.extents is not None:
            unneeded: list[str] = []
            with suppress(StoreError, WindowError):
                knows = self.hold.knows_root()  # a reader may have ended its pin since
                if self.hold.expire_pins() or knows:
                    unneeded = self.checkpoints.unneeded_parts()
            self.pages.forget(unneeded)
        with suppress(StoreError, Conflict):
            self.hold.let_go()

    def hand_over(
        self, number: int, monoid: Monoid, policy: Policy | None, kind: TimeKind = NUMBERS
    ) -> Version:
        """The window as a version, which the caller keeps; published if anything was written for it.

        For the hold of an attempt. `kind` is that of the window's times. Ends the background work.
        """
        hold, pages = self.hold, self.pages
        assert isinstance(hold, AttemptHold)
        pages.flush(self._log.tail)
        version = self.checkpoints.version(self._content(kind), number, pack(number))
        if hold.claimed:
            hold.commit(version, monoid.fingerprint(), fingerprint(policy))
            pages.delete_behind()
        pages.close()
        return version
