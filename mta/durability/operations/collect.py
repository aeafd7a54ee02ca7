"""Garbage collection: `mta gc` deletes the pages that no window needs.

It may run at any time beside live windows. A root and a key alone say whether the key may be deleted:

- A page of an epoch before the root's is deleted if no retained version names it. Later versions name pages
  of older epochs only if the version that they go on from does, and that version is retained.
- A page of the root's epoch may belong to a commit that is under way. It is deleted if it ends before the
  first position that any retained version needs; a part, if it got its number before the last commit. If the
  writer is surely dead, all others are deleted too, once the root's epoch is raised: a commit that the dead
  writer has sent then comes too late.
- A page of an epoch after the root's stays: a newer writer came in between.
- A page of a window without a root is deleted, if there is still no root after the page was seen: a writer
  swaps its root in before it writes its first page. Epochs are never used again, so no zombie gets one back.
- A root that attempts share (`mta.durability.attempts`) loses the attempts that are surely gone without a
  version, and the attempts that another run of the same batch has replaced. Its epoch is raised too, so that
  no writer uses it again. Then the pages of older epochs are deleted, unless a version names them or an
  attempt at work may have written them.
- A root loses the pins of readers that have expired. Its writer finds it changed, sees that only pins were,
  and goes on.
- A root is deleted if it has no version and its writer is surely dead, or if its lease has run out and no
  reader has a pin: first the root, by its token, and then its pages, as above.

Keys are sorted by their windows as they come. The roots of a hundred windows are read together, always after
their keys. A damaged root is reported, and no key of its window is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from mta.durability.attempts import is_gone
from mta.durability.coding import decode_root, encode_root
from mta.durability.manifest import PART, Attempt, Named, Root, next_epoch
from mta.durability.operations.roots import Seen, Stored, by_window, read_roots, window_names
from mta.durability.owners import surely_dead
from mta.errors import ManifestCorrupt
from stores import Conflict, PageKey, Store, Token, pages_of

#: Seconds that a lease must have run out, for clocks that differ.
GRACE = 60.0


@dataclass
class Collected:
    """What was, or would be, deleted of one window."""

    name: str
    #: how many pages, parts and documents
    pages: int = 0
    root: bool = False
    #: why the root was deleted, or why no key was
    reason: str = ""
    problem: bool = False


def collect(store: Store, *, dry_run: bool = False, grace: float = GRACE) -> list[Collected]:
    """Deletes the pages that no window needs, and the roots of windows that nobody will go on with.

    `dry_run` only finds them. `grace` is the number of seconds for which a lease must have run out. Returns
    the windows of which something was deleted, or whose root is damaged, sorted by name. Reads all roots and
    lists all keys, in memory that is bounded by the keys and roots of some thousand windows. Raises
    StoreError.
    """
    collector = _Collector(store, dry_run, grace)
    collector.visit_roots(window_names(store))
    collector.visit_keys(store.list_keys(""))
    return [found for _, found in sorted(collector.found.items())]


def collect_window(store: Store, name: str) -> None:
    """`collect` for one window: reads its root, and lists its keys."""
    collector = _Collector(store, False, GRACE)
    collector.visit_roots([name])
    collector.visit_keys(store.list_keys(pages_of(name)))


def superseded(root: Root, seen: Seen) -> list[str]:
    """The keys of a window that no version of it names, and no later version will, whoever is at work."""
    return [text for text, key in _idle(root, seen) if _is_superseded(root, key)]


class _Collector:
    def __init__(self, store: Store, dry_run: bool, grace: float) -> None:
        self._store, self._dry_run = store, dry_run
        #: a lease that ran out before this has run out for everybody
        self._latest = store.now() - grace
        self.found: dict[str, Collected] = {}

    # -- roots ------------------------------------------------------------------------------------------

    def visit_roots(self, names: Iterable[str]) -> None:
        """Deletes the roots of windows that nobody will go on with, and settles the others."""
        for roots in read_roots(self._store, names):
            reasons: dict[str, str] = {}
            for name, stored in roots.items():
                root = self._decoded(name, stored)
                if root is None:
                    continue
                reason, settled = _fate(root, self._latest)
                if reason:
                    reasons[name] = reason
                elif settled is not root and not self._dry_run:
                    with suppress(Conflict):  # the window has gone on; the next collection settles it
                        self._store.swap_root(name, encode_root(name, settled), stored.token)
            self._remove_roots({name: roots[name].token for name in reasons}, reasons)

    def _remove_roots(self, tokens: dict[str, Token], reasons: dict[str, str]) -> None:
        kept = [] if self._dry_run else self._store.delete_roots(tokens)
        for name in tokens.keys() - set(kept):  # a writer went on with the windows that are kept
            self._of(name).root, self._of(name).reason = True, reasons[name]

    def _decoded(self, name: str, stored: Stored) -> Root | None:
        try:
            return decode_root(name, stored.data)
        except ManifestCorrupt as error:
            self.found[name] = Collected(name, reason=str(error), problem=True)
            return None

    # -- keys -------------------------------------------------------------------------------------------

    def visit_keys(self, keys: Iterable[str]) -> None:
        for windows in by_window(self._store, keys):
            gone = []
            for seen in windows:
                unneeded = self._unneeded(seen)
                if unneeded:
                    self._of(seen.name).pages += len(unneeded)
                    gone += unneeded
            if not self._dry_run:
                self._store.delete_many(gone)

    def _unneeded(self, seen: Seen) -> list[str]:
        """The keys of a window that may be deleted."""
        would_be_gone = self._dry_run and seen.name in self.found and self.found[seen.name].root
        if seen.root is None or would_be_gone:
            return [text for text, _ in seen.keys]
        root = self._decoded(seen.name, seen.root)
        if root is None:
            return []
        if self._dry_run:
            _, root = _fate(root, self._latest)
        gone = superseded(root, seen)
        over = set(gone)
        current = [text for text, key in _idle(root, seen) if root.has(key.epoch) and text not in over]
        if current and surely_dead(root.owner) and self._fence(seen.name, root, seen.root.token):
            gone += current
        return gone

    def _fence(self, name: str, root: Root, token: Token) -> bool:
        """Raises the epoch above that of a writer that is surely dead; False if another writer was first."""
        if self._dry_run:
            return True
        fenced = replace(root, epoch=next_epoch(root.epoch, self._latest), owner=("", 0, 0))
        try:
            self._store.swap_root(name, encode_root(name, fenced), token)
        except Conflict:
            return False
        return True

    def _of(self, name: str) -> Collected:
        return self.found.setdefault(name, Collected(name))


# -- decisions from a root ---------------------------------------------------------------------------------


def _fate(root: Root, latest: float) -> tuple[str, Root]:
    """Why a root is to be deleted, or "", and the root without what is lost: attempts, and pins."""
    pinned = root.pinned_as(root, latest)
    if root.lease is not None and root.lease < latest and not pinned.pins:
        return "its lease ran out", root
    root = pinned
    kept = tuple(each for each in root.attempts if not _is_lost(each, root, latest))
    settled = root
    if len(kept) < len(root.attempts):
        settled = replace(root, epoch=next_epoch(root.epoch, latest), attempts=kept)
    if not settled.retained and not settled.attempts and (root.attempts or surely_dead(root.owner)):
        return "its writer died before the first checkpoint", root
    return "", settled


def _is_lost(attempt: Attempt, root: Root, now: float) -> bool:
    """Whether an attempt is gone without a version, or with one that another run of its batch replaced."""
    if not is_gone(attempt, now):
        return False
    return attempt.version is None or any(
        other.version is not None
        and other.batch == attempt.batch
        and other.run != attempt.run
        and other.epoch > attempt.epoch
        for other in root.attempts
    )


def _idle(root: Root, seen: Seen) -> list[tuple[str, PageKey]]:
    """The keys that no retained version names, and no attempt at work has written."""
    named = Named.by(root.retained)
    at_work = [each for each in root.attempts if each.version is None]
    return [
        (text, key)
        for text, key in seen.keys
        if key not in named and not any(each.has(key.epoch) for each in at_work)
    ]


def _is_superseded(root: Root, key: PageKey) -> bool:
    return key.epoch < root.epoch or _is_over(root, key)


def _is_over(root: Root, key: PageKey) -> bool:
    """Whether no later version will name a page or part of the root's epoch, if no version names it now.

    This holds for a page that ends before the first position that a retained version needs, and for a part
    that got its serial number before the last commit.
    """
    first = root.first_needed()
    if first is None or not root.has(key.epoch):
        return False
    if key.tier & PART:
        return key.number < root.next_part()
    shift = root.page_size.bit_length() - 1
    return (key.number + 1) << shift * (key.tier + 1) <= first
