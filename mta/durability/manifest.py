"""The manifest of a window: what its store's root says, and what of the store that makes count.

A root holds the writer's epoch and the last few versions that were committed. A version is all that is
needed beside the pages: head and tail, the partial last page of each tier, under which epochs the pages were
written, and the caller's offset. It is small and swapped atomically, and a page that a version names never
changes, so whoever reads a root sees one state of the window and never a mixture.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mta.paging.ranges import union, without
from stores import PageKey
from stores.base import page_key, page_prefix

#: Parts of a tier's tail are kept under the tier with this bit set.
PART = 0x80

#: Documents that are no pages are kept under this tier.
DOCUMENTS = 0x7F

#: A tail has at most so many parts.
MOST_PARTS = 256

#: Each claim takes so many epochs: the writer's own, to use one after the other without asking.
EPOCHS = 1 << 10


@dataclass(frozen=True)
class Part:
    """Entries `start` to `stop` of a tier's tail, written by one checkpoint.

    Its serial number is never given again, not even if the write or the checkpoint failed: a write that
    failed may still arrive.
    """

    tier: int
    epoch: int
    serial: int
    start: int
    stop: int

    def key(self, name: str) -> str:
        return page_key(page_prefix(name, self.epoch, PART | self.tier), self.serial)


@dataclass(frozen=True)
class SavedTail:
    """The partial last page of a tier: parts in the store, and the youngest entries in the manifest."""

    start: int
    parts: tuple[Part, ...] = ()
    #: entries behind the parts, as `codec.encode_run` wrote them
    inline: bytes = b""
    inline_count: int = 0

    @property
    def saved(self) -> int:
        """The entry behind the parts."""
        return self.parts[-1].stop if self.parts else self.start


@dataclass(frozen=True)
class Extents:
    """Which epoch wrote a page: (epoch, tail at the end of the epoch), oldest first; the last one is open."""

    ends: tuple[tuple[int, int | None], ...]
    shift: int

    @property
    def open(self) -> int:
        """The epoch that writes now."""
        return self.ends[-1][0]

    @cached_property
    def _closed(self) -> list[int]:
        """Where the epochs that are over end, in order."""
        return [end for _, end in self.ends if end is not None]

    def _extent_of(self, tier: int, number: int) -> int:
        return bisect_left(self._closed, (number + 1) << self.shift * (tier + 1))

    def epoch_of(self, tier: int, number: int) -> int:
        return self.ends[self._extent_of(tier, number)][0]

    def ranges(self, tier: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """The epochs of pages start to stop of a tier, each with its range."""
        while start < stop:
            epoch, end = self.ends[self._extent_of(tier, start)]
            last = stop if end is None else min(stop, end >> self.shift * (tier + 1))
            yield epoch, start, last
            start = last

    def prefixes(self, name: str, tier: int, pages: range) -> list[tuple[str, range]]:
        """The prefixes that the keys of pages of a tier have, with the range of each."""
        return [
            (page_prefix(name, epoch, tier), range(first, last))
            for epoch, first, last in self.ranges(tier, pages.start, pages.stop)
        ]

    def taken_over(self, tail: int, epoch: int) -> Extents:
        """The extents of a writer that goes on from `tail` under a new epoch."""
        closed: list[tuple[int, int]] = []
        for old, open_end in self.ends:
            end = tail if open_end is None else open_end
            if not closed or closed[-1][1] >> self.shift < end >> self.shift:  # else it filled no page
                closed.append((old, end))
        return replace(self, ends=(*closed, (epoch, None)))

    def behind(self, head: int) -> Extents:
        """Without the epochs whose pages all lie before `head`."""
        return replace(self, ends=tuple(pair for pair in self.ends if pair[1] is None or pair[1] > head))


@dataclass(frozen=True)
class Version:
    """One committed state of a window."""

    number: int
    head: int
    tail: int
    oldest: Any
    youngest: Any
    offset: Any
    extents: Extents
    tails: tuple[SavedTail, ...]
    #: parts that come get this serial number at least
    next_part: int = 0
    #: what else belongs to it: epoch, first and last + 1 of documents that follow each other
    documents: tuple[tuple[int, int, int], ...] = ()

    def pages(self) -> Iterator[tuple[int, int, int]]:
        """Tier, first and last + 1 of the pages that this version names."""
        shift = self.extents.shift
        for tier in range(len(self.tails)):
            start, stop = self.head >> shift * (tier + 1), self.tail >> shift * (tier + 1)
            if start < stop and self.head < self.tail:
                yield tier, start, stop

    def parts(self) -> Iterator[Part]:
        """The parts of its tails."""
        return (part for tail in self.tails for part in tail.parts)

    def keys(self, name: str) -> Iterator[str]:
        """The keys of all that this version names."""
        return Named.by([self]).keys(name)

    def page_keys(self, name: str, tier: int, numbers: range) -> list[str]:
        """The keys of pages of a tier, whether it names them or not."""
        return [
            page_key(page_prefix(name, self.extents.epoch_of(tier, each), tier), each) for each in numbers
        ]


@dataclass(frozen=True)
class Named:
    """What some versions name: pages, parts of tails, and documents, by the numbers in their keys.

    This alone says what a version names. Committing, deleting, clearing away, looking and verifying ask it.
    """

    #: by epoch and tier; ranges are in order and do not meet
    ranges: Mapping[tuple[int, int], list[range]]

    @staticmethod
    def by(versions: Iterable[Version], tiers: Collection[int] | None = None) -> Named:
        """What versions name, of all tiers or of some: pages have theirs, parts have `PART` with them."""
        found: dict[tuple[int, int], list[range]] = {}
        for version in versions:
            for epoch, tier, numbers in _named(version, tiers):
                if numbers:
                    found.setdefault((epoch, tier), []).append(numbers)
        return Named({place: union(ranges) for place, ranges in found.items()})

    def __contains__(self, key: PageKey) -> bool:
        return any(key.number in numbers for numbers in self.ranges.get((key.epoch, key.tier), ()))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def less(self, other: Named) -> Named:
        """What this names and the other does not."""
        left = {place: without(each, other.ranges.get(place, ())) for place, each in self.ranges.items()}
        return Named({place: ranges for place, ranges in left.items() if ranges})

    def prefixes(self, name: str) -> Iterator[tuple[str, int, range]]:
        """The prefixes that keys of a window have, each with its tier and its numbers."""
        for (epoch, tier), ranges in self.ranges.items():
            prefix = page_prefix(name, epoch, tier)
            yield from ((prefix, tier, numbers) for numbers in ranges)

    def keys(self, name: str) -> Iterator[str]:
        return (page_key(prefix, number) for prefix, _, numbers in self.prefixes(name) for number in numbers)


def _named(version: Version, tiers: Collection[int] | None) -> Iterator[tuple[int, int, range]]:
    """Epoch, tier and numbers of all that a version names, of all tiers or of some."""
    for tier, start, stop in version.pages():
        if tiers is None or tier in tiers:
            for epoch, first, last in version.extents.ranges(tier, start, stop):
                yield epoch, tier, range(first, last)
    for part in version.parts():
        if tiers is None or PART | part.tier in tiers:
            yield part.epoch, PART | part.tier, range(part.serial, part.serial + 1)
    for epoch, first, last in version.documents:
        if tiers is None or DOCUMENTS in tiers:
            yield epoch, DOCUMENTS, range(first, last)


@dataclass(frozen=True)
class Attempt:
    """One of several writers that may run at once, of whom somebody else decides which one counts.

    So it is with the tasks of a streaming query: Spark's state says which attempt won a micro-batch.
    """

    id: str
    epoch: int
    #: the micro-batch, and the run of the query
    batch: int
    run: str
    owner: tuple[str, int, int]
    #: until when its pages are left alone while it has published nothing
    lease: float
    #: what it came to; None while it is at work
    version: Version | None = None

    def has(self, epoch: int) -> bool:
        """Whether an epoch is one of those that this attempt took."""
        return self.epoch <= epoch < self.epoch + EPOCHS


@dataclass(frozen=True)
class Root:
    """What the store's root of a window says."""

    epoch: int
    page_size: int
    monoid: str = ""
    policy: str = ""
    #: the process that holds the epoch: host, process id, and when it started
    owner: tuple[str, int, int] = ("", 0, 0)
    #: until when nobody else may clear away what the owner has not committed; None for as long as it lives
    lease: float | None = None
    next_version: int = 1
    versions: tuple[Version, ...] = field(default=())
    #: writers that share the window, each of which goes on from the last of `versions`
    attempts: tuple[Attempt, ...] = field(default=())

    @property
    def retained(self) -> tuple[Version, ...]:
        """The versions that were committed, and those that attempts have come to."""
        published = (each.version for each in self.attempts if each.version is not None)
        return (*self.versions, *published)

    def has(self, epoch: int) -> bool:
        """Whether an epoch is the root's: one of those that its last claim took."""
        return self.epoch <= epoch < self.epoch + EPOCHS

    def version(self, number: int | None) -> Version | None:
        """A retained version, the last one by default."""
        if number is None:
            return self.retained[-1] if self.retained else None
        return next((version for version in self.retained if version.number == number), None)

    def first_needed(self) -> int | None:
        """The first leaf that a retained version needs; None if there is no version."""
        return min((version.head for version in self.retained), default=None)

    def next_part(self) -> int:
        """Versions to come name parts of this serial number at least, or such as a retained one names."""
        return max((version.next_part for version in self.retained), default=0)


def next_epoch(epoch: int, now: float) -> int:
    """An epoch that was never before, not even of a window that was removed: a zombie may still have it.

    The few that follow are its owner's too. Goes by the clock that all writers share.
    """
    return max(epoch + EPOCHS, int(now * 1_000_000))
