"""What a bucket has in the store: documents that never change, written under the epoch of an attempt.

The root of the bucket names ranges of numbers, of segments one for each epoch, from the oldest that is in use
to the youngest. So it is small, and everything that attempts came to which did not count lies outside of it.
Documents inside that are in use no longer are listed in the bucket's state, and the next micro-batch deletes
them: that it runs says that nobody goes back behind this one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import xxhash

from mta.durability.attempts import AttemptHold
from mta.durability.coding import pack_version, unpack_version
from mta.durability.manifest import DOCUMENTS, Version
from mta.encoding.packing import pack
from mta.encoding.untrusted import Malformed, fields, raw, whole
from mta.errors import PageCorrupt, PagesLost
from stores import Store, page_key
from stores.base import page_prefix

#: What holds count in; documents are no pages, so any power of two will do.
_PAGE = 2

#: The epoch and number of a document.
Place = tuple[int, int]

#: An epoch, and the first number and the last + 1 of documents.
Range = tuple[int, int, int]

#: More documents than a state can name.
_MOST = 1 << 20

T = TypeVar("T")

MakeHold = Callable[[str, int, Version | None], AttemptHold]


class Documents:
    def __init__(self, name: str, store: Store, make_hold: MakeHold, saved: list[Any]) -> None:
        number, packed, dead = fields(saved, "the documents of a bucket", 3)
        self.name, self._store = name, store
        #: counts up; no number is used for another document
        self.next = self._first = whole(number, "the number of a document", 1)
        self._base = None if packed is None else unpack_version(1, packed)
        self._hold = make_hold(name, _PAGE, self._base)
        self._dead = _unpack_places(dead)
        self._prefixes: dict[int, str] = {}
        self._dropped: list[Place] = []

    @staticmethod
    def nothing() -> list[Any]:
        """What `save` gives where there has been nothing."""
        return [1, None, []]

    @property
    def wrote(self) -> bool:
        return self._hold.claimed

    @property
    def named(self) -> bool:
        """Whether there is, or was, something in the store."""
        return self._base is not None or self._hold.claimed

    def clear(self) -> None:
        """Deletes what the micro-batch before has left behind."""
        dead, self._dead = self._dead, []
        self._store.delete_many([self._key(each) for each in dead])

    def read(self, places: Sequence[Place]) -> list[memoryview]:
        """The contents of documents, in one round trip."""
        keys = [self._key(each) for each in places]
        found = []
        for key, data in zip(keys, self._store.get_many(keys), strict=True):
            if data is None:
                self._hold.check_hold()
                raise PagesLost(
                    f"rows of this query are not in {self._store!r} (key {key!r}): the store lost them, or "
                    "the query was started from an older checkpoint than the store's"
                )
            if xxhash.xxh3_64_digest(memoryview(data)[:-8]) != data[-8:]:
                raise PageCorrupt(f"rows of this query are damaged in {self._store!r} (key {key!r})")
            found.append(memoryview(data)[:-8])
        return found

    def decoded(self, place: Place, decode: Callable[[memoryview], T]) -> T:
        """What a document says; PageCorrupt where `decode` finds it malformed."""
        (data,) = self.read([place])
        try:
            return decode(data)
        except Malformed as error:
            raise PageCorrupt(
                f"rows of this query are damaged in {self._store!r} (key {self._key(place)!r}), though their "
                f"checksum is right: {error}"
            ) from error

    def write(self, contents: Sequence[bytes]) -> list[Place]:
        if not contents:
            return []
        self._hold.claim()
        epoch = self._hold.root.epoch
        places = [(epoch, number) for number in range(self.next, self.next + len(contents))]
        self.next += len(contents)
        self._store.put_many(
            {
                self._key(place): content + xxhash.xxh3_64_digest(content)
                for place, content in zip(places, contents, strict=True)
            }
        )
        return places

    def drop(self, places: Iterable[Place]) -> None:
        """Documents that are in use no longer."""
        self._dropped += places

    def save(self, batch: int, live: Iterable[Range]) -> list[Any]:
        """What goes into the state; publishes what was written."""
        version = self._base
        own = {place for place in self._dropped if self._is_own(place)}
        self._store.delete_many([self._key(place) for place in sorted(own)])
        self._dropped = [place for place in self._dropped if place not in own]
        if self._hold.claimed:
            assert self._hold.extents is not None
            version = Version(
                batch, 0, 0, None, None, pack(batch), self._hold.extents, (), documents=_ranges(live)
            )
            self._hold.commit(version, "rows", "watermark")
        dead = _pack_places([*self._dead, *self._dropped])
        return [self.next, None if version is None else pack_version(version), dead]

    def _is_own(self, place: Place) -> bool:
        """Whether this attempt has written a document, so that nobody else knows of it."""
        epoch, number = place
        return self._hold.claimed and epoch == self._hold.root.epoch and number >= self._first

    def give_up(self) -> None:
        """Deletes what was written, of which nothing will count."""
        if self._hold.claimed:
            epoch = self._hold.root.epoch
            self._store.delete_many([self._key((epoch, number)) for number in range(self._first, self.next)])
            self._hold.let_go()

    def _key(self, place: Place) -> str:
        epoch, number = place
        prefix = self._prefixes.get(epoch)
        if prefix is None:
            prefix = self._prefixes[epoch] = page_prefix(self.name, epoch, DOCUMENTS)
        return page_key(prefix, number)


def place_of(value: Any) -> Place:
    """A place in what was read."""
    epoch, number = fields(value, "the place of a document", 2)
    return whole(epoch, "an epoch"), whole(number, "the number of a document")


def _ranges(live: Iterable[Range]) -> tuple[Range, ...]:
    """Those that touch or overlap as one; no gap is taken in."""
    found: list[Range] = []
    for epoch, first, last in sorted(live):
        if found and found[-1][0] == epoch and first <= found[-1][2]:
            found[-1] = epoch, found[-1][1], max(found[-1][2], last)
        else:
            found.append((epoch, first, last))
    return tuple(found)


def _pack_places(places: list[Place]) -> list[list[Any]]:
    """By their epochs: how many, and the steps from one number to the next."""
    by_epoch: dict[int, list[int]] = {}
    for epoch, number in sorted(places):
        by_epoch.setdefault(epoch, []).append(number)
    return [
        [epoch, len(numbers), zlib.compress(np.diff(numbers, prepend=0).astype("<i8").tobytes(), 1)]
        for epoch, numbers in by_epoch.items()
    ]


def _unpack_places(packed: Any) -> list[Place]:
    found: list[Place] = []
    for each in fields(packed, "the documents to be deleted"):
        epoch, count, data = fields(each, "the documents of an epoch", 3)
        size = 8 * whole(count, "how many documents there are", 0, _MOST - len(found))
        try:
            steps = zlib.decompressobj().decompress(raw(data, "the numbers of documents"), size + 1)
        except zlib.error as error:
            raise Malformed(f"the numbers of documents are damaged: {error}") from None
        if len(steps) != size:
            raise Malformed(f"the numbers of {count} documents have {len(steps)} bytes")
        numbers = np.frombuffer(steps, "<i8").cumsum().tolist()
        found += [place_of([epoch, number]) for number in numbers]
    return found
