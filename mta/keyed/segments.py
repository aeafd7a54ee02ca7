"""Keys as segments: how many of them go into one, and what becomes of those that were touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mta.keyed.block import LONG, Block
from mta.keyed.directory import DEEPEST, Segment, precede
from mta.monoids.base import Array

#: Bytes from which a segment of several keys is halved. Where few of its keys come, small ones cost least;
#: where most of them come, few.
BYTES, DENSE_BYTES = 192, 8 << 10

#: The last hash there is.
_LAST = (1 << 64) - 1

#: From so many segments in the state of a bucket on they get larger instead of more, of which it has room for
#: so many.
MANY, MOST = 8192, 12_288


class Piece(NamedTuple):
    """Keys `first` to `last` of a block, which have a range of hashes to themselves."""

    start: int
    depth: int
    first: int
    last: int

    @property
    def hashes(self) -> tuple[int, int]:
        return self.start, self.depth


def most_bytes(segments: int, *, dense: bool) -> float:
    """Bytes of a segment, in a bucket of so many, of whose keys most come or few."""
    return max(DENSE_BYTES if dense else 0, BYTES * max(1.0, segments / MANY) ** 3)


def pieces(segments: Sequence[Segment], block: Block, most: float, others: int) -> list[Piece]:
    """The keys in the ranges of some segments, anew as ranges that are neither too large nor too small.

    Beside `others` they are not too many either, since large ones that are halved as few keys come would be.
    """
    hashes, sizes = block.hashes, [0, *np.cumsum(_sizes(block)).tolist()]
    room = max(MOST - others, len(segments))
    most = max(most, sizes[-1] / room)
    while True:
        found = _pieces(segments, hashes, sizes, most)
        if len(found) <= room:
            return found
        most *= 1.5


def _pieces(segments: Sequence[Segment], hashes: Array, sizes: list[float], most: float) -> list[Piece]:
    found: list[Piece] = []
    firsts = np.searchsorted(hashes, np.array([each.start for each in segments], dtype=np.uint64)).tolist()
    inner = np.array([min(each.stop, _LAST) for each in segments], dtype=np.uint64)
    lasts = np.searchsorted(hashes, inner).tolist()
    for segment, first, last in zip(segments, firsts, lasts, strict=True):
        last = len(hashes) if segment.stop > _LAST else last
        for piece in _halved(Piece(segment.start, segment.depth, first, last), hashes, sizes, most):
            found.append(piece)
            _join_neighbours(found, sizes, most / 2)
    return found


def _halved(piece: Piece, hashes: Array, sizes: list[float], most: float) -> Iterator[Piece]:
    start, depth, first, last = piece
    if last - first <= 1 or sizes[last] - sizes[first] <= most or depth == DEEPEST:
        yield piece
        return
    middle = start + (1 << (63 - depth))
    half = first + int(np.searchsorted(hashes[first:last], np.uint64(middle), "left"))
    yield from _halved(Piece(start, depth + 1, first, half), hashes, sizes, most)
    yield from _halved(Piece(middle, depth + 1, half, last), hashes, sizes, most)


def _join_neighbours(found: list[Piece], sizes: list[float], most: float) -> None:
    """While the last two are halves of one range and small, they are one again."""
    while len(found) > 1 and precede(found[-2].hashes, found[-1].hashes):
        older, younger = found[-2:]
        if sizes[younger.last] - sizes[older.first] > most:
            return
        found[-2:] = [Piece(older.start, older.depth - 1, older.first, younger.last)]


def _sizes(block: Block) -> Array:
    """About the bytes of each key."""
    rows = block.rows
    columns = (block.times is not None) + sum(
        not isinstance(column, list) for each in block.values for column in each.values()
    )
    sizes = 32 + 8 * columns * rows
    lists = [column for each in block.values for column in each.values() if isinstance(column, list)]
    for column in lists:
        lengths = np.fromiter((_length(item) for item in column), np.int64, len(column))
        before = np.concatenate([[0], np.cumsum(lengths)])
        sizes += before[block.ends] - before[block.ends - rows]
    for place in np.flatnonzero(block.counts == LONG).tolist():
        sizes[place] += len(block.long[place])
    return sizes


def _length(item: object) -> int:
    return len(item) + 3 if isinstance(item, (str, bytes)) else 9
