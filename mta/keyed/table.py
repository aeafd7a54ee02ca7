"""The keys of a bucket: in the state while they are few, else in segments that are read when keys come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mta.encoding.untrusted import Malformed, fields, raw, whole
from mta.errors import PageCorrupt
from mta.keyed.block import LONG, Block, Shape, hashes_of, joined
from mta.keyed.codec import decode_block, decode_parts, encode_block, encode_parts
from mta.keyed.directory import Directory, Segment
from mta.keyed.documents import Documents, Place, Range
from mta.keyed.segments import most_bytes, pieces
from mta.monoids.base import Array

#: Bytes of keys that stand in the state itself, and rows of them: equal ones take next to no bytes there, and
#: all rows of a state are in memory whichever keys come.
INLINE, INLINE_ROWS = 36 << 10, 1 << 16

#: Segments of silent keys are found out within this part of the time after which a key is over.
SHARE = 64

#: Segments with long windows that are looked at in a micro-batch, when their keys are over.
LOOKED_AT = 16

#: The numbers of segments in use are spread over so many times as many at most, and over so many epochs.
SPREAD, EPOCHS = 16, 32


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
        #: numbers of documents, and times that keys of documents before have no row behind, both ascending
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
            self._check_ranges(found, segments)
        except Malformed as error:
            raise PageCorrupt(
                f"a segment of {self._documents.name!r} is damaged, though its checksum is right: {error}"
            ) from error
        self.block = joined([self.block, found]) if len(self.block) else found

    def _check_ranges(self, found: Block, segments: Array) -> None:
        """Keys that were read are those of the segments that were asked for, each once."""
        if not np.isin(self._directory.of(found.hashes), segments).all():
            raise Malformed("it has keys of another segment")
        if not (found.digests[1:] > found.digests[:-1]).all():
            raise Malformed("it has keys that another segment has too")

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

    def over(self, clock: float | None) -> Array:
        """The places of loaded keys whose time has come."""
        if self._least is None or clock is None or not len(self.block):
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self._times(self.block) <= clock - self._least)

    def expect(self, digests: Array, times: Array, clock: float | None) -> None:
        """Keys that are loaded, and of each the last of its rows that are to come.

        They are not over until then. Most would not be anyway, and are left as they are.
        """
        assert self._least is not None
        places = self.block.find(digests)
        known = places >= 0
        far = np.full(len(places), clock is None)
        if clock is not None:
            # whatever comes of such a key before, it is not over until this
            far = times - self._least > clock
        far[known] = times[known] - self._least > self.block.youngest[places[known]]
        if not far.any():
            return
        block = self.block.take(np.sort(places[known & far]))
        at = np.searchsorted(digests, block.digests)
        block = replace(block, youngest=np.maximum(block.youngest, times[at]))
        new = np.flatnonzero(far & ~known)
        self.put(joined([block, self._shape.keys(digests[new], times[new])]))

    def _times(self, block: Block) -> Array:
        """What `least` counts from."""
        return np.where(block.seen > 0, block.seen, np.inf) if self._by_clock else block.youngest

    def see(self, clock: int | None) -> None:
        """The time of loaded keys of runs that did not look at the clock counts from now on."""
        if not self._by_clock or clock is None:
            return
        unseen = self.block.seen == 0
        if unseen.any():
            self._changed.append(self.block.hashes[unseen])
            self.block = replace(self.block, seen=np.where(unseen, clock, self.block.seen))

    def drop_old(self, clock: float | None) -> None:
        """Drops segments of which all keys are over, unread; loads a few of those with long windows."""
        if self._inline or self._least is None or clock is None:
            return
        gone = [mark for mark in self._marks if mark[1] + self._least <= clock]
        if not gone:
            return
        number, _ = gone[-1]
        segments = self._directory.written_before(number, long=False)
        self._documents.drop(self._places(segments))
        self._directory = self._directory.emptied(segments)
        self._loaded[segments] = True
        long = self._directory.written_before(number, long=True)
        self._load(long[:LOOKED_AT])
        self._marks = self._marks[len(gone) - (len(long) > LOOKED_AT) :]

    @property
    def due(self) -> float | None:
        """When some key is over, at the earliest; None for never."""
        if self._least is None:
            return None
        if self._inline:
            return float(self._times(self.block).min()) + self._least if len(self.block) else None
        return self._marks[0][1] + self._least if self._marks and len(self._directory.used) else None

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
        # halfway back, so that it does not go to and fro
        half = 1 if self._inline else 2
        fits = int(self.block.rows.sum()) <= INLINE_ROWS // half
        if fits and (self._inline or bool(self._loaded[unread].all())):
            data = encode_block(self.block)
            if len(data) <= INLINE // half:
                self._documents.drop(self._places(self._directory.used))
                self._inline, self._directory = True, Directory.whole()
                return [data if len(self.block) else None, None, []]
        self._write(clock)
        return [None, self._directory.encode(), [list(each) for each in self._marks]]

    def _write(self, clock: float | None) -> None:
        """Writes the segments of keys that have changed."""
        directory = self._directory
        changed = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *self._changed]))
        touched = np.zeros(1, dtype=np.int64) if self._inline else directory.of(changed)
        self._documents.drop(self._places(touched))
        if not len(touched):
            return
        # few of the keys that are known did not come
        dense = 2 * len(changed) >= len(self.block) and 2 * len(touched) >= len(directory.used)
        most, others = most_bytes(len(directory), dense=dense), len(directory) - len(touched)
        new = pieces(directory.segments(touched), self.block, most, others)
        bounds = [(piece.first, piece.last) for piece in new if piece.first < piece.last]
        written = iter(self._documents.write(encode_parts(self.block, bounds)))
        counts = self.block.counts
        self._inline = False
        self._directory = directory.replaced(
            touched,
            [
                Segment(*piece.hashes, next(written), bool((counts[piece.first : piece.last] == LONG).any()))
                if piece.first < piece.last
                else Segment(*piece.hashes)
                for piece in new
            ],
        )
        self._mark(clock)

    def _mark(self, clock: float | None) -> None:
        """Notes when the segments of before now were written."""
        if self._least is None:
            return
        times = [time for _, time in self._marks[-1:]]
        if clock is not None:
            times.append(clock)
        if not self._by_clock and len(self.block):
            # rows are still to come, of a few
            times.append(self.block.youngest.max().item())
        if not times:
            return
        if len(self._marks) > 1 and self._marks[-1][1] - self._marks[-2][1] < self._least / SHARE:
            self._marks.pop()
        self._marks.append((self._documents.next, max(times)))

    def refresh(self) -> None:
        """Has the oldest segments written again, where their numbers are far behind.

        Whoever asks which keys are over does it behind this: segments that are written again are young.
        """
        directory = self._directory
        if self._inline:
            return
        far = directory.span > SPREAD * (len(directory.used) + INLINE // 512)
        if far or len(directory.ranges) > EPOCHS:
            oldest = directory.oldest(SPREAD)
            self._load(oldest)
            self._changed.append(directory.starts[oldest])

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
