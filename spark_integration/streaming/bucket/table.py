"""The keys of a bucket: in the state while they are few, else in segments that are read when keys come."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mta.encoding.untrusted import Malformed, fields, raw, whole
from mta.errors import PageCorrupt
from mta.monoids.base import Array
from spark_integration.streaming.bucket.block import LONG, Block, Shape, hashes_of, joined
from spark_integration.streaming.bucket.codec import decode_block, decode_parts, encode_block, encode_parts
from spark_integration.streaming.bucket.directory import Directory, Segment
from spark_integration.streaming.bucket.documents import Documents, Place, Range
from spark_integration.streaming.bucket.segments import Piece, most_bytes, pieces

#: Bytes of keys that stand in the state itself.
INLINE = 36 << 10

#: Marks of when segments were written, at most.
MARKS = 64

#: The numbers of segments in use are spread over so many times as many at most.
SPREAD = 16


class KeyTable:
    """`least` is how long after its last row a key is over, None for never.

    That is by the times of rows, or, with `by_clock`, by the clock when they came.
    """

    def __init__(
        self, shape: Shape, documents: Documents, saved: list[Any], least: float | None, *, by_clock: bool
    ) -> None:
        block, directory, marks = fields(saved, "the keys of a bucket", 3)
        self._shape, self._documents, self._least = shape, documents, least
        self._by_clock = by_clock
        #: the number that documents had before a clock's time, and that time
        self._marks = [_mark(each) for each in fields(marks, "the marks of segments")]
        self._inline = directory is None
        self._directory = Directory.whole() if directory is None else Directory.decode(directory)
        self._loaded = np.full(len(self._directory), self._inline)
        #: the keys of all segments that are loaded
        self.block = decode_block(raw(block, "the keys"), shape) if block is not None else shape.empty()
        #: the hashes of keys that have changed
        self._changed: list[Array] = []

    @staticmethod
    def nothing() -> list[Any]:
        """What `save` gives where there are no keys."""
        return [None, None, []]

    # -- keys -------------------------------------------------------------------------------------------

    def load(self, digests: Array) -> None:
        """Reads the segments of keys, in one round trip."""
        if not self._inline and len(digests):
            self._load(self._directory.of(hashes_of(digests)))

    def _load(self, segments: Array) -> None:
        segments = segments[~self._loaded[segments]]
        self._loaded[segments] = True
        places = [place for place in self._directory.places(segments) if place is not None]
        if not places:
            return
        try:
            found = decode_parts(self._documents.read(places), self._shape)
        except Malformed as error:
            raise PageCorrupt(
                f"a segment of {self._documents.name!r} is damaged, though its checksum is right: {error}"
            ) from error
        self.block = joined([self.block, found]) if len(self.block) else found

    def put(self, block: Block) -> None:
        """Keys as they are now; their segments are loaded."""
        places = self.block.find(block.digests)
        known = places[places >= 0]
        self._changed.append(block.hashes)
        if len(known) == len(self.block):
            self.block = block
            return
        if len(known):
            self.block = self.block.take(_without(len(self.block), known))
        self.block = joined([self.block, block])

    def remove(self, places: Array) -> None:
        """Keys that are loaded, by their places."""
        self._changed.append(self.block.hashes[places])
        self.block = self.block.take(_without(len(self.block), places))

    # -- time -------------------------------------------------------------------------------------------

    def over(self, clock: float | None, waiting: Callable[[], Array]) -> Array:
        """The places of loaded keys whose time has come and of which no row waits."""
        if self._least is None or clock is None or not len(self.block):
            return np.zeros(0, dtype=np.int64)
        places = np.flatnonzero(self._times(self.block) <= clock - self._least)
        if not len(places):
            return places
        return places[~np.isin(self.block.digests[places], waiting())]

    def _times(self, block: Block) -> Array:
        """What `least` counts from."""
        # keys of runs that did not look at the clock are never over
        return np.where(block.seen > 0, block.seen, np.inf) if self._by_clock else block.youngest

    def drop_old(self, clock: float | None, waiting: Callable[[], Array]) -> None:
        """Drops segments of which all keys are over, unread, and loads those that have to be looked at."""
        if self._inline or self._least is None or clock is None:
            return
        gone = [mark for mark in self._marks if mark[1] + self._least <= clock]
        if gone:
            segments = self._directory.written_before(gone[-1][0])
            segments = segments[~np.isin(segments, self._directory.of(hashes_of(waiting())))]
            self._documents.drop(self._places(segments))
            self._directory = self._directory.emptied(segments)
            self._loaded[segments] = True
            self._marks = self._marks[len(gone) :]
        self._load(self._directory.due_by(clock))

    @property
    def due(self) -> float | None:
        """When some key is over, at the earliest; None for never."""
        if self._least is None:
            return None
        if self._inline:
            return float(self._times(self.block).min()) + self._least if len(self.block) else None
        marks = [clock + self._least for _, clock in self._marks[:1] if len(self._directory.used)]
        return min((each for each in (*marks, self._directory.due) if each is not None), default=None)

    # -- out --------------------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        return not len(self.block) and not len(self._directory.used)

    @property
    def ranges(self) -> list[Range]:
        """The documents that are in use, as far as ranges tell."""
        return [] if self._inline else self._directory.ranges

    def save(self, clock: float | None) -> list[Any]:
        """What goes into the state; what it names is in the store."""
        if self._inline and not self._changed:
            return [encode_block(self.block) if len(self.block) else None, None, []]
        unread = self._directory.used
        if self._inline or bool(self._loaded[unread].all()):
            data = encode_block(self.block)
            # halfway back, so that it does not go to and fro
            if len(data) <= (INLINE if self._inline else INLINE // 2):
                self._documents.drop(self._places(self._directory.used))
                self._inline, self._directory = True, Directory.whole()
                return [data if len(self.block) else None, None, []]
        self._write(clock)
        return [None, self._directory.encode(), [list(each) for each in self._marks]]

    def _write(self, clock: float | None) -> None:
        """Writes the segments of keys that have changed."""
        directory = self._directory
        if self._inline:
            touched = np.zeros(1, dtype=np.int64)
        else:
            self._refresh()
            changed = np.concatenate(self._changed) if self._changed else np.zeros(0, dtype=np.uint64)
            touched = directory.of(changed)
            self._documents.drop(self._places(touched))
        if not len(touched):
            return
        new = pieces(directory.segments(touched), self.block, most_bytes(len(directory)))
        bounds = [(piece.first, piece.last) for piece in new if piece.first < piece.last]
        written = iter(self._documents.write(encode_parts(self.block, bounds)))
        self._inline = False
        self._directory = directory.replaced(
            touched,
            [
                Segment(*piece.hashes, next(written), self._due_of(piece))
                if piece.first < piece.last
                else Segment(*piece.hashes)
                for piece in new
            ],
        )
        if clock is not None and self._least is not None:
            self._marks.append((self._documents.next, clock))
            if len(self._marks) > MARKS:
                self._marks = self._marks[::-2][::-1]

    def _refresh(self) -> None:
        """Has the oldest segments written again, where their numbers are far behind."""
        if self._directory.span > SPREAD * (len(self._directory.used) + INLINE // 512):
            oldest = self._directory.oldest(SPREAD)
            self._load(oldest)
            self._changed.append(self._directory.starts[oldest])

    def _due_of(self, piece: Piece) -> float | None:
        """When the first key with windows of its own is over."""
        counts = self.block.counts[piece.first : piece.last].tolist()
        if LONG not in counts:
            return None
        if self._least is None:
            return math.inf
        block = self.block.cut(piece.first, piece.last)
        return float(self._times(block)[block.counts == LONG].min()) + self._least

    def _places(self, segments: Array) -> list[Place]:
        return [place for place in self._directory.places(segments) if place is not None]


def _without(count: int, places: Array) -> Array:
    """The numbers up to a count, without some."""
    keep = np.ones(count, dtype=bool)
    keep[places] = False
    return np.flatnonzero(keep)


def _mark(value: Any) -> tuple[int, float]:
    number, clock = fields(value, "a mark", 2)
    if type(clock) not in (int, float):
        raise Malformed("the time of a mark is no number")
    return whole(number, "the number of a mark"), clock
