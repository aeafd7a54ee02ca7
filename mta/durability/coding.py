"""Roots and versions as bytes, and back. Bytes are checked: a store may return anything."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import msgpack

from mta.core.page import LARGEST_PAGE
from mta.durability import invariants
from mta.durability.manifest import (
    MOST_PARTS,
    MOST_PINS,
    Attempt,
    Extents,
    Part,
    Pin,
    Root,
    SavedTail,
    SavedView,
    Version,
)
from mta.encoding import packing
from mta.encoding.envelope import seal, unseal
from mta.encoding.untrusted import Malformed, fields, moment, raw, real, shown, surely, text, whole
from mta.errors import ManifestCorrupt
from mta.times.kinds import INSTANTS, LOCAL, NUMBERS, TimeKind

FORMAT = 3
MAGIC = b"MTAR"

#: The most views of a window, and the most documents of one range.
MOST_VIEWS, MOST_DOCUMENTS = 1 << 10, 1 << 20

#: The largest position and epoch in a manifest. There is room for more in 64 bits.
LAST_POSITION = LAST_EPOCH = 1 << 62

#: How a version says the kind of its times. One without this field has numbers.
_KINDS = {INSTANTS: "instants", LOCAL: "local"}

#: Name and bounds of an epoch, for `whole`.
EPOCH = ("an epoch", 0, LAST_EPOCH)


def pack_version(version: Version) -> list[Any]:
    """A version as a list.

    Several views, or one that ends before the tail, take a field more, and times that are no numbers another.
    """
    head, _, oldest = version.oldest_view
    packed = [
        version.number, head, version.tail, oldest, version.youngest, version.offset,
        list(map(list, version.extents.ends)), list(map(_pack_tail, version.tails)),
        version.next_part, list(map(list, version.documents)),
    ]  # fmt: skip
    several = version.views != ((head, version.tail, oldest),)
    if several or version.kind is not NUMBERS:
        packed.append(list(map(list, version.views)) if several else None)
    if version.kind is not NUMBERS:
        packed.append(_KINDS[version.kind])
    return packed


def _pack_tail(tail: SavedTail) -> list[Any]:
    """Parts follow each other without a gap: an epoch, and for each of its parts serial number and length."""
    packed: list[list[int]] = []
    for part in tail.parts:
        if not packed or packed[-1][0] != part.epoch:
            packed.append([part.epoch])
        packed[-1] += part.serial, part.stop - part.start
    return [tail.start, packed, tail.inline, tail.inline_count]


def _pack_attempt(attempt: Attempt) -> list[Any]:
    return [
        attempt.id, attempt.epoch, attempt.batch, attempt.run, list(attempt.owner), attempt.lease,
        None if attempt.version is None else pack_version(attempt.version),
    ]  # fmt: skip


def encode_root(name: str, root: Root) -> bytes:
    """A root as bytes. Pins take a field more."""
    content = [
        FORMAT, name, root.epoch, root.page_size, root.monoid, root.policy, list(root.owner), root.lease,
        root.next_version, list(map(pack_version, root.versions)), list(map(_pack_attempt, root.attempts)),
    ]  # fmt: skip
    if root.pins or root.pinned:
        content.append([list(map(list, root.pins)), list(map(pack_version, root.pinned))])
    return seal(msgpack.packb(content), magic=MAGIC)


def decode_root(name: str, data: bytes) -> Root:
    """The reverse of `encode_root`. Raises ManifestCorrupt if the data is not the root of this window."""
    what = f"the manifest of window {name!r} is damaged"
    try:
        payload = unseal(data, MAGIC)
    except Malformed as error:
        raise ManifestCorrupt(
            f"{what} ({len(data)} bytes, wrong checksum); restore it from a copy of the store"
        ) from error
    try:
        return surely(partial(_root, name, payload))
    except Malformed as error:
        raise ManifestCorrupt(f"{what}, though its checksum is right: {error}") from error


def _root(name: str, payload: memoryview) -> Root:
    content = fields(packing.unpack(payload), "it")
    if content[:1] != [FORMAT]:
        raise ManifestCorrupt(
            f"the manifest of window {name!r} has format {shown(content[:1])}, this is {FORMAT}: it was "
            "written by another version of this library"
        )
    claimed = len(content) == 12
    _, found, epoch, page_size, monoid, policy, owner, lease, next_version, versions, attempts = fields(
        content[:11] if claimed else content, "it", 11
    )
    if found != name:
        raise ManifestCorrupt(
            f"the manifest of window {name!r} is that of {shown(found)}; the store mixed them up"
        )
    if whole(page_size, "the page size", 2, LARGEST_PAGE).bit_count() != 1:
        raise Malformed(f"the page size is {page_size}, which is no power of two")
    shift = page_size.bit_length() - 1
    pins, pinned = fields(content[11], "the pins", 2) if claimed else ([], [])
    if claimed and not 0 < len(fields(pins, "the list of pins")) <= MOST_PINS:
        raise Malformed(f"it has {len(pins)} pins, not 1 to {MOST_PINS}")
    root = Root(
        whole(epoch, *EPOCH), page_size,
        text(monoid, "the monoid"), text(policy, "the policy"), _owner(owner),
        None if lease is None else real(lease, "the lease"), whole(next_version, "the next version's number"),
        tuple(map(partial(_version, shift), fields(versions, "the list of versions"))),
        tuple(map(partial(_attempt, shift), fields(attempts, "the list of attempts"))),
        tuple(map(_pin, pins)),
        tuple(map(partial(_version, shift), fields(pinned, "the list of pinned versions"))),
    )  # fmt: skip
    if claimed:
        for violation in invariants.of_pins(root):
            raise Malformed(violation)
    return root


def _pin(packed: Any) -> Pin:
    ident, number, until = fields(packed, "a pin", 3)
    return Pin(text(ident, "a pin"), whole(number, "the number of a version"), real(until, "a pin's end"))


def _attempt(shift: int, packed: Any) -> Attempt:
    ident, epoch, batch, run, owner, lease, version = fields(packed, "an attempt", 7)
    return Attempt(
        text(ident, "an attempt"), whole(epoch, *EPOCH), whole(batch, "a batch", -1), text(run, "a run"),
        _owner(owner), real(lease, "a lease"), None if version is None else _version(shift, version),
    )  # fmt: skip


def _owner(packed: Any) -> tuple[str, int, int]:
    host, process, start = fields(packed, "the owner", 3)
    return text(host, "a host"), whole(process, "a process id"), whole(start, "the start of a process")


def unpack_version(shift: int, packed: Any) -> Version:
    """The reverse of `pack_version`. Raises ManifestCorrupt if no window can have such a version."""
    try:
        return surely(partial(_version, shift, packed))
    except Malformed as error:
        raise ManifestCorrupt(f"a version of a window is damaged: {error}") from error


def _version(shift: int, packed: Any) -> Version:
    number, head, tail, oldest, youngest, offset, ends, tails, next_part, documents, *more = fields(
        packed, "a version", max(10, min(len(fields(packed, "a version")), 12))
    )
    kind = _kind(more[1]) if len(more) > 1 else NUMBERS
    several = bool(more) and (more[0] is not None or len(more) == 1)
    whole(tail, "the tail", 0, LAST_POSITION)
    packing.unpack(raw(offset, "the offset"))
    only = SavedView(whole(head, "the head", 0, tail), tail, _time(oldest))
    views: tuple[SavedView, ...] = (only,)
    if several:
        some = fields(more[0], "the views")
        if not 0 < len(some) <= MOST_VIEWS:
            raise Malformed(f"it has {len(some)} views, not 1 to {MOST_VIEWS}")
        views = tuple(map(_view, some))
        if views == (only,):
            raise Malformed(f"its {len(some)} views need no field of their own")
    version = Version(
        whole(number, "the number of a version"), views, tail, _time(youngest), offset,
        Extents(tuple(map(_extent, fields(ends, "the extents"))), shift),
        tuple(map(_saved_tail, count(), fields(tails, "the tails"))),
        whole(next_part, "the next part"),
        tuple(map(_documents, fields(documents, "the documents"))), kind,
    )  # fmt: skip
    for violation in invariants.of_version(version):
        raise Malformed(violation)
    if several and (version.head, version.oldest) != (head, oldest):
        raise Malformed(f"its head is {head}, of time {oldest}, and its views are {shown(list(views))}")
    return version


def _kind(packed: Any) -> TimeKind:
    """The kind of the times of a version that are no numbers."""
    found = [kind for kind, name in _KINDS.items() if name == text(packed, "the kind of times")]
    if not found:
        raise Malformed(f"the kind of times is {shown(packed)}, not one of {[*_KINDS.values()]}")
    return found[0]


def _view(packed: Any) -> SavedView:
    head, end, oldest = fields(packed, "a view", 3)
    return SavedView(whole(head, "the head of a view"), whole(end, "the end of a view"), _time(oldest))


def _time(value: Any) -> int | float | None:
    return None if value is None else moment(value)


def _extent(packed: Any) -> tuple[int, int | None]:
    epoch, end = fields(packed, "an extent", 2)
    return whole(epoch, *EPOCH), None if end is None else whole(end, "the end of an extent")


def _saved_tail(tier: int, packed: Any) -> SavedTail:
    start, parts, inline, entries = fields(packed, "a tail", 4)
    whole(start, "the start of a tail")
    whole(entries, "the number of entries of a tail", 0, LARGEST_PAGE)
    if bool(raw(inline, "the entries of a tail")) != bool(entries):
        raise Malformed(f"a tail has {entries} entries in {len(inline)} bytes")
    return SavedTail(start, tuple(_unpack_parts(tier, start, fields(parts, "the parts"))), inline, entries)


def _documents(packed: Any) -> tuple[int, int, int]:
    epoch, first, last = fields(packed, "a range of documents", 3)
    whole(last, "the end of documents", whole(first, "the start of documents"), first + MOST_DOCUMENTS)
    return whole(epoch, *EPOCH), first, last


def _unpack_parts(tier: int, start: int, packed: list[Any]) -> Iterator[Part]:
    left = MOST_PARTS
    for each in packed:
        epoch, *numbers = fields(each, "the parts of an epoch") or [None]
        left -= len(numbers) // 2
        if left < 0:
            raise Malformed(f"a tail has more than {MOST_PARTS} parts")
        for at in range(0, len(numbers), 2):
            serial, length = fields(numbers[at : at + 2], "a part", 2)
            whole(length, "the length of a part", 1, LARGEST_PAGE)
            yield Part(
                tier, whole(epoch, *EPOCH), whole(serial, "the number of a part"), start, start + length
            )
            start += length
