"""What windows a store has, and what there is of one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mta import packing
from mta.errors import ManifestCorrupt, WindowNotFound
from mta.manifest import DOCUMENTS, PART, Extents, Root, Version, decode_root
from mta.operations.roots import read_roots, window_names
from mta.ownership import same_host, surely_dead
from stores import PageKey, Store, pages_of, parse_page_key

#: Pages that are read at once to find their sizes.
CHUNK = 8


class Needed:
    """Which pages and parts the retained versions of a root name."""

    def __init__(self, root: Root) -> None:
        self._parts = {
            (part.epoch, PART | part.tier, part.serial)
            for version in root.retained
            for tail in version.tails
            for part in tail.parts
        }
        self._pages: list[tuple[Extents, dict[int, tuple[int, int]]]] = [
            (version.extents, {tier: (start, stop) for tier, start, stop in version.pages()})
            for version in root.retained
        ]
        self._documents = [each for version in root.retained for each in version.documents]

    def __contains__(self, key: PageKey) -> bool:
        if key.tier == DOCUMENTS:
            return any(
                epoch == key.epoch and first <= key.number < last for epoch, first, last in self._documents
            )
        if key.tier & PART:
            return (key.epoch, key.tier, key.number) in self._parts
        for extents, ranges in self._pages:
            start, stop = ranges.get(key.tier, (0, 0))
            if start <= key.number < stop and extents.epoch_of(key.tier, key.number) == key.epoch:
                return True
        return False


@dataclass(frozen=True)
class Summary:
    """A window, as its root has it."""

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


@dataclass
class Held:
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
    """A window, and what the store has of it."""

    summary: Summary
    manifest_bytes: int
    versions: list[VersionSummary]
    #: by tier; pages that a retained version names
    tiers: dict[int, Held] = field(default_factory=dict)
    #: by tier; parts of its partial last page
    parts: dict[int, Held] = field(default_factory=dict)
    #: of the current epoch, and named by no version: the writer's pages since its last checkpoint
    uncommitted: Held = field(default_factory=Held)
    #: what `mta gc` would clear away, or has yet to
    leftovers: Held = field(default_factory=Held)


def survey(store: Store) -> Iterator[Summary]:
    """All windows of a store, by name."""
    for roots in read_roots(store, sorted(set(window_names(store)))):
        for name, stored in roots.items():
            yield summary(name, stored.data)


def summary(name: str, data: bytes) -> Summary:
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
    )


def inspect(store: Store, name: str) -> Inspection:
    """Reads every page, for its size."""
    found = store.read_root(name)
    if found is None:
        raise WindowNotFound(f"no window {name!r} in {store!r}")
    root = decode_root(name, found[0])
    needed = Needed(root)
    inspection = Inspection(
        summary(name, found[0]), len(found[0]), [_of(version) for version in root.retained]
    )
    for key, size in _sizes(store, set(store.list_keys(pages_of(name)))):
        if key in needed:
            kind = inspection.parts if key.tier & PART else inspection.tiers
            kind.setdefault(key.tier & ~PART, Held()).add(size)
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
    return VersionSummary(
        version.number, version.head, version.tail, version.oldest, version.youngest,
        packing.unpack(version.offset), version.extents.ends, tails,
    )  # fmt: skip


def _sizes(store: Store, keys: Iterable[str]) -> Iterator[tuple[PageKey, int]]:
    rest = iter(keys)
    while chunk := list(islice(rest, CHUNK)):
        for key, data in zip(chunk, store.get_many(chunk), strict=True):
            if data is not None:
                yield parse_page_key(key), len(data)
