"""What keeps a window in a store: its pages there, a writer's hold on its name, and its checkpoints."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from mta.core.outcome import Batch
from mta.core.view import View
from mta.durability.attempts import AttemptHold
from mta.durability.manifest import Version
from mta.durability.ownership import Ownership
from mta.durability.snapshots import INLINE, Checkpoints, Content, fingerprint
from mta.encoding.packing import pack
from mta.monoids.base import Monoid
from mta.paging.bounds import Bounds
from mta.paging.stored import StoredPages
from mta.policies import Policy
from stores import Conflict, Store, StoreError


class Keeper:
    """Keeps the pages of a log, which has none yet, in a store."""

    def __init__(
        self,
        store: Store,
        name: str,
        view: View,
        hold: Ownership | AttemptHold,
        bounds: Bounds,
        *,
        inline: int = INLINE,
    ) -> None:
        self._view = view
        self.hold = hold
        self.checkpoints = Checkpoints(store, name, view.layout, hold, inline)
        self.pages = StoredPages(store, name, view.layout, hold, view.log.shift, bounds)
        view.log.pages = self.pages
        view.follower = self.pages.follow()
        #: the caller's offset in the last checkpoint, packed, and the number of that checkpoint
        self.offset = pack(None)
        self.version: int | None = None

    def _content(self) -> Content:
        view = self._view
        oldest = view.oldest if len(view) else None
        return Content(view.head, view.end, oldest, view.log.youngest, view.log.tails)

    def checkpoint(self, offset: Any, monoid: Monoid, policy: Policy | None) -> int:
        packed = pack(offset)
        self.pages.check_deletions()
        self.pages.flush(self._view.end)
        version = self.checkpoints.commit(
            self._content(), packed, monoid.fingerprint(), fingerprint(policy), self.pages.check_present
        )
        self.offset, self.version = packed, version.number
        self.pages.committed(self.checkpoints.unneeded_parts())
        return version.number

    def load(self, version: Version) -> None:
        """The tree becomes what a version says."""
        view, pages = self._view, self.pages
        tails = self.checkpoints.load(version)
        pages.reserve(2 * len(tails) + 4)
        pages.resume(version.tail, self.hold.root.first_needed() or 0, len(tails))
        view.log.resume(tails, version.tail, version.youngest)
        view.resume(version.head, version.oldest)
        view.log.drop_behind_views()
        self.offset, self.version = version.offset, version.number

    def write_early(self, batch: Batch) -> None:
        """Has the pages of a batch written while its results are computed, where checkpoints are made."""
        if self.version is not None:
            self.pages.put_early(self._view.log.coming_pages(batch.times, batch.elements))

    def close(self) -> None:
        """Ends the background work, and deletes what no checkpoint names."""
        self.hold.end()
        self.pages.close()
        if self.hold.extents is not None:
            self.pages.forget()
        with suppress(StoreError, Conflict):
            self.hold.let_go()

    def hand_over(self, number: int, monoid: Monoid, policy: Policy | None) -> Version:
        """The window as a version that somebody else keeps, published if anything was written for it.

        For the hold of an attempt; ends the background work.
        """
        hold, pages = self.hold, self.pages
        assert isinstance(hold, AttemptHold)
        pages.flush(self._view.end)
        version = self.checkpoints.version(self._content(), number, pack(number))
        if hold.claimed:
            hold.commit(version, monoid.fingerprint(), fingerprint(policy))
            pages.delete_behind()
        pages.close()
        return version
