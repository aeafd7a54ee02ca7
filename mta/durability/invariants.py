"""The invariants of a manifest. Each function gives a sentence for each violation that it finds.

Decoding refuses a version that violates `of_version`. Writers check `of_root` before each compare-and-swap of
a root, and `mta verify` reports its violations.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from mta.durability.manifest import EPOCHS, Attempt, Root, Version
from mta.encoding.untrusted import shown
from mta.errors import ManifestCorrupt

#: The most tiers that a window has.
MOST_TIERS = 64


def check(name: str, root: Root) -> None:
    """Raises ManifestCorrupt if a root that is about to be swapped in violates an invariant."""
    for violation in of_root(root):
        raise ManifestCorrupt(
            f"the next manifest of window {name!r} would be wrong, so it was not written: {violation}; this "
            "is a mistake of this library: restore the last checkpoint, and report it"
        )


def of_root(root: Root) -> Iterator[str]:
    """All invariants of a root and of its versions."""
    for version in root.retained:
        for violation in (*of_version(version), *_parts(version), *_documents(version), *_epochs(version)):
            yield f"version {version.number}: {violation}"
    yield from _descent(root)
    yield from _deletable(root)


# -- one version ------------------------------------------------------------------------------------------


def of_version(version: Version) -> Iterator[str]:
    """The invariants that decoding checks: positions, extents and tails fit each other."""
    yield from _extents(version)
    yield from _views(version)
    yield from _tails(version)


def _extents(version: Version) -> Iterator[str]:
    """Extents follow each other, and only the last is open."""
    ends = [end for _, end in version.extents.ends]
    closed = [end for end in ends[:-1] if end is not None]
    if not ends or ends[-1] is not None or len(closed) != len(ends) - 1 or closed != sorted(closed):
        yield f"its extents {shown(version.extents.ends)} do not follow each other"


def _views(version: Version) -> Iterator[str]:
    """A view is a range of positions up to the tail, with the time of its oldest element if it has one."""
    tail, youngest = version.tail, version.youngest
    for head, end, oldest in version.views:
        if not 0 <= head <= end <= tail:
            yield f"a view of it is [{head}, {end}), and its tail is {tail}"
        elif (head < end) != (oldest is not None) or (
            oldest is not None and (youngest is None or youngest < oldest)
        ):
            yield f"it holds {end - head} elements, of times from {oldest} to {youngest}"


def _tails(version: Version) -> Iterator[str]:
    """Each tier has a tail, which begins where its full pages end."""
    shift = version.extents.shift
    if len(version.tails) > MOST_TIERS or version.tail >> shift * len(version.tails):
        yield f"it has {len(version.tails)} tiers for {version.tail} elements"
        return
    for tier, tail in enumerate(version.tails):
        count = version.tail >> shift * tier
        start, stop = count >> shift << shift, tail.saved + tail.inline_count
        if (tail.start, stop) != (start, count):
            yield f"the tail of tier {tier} is [{tail.start}, {stop}) and should be [{start}, {count})"


def _parts(version: Version) -> Iterator[str]:
    """Parts of a tail are adjacent, and each was written after the one before it."""
    for tier, tail in enumerate(version.tails):
        start, epoch, serial = tail.start, 0, -1
        for part in tail.parts:
            if (part.tier, part.start) != (tier, start) or part.stop <= part.start:
                yield f"a part of tier {tier} is [{part.start}, {part.stop}) of tier {part.tier}, not {start}"
            if part.epoch < epoch or not serial < part.serial < version.next_part:
                yield (
                    f"part {part.serial} of tier {tier} is of epoch {part.epoch}, and follows part {serial} "
                    f"of epoch {epoch}; the next part is {version.next_part}"
                )
            start, epoch, serial = part.stop, part.epoch, part.serial


def _documents(version: Version) -> Iterator[str]:
    """Ranges of documents do not overlap."""
    for (epoch, first, last), (other, start, _) in pairwise(sorted(version.documents)):
        if epoch == other and start < last:
            yield f"its documents [{first}, {last}) of epoch {epoch} overlap others from {start} on"


def _epochs(version: Version) -> Iterator[str]:
    """Each extent is of a later epoch than the one before it, and ends before the version's tail."""
    for (epoch, end), (other, _) in pairwise(version.extents.ends):
        if other <= epoch or end is None or end > version.tail:
            yield f"epoch {epoch} ended at {end}, before epoch {other}; its tail is {version.tail}"


# -- versions together ------------------------------------------------------------------------------------


def _descent(root: Root) -> Iterator[str]:
    """Each committed version goes on from the one before it, so that both know the pages by the same keys."""
    for older, newer in pairwise(root.versions):
        if newer.number <= older.number:
            yield f"version {newer.number} follows version {older.number}"
        if newer.head < older.head or newer.tail < older.tail or newer.next_part < older.next_part:
            yield (
                f"version {newer.number} goes back: from [{older.head}, {older.tail}) and part "
                f"{older.next_part} to [{newer.head}, {newer.tail}) and part {newer.next_part}"
            )
        shift = newer.extents.shift
        pages = 0, newer.head >> shift, older.tail >> shift
        if [*older.extents.ranges(*pages)] != [*newer.extents.ranges(*pages)]:
            yield (
                f"versions {older.number} and {newer.number} name pages of different epochs: "
                f"{shown(older.extents.ends)} and {shown(newer.extents.ends)}"
            )
    last = root.versions[-1].number if root.versions else 0
    if root.owner[0] and last >= root.next_version:
        yield f"version {last} is there, and the next one would be {root.next_version}"


def _deletable(root: Root) -> Iterator[str]:
    """No version names what another writer may delete: its own pages, which no other version names yet."""
    for version in root.retained:
        for epoch in _named_epochs(version):
            if epoch >= root.epoch + EPOCHS:
                yield f"version {version.number} names epoch {epoch}, and the root is of epoch {root.epoch}"
    common = {epoch for version in root.versions for epoch in _named_epochs(version)}
    for attempt in root.attempts:
        if attempt.epoch > root.epoch:
            yield f"attempt {attempt.id} is of epoch {attempt.epoch}, and the root of epoch {root.epoch}"
        yield from _foreign(attempt, common)


def _foreign(attempt: Attempt, common: set[int]) -> Iterator[str]:
    """An attempt's version names epochs of its own, and of the version that it goes on from."""
    if attempt.version is not None:
        for epoch in _named_epochs(attempt.version) - common:
            if not attempt.has(epoch):
                yield (
                    f"version {attempt.version.number} of attempt {attempt.id} names epoch {epoch} of "
                    f"another writer; the attempt is of epoch {attempt.epoch}"
                )


def _named_epochs(version: Version) -> set[int]:
    """The epochs of the pages, parts and documents that a version names."""
    shift = version.extents.shift
    pages = version.extents.ranges(0, version.head >> shift, version.tail >> shift)
    return {
        *(epoch for epoch, _, _ in pages),
        *(part.epoch for part in version.parts()),
        *(epoch for epoch, _, _ in version.documents),
    }
