"""The keys of a bucket: in the state while they are few, else in segments that are read when keys come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mta.encoding.untrusted import Malformed, fields, raw, whole
from mta.errors import PageCorrupt
from mta.keyed.block import LONG, Block, Shape, hashes_of, joined
from mta.keyed.codec import decode_block, decode_parts, encode_block, encode_parts
from mta.keyed.directory import Directory, SavedDirectory, Segment
from mta.keyed.documents import Documents, Range
from mta.keyed.segments import most_bytes, pieces
from mta.monoids.base import Array

#: Limits on the keys in the state itself: bytes, and rows. Equal rows take next to no bytes there, and all
#: rows of a state are in memory whichever keys come.
INLINE, INLINE_ROWS = 36 << 10, 1 << 16

#: A segment of silent keys is dropped within this part of the time after which a key is over.
SHARE = 64

#: Segments with long windows that are loaded in one micro-batch, once their keys are over.
LOOKED_AT = 16

#: The oldest segments are written again where the numbers from the oldest to the youngest are more than
#: SPREAD times the segments in use, or their epochs are more than EPOCHS.
SPREAD, EPOCHS = 16, 32


class Mark(NamedTuple):
    """No key of a document before `number` has a row after `time`."""

    number: int
    time: float

    @staticmethod
    def decode(packed: Any) -> Mark:
        number, time = fields(packed, "a mark", 2)
        if type(time) not in (int, float):
            raise Malformed("the time of a mark is no number")
        return Mark(whole(number, "the number of a mark"), time)


class SavedTable(NamedTuple):
    """What a state has of a bucket's keys, as msgpack has it: a list of these fields."""

    #: the keys themselves, as `mta.keyed.codec` writes them; None for none, or where they are in segments
    block: bytes | None = None
    #: where the segments are; None while all keys are in the block
    directory: SavedDirectory | None = None
    #: ascending
    marks: Sequence[Mark] = ()

    @staticmethod
    def decode(packed: Any) -> SavedTable:
        block, directory, marks = fields(packed, "the keys of a bucket", 3)
        found = map(Mark.decode, fields(marks, "the marks of segments"))
        return SavedTable(None if block is None else raw(block, "the keys"), directory, list(found))


class KeyTable:
    """The keys of a bucket. A key is over when `least` has passed since its last row; None for never.

    Time passes by the times of rows, or, with `by_clock`, by the clock when the rows came.
    """

    def __init__(
        self, shape: Shape, documents: Documents, saved: SavedTable, least: float | None, *, by_clock: bool
    ) -> None:
        self._shape, self._documents, self._least = shape, documents, least
        self._by_clock = by_clock
        self._marks = list(saved.marks)
        #: None while all keys are in the state
        self._directory = None if saved.directory is None else Directory.decode(saved.directory)
        self._loaded = np.zeros(0 if self._directory is None else len(self._directory), dtype=bool)
        #: the keys of all segments that are loaded
        self.block = shape.empty() if saved.block is None else decode_block(saved.block, shape)
        #: the hashes of keys that have changed
        self._changed: list[Array] = []

    def load(self, digests: Array) -> None:
        """Reads the segments of keys, in one round trip."""
        if self._directory is not None and len(digests):
            self._load(self._directory, self._directory.of(hashes_of(digests)))

    def _load(self, directory: Directory, segments: Array) -> None:
        segments = segments[~self._loaded[segments]]
        self._loaded[segments] = True
        documents = directory.documents(segments)
        if not documents:
            return
        try:
            found = decode_parts(self._documents.read(documents), self._shape)
            # each key must be in a segment that was asked for, and in no other
            if not np.isin(directory.of(hashes_of(found.digests)), segments).all():
                raise Malformed("it has keys of another segment")
            if not (found.digests[1:] > found.digests[:-1]).all():
                raise Malformed("it has keys that another segment has too")
        except Malformed as error:
            raise PageCorrupt(
                f"a segment of {self._documents.name!r} is damaged, though its checksum is right: {error}"
            ) from error
        self.block = joined([self.block, found]) if len(self.block) else found

    def put(self, block: Block) -> None:
        """Keys as they are now; their segments are loaded."""
        indices = self.block.find(block.digests)
        known = indices[indices >= 0]
        self._changed.append(hashes_of(block.digests))
        if len(known) == len(self.block):
            self.block = block
            return
        if len(known):
            self.block = self.block.without(known)
        self.block = joined([self.block, block])

    def remove(self, keys: Array) -> None:
        """Keys that are loaded, by their indices."""
        self._changed.append(hashes_of(self.block.digests[keys]))
        self.block = self.block.without(keys)

    def over(self, clock: float | None) -> Array:
        """The indices of loaded keys that are over."""
        if self._least is None or clock is None or not len(self.block):
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self._times(self.block) <= clock - self._least)

    def expect(self, digests: Array, times: Array, clock: float | None) -> None:
        """Keeps loaded keys until rows come that wait elsewhere, by the last of the times of each key's rows.

        Most of the keys would not be over before that anyway, and stay unchanged.
        """
        assert self._least is not None
        indices = self.block.find(digests)
        known = indices >= 0
        far = np.full(len(indices), clock is None)
        if clock is not None:
            # a key of before this clock is not over at an earlier time
            far = times - self._least > clock
        far[known] = times[known] - self._least > self.block.youngest[indices[known]]
        if not far.any():
            return
        block = self.block.take(np.sort(indices[known & far]))
        at = np.searchsorted(digests, block.digests)
        block = replace(block, youngest=np.maximum(block.youngest, times[at]))
        new = np.flatnonzero(far & ~known)
        self.put(joined([block, self._shape.keys(digests[new], times[new])]))

    def _times(self, block: Block) -> Array:
        """The times from which `least` counts."""
        return np.where(block.seen > 0, block.seen, np.inf) if self._by_clock else block.youngest

    def see(self, clock: int | None) -> None:
        """Starts the time of loaded keys that were saved without the clock."""
        if not self._by_clock or clock is None:
            return
        unseen = self.block.seen == 0
        if unseen.any():
            self._changed.append(hashes_of(self.block.digests[unseen]))
            self.block = replace(self.block, seen=np.where(unseen, clock, self.block.seen))

    def drop_old(self, clock: float | None) -> None:
        """Drops segments of which all keys are over, unread; loads a few of those with long windows."""
        directory = self._directory
        if directory is None or self._least is None or clock is None:
            return
        gone = [mark for mark in self._marks if mark.time + self._least <= clock]
        if not gone:
            return
        number = gone[-1].number
        segments = directory.written_before(number, long=False)
        self._documents.drop(directory.documents(segments))
        self._directory = directory.emptied(segments)
        self._loaded[segments] = True
        long = directory.written_before(number, long=True)
        self._load(self._directory, long[:LOOKED_AT])
        self._marks = self._marks[len(gone) - (len(long) > LOOKED_AT) :]

    @property
    def due(self) -> float | None:
        """The earliest time at which a key may be over; None for never."""
        if self._least is None:
            return None
        if self._directory is None:
            return float(self._times(self.block).min()) + self._least if len(self.block) else None
        return self._marks[0].time + self._least if self._marks and len(self._directory.used) else None

    @property
    def empty(self) -> bool:
        return not len(self.block) and (self._directory is None or not len(self._directory.used))

    @property
    def ranges(self) -> list[Range]:
        """Ranges with all documents in use."""
        return [] if self._directory is None else self._directory.ranges

    def save(self, clock: float | None) -> SavedTable:
        """The table for the state; the documents that it names are in the store."""
        directory = self._directory
        # keys leave the segments at half the limit, so that they do not move to and fro
        half = 1 if directory is None else 2
        fits = int(self.block.rows.sum()) <= INLINE_ROWS // half
        loaded = directory is None or bool(self._loaded[directory.used].all())
        unchanged = directory is None and not self._changed
        if unchanged or (fits and loaded):
            data = encode_block(self.block) if len(self.block) else None
            if unchanged or data is None or len(data) <= INLINE // half:
                if directory is not None:
                    self._documents.drop(directory.documents(directory.used))
                self._directory = None
                return SavedTable(data)
        self._directory = self._written(clock)
        return SavedTable(None, self._directory.encode(), self._marks)

    def _written(self, clock: float | None) -> Directory:
        """The directory after the segments of keys that have changed were written."""
        directory = Directory.whole() if self._directory is None else self._directory
        changed = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *self._changed]))
        touched = np.arange(1) if self._directory is None else directory.of(changed)
        self._documents.drop(directory.documents(touched))
        if not len(touched):
            return directory
        # most of the known keys came
        dense = 2 * len(changed) >= len(self.block) and 2 * len(touched) >= len(directory.used)
        most, others = most_bytes(len(directory), dense=dense), len(directory) - len(touched)
        found = pieces(directory.segments(touched), self.block, most, others)
        bounds = [(piece.first, piece.last) for piece in found if piece.first < piece.last]
        documents = iter(self._documents.write(encode_parts(self.block, bounds)))
        is_long = self.block.counts == LONG
        new = []
        for start, depth, first, last in found:
            document = next(documents) if first < last else None
            new.append(Segment(start, depth, document, bool(is_long[first:last].any())))
        self._mark(clock)
        return directory.replaced(touched, new)

    def _mark(self, clock: float | None) -> None:
        """Notes the youngest time of the segments written so far."""
        if self._least is None:
            return
        times = [mark.time for mark in self._marks[-1:]]
        if clock is not None:
            times.append(clock)
        if not self._by_clock and len(self.block):
            # a key that rows are to come for has a later time than the clock
            times.append(self.block.youngest.max().item())
        if not times:
            return
        if len(self._marks) > 1 and self._marks[-1].time - self._marks[-2].time < self._least / SHARE:
            self._marks.pop()
        self._marks.append(Mark(self._documents.next, max(times)))

    def refresh(self) -> None:
        """Loads the oldest segments, to be written again, where their numbers are far behind.

        Ask for the keys that are over after this: a segment that is written again counts as young.
        """
        directory = self._directory
        if directory is None:
            return
        far = directory.span > SPREAD * (len(directory.used) + INLINE // 512)
        if far or len(directory.ranges) > EPOCHS:
            oldest = directory.oldest(SPREAD)
            self._load(directory, oldest)
            self._changed.append(directory.starts[oldest])
