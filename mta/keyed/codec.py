"""Keys in columns as bytes, and back from bytes that nobody vouches for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np

from mta.encoding import packing
from mta.encoding.columns import decode_column, encode_column
from mta.encoding.untrusted import Malformed, fields, raw, whole
from mta.keyed.block import DIGEST, LONG, Block, Shape, digests_of, joined
from mta.keyed.group import SHORT_WINDOW
from mta.monoids.base import Array

#: Bytes of a number.
_WORD = 8

#: More keys, and more rows, than a block has that was written as one.
_MOST_KEYS, _MOST_ROWS = 1 << 24, 1 << 22


def encode_block(block: Block) -> bytes:
    content = [
        len(block),
        block.digests.tobytes(),
        _packed(block.youngest),
        _packed(block.seen) if block.seen.any() else None,
        _packed(block.counts),
        None if block.times is None else _packed(block.times),
        [[_packed(column) for column in each.values()] for each in block.values],
        [each for each in block.long if each is not None],
    ]
    return bytes(msgpack.packb(content))


def encode_parts(block: Block, bounds: Sequence[tuple[int, int]]) -> list[bytes]:
    """Ranges of keys, each as `encode_block` would have it, but for how tight numbers are packed.

    With columns made bytes once, since many parts of few keys are mostly calls.
    """
    ends = [0, *block.ends.tolist()]
    digests, long = block.digests.tobytes(), block.long.tolist()
    seen = _Cut(block.seen) if block.seen.any() else None
    youngest, counts = _Cut(block.youngest), _Cut(block.counts)
    times = None if block.times is None else _Cut(block.times)
    programs = [[_Cut(column) for column in each.values()] for each in block.values]
    found = []
    for start, stop in bounds:
        first, last = ends[start], ends[stop]
        content = [
            stop - start,
            digests[start * DIGEST : stop * DIGEST],
            youngest.part(start, stop),
            None if seen is None else seen.part(start, stop),
            counts.part(start, stop),
            None if times is None else times.part(first, last),
            [[column.part(first, last) for column in each] for each in programs],
            [each for each in long[start:stop] if each is not None],
        ]
        found.append(bytes(msgpack.packb(content)))
    return found


class _Cut:
    """A column of which many short parts are packed."""

    def __init__(self, column: Any) -> None:
        self._list = column if isinstance(column, list) else None
        if self._list is None:
            little = column.astype(column.dtype.newbyteorder("<"), copy=False)
            self._kind, self._data = little.dtype.str, little.tobytes()

    def part(self, start: int, stop: int) -> list[Any]:
        if self._list is not None:
            return ["list", [], packing.pack_entries(self._list[start:stop])]
        return [self._kind, [], self._data[_WORD * start : _WORD * stop]]


def decode_parts(parts: Sequence[bytes | memoryview], shape: Shape) -> Block:
    """All keys of what `encode_parts` gave; Malformed where any of it are no keys of this shape."""
    contents = [fields(packing.unpack(part), "a block of keys", 8) for part in parts]
    whole_block = _end_to_end(contents, shape)
    return (
        decode_content(whole_block, shape, None)
        if whole_block is not None
        else joined([decode_content(content, shape) for content in contents])
    )


def _end_to_end(contents: list[list[Any]], shape: Shape) -> list[Any] | None:
    """What one block of all keys would be, where columns can be put together as they are."""
    if any(content[3] is not None or content[7] for content in contents):
        return None
    if any(kind.kind == "O" for each in shape.programs for _, kind in each):
        return None
    try:
        lengths = [content[0] for content in contents]
        digests = b"".join([content[1] for content in contents])
        counts = _raw_columns([content[4] for content in contents], "<i8", lengths)
        rows = [int(np.frombuffer(content[4][2], "<i8").sum()) for content in contents]
        clock = shape.clock.str
        times = None
        if shape.timed:
            times = _raw_columns([content[5] for content in contents], clock, rows)
        programs = [
            [
                _raw_columns([content[6][number][place] for content in contents], kind.str, rows)
                for place, (_, kind) in enumerate(known)
            ]
            for number, known in enumerate(shape.programs)
        ]
        youngest = _raw_columns([content[2] for content in contents], clock, lengths)
    except (TypeError, ValueError, IndexError):
        return None  # which is looked at one by one
    if any(column is None for column in (counts, youngest, *(each for one in programs for each in one))):
        return None
    return [sum(lengths), digests, youngest, None, counts, times, programs, []]


def _raw_columns(packed: list[Any], kind: str, lengths: list[int]) -> list[Any] | None:
    """Columns of numbers as one, if they are numbers as they stand."""
    for each, length in zip(packed, lengths, strict=True):
        if len(each) != 3 or each[0] != kind or each[1] or len(each[2]) != _WORD * length:
            return None
    return [kind, [], b"".join([each[2] for each in packed])]


def decode_block(data: bytes | memoryview, shape: Shape) -> Block:
    """The reverse of `encode_block`; Malformed where these are no keys of this shape."""
    return decode_content(fields(packing.unpack(data), "a block of keys", 8), shape)


def decode_content(content: list[Any], shape: Shape, most: int | None = _MOST_ROWS) -> Block:
    """`most` rows are taken, or any number where they are bytes as they stand."""
    count, digests, youngest, seen, counts, times, programs, long = content
    whole(count, "the number of keys", 0, _MOST_KEYS)
    if len(raw(digests, "the digests")) != count * DIGEST:
        raise Malformed(f"{count} keys have {len(digests)} bytes of digests")
    keys = digests_of(digests)
    if count > 1 and not (keys[1:] > keys[:-1]).all():
        raise Malformed("the keys are not in the order of their digests")
    lengths = _whole_column(counts, count)
    if count and (int(lengths.min()) < LONG or int(lengths.max()) > SHORT_WINDOW):
        raise Malformed(f"windows have from {lengths.min()} to {lengths.max()} rows")
    rows = int(np.maximum(lengths, 0).sum())
    if most is not None and rows > most:
        raise Malformed(f"the windows of {count} keys have {rows} rows")
    if (times is None) == shape.timed:
        raise Malformed("the times of rows are there and should not be, or the other way round")
    packed = fields(programs, "the programs", len(shape.programs))
    return Block(
        keys,
        _column(youngest, count, shape.clock),
        np.zeros(count, dtype=np.int64) if seen is None else _whole_column(seen, count),
        lengths,
        None if times is None else _column(times, rows, shape.clock),
        [
            {
                name: _column(each, rows, kind)
                for (name, kind), each in zip(
                    known, fields(columns, "the columns of a program", len(known)), strict=True
                )
            }
            for known, columns in zip(shape.programs, packed, strict=True)
        ],
        _long(lengths, fields(long, "the keys with windows of their own")),
    )


def _long(counts: Array, entries: list[Any]) -> Array:
    places = np.flatnonzero(counts == LONG)
    if len(places) != len(entries):
        raise Malformed(f"{len(places)} keys should have windows of their own, and {len(entries)} have")
    found = np.full(len(counts), None, dtype=object)
    for place, entry in zip(places.tolist(), entries, strict=True):
        found[place] = raw(entry, "the windows of a key")
    return found


def _packed(column: Any) -> list[Any]:
    if isinstance(column, list):
        return ["list", [], packing.pack_entries(column)]
    kind, parameters, data = encode_column(column)
    return [kind, parameters, bytes(data)]


def _column(packed: Any, count: int, dtype: np.dtype[Any]) -> Any:
    kind, parameters, data = fields(packed, "a column", 3)
    if (kind == "list") != (dtype.kind == "O"):
        raise Malformed("a column is of Python objects and should be of numbers, or the other way round")
    if kind == "list":
        return fields(packing.unpack(raw(data, "a column")), "a column of objects", count)
    found = decode_column(kind, parameters, memoryview(raw(data, "a column")), count)
    if found.dtype != dtype:
        raise Malformed(f"a column is of {found.dtype} and should be of {dtype}")
    return found


def _whole_column(packed: Any, count: int) -> Array:
    found: Array = _column(packed, count, np.dtype(np.int64))
    return found
