"""The invariants of a manifest. Each function gives a sentence for each violation that it finds.

Decoding refuses a version that violates `of_version`. A writer checks `of_root` before each compare-and-swap
of a root, and `of_version` for each new version in it. `mta verify` reports the violations of a root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from operator import attrgetter, itemgetter

from mta.durability.manifest import EPOCHS, MOST_PINS, Root, Version
from mta.encoding.untrusted import shown
from mta.errors import ManifestCorrupt
from mta.times.kinds import FIRST, LAST, NUMBERS

#: The most tiers that a window has.
MOST_TIERS = 64


def check(name: str, root: Root, known: Collection[Version]) -> None:
    """Raises ManifestCorrupt if a root that is about to be swapped in violates an invariant.

    `known` versions were checked already, when they were read or committed.
    """
    violations = []
    base = max(known, key=attrgetter("number"), default=None)
    old = set(map(id, known))
    for version in root.retained:
        if id(version) not in old:
            violations += [f"version {version.number}: {each}" for each in of_version(version, base)]
    if violations := violations or [*of_root(root, old)]:
        raise ManifestCorrupt(
            f"the next manifest of window {name!r} would be wrong, so it was not written: "
            f"{'; '.join(violations)}; this is a mistake of this library: restore the last checkpoint, and "
            "report it"
        )


def of_version(version: Version, base: Version | None = None) -> Iterator[str]:
    """The extents of a version, its views, its tails with their parts, and its documents fit each other.

    Parts that a sound `base` has too are not looked at again: a tail has many, and a checkpoint adds one.
    """
    yield from _positions(version)
    if version.kind is not NUMBERS:
        yield from _times(version)
    yield from _tails(version, base)
    for (epoch, first, last), (other, start, _) in pairwise(sorted(version.documents)):
        if epoch == other and start < last:
            yield f"its documents [{first}, {last}) of epoch {epoch} overlap others from {start} on"


def _positions(version: Version) -> Iterator[str]:
    """Extents follow each other, and only the last is open. Views are ranges of positions up to the tail."""
    ends = list(map(itemgetter(1), version.extents.ends))
    closed = ends[:-1]
    if not ends or ends[-1] is not None or None in closed or closed != sorted(closed):
        yield f"its extents {shown(version.extents.ends)} do not follow each other"
    tail, youngest = version.tail, version.youngest
    for head, end, oldest in version.views:
        if not 0 <= head <= end <= tail:
            yield f"a view of it is [{head}, {end}), and its tail is {tail}"
        elif (head < end) != (oldest is not None) or (
            oldest is not None and (youngest is None or youngest < oldest)
        ):
            yield f"it holds {end - head} elements, of times from {oldest} to {youngest}"


def _times(version: Version) -> Iterator[str]:
    """Instants and local times are whole microseconds in the years of a `datetime`."""
    for time in (version.youngest if version.tail else None, *map(attrgetter("oldest"), version.views)):
        if time is not None and (type(time) is not int or not FIRST <= time <= LAST):
            yield f"its times are {version.kind.value}, and one of them is {shown(time)}"


def _tails(version: Version, base: Version | None) -> Iterator[str]:
    """Each tier has a tail, which begins where its full pages end. Parts of a tail follow each other."""
    shift = version.extents.shift
    if len(version.tails) > MOST_TIERS or version.tail >> shift * len(version.tails):
        yield f"it has {len(version.tails)} tiers for {version.tail} elements"
        return
    for tier, tail in enumerate(version.tails):
        count = version.tail >> shift * tier
        start, stop = count >> shift << shift, tail.saved + tail.inline_count
        if (tail.start, stop) != (start, count):
            yield f"the tail of tier {tier} is [{tail.start}, {stop}) and should be [{start}, {count})"
        epoch, serial = 0, -1
        known = base.tails[tier].parts if base is not None and tier < len(base.tails) else ()
        if known and known[0].start == start and tail.parts[: len(known)] == known:
            start, epoch, serial = known[-1].stop, known[-1].epoch, known[-1].serial
        else:
            known = ()
        for part in tail.parts[len(known) :]:
            if (part.tier, part.start) != (tier, start) or part.stop <= part.start:
                yield f"a part of tier {tier} is [{part.start}, {part.stop}) of tier {part.tier}, not {start}"
            if part.epoch < epoch or not serial < part.serial < version.next_part:
                yield (
                    f"part {part.serial} of tier {tier} is of epoch {part.epoch}, and follows part {serial} "
                    f"of epoch {epoch}; the next part is {version.next_part}"
                )
            start, epoch, serial = part.stop, part.epoch, part.serial


def of_root(root: Root, old: Collection[int] = ()) -> Iterator[str]:
    """The versions of a root go on from each other, and name nothing that another writer may delete.

    Versions with an `id` in `old` were in a root that was checked already, with each other.
    """
    yield from _descent(root, old)
    yield from _epochs(root, old)
    if root.pins or root.pinned:
        yield from of_pins(root)


def _descent(root: Root, old: Collection[int]) -> Iterator[str]:
    """Each committed version goes on from the one before it: both know the pages of both by the same keys."""
    for older, newer in pairwise(root.versions):
        if id(newer) in old:
            continue
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


def of_pins(root: Root) -> Iterator[str]:
    """Each pin names one version that is retained, and pins alone keep versions that were given up."""
    if len(root.pins) > MOST_PINS:
        yield f"it has {len(root.pins)} pins, and {MOST_PINS} are the most"
    if len(set(map(itemgetter(0), root.pins))) < len(root.pins):
        yield "two of its pins have one id"
    current = {version.number for version in root.versions}
    given_up = [version.number for version in root.pinned]
    if missing := {pin.number for pin in root.pins}.difference(current, given_up):
        yield f"its pins name the versions {shown(sorted(missing))}, which are not retained"
    if given_up != sorted(set(given_up)) or current.intersection(given_up):
        yield f"the versions {shown(given_up)}, which readers have pinned, are there twice, or in no order"
    if unpinned := set(given_up).difference(pin.number for pin in root.pins):
        yield f"it keeps the versions {shown(sorted(unpinned))}, which no reader has pinned"
    if root.pins and root.attempts:
        yield "it has pins, and attempts that share it"


def _epochs(root: Root, old: Collection[int]) -> Iterator[str]:
    """Epochs ascend, and are those of the root's writers: a writer may delete pages of its own epochs.

    Of attempts that share the root, a version names epochs of its own attempt, and of the version that all go
    on from.
    """
    common = set().union(*map(_epochs_of, root.versions)) if root.attempts else set()
    for attempt in root.attempts:
        if attempt.epoch > root.epoch:
            yield f"attempt {attempt.id} is of epoch {attempt.epoch}, and the root of epoch {root.epoch}"
        for epoch in _epochs_of(attempt.version) - common if attempt.version else ():
            if not attempt.has(epoch):
                yield f"attempt {attempt.id} of epoch {attempt.epoch} names epoch {epoch} of another writer"
    for version in root.retained:
        if id(version) in old:
            continue
        if _last_epoch(version) >= root.epoch + EPOCHS:
            yield f"version {version.number} names epochs after {root.epoch}, the root's"
        for (epoch, end), (other, _) in pairwise(version.extents.ends):
            if other <= epoch or end is None or end > version.tail:
                yield (
                    f"version {version.number}: epoch {epoch} ended at {end}, before epoch {other}, and its "
                    f"tail is {version.tail}"
                )


def _last_epoch(version: Version) -> int:
    """The last epoch of those; parts of a tail are in the order of their epochs."""
    parts = (tail.parts[-1].epoch for tail in version.tails if tail.parts)
    return max([version.extents.open, *parts, *(epoch for epoch, _, _ in version.documents)])


def _epochs_of(version: Version) -> set[int]:
    """The epochs of the pages, parts and documents that a version names."""
    extents, parts, documents = version.extents.ends, version.parts(), version.documents
    return {*map(itemgetter(0), extents), *map(attrgetter("epoch"), parts), *map(itemgetter(0), documents)}
