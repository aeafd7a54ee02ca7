"""Cuts keys into segments: new ranges of hashes for the keys of the segments that were touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mta.keyed.block import LONG, Block, hashes_of
from mta.keyed.directory import DEEPEST, Segment
from mta.monoids.base import Array

#: A segment of several keys is halved above this number of bytes. Small segments cost least where few of the
#: keys come, and large ones where most of them come.
BYTES, DENSE_BYTES = 192, 8 << 10

#: The last hash there is.
_LAST = (1 << 64) - 1

#: Above MANY segments in the state of a bucket they get larger instead of more. The state has room for MOST.
MANY, MOST = 8192, 12_288


class Piece(NamedTuple):
    """A range of hashes and its keys: `first` to `last` of a block."""

    start: int
    depth: int
    first: int
    last: int


def most_bytes(segments: int, *, dense: bool) -> float:
    """The largest segment in a bucket of `segments`, in bytes; `dense` if most of its keys come."""
    return max(DENSE_BYTES if dense else 0, BYTES * max(1.0, segments / MANY) ** 3)


def pieces(segments: Sequence[Segment], block: Block, most: float, others: int) -> list[Piece]:
    """The ranges of some segments, cut anew so that none is too large or too small.

    Together with `others` they are not too many either: few keys may halve many large segments.
    """
    hashes, sizes = hashes_of(block.digests), [0, *np.cumsum(_sizes(block)).tolist()]
    room = max(MOST - others, len(segments))
    most = max(most, sizes[-1] / room)
    while True:
        found = _pieces(segments, hashes, sizes, most)
        if len(found) <= room:
            return found
        most *= 1.5


def _pieces(segments: Sequence[Segment], hashes: Array, sizes: list[float], most: float) -> list[Piece]:
    found: list[Piece] = []
    starts = np.array([each.start for each in segments], dtype=np.uint64)
    stops = np.array([min(each.stop, _LAST) for each in segments], dtype=np.uint64)
    bounds = np.searchsorted(hashes, [starts, stops]).T.tolist()
    for segment, (begin, end) in zip(segments, bounds, strict=True):
        end = len(hashes) if segment.stop > _LAST else end
        left = [Piece(segment.start, segment.depth, begin, end)]
        while left:
            start, depth, first, last = piece = left.pop()
            if last - first > 1 and sizes[last] - sizes[first] > most and depth < DEEPEST:
                middle = start + (1 << (63 - depth))
                half = first + int(np.searchsorted(hashes[first:last], np.uint64(middle), "left"))
                left += Piece(middle, depth + 1, half, last), Piece(start, depth + 1, first, half)
            else:
                found.append(piece)
                _join_neighbours(found, sizes, most / 2)
    return found


def _join_neighbours(found: list[Piece], sizes: list[float], most: float) -> None:
    """Joins the last two pieces while they are the halves of one range and small."""
    while len(found) > 1:
        older, younger = found[-2:]
        width = 1 << (64 - older.depth)
        halves = older.depth == younger.depth > 0 and older.start + width == younger.start
        if not halves or older.start & width or sizes[younger.last] - sizes[older.first] > most:
            return
        found[-2:] = [Piece(older.start, older.depth - 1, older.first, younger.last)]


def _sizes(block: Block) -> Array:
    """The approximate bytes of each key."""
    columns = [column for each in block.values for column in each.values()]
    numbers = (block.times is not None) + sum(not isinstance(column, list) for column in columns)
    sizes = 32 + 8 * numbers * block.rows + text_sizes(block)
    for key in np.flatnonzero(block.counts == LONG).tolist():
        sizes[key] += len(block.long[key])
    return sizes


def text_sizes(block: Block) -> Array:
    """The approximate bytes of each key's Python objects."""
    sizes = np.zeros(len(block), dtype=np.int64)
    for each in block.values:
        for column in each.values():
            if isinstance(column, list):
                lengths = [len(item) + 3 if isinstance(item, (str, bytes)) else 9 for item in column]
                before = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
                sizes += before[block.ends] - before[block.ends - block.rows]
    return sizes
