"""The manifest of a window: what its store's root says, and which pages that makes count.

A root holds the writer's epoch and the last few versions that were committed. A version is all that is
needed beside the pages: head and tail, the partial last page of each tier, under which epochs the pages were
written, and the caller's offset. It is small and swapped atomically, and a page that a version names never
changes, so whoever reads a root sees one state of the window and never a mixture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack
import xxhash

from mta import packing
from mta.errors import ManifestCorrupt
from mta.pages import LARGEST_PAGE
from mta.untrusted import LARGEST, Malformed, fields, raw, real, shown, text, whole
from stores.base import page_key, page_prefix

FORMAT = 3
MAGIC = b"MTAR"

#: Parts of a tier's tail are kept under the tier with this bit set.
PART = 0x80

#: Documents that are no pages are kept under this tier.
DOCUMENTS = 0x7F

#: A tail has at most so many parts, a window so many tiers, and documents that follow each other are so many.
MOST_PARTS, MOST_TIERS, MOST_DOCUMENTS = 256, 64, 1 << 20

#: What a manifest may say: below, so that there is room for more.
LAST_EPOCH = LAST_LEAF = 1 << 62

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

    def epoch_of(self, tier: int, number: int) -> int:
        complete = (number + 1) << self.shift * (tier + 1)
        for epoch, end in self.ends:
            if end is None or complete <= end:
                return epoch
        raise AssertionError("the last extent is open")

    def ranges(self, tier: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """The epochs of pages start to stop of a tier, each with its range."""
        for epoch, end in self.ends:
            last = stop if end is None else min(stop, end >> self.shift * (tier + 1))
            if start < last:
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

    def keys(self, name: str) -> Iterator[str]:
        """The keys of all that this version names."""
        for tier, start, stop in self.pages():
            for epoch, first, last in self.extents.ranges(tier, start, stop):
                prefix = page_prefix(name, epoch, tier)
                yield from (page_key(prefix, number) for number in range(first, last))
        for tail in self.tails:
            yield from (part.key(name) for part in tail.parts)
        for epoch, first, last in self.documents:
            prefix = page_prefix(name, epoch, DOCUMENTS)
            yield from (page_key(prefix, number) for number in range(first, last))


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


def pack_version(version: Version) -> list[Any]:
    return [
        version.number, version.head, version.tail, version.oldest, version.youngest, version.offset,
        [list(pair) for pair in version.extents.ends],
        [[tail.start, _pack_parts(tail.parts), tail.inline, tail.inline_count] for tail in version.tails],
        version.next_part, [list(documents) for documents in version.documents],
    ]  # fmt: skip


def encode_root(name: str, root: Root) -> bytes:
    attempts = [
        [
            each.id, each.epoch, each.batch, each.run, list(each.owner), each.lease,
            None if each.version is None else pack_version(each.version),
        ]
        for each in root.attempts
    ]  # fmt: skip
    content = [
        FORMAT, name, root.epoch, root.page_size, root.monoid, root.policy, list(root.owner), root.lease,
        root.next_version, list(map(pack_version, root.versions)), attempts,
    ]  # fmt: skip
    body = MAGIC + bytes(msgpack.packb(content))
    return body + xxhash.xxh3_64_digest(body)


def decode_root(name: str, data: bytes) -> Root:
    """The reverse of `encode_root`; ManifestCorrupt where the data is not what was written."""
    what = f"the manifest of window {name!r} is damaged"
    if len(data) < 12 or data[:4] != MAGIC or xxhash.xxh3_64_digest(memoryview(data)[:-8]) != data[-8:]:
        raise ManifestCorrupt(
            f"{what} ({len(data)} bytes, wrong checksum); restore it from a copy of the store"
        )
    try:
        return _root(name, fields(packing.unpack(memoryview(data)[4:-8]), "it"))
    except Malformed as error:
        raise ManifestCorrupt(f"{what}, though its checksum is right: {error}") from error


def _root(name: str, content: list[Any]) -> Root:
    if content[:1] != [FORMAT]:
        raise ManifestCorrupt(
            f"the manifest of window {name!r} has format {shown(content[:1])}, this is {FORMAT}: it was "
            "written by another version of this library"
        )
    _, found, epoch, page_size, monoid, policy, owner, lease, next_version, versions, attempts = fields(
        content, "it", 11
    )
    if found != name:
        raise ManifestCorrupt(
            f"the manifest of window {name!r} is that of {shown(found)}; the store mixed them up"
        )
    if whole(page_size, "the page size", 2, LARGEST_PAGE).bit_count() != 1:
        raise Malformed(f"the page size is {page_size}, which is no power of two")
    shift = page_size.bit_length() - 1
    return Root(
        _epoch(epoch), page_size, text(monoid, "the monoid"), text(policy, "the policy"), _owner(owner),
        None if lease is None else real(lease, "the lease"), whole(next_version, "the next version's number"),
        tuple(_version(shift, version) for version in fields(versions, "the list of versions")),
        tuple(_attempt(shift, attempt) for attempt in fields(attempts, "the list of attempts")),
    )  # fmt: skip


def _attempt(shift: int, packed: Any) -> Attempt:
    ident, epoch, batch, run, owner, lease, version = fields(packed, "an attempt", 7)
    return Attempt(
        text(ident, "an attempt"), _epoch(epoch), whole(batch, "a batch", -1), text(run, "a run"),
        _owner(owner), real(lease, "a lease"), None if version is None else _version(shift, version),
    )  # fmt: skip


def _owner(packed: Any) -> tuple[str, int, int]:
    host, process, start = fields(packed, "the owner", 3)
    return text(host, "a host"), whole(process, "a process id"), whole(start, "the start of a process")


def _epoch(value: Any) -> int:
    return whole(value, "an epoch", 0, LAST_EPOCH)


def unpack_version(shift: int, packed: Any) -> Version:
    """The reverse of `pack_version`; ManifestCorrupt where no window can be like that."""
    try:
        return _version(shift, packed)
    except Malformed as error:
        raise ManifestCorrupt(f"a version of a window is damaged: {error}") from error


def _version(shift: int, packed: Any) -> Version:
    number, head, tail, oldest, youngest, offset, ends, tails, next_part, documents = fields(
        packed, "a version", 10
    )
    whole(tail, "the tail", 0, LAST_LEAF)
    packing.unpack(raw(offset, "the offset"))
    version = Version(
        whole(number, "the number of a version"), whole(head, "the head", 0, tail), tail,
        _time(oldest), _time(youngest), offset,
        Extents(tuple(_extent(each) for each in fields(ends, "the extents")), shift),
        tuple(_saved_tail(tier, each) for tier, each in enumerate(fields(tails, "the tails"))),
        whole(next_part, "the next part"),
        tuple(_documents(each) for each in fields(documents, "the documents")),
    )  # fmt: skip
    _check_shape(version)
    return version


def _check_shape(version: Version) -> None:
    """Refuses what no window is like, though each number for itself may be right."""
    shift, ends = version.extents.shift, [end for _, end in version.extents.ends]
    closed = [end for end in ends[:-1] if end is not None]
    if not ends or ends[-1] is not None or len(closed) != len(ends) - 1 or closed != sorted(closed):
        raise Malformed(f"its extents {shown(version.extents.ends)} do not follow each other")
    if (version.head < version.tail) != (version.oldest is not None) or (
        version.oldest is not None and (version.youngest is None or version.youngest < version.oldest)
    ):
        raise Malformed(
            f"it holds {version.tail - version.head} elements, of times from {version.oldest} to "
            f"{version.youngest}"
        )
    if len(version.tails) > MOST_TIERS or version.tail >> shift * len(version.tails):
        raise Malformed(f"it has {len(version.tails)} tiers for {version.tail} elements")
    for tier, tail in enumerate(version.tails):
        count = version.tail >> shift * tier
        start, stop = count >> shift << shift, tail.saved + tail.inline_count
        if (tail.start, stop) != (start, count):
            raise Malformed(
                f"the tail of tier {tier} is [{tail.start}, {stop}) and should be [{start}, {count})"
            )


def _time(value: Any) -> int | float | None:
    if value is not None and not -LARGEST <= real(value, "a time") <= LARGEST:
        raise Malformed(f"a time is {shown(value)}")
    return value  # type: ignore[no-any-return]


def _extent(packed: Any) -> tuple[int, int | None]:
    epoch, end = fields(packed, "an extent", 2)
    return _epoch(epoch), None if end is None else whole(end, "the end of an extent")


def _saved_tail(tier: int, packed: Any) -> SavedTail:
    start, parts, inline, count = fields(packed, "a tail", 4)
    whole(start, "the start of a tail")
    whole(count, "the number of entries of a tail", 0, LARGEST_PAGE)
    if bool(raw(inline, "the entries of a tail")) != bool(count):
        raise Malformed(f"a tail has {count} entries in {len(inline)} bytes")
    return SavedTail(start, tuple(_unpack_parts(tier, start, fields(parts, "the parts"))), inline, count)


def _documents(packed: Any) -> tuple[int, int, int]:
    epoch, first, last = fields(packed, "a range of documents", 3)
    whole(last, "the end of documents", whole(first, "the start of documents"), first + MOST_DOCUMENTS)
    return _epoch(epoch), first, last


def _pack_parts(parts: Iterable[Part]) -> list[list[int]]:
    """Parts follow each other without a gap: an epoch, and for each of its parts serial number and length."""
    packed: list[list[int]] = []
    for part in parts:
        if not packed or packed[-1][0] != part.epoch:
            packed.append([part.epoch])
        packed[-1] += part.serial, part.stop - part.start
    return packed


def _unpack_parts(tier: int, start: int, packed: list[Any]) -> Iterator[Part]:
    if sum(len(fields(each, "the parts of an epoch")) // 2 for each in packed) > MOST_PARTS:
        raise Malformed(f"a tail has more than {MOST_PARTS} parts")
    for each in packed:
        epoch, *numbers = each or [None]
        for place in range(0, len(numbers), 2):
            serial, length = fields(numbers[place : place + 2], "a part", 2)
            whole(length, "the length of a part", 1, LARGEST_PAGE)
            yield Part(tier, _epoch(epoch), whole(serial, "the number of a part"), start, start + length)
            start += length
