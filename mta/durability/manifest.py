"""The manifest of a window: the content of its root in the store, which says which pages and parts count.

A root holds the writer's epoch and the last few versions that were committed. A version is all that is needed
beside the pages: the heads and ends of the views, the partial last page of each tier, the epochs under which
pages were written, and the caller's offset. A root is small and swapped atomically, and a page that a version
names never changes. So a reader of a root sees one state of the window and never a mixture.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from mta.paging.ranges import union, without
from mta.times.kinds import NUMBERS, TimeKind
from stores import PageKey
from stores.base import page_key, page_prefix

#: Parts of a tier's tail have keys with the tier and this bit.
PART = 0x80

#: Documents that are not pages have keys with this tier.
DOCUMENTS = 0x7F

#: The most parts that a tail has.
MOST_PARTS = 256

#: The most pins that a window has.
MOST_PINS = 64

#: Each claim takes this many epochs, which the writer then uses one after the other without a claim.
EPOCHS = 1 << 10


@dataclass(frozen=True)
class Part:
    """Entries `start` to `stop` of a tier's tail, written by one checkpoint.

    No other part gets its serial number, even if the write or the checkpoint failed: a write that failed may
    still arrive.
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
    #: the entries behind the parts, serialized by `codec.encode_run`
    inline: bytes = b""
    inline_count: int = 0

    @property
    def saved(self) -> int:
        """The number of the first entry behind the parts."""
        return self.parts[-1].stop if self.parts else self.start


@dataclass(frozen=True)
class Extents:
    """The epochs that pages were written in: (epoch, tail at its end), oldest first. The last one is open."""

    ends: tuple[tuple[int, int | None], ...]
    shift: int

    @property
    def open(self) -> int:
        """The epoch of pages that are written now."""
        return self.ends[-1][0]

    @cached_property
    def _closed(self) -> list[int]:
        """The tails at the ends of the closed epochs, in order."""
        return [end for _, end in self.ends if end is not None]

    def _extent_of(self, tier: int, number: int) -> int:
        return bisect_left(self._closed, (number + 1) << self.shift * (tier + 1))

    def epoch_of(self, tier: int, number: int) -> int:
        return self.ends[self._extent_of(tier, number)][0]

    def prefix(self, name: str, tier: int, number: int) -> str:
        """The prefix of the key of a page."""
        return page_prefix(name, self.epoch_of(tier, number), tier)

    def ranges(self, tier: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """The epochs of pages start to stop of a tier, each with its range."""
        while start < stop:
            epoch, end = self.ends[self._extent_of(tier, start)]
            last = stop if end is None else min(stop, end >> self.shift * (tier + 1))
            yield epoch, start, last
            start = last

    def prefixes(self, name: str, tier: int, pages: range) -> list[tuple[str, range]]:
        """The prefixes of the keys of some pages of a tier, each with its range of pages."""
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
        return replace(self, ends=self.ends[bisect_right(self._closed, head) :])


class SavedView(NamedTuple):
    """One view of a log: the positions of its head and its end, and the time of its oldest element."""

    head: int
    end: int
    #: None if the view is empty
    oldest: Any


@dataclass(frozen=True)
class Version:
    """One committed state of a log with its views."""

    number: int
    #: at least one
    views: tuple[SavedView, ...]
    tail: int
    #: the time of the last element that was appended
    youngest: Any
    offset: Any
    extents: Extents
    tails: tuple[SavedTail, ...]
    #: the least serial number of parts to come
    next_part: int = 0
    #: documents that belong to the version: ranges of their numbers, as epoch, first and last + 1
    documents: tuple[tuple[int, int, int], ...] = ()
    #: the kind of the times, which instants and local times say in whole microseconds since 1970
    kind: TimeKind = NUMBERS

    @staticmethod
    def of_documents(
        number: int, offset: bytes, extents: Extents, documents: tuple[tuple[int, int, int], ...]
    ) -> Version:
        """A version without elements."""
        return Version(number, (SavedView(0, 0, None),), 0, None, offset, extents, (), 0, documents)

    @cached_property
    def oldest_view(self) -> SavedView:
        """The view with the oldest head."""
        return min(self.views, key=attrgetter("head"))

    @property
    def head(self) -> int:
        """The oldest head of all views: the first position whose element is needed."""
        return self.oldest_view.head

    @property
    def oldest(self) -> Any:
        """The time of the oldest element of the view with the oldest head."""
        return self.oldest_view.oldest

    def pages(self) -> Iterator[tuple[int, int, int]]:
        """Tier, first and last + 1 of the pages that this version names."""
        shift = self.extents.shift
        for tier in range(len(self.tails)):
            start, stop = self.head >> shift * (tier + 1), self.tail >> shift * (tier + 1)
            if start < stop and self.head < self.tail:
                yield tier, start, stop

    def parts(self) -> Iterator[Part]:
        """The parts of its tails."""
        return chain.from_iterable(map(attrgetter("parts"), self.tails))

    def keys(self, name: str) -> Iterator[str]:
        """The keys of all pages, parts and documents that this version names."""
        yield from Named.by([self]).keys(name)


@dataclass(frozen=True)
class Named:
    """The pages, parts of tails, and documents that some versions name, by the numbers in their keys.

    Every other module asks this class what a version names: checkpoints, deletion, and operations.
    """

    #: by epoch and tier; ranges are in order, with gaps between them
    ranges: Mapping[tuple[int, int], list[range]]

    @staticmethod
    def by(versions: Iterable[Version], tiers: Collection[int] | None = None) -> Named:
        """The names in versions, of all tiers or of some. The tier of a part is its tail's with `PART`."""
        found: dict[tuple[int, int], list[range]] = {}
        for version in versions:
            for epoch, tier, numbers in _named(version, tiers):
                if numbers:
                    found.setdefault((epoch, tier), []).append(numbers)
        return Named({key: union(ranges) for key, ranges in found.items()})

    def __contains__(self, key: PageKey) -> bool:
        return any(key.number in numbers for numbers in self.ranges.get((key.epoch, key.tier), ()))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def less(self, other: Named) -> Named:
        """The names in this that are not in the other."""
        left = {key: without(each, other.ranges.get(key, ())) for key, each in self.ranges.items()}
        return Named({key: ranges for key, ranges in left.items() if ranges})

    def prefixes(self, name: str) -> Iterator[tuple[str, int, range]]:
        """The prefixes of the keys of a window, each with its tier and its numbers."""
        for (epoch, tier), ranges in self.ranges.items():
            prefix = page_prefix(name, epoch, tier)
            for numbers in ranges:
                yield prefix, tier, numbers

    def keys(self, name: str) -> Iterator[str]:
        return (page_key(prefix, number) for prefix, _, numbers in self.prefixes(name) for number in numbers)


def _named(version: Version, tiers: Collection[int] | None) -> Iterator[tuple[int, int, range]]:
    """Epoch, tier and numbers of the names in a version, of all tiers or of some."""
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
    """One of several writers that may run at once. Another party decides which one of them counts.

    The tasks of a streaming query are such: Spark's state says which attempt won a micro-batch.
    """

    id: str
    epoch: int
    #: the micro-batch, and the run of the query
    batch: int
    run: str
    owner: tuple[str, int, int]
    #: until when its pages are left alone while it has published nothing
    lease: float
    #: the version that it has published; None while it is at work
    version: Version | None = None

    def has(self, epoch: int) -> bool:
        """Whether an epoch is one of those that this attempt took."""
        return self.epoch <= epoch < self.epoch + EPOCHS


class Pin(NamedTuple):
    """A reader's claim on a version, whose pages stay until some moment of the store's clock."""

    id: str
    #: of the version
    number: int
    until: float


@dataclass(frozen=True)
class Root:
    """The content of a window's root in the store."""

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
    #: writers that share the window; each goes on from the last of `versions`
    attempts: tuple[Attempt, ...] = field(default=())
    #: the claims of readers, and the versions of theirs that the writer has given up
    pins: tuple[Pin, ...] = field(default=())
    pinned: tuple[Version, ...] = field(default=())

    @property
    def current(self) -> tuple[Version, ...]:
        """The versions that were committed, and those that attempts have published: a writer may go on."""
        return (*self.versions, *filter(None, map(attrgetter("version"), self.attempts)))

    @property
    def retained(self) -> tuple[Version, ...]:
        """The versions whose pages stay: the current ones, and those that only readers still have."""
        return (*self.pinned, *self.current) if self.pinned or self.attempts else self.versions

    def has(self, epoch: int) -> bool:
        """Whether an epoch is one of those that the last claim of the root took."""
        return self.epoch <= epoch < self.epoch + EPOCHS

    def version(self, number: int | None) -> Version | None:
        """A version that a writer may go on from, the last one by default."""
        current = self.current if self.attempts else self.versions
        if number is None:
            return current[-1] if current else None
        return next((version for version in current if version.number == number), None)

    def readable(self, number: int | None) -> Version | None:
        """A retained version; the last one that was committed by default."""
        if number is None:
            return self.version(None)
        return next((version for version in self.retained if version.number == number), None)

    def pinned_as(self, before: Root, now: float) -> Root:
        """This root in the place of another, with the pins of that one that have not expired."""
        pins = tuple(pin for pin in before.pins if pin.until > now)
        given_up = {pin.number for pin in pins} - {version.number for version in self.versions}
        there = sorted((*before.pinned, *before.versions), key=attrgetter("number"))
        pinned = tuple(version for version in there if version.number in given_up)
        if (pins, pinned) == (self.pins, self.pinned):
            return self
        return replace(self, pins=pins, pinned=pinned)

    def without_pins(self) -> Root:
        """The part of the root that its writer decides."""
        return replace(self, pins=(), pinned=())

    def first_needed(self) -> int | None:
        """The first position that a retained version needs; None if there is no version."""
        return min(map(attrgetter("head"), self.retained), default=None)

    def next_part(self) -> int:
        """The least serial number of parts that are in no retained version, and in versions to come."""
        return max(map(attrgetter("next_part"), self.retained), default=0)


def next_epoch(epoch: int, now: float) -> int:
    """An epoch that no writer ever had, even of a window that was removed and whose writer may still run.

    The `EPOCHS` from it on are its owner's. Goes by the clock that all writers share.
    """
    return max(epoch + EPOCHS, int(now * 1_000_000))
