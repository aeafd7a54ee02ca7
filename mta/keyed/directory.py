"""Which segment of a bucket has which keys: ranges of hashes, halved where they hold too much.

A segment is a document with all keys whose hashes begin with the same bits. It never changes: a save writes
each segment that was touched again, as one segment, as several, or as one with its neighbour. So no part of a
segment is out of date, and a load reads the segments of its keys and no other.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mta.encoding.untrusted import LARGEST, Malformed, fields, raw, whole
from mta.keyed.documents import NO_DOCUMENT, DocumentId, Range
from mta.monoids.base import Array

#: A range of hashes is halved at most this many times.
DEEPEST = 48

#: Added to the saved depth of a segment, where some of its keys have windows of their own.
_LONG = 64

#: More segments than a state of 64 KB can name.
_MOST = 1 << 18


class Segment(NamedTuple):
    """A range of hashes, and the document with its keys, None if there are none."""

    start: int
    depth: int
    document: DocumentId | None = None
    #: whether some of its keys have windows of their own
    long: bool = False

    @property
    def stop(self) -> int:
        return self.start + (1 << (64 - self.depth))


class SavedDirectory(NamedTuple):
    """A directory as msgpack has it: a list of these fields."""

    segments: int
    #: the epochs of documents, ascending
    epochs: list[int]
    #: less than the number of any document
    base: int
    #: zlib of columns: depths (with _LONG), indices of epochs, and numbers less the base as planes of bytes
    columns: bytes


class Directory:
    """All segments of a bucket, in the order of their hashes; together they have all hashes."""

    def __init__(self, starts: Array, depths: Array, epochs: Array, numbers: Array, long: Array) -> None:
        self.starts, self.depths = starts, depths
        #: the documents; number 0 for none
        self._epochs, self._numbers = epochs, numbers
        #: which segments have keys with windows of their own
        self._long = long

    @staticmethod
    def whole() -> Directory:
        """One segment without keys."""
        zero = np.zeros(1, dtype=np.int64)
        return Directory(np.zeros(1, dtype=np.uint64), zero, zero, zero, zero > 0)

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, hashes: Array) -> Array:
        """The segments of hashes, ascending, each once."""
        return np.unique(np.searchsorted(self.starts, hashes, "right") - 1)

    def segments(self, numbers: Array) -> list[Segment]:
        starts, depths = self.starts[numbers].tolist(), self.depths[numbers].tolist()
        return list(map(Segment, starts, depths, self._documents(numbers), self._long[numbers].tolist()))

    def documents(self, segments: Array) -> list[DocumentId]:
        """The documents of those segments that have keys."""
        return [each for each in self._documents(segments) if each is not None]

    def _documents(self, segments: Array) -> list[DocumentId | None]:
        pairs = zip(self._epochs[segments].tolist(), self._numbers[segments].tolist(), strict=True)
        return [DocumentId(epoch, number) if number else None for epoch, number in pairs]

    @property
    def used(self) -> Array:
        """The segments that have keys."""
        return np.flatnonzero(self._numbers)

    @property
    def ranges(self) -> list[Range]:
        """For each epoch of documents in use, the first number and the last + 1."""
        used = self.used
        epochs, numbers = self._epochs[used], self._numbers[used]
        return [
            (epoch, int(numbers[epochs == epoch].min()), int(numbers[epochs == epoch].max()) + 1)
            for epoch in np.unique(epochs).tolist()
        ]

    def written_before(self, number: int, *, long: bool) -> Array:
        """The segments of documents before a number that have a key with windows of its own, or have none."""
        old = (self._numbers > 0) & (self._numbers < number)
        return np.flatnonzero(old & (self._long == long))

    def oldest(self, count: int) -> Array:
        """The segments of the oldest documents."""
        used = self.used
        return np.sort(used[np.argsort(self._numbers[used])[:count]])

    @property
    def span(self) -> int:
        """The number of documents from the oldest in use to the youngest, in use or not."""
        numbers = self._numbers[self.used]
        return int(numbers.max() - numbers.min()) + 1 if len(numbers) else 0

    def emptied(self, segments: Array) -> Directory:
        epochs, numbers, long = self._epochs.copy(), self._numbers.copy(), self._long.copy()
        epochs[segments] = numbers[segments] = long[segments] = 0
        return Directory(self.starts, self.depths, epochs, numbers, long)

    def replaced(self, segments: Array, new: Sequence[Segment]) -> Directory:
        """With other segments, of the same hashes, instead of some."""
        keep = np.ones(len(self), dtype=bool)
        keep[segments] = False
        starts, depths, documents, long = zip(*new, strict=True)
        epochs, numbers = zip(*(each or NO_DOCUMENT for each in documents), strict=True)
        all_starts = np.concatenate([self.starts[keep], np.array(starts, dtype=np.uint64)])
        order = np.argsort(all_starts)

        def put(column: Array, items: Sequence[int]) -> Array:
            return np.concatenate([column[keep], np.array(items, dtype=column.dtype)])[order]

        return Directory(
            all_starts[order],
            put(self.depths, depths),
            put(self._epochs, epochs),
            put(self._numbers, numbers),
            put(self._long, long),
        )

    def encode(self) -> SavedDirectory:
        """The form takes about two bytes for a segment: the low half of a number."""
        epochs, indices = np.unique(self._epochs, return_inverse=True)
        used = self._numbers[self.used]
        base = int(used.min()) - 1 if len(used) else 0
        relative = np.where(self._numbers > 0, self._numbers - base, 0).astype("<u4")
        planes = relative.view(np.uint8).reshape(-1, 4).T.tobytes()
        depths = (self.depths + _LONG * self._long).astype(np.uint8)
        columns = depths.tobytes() + indices.astype("<u2").tobytes() + planes
        return SavedDirectory(len(self), epochs.tolist(), base, zlib.compress(columns, 1))

    @staticmethod
    def decode(packed: Any) -> Directory:
        count, epochs, base, data = fields(packed, "the directory of segments", 4)
        whole(count, "the number of segments", 1, _MOST)
        unpacker = zlib.decompressobj()
        try:
            columns = unpacker.decompress(raw(data, "the directory of segments"), 7 * count + 1)
        except zlib.error as error:
            raise Malformed(f"the directory of segments is damaged: {error}") from None
        if len(columns) != 7 * count:
            raise Malformed(f"the directory of {count} segments has {len(columns)} bytes")
        depths = np.frombuffer(columns, np.uint8, count).astype(np.int64)
        long, depths = depths >= _LONG, depths % _LONG
        indices = np.frombuffer(columns, "<u2", count, count)
        planes = np.frombuffer(columns, np.uint8, 4 * count, 3 * count).reshape(4, count)
        relative = np.ascontiguousarray(planes.T).view("<u4").reshape(-1).astype(np.int64)
        known = np.array([whole(each, "an epoch") for each in fields(epochs, "the epochs")], dtype=np.int64)
        if count and int(indices.max()) >= len(known):
            raise Malformed("a segment is of an epoch that is not named")
        whole(base, "the number of a document", 0, LARGEST >> 1)
        numbers = np.where(relative > 0, relative + base, 0)
        if int(depths.max()) > DEEPEST:
            raise Malformed(f"a segment is {depths.max()} halvings deep")
        # in units of the smallest range
        widths = np.int64(1) << (DEEPEST - depths)
        ends = np.cumsum(widths)
        if int(ends[-1]) != 1 << DEEPEST or bool((ends <= 0).any() or ((ends - widths) % widths).any()):
            raise Malformed("segments do not follow each other from the first hash to the last")
        starts = (ends - widths).astype(np.uint64) << np.uint64(64 - DEEPEST)
        return Directory(starts, depths, known[indices], numbers, long)
