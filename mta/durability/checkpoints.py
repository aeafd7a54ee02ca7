"""Checkpoints: a window as a version in its manifest, and back.

Full pages are in the store already, or go there first. What is left is the partial last page of each tier.
Its entries are written once: few of them stand in the manifest itself, and when they are more they become a
part, a small document beside the pages. So a checkpoint writes what came since the last one, whatever the
sizes of the window and of its pages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mta.core.states import Layout
from mta.core.tail import Tail
from mta.durability.manifest import MOST_PARTS, Part, Root, SavedTail, Version
from mta.durability.writer import Writer
from mta.errors import ManifestMismatch, PagesLost
from mta.monoids.base import Monoid
from mta.paging.codec import decode_run, encode_run
from mta.policies import Policy
from stores import Store, StoreChanged

#: Entries that stand in the manifest itself take at most so many bytes a tier.
INLINE = 640


class Content(NamedTuple):
    """What a window holds beside its full pages."""

    head: int
    tail: int
    oldest: Any
    youngest: Any
    tails: list[Tail]


class Checkpoints:
    """What one window has committed."""

    def __init__(self, store: Store, name: str, layout: Layout, writer: Writer, inline: int = INLINE) -> None:
        self._store, self._name, self._layout, self._writer = store, name, layout, writer
        self._inline = inline
        self._tails: tuple[SavedTail, ...] = ()
        self._parts: set[Part] = set()
        self._next_part = 0

    # -- out --------------------------------------------------------------------------------------------

    def commit(
        self,
        content: Content,
        offset: Any,
        monoid: str,
        policy: str,
        check: Callable[[Version], None],
    ) -> Version:
        """Commits what a window holds, whose full pages are in the store, if a check allows the version.

        `monoid` and `policy` are fingerprints of what the window computes.
        """
        self._writer.claim()
        version = self.version(content, self._writer.root.next_version, offset)
        # if the answer is lost, this commit may count or the one before: the next names no part of either
        self._tails = ()
        check(version)
        try:
            self._writer.commit(version, monoid, policy)
        except StoreChanged:
            check(version)
            self._writer.commit(version, monoid, policy)
        self._tails = version.tails
        return version

    def version(self, content: Content, number: int, offset: Any) -> Version:
        """What a window holds. Its full pages are in the store, and after this the parts of its tails."""
        documents: dict[str, bytes] = {}
        tails = tuple(self._save_tail(tail, documents) for tail in content.tails)
        self._store.put_many(documents)
        extents, root = self._writer.extents, self._writer.root
        assert extents is not None
        return Version(
            number=number,
            head=content.head,
            tail=content.tail,
            oldest=content.oldest,
            youngest=content.youngest,
            offset=offset,
            extents=extents.behind(min(content.head, root.first_needed() or 0)),
            tails=tails,
            next_part=self._next_part,
        )

    def _save_tail(self, tail: Tail, documents: dict[str, bytes]) -> SavedTail:
        """What a version says of a tier's tail; adds the part that has to be written for it."""
        last = self._tails[tail.tier] if tail.tier < len(self._tails) else SavedTail(tail.start)
        if last.start != tail.start:
            last = SavedTail(tail.start)
        saved = SavedTail(tail.start, last.parts)
        if saved.saved == tail.stop:
            return saved
        data = self._encoded(tail, saved.saved)
        if len(data) <= self._inline:
            return SavedTail(tail.start, last.parts, data, tail.stop - saved.saved)
        older = last.parts
        if len(older) >= MOST_PARTS:  # they are written as one again, so that a manifest stays small
            older, data = (), self._encoded(tail, tail.start)
        self._writer.claim()
        start = older[-1].stop if older else tail.start
        part = Part(tail.tier, self._writer.root.epoch, self._next_part, start, tail.stop)
        self._next_part += 1
        documents[part.key(self._name)] = data
        self._parts.add(part)
        return SavedTail(tail.start, (*older, part))

    def _encoded(self, tail: Tail, start: int) -> bytes:
        young = tail.part(start, tail.stop)
        identity = _identity(self._name, tail.tier, start)
        return encode_run(self._layout, identity, tail.tier, young.times, young.run)

    def unneeded_parts(self) -> list[str]:
        """The keys of parts that no retained version names; they are forgotten here."""
        named = {part for version in self._writer.root.versions for part in version.parts()}
        gone = self._parts - named
        self._parts &= named
        return sorted(part.key(self._name) for part in gone)

    # -- in ---------------------------------------------------------------------------------------------

    def load(self, version: Version) -> list[Tail]:
        """The tails that a version names; one round trip."""
        parts = list(version.parts())
        keys = [part.key(self._name) for part in parts]
        found = dict(zip(parts, self._store.get_many(keys), strict=True)) if keys else {}
        tails = [
            load_tail(self._store, self._name, self._layout, tier, saved, found)
            for tier, saved in enumerate(version.tails)
        ]
        # of all retained versions, since what has an earlier number than any of them has passed for unneeded
        self._tails = version.tails
        self._next_part = max(version.next_part, self._writer.root.next_part())
        self._parts = {part for old in self._writer.root.versions for part in old.parts()}
        return tails


def load_tail(
    store: Store, name: str, layout: Layout, tier: int, saved: SavedTail, found: dict[Part, bytes | None]
) -> Tail:
    """A tier's tail out of its parts, as they were found in the store, and what stands in the manifest."""
    tail = Tail(layout, tier, saved.start)
    for part in saved.parts:
        data = found[part]
        what = f"part {part.start} of tier {tier} of window {name!r}"
        if data is None:
            raise PagesLost(
                f"{what} is not in {store!r} (key {part.key(name)!r}); the store "
                "lost it: restore another version, or start the window anew"
            )
        tail = _followed(layout, tail, data, name, part, what)
    if saved.inline:
        part = Part(tier, 0, 0, saved.saved, saved.saved + saved.inline_count)
        tail = _followed(
            layout, tail, saved.inline, name, part, f"the tail of tier {tier} of window {name!r}"
        )
    return tail


def _followed(layout: Layout, tail: Tail, data: bytes, name: str, part: Part, what: str) -> Tail:
    identity = _identity(name, part.tier, part.start)
    times, run = decode_run(layout, data, identity, tail.tier, what, part.stop - part.start)
    return tail.followed(times, run)


def _identity(name: str, tier: int, start: int) -> list[Any]:
    return [name, "tail", tier, start]


def fingerprint(policy: Policy | None) -> str:
    return "None" if policy is None else policy.fingerprint()


def check_matches(
    name: str, root: Root, monoid: Monoid, policy: Policy | None, page_size: int | None
) -> None:
    """Refuses to restore a window as something else than it was."""
    for what, then, now in (
        ("monoid", root.monoid, monoid.fingerprint()),
        ("policy", root.policy, fingerprint(policy)),
        ("page size", root.page_size, root.page_size if page_size is None else page_size),
    ):
        if then != now:
            hint = ""
            if "#" in str(then):
                hint = (
                    " (a function without a name is told by its code: if yours does the same as that one, "
                    "give name= what stands in the brackets)"
                )
            raise ManifestMismatch(
                f"the window {name!r} was checkpointed with the {what} {then}, not {now}; restore it so{hint}"
            )
