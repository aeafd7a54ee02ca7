"""Checkpoints: a window as a version in its manifest, and back.

A checkpoint writes the full pages first that are not in the store yet. Then it writes the partial last page
of each tier, the tail. Each entry of a tail is written once: a few young entries stand in the manifest
itself, and more of them become a part, a small document beside the pages. So the cost of a checkpoint goes by
the elements since the last one, and not by the sizes of the window and of its pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from mta.core.frame import Frame
from mta.core.states import Layout
from mta.core.tail import Tail
from mta.durability.manifest import MOST_PARTS, Part, Root, SavedTail, SavedView, Version
from mta.durability.tails import encode_tail, load_tails
from mta.durability.writer import Writer
from mta.errors import ManifestMismatch
from mta.monoids.base import Monoid
from mta.monoids.nulls import nulls_hint
from mta.policies import Policy
from mta.times.kinds import NUMBERS, TimeKind
from stores import Store, StoreChanged

#: The entries of a tail that stand in the manifest itself take at most this many bytes.
INLINE = 640


class Content(NamedTuple):
    """The content of a log and its views, but for the full pages."""

    views: tuple[SavedView, ...]
    tail: int
    youngest: Any
    tails: list[Tail]
    kind: TimeKind = NUMBERS


class Checkpoints:
    """The checkpoints of one window."""

    def __init__(self, store: Store, name: str, layout: Layout, writer: Writer, inline: int = INLINE) -> None:
        self._store, self._name, self._layout, self._writer = store, name, layout, writer
        self._inline = inline
        self._tails: tuple[SavedTail, ...] = ()
        self._parts: set[Part] = set()
        self._next_part = 0

    def commit(
        self,
        content: Content,
        offset: Any,
        monoid: str,
        policy: str,
        check: Callable[[Version], None],
    ) -> Version:
        """Commits the content of a window as the next version, unless `check` raises an error for it.

        The window's full pages are in the store already. `monoid` and `policy` are the fingerprints of the
        window's monoid and policy.
        """
        self._writer.claim()
        version = self.version(content, self._writer.root.next_version, offset)
        # if the answer is lost, this commit counts or the one before: the next one names no part of either
        self._tails = ()
        check(version)
        try:
            self._writer.commit(version, monoid, policy)
        except StoreChanged:
            check(version)
            self._writer.commit(version, monoid, policy)
        self._tails = version.tails
        return self._writer.root.versions[-1]  # with its number: an earlier commit may be done late

    def version(self, content: Content, number: int, offset: Any) -> Version:
        """The content of a window as a version. Writes the parts of its tails; one round trip if it has some.

        The window's full pages are in the store already.
        """
        documents: dict[str, bytes] = {}
        tails = tuple(self._save_tail(tail, documents) for tail in content.tails)
        self._store.put_many(documents)
        extents, root = self._writer.extents, self._writer.root
        assert extents is not None
        return Version(
            number=number,
            views=content.views,
            tail=content.tail,
            youngest=content.youngest,
            offset=offset,
            extents=extents.behind(min(root.first_needed() or 0, *(view.head for view in content.views))),
            tails=tails,
            next_part=self._next_part,
            kind=content.kind,
        )

    def _save_tail(self, tail: Tail, documents: dict[str, bytes]) -> SavedTail:
        """A tier's tail as a version names it. Its new part, if there is one, is added to `documents`."""
        last = self._tails[tail.tier] if tail.tier < len(self._tails) else SavedTail(tail.start)
        if last.start != tail.start:
            last = SavedTail(tail.start)
        saved = SavedTail(tail.start, last.parts)
        if saved.saved == tail.stop:
            return saved
        data = encode_tail(self._layout, self._name, tail, saved.saved)
        if len(data) <= self._inline:
            return SavedTail(tail.start, last.parts, data, tail.stop - saved.saved)
        older = last.parts
        if len(older) >= MOST_PARTS:  # all are written again as one part, so that a manifest stays small
            older, data = (), encode_tail(self._layout, self._name, tail, tail.start)
        self._writer.claim()
        start = older[-1].stop if older else tail.start
        part = Part(tail.tier, self._writer.root.epoch, self._next_part, start, tail.stop)
        self._next_part += 1
        documents[part.key(self._name)] = data
        self._parts.add(part)
        return SavedTail(tail.start, (*older, part))

    def unneeded_parts(self) -> list[str]:
        """The keys of parts that no retained version names. Each is returned once."""
        named = {part for version in self._writer.root.retained for part in version.parts()}
        gone = self._parts - named
        self._parts &= named
        return sorted(part.key(self._name) for part in gone)

    def load(self, version: Version) -> list[Tail]:
        """The tails that a version names, to go on from; one round trip if they have parts, else none."""
        tails = load_tails(self._store, self._name, self._layout, version)
        versions = self._writer.root.retained
        self._tails = version.tails
        # parts below the least number that a retained version gives may be deleted, so none gets such a
        # number
        self._next_part = max(version.next_part, self._writer.root.next_part())
        self._parts = set(chain.from_iterable(map(Version.parts, versions)))
        return tails


def fingerprint(policy: Policy | None, keep: str | None = None) -> str:
    text = "None" if policy is None else policy.fingerprint()
    return text if keep is None else f"{text} with keep={keep}"


#: The end of the text of a policy, where a window keeps elements longer.
_KEEP = re.compile(r" with keep=([-+.0-9a-z]+|'[^']*')$")


def policy_and_keep(text: str) -> tuple[str, str | None]:
    """The text of a policy in a root, and how much longer than its frames the window keeps elements."""
    kept = _KEEP.search(text)
    return (text, None) if kept is None else (text[: kept.start()], kept[1])


def check_matches(
    name: str,
    monoid: Monoid,
    policy: Policy | None,
    page_size: int | None,
    root: Root,
    keep: str | None = None,
    call: str = "restore",
) -> None:
    """Raises ManifestMismatch if a window is to be restored with another monoid, policy or page size.

    `call` is what the user is told to do instead.
    """
    for what, then, now in (
        ("monoid", root.monoid, monoid.fingerprint()),
        ("policy", root.policy, fingerprint(policy, keep)),
        ("page size", root.page_size, root.page_size if page_size is None else page_size),
    ):
        if then != now:
            hint = ""
            if "#" in str(then):
                hint = (
                    " (a function without a name is told by its code: if yours does the same as that one, "
                    "give name= what stands in the brackets)"
                )
            hint = hint or nulls_hint(str(then), str(now))
            raise ManifestMismatch(
                f"the window {name!r} was checkpointed with the {what} {then}, not {now}; {call} it so{hint}"
            )


def check_views(
    name: str,
    version: Version | None,
    frames: Sequence[Frame],
    in_microseconds: bool | None,
    keeps: bool = False,
) -> None:
    """Raises ManifestMismatch unless a version has the views of a window with some frames, and their times.

    `in_microseconds` says whether the durations of the window have a unit; None if it has no durations.
    """
    if version is None:
        return
    views, fits = version.views, len(version.views) == len(frames) + keeps
    for view, frame in zip(views, frames):  # noqa: B905  there may be one view more
        fits = fits and (frame.lags or view.end == version.tail)
    if not fits:
        shown = ", ".join(f"[{view.head}, {view.end})" for view in views)
        raise ManifestMismatch(
            f"version {version.number} of the window {name!r} has the views {shown} of {version.tail} "
            f"elements, and not those of a window with {len(frames)} frame(s): it cannot be restored as one"
        )
    if version.tail and in_microseconds is (version.kind is NUMBERS):
        raise ManifestMismatch(
            f"the times in version {version.number} of the window {name!r} are {version.kind.value}, and its "
            "frames are for others; restore it with the durations that it was checkpointed with"
        )
