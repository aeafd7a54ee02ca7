"""The documents of a bucket: bytes in the store that never change, written under the epoch of their writer.

The root of the bucket names ranges of numbers: for the segments of each epoch one range, from the oldest
document in use to the youngest. So the root is small, and whatever failed attempts wrote is outside of the
ranges. Documents in a range that are no longer in use are *dead*. The saved state lists the dead documents,
and `clear` deletes them once nobody goes on from an older state.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mta.durability.coding import pack_version, unpack_version
from mta.durability.manifest import DOCUMENTS, Extents, Root, Version
from mta.encoding.envelope import seal, unseal
from mta.encoding.packing import pack
from mta.encoding.untrusted import Malformed, fields, raw, whole
from mta.errors import PageCorrupt, PagesLost
from stores import Store, page_key
from stores.base import page_prefix

#: The page size that a writer's hold asks for. Documents are no pages, so any power of two will do.
_PAGE = 2

#: More documents than a state can name.
_MOST = 1 << 20

T = TypeVar("T")

#: An epoch, and the first number and the last + 1 of documents.
Range = tuple[int, int, int]


class DocumentId(NamedTuple):
    epoch: int
    #: no two documents of one writer have the same number
    number: int

    @staticmethod
    def decode(packed: Any) -> DocumentId:
        epoch, number = fields(packed, "the name of a document", 2)
        return DocumentId(whole(epoch, "an epoch"), whole(number, "the number of a document"))


NO_DOCUMENT = DocumentId(0, 0)


class Hold(Protocol):
    """A writer's hold on a bucket: `AttemptHold` and `Ownership` of `mta.durability` are both one."""

    root: Root
    extents: Extents | None

    @property
    def claimed(self) -> bool: ...
    def claim(self) -> None: ...
    def check_hold(self) -> None: ...
    def commit(self, version: Version, monoid: str, policy: str) -> None: ...
    def let_go(self) -> None: ...


#: Makes the hold on a bucket, by its name, a page size, and the version that it goes on from.
MakeHold = Callable[[str, int, Version | None], Hold]


class SavedDocuments(NamedTuple):
    """What a state has of a bucket's documents, as msgpack has it: a list of these fields."""

    #: the number of the next document
    next: int = 1
    #: as `mta.durability.coding.pack_version` writes it; None while nothing was written
    version: list[Any] | None = None
    #: for each epoch its dead documents: epoch, count, zlib of the steps from number to number
    dead: Sequence[Any] = ()

    @staticmethod
    def decode(packed: Any) -> SavedDocuments:
        number, version, dead = fields(packed, "the documents of a bucket", 3)
        whole(number, "the number of a document", 1)
        return SavedDocuments(number, version, fields(dead, "the documents to be deleted"))


class Documents:
    def __init__(self, name: str, store: Store, make_hold: MakeHold, saved: SavedDocuments) -> None:
        self.name, self._store = name, store
        self.next = self._first = saved.next
        self._base = None if saved.version is None else unpack_version(1, saved.version)
        self._hold = make_hold(name, _PAGE, self._base)
        self._dead = _unpack_dead(saved.dead)
        self._dropped: list[DocumentId] = []
        self._prefixes: dict[int, str] = {}

    @property
    def wrote(self) -> bool:
        return self._hold.claimed

    @property
    def in_store(self) -> bool:
        """Whether the bucket has, or had, anything in the store."""
        return self._base is not None or self._hold.claimed

    def clear(self) -> None:
        """Deletes the dead documents of the saved state. No older state must be read after this."""
        dead, self._dead = self._dead, []
        self._delete(dead)

    def read(self, documents: Sequence[DocumentId]) -> list[memoryview]:
        """The contents of documents, in one round trip."""
        keys = list(map(self._key, documents))
        found = []
        for key, data in zip(keys, self._store.get_many(keys), strict=True):
            if data is None:
                self._hold.check_hold()
                raise PagesLost(
                    f"rows of {self.name!r} are not in {self._store!r} (key {key!r}): the store lost them, "
                    "or their writer was started from an older checkpoint than the store's"
                )
            try:
                found.append(unseal(data))
            except Malformed:
                raise PageCorrupt(
                    f"rows of {self.name!r} are damaged in {self._store!r} (key {key!r})"
                ) from None
        return found

    def decoded(self, document: DocumentId, decode: Callable[[memoryview], T]) -> T:
        """The decoded content of a document; PageCorrupt if `decode` finds it malformed."""
        (data,) = self.read([document])
        try:
            return decode(data)
        except Malformed as error:
            raise PageCorrupt(
                f"rows of {self.name!r} are damaged in {self._store!r} (key {self._key(document)!r}), though "
                f"their checksum is right: {error}"
            ) from error

    def write(self, contents: Sequence[bytes]) -> list[DocumentId]:
        if not contents:
            return []
        self._hold.claim()
        epoch = self._hold.root.epoch
        documents = [DocumentId(epoch, self.next + index) for index in range(len(contents))]
        self.next += len(contents)
        self._store.put_many(dict(zip(map(self._key, documents), map(seal, contents), strict=True)))
        return documents

    def drop(self, documents: Iterable[DocumentId]) -> None:
        """Documents that are in use no longer."""
        self._dropped += documents

    def save(self, number: int, live: Iterable[Range]) -> SavedDocuments:
        """The documents for the state; commits those written, under the number of a version."""
        version = self._base
        dropped = self._dropped
        if self._hold.claimed:
            # nobody else knows of the documents that this writer wrote since the saved state
            epoch, first = self._hold.root.epoch, self._first
            own = [each for each in dropped if each.epoch == epoch and each.number >= first]
            self._delete(sorted(own))
            dropped = sorted(set(dropped).difference(own))
            assert self._hold.extents is not None
            version = Version.of_documents(number, pack(number), self._hold.extents, _united(live))
            self._hold.commit(version, "rows", "watermark")
        saved = None if version is None else pack_version(version)
        return SavedDocuments(self.next, saved, _pack_dead([*self._dead, *dropped]))

    def give_up(self) -> None:
        """Deletes the documents that were written, none of which will count."""
        if self._hold.claimed:
            epoch = self._hold.root.epoch
            self._delete([DocumentId(epoch, number) for number in range(self._first, self.next)])
            self._hold.let_go()

    def _delete(self, documents: Iterable[DocumentId]) -> None:
        self._store.delete_many(list(map(self._key, documents)))

    def _key(self, document: DocumentId) -> str:
        epoch, number = document
        prefix = self._prefixes.get(epoch)
        if prefix is None:
            prefix = self._prefixes[epoch] = page_prefix(self.name, epoch, DOCUMENTS)
        return page_key(prefix, number)


def _united(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ranges that touch or overlap as one; no gap is taken in."""
    found: list[Range] = []
    for epoch, first, last in sorted(ranges):
        if found and found[-1][0] == epoch and first <= found[-1][2]:
            found[-1] = epoch, found[-1][1], max(found[-1][2], last)
        else:
            found.append((epoch, first, last))
    return tuple(found)


def _pack_dead(documents: list[DocumentId]) -> list[list[Any]]:
    by_epoch: dict[int, list[int]] = {}
    for epoch, number in sorted(documents):
        by_epoch.setdefault(epoch, []).append(number)
    return [
        [epoch, len(numbers), zlib.compress(np.diff(numbers, prepend=0).astype("<i8").tobytes(), 1)]
        for epoch, numbers in by_epoch.items()
    ]


def _unpack_dead(packed: Sequence[Any]) -> list[DocumentId]:
    found: list[DocumentId] = []
    for each in packed:
        epoch, count, data = fields(each, "the documents of an epoch", 3)
        whole(epoch, "an epoch")
        size = 8 * whole(count, "the number of documents", 0, _MOST - len(found))
        try:
            steps = zlib.decompressobj().decompress(raw(data, "the numbers of documents"), size + 1)
        except zlib.error as error:
            raise Malformed(f"the numbers of documents are damaged: {error}") from None
        if len(steps) != size:
            raise Malformed(f"the numbers of {count} documents have {len(steps)} bytes")
        numbers = np.frombuffer(steps, "<i8").cumsum().tolist()
        found += [DocumentId(epoch, whole(number, "the number of a document")) for number in numbers]
    return found
