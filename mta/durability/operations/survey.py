"""The windows of a store: one line about each, or all about one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mta.core.log import BEFORE_ALL
from mta.durability.coding import decode_root
from mta.durability.manifest import PART, Named, Version
from mta.durability.operations.roots import read_roots, window_names
from mta.durability.owners import same_host, surely_dead
from mta.encoding import packing
from mta.errors import ManifestCorrupt, WindowNotFound
from mta.times.kinds import as_people_have_it
from stores import PageKey, Store, pages_of, parse_page_key

#: Pages that are read in one call to find their sizes.
CHUNK = 8


@dataclass(frozen=True)
class Summary:
    """A window, as far as its root tells."""

    name: str
    #: why the root cannot be read; the rest means nothing then
    problem: str | None = None
    versions: tuple[int, ...] = ()
    elements: int = 0
    epoch: int = 0
    #: host and process id
    owner: str = ""
    #: running, gone, or unknown where it is on another host
    owner_is: str = "unknown"
    lease: float | None = None
    offset: Any = None
    monoid: str = ""
    policy: str = ""
    page_size: int = 0
    #: the number of the version that each reader has pinned, and until when
    pins: tuple[tuple[int, float], ...] = ()


@dataclass
class Amount:
    """Pages and bytes of some kind."""

    pages: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.pages += 1
        self.bytes += size


@dataclass(frozen=True)
class VersionSummary:
    number: int
    head: int
    tail: int
    oldest: Any
    youngest: Any
    offset: Any
    #: (epoch, tail at its end or None), oldest first
    extents: tuple[tuple[int, int | None], ...]
    #: tier, entries in parts, number of parts, entries in the manifest
    tails: tuple[tuple[int, int, int, int], ...]


@dataclass
class Inspection:
    """A window, and its pages in the store."""

    summary: Summary
    manifest_bytes: int
    versions: list[VersionSummary]
    #: the pages that a retained version names, by tier
    tiers: dict[int, Amount] = field(default_factory=dict)
    #: the parts of partial last pages that a retained version names, by tier
    parts: dict[int, Amount] = field(default_factory=dict)
    #: pages of the current epoch that no version names: written since the last checkpoint
    uncommitted: Amount = field(default_factory=Amount)
    #: older pages that no version names: `mta gc` deletes them
    leftovers: Amount = field(default_factory=Amount)


def survey(store: Store) -> Iterator[Summary]:
    """All windows of a store, sorted by name. Raises StoreError. Reads all roots, a hundred in a call."""
    for roots in read_roots(store, sorted(set(window_names(store)))):
        for name, stored in roots.items():
            yield summary(name, stored.data)


def summary(name: str, data: bytes) -> Summary:
    """The window whose root has these bytes; with a `problem` if they are damaged."""
    try:
        root = decode_root(name, data)
    except ManifestCorrupt as error:
        return Summary(name, problem=str(error))
    last = root.version(None)
    host, pid, _ = root.owner
    return Summary(
        name,
        versions=tuple(version.number for version in root.retained),
        elements=last.tail - last.head if last else 0,
        epoch=root.epoch,
        owner=f"{host.partition('/')[0]}:{pid}" if host else "",
        owner_is="gone" if surely_dead(root.owner) else "running" if same_host(root.owner) else "unknown",
        lease=root.lease,
        offset=packing.unpack(last.offset) if last else None,
        monoid=root.monoid,
        policy=root.policy,
        page_size=root.page_size,
        pins=tuple((pin.number, pin.until) for pin in root.pins),
    )


def inspect(store: Store, name: str) -> Inspection:
    """A window and all its pages in the store.

    Raises WindowNotFound, ManifestCorrupt if its root is damaged, and StoreError. Reads every page, for its
    size, a few in a call.
    """
    found = store.read_root(name)
    if found is None:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    root = decode_root(name, found[0])
    named = Named.by(root.retained)
    inspection = Inspection(
        summary(name, found[0]), len(found[0]), [_of(version) for version in root.retained]
    )
    for key, size in _sizes(store, set(store.list_keys(pages_of(name)))):
        if key in named:
            kind = inspection.parts if key.tier & PART else inspection.tiers
            kind.setdefault(key.tier & ~PART, Amount()).add(size)
        elif root.has(key.epoch):
            inspection.uncommitted.add(size)
        else:
            inspection.leftovers.add(size)
    inspection.tiers = dict(sorted(inspection.tiers.items()))
    inspection.parts = dict(sorted(inspection.parts.items()))
    return inspection


def _of(version: Version) -> VersionSummary:
    tails = tuple(
        (tier, tail.saved - tail.start, len(tail.parts), tail.inline_count)
        for tier, tail in enumerate(version.tails)
    )
    ends = (version.oldest, None if version.youngest == BEFORE_ALL else version.youngest)
    oldest, youngest = (None if time is None else as_people_have_it(time, version.kind) for time in ends)
    return VersionSummary(
        version.number, version.head, version.tail, oldest, youngest,
        packing.unpack(version.offset), version.extents.ends, tails,
    )  # fmt: skip


def _sizes(store: Store, keys: Iterable[str]) -> Iterator[tuple[PageKey, int]]:
    rest = iter(keys)
    while chunk := list(islice(rest, CHUNK)):
        for key, data in zip(chunk, store.get_many(chunk), strict=True):
            if data is not None:
                yield parse_page_key(key), len(data)
