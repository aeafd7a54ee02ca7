"""Keys in columns as bytes, and back from bytes that may be damaged. docs/keyed.md describes the form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack
import numpy as np

from mta.encoding import packing
from mta.encoding.columns import decode_column, encode_column
from mta.encoding.untrusted import Malformed, fields, raw, whole
from mta.keyed.block import DIGEST, LONG, Block, Shape, digests_of, joined
from mta.keyed.group import SHORT_WINDOW

#: Bytes of a number.
_WORD = 8

#: Limits that no block exceeds which was written as one.
_MOST_KEYS, _MOST_ROWS = 1 << 24, 1 << 22


class Column(NamedTuple):
    """A saved column: numbers as `mta.encoding.columns` writes them, or a list of Python objects."""

    kind: str
    parameters: list[int]
    data: bytes

    @staticmethod
    def encode(column: Any) -> Column:
        if isinstance(column, list):
            return Column("list", [], packing.pack_entries(column))
        kind, parameters, data = encode_column(column)
        return Column(kind, parameters, bytes(data))

    @staticmethod
    def decode(packed: Any, count: int, dtype: np.dtype[Any] | None = None) -> Any:
        """The array or list. Malformed unless it has `count` entries of this dtype (of any, for None)."""
        kind, parameters, data = packed if type(packed) is Column else fields(packed, "a column", 3)
        data = raw(data, "a column")
        if dtype is not None and (kind == "list") != (dtype.kind == "O"):
            raise Malformed("a column is of Python objects and should be of numbers, or the other way round")
        if kind == "list":
            return fields(packing.unpack(data), "a column of objects", count)
        found = decode_column(kind, parameters, memoryview(data), count)
        if dtype is not None and found.dtype != dtype:
            raise Malformed(f"a column is of {found.dtype} and should be of {dtype}")
        return found


class SavedBlock(NamedTuple):
    """A block as msgpack has it: a list of these fields."""

    keys: int
    digests: bytes
    youngest: Column
    #: None if all are 0
    seen: Column | None
    counts: Column
    times: Column | None
    #: for each program the columns of its elements
    programs: list[list[Column]]
    #: the saved windows of the keys that have windows of their own
    long: list[bytes]

    @staticmethod
    def unpack(data: bytes | memoryview) -> SavedBlock:
        """The fields, of which only the number is checked."""
        return SavedBlock(*fields(packing.unpack(data), "a block of keys", 8))

    def decode(self, shape: Shape, most: int | None = _MOST_ROWS) -> Block:
        """The block. Malformed if it is not of this shape, or has more than `most` rows."""
        count = whole(self.keys, "the number of keys", 0, _MOST_KEYS)
        if len(raw(self.digests, "the digests")) != count * DIGEST:
            raise Malformed(f"{count} keys have {len(self.digests)} bytes of digests")
        digests = digests_of(self.digests)
        if count > 1 and not (digests[1:] > digests[:-1]).all():
            raise Malformed("the keys are not in the order of their digests")
        number = np.dtype(np.int64)
        counts = Column.decode(self.counts, count, number)
        if count and (int(counts.min()) < LONG or int(counts.max()) > SHORT_WINDOW):
            raise Malformed(f"windows have from {counts.min()} to {counts.max()} rows")
        rows = int(np.maximum(counts, 0).sum())
        if most is not None and rows > most:
            raise Malformed(f"the windows of {count} keys have {rows} rows")
        if (self.times is None) == shape.timed:
            raise Malformed("the times of rows are there and should not be, or the other way round")
        values: list[dict[str, Any]] = []
        programs = fields(self.programs, "the programs", len(shape.programs))
        for known, packed in zip(shape.programs, programs, strict=True):
            columns = fields(packed, "the columns of a program", len(known))
            pairs = zip(known, columns, strict=True)
            values.append({name: Column.decode(each, rows, kind) for (name, kind), each in pairs})
        keys = np.flatnonzero(counts == LONG).tolist()
        entries = fields(self.long, "the keys with windows of their own")
        if len(keys) != len(entries):
            raise Malformed(f"{len(keys)} keys should have windows of their own, and {len(entries)} have")
        long = np.full(count, None, dtype=object)
        for key, entry in zip(keys, entries, strict=True):
            long[key] = raw(entry, "the windows of a key")
        return Block(
            digests,
            Column.decode(self.youngest, count, shape.clock),
            np.zeros(count, dtype=np.int64) if self.seen is None else Column.decode(self.seen, count, number),
            counts,
            None if self.times is None else Column.decode(self.times, rows, shape.clock),
            values,
            long,
        )


def encode_block(block: Block) -> bytes:
    saved = SavedBlock(
        len(block),
        block.digests.tobytes(),
        Column.encode(block.youngest),
        Column.encode(block.seen) if block.seen.any() else None,
        Column.encode(block.counts),
        None if block.times is None else Column.encode(block.times),
        [list(map(Column.encode, each.values())) for each in block.values],
        [each for each in block.long if each is not None],
    )
    return bytes(msgpack.packb(saved))


def decode_block(data: bytes | memoryview, shape: Shape) -> Block:
    """The reverse of `encode_block`; Malformed unless these are keys of this shape."""
    return SavedBlock.unpack(data).decode(shape)


def encode_parts(block: Block, bounds: Sequence[tuple[int, int]]) -> list[bytes]:
    """Ranges of keys as blocks of their own.

    Each column becomes bytes once, since many parts of few keys would be mostly calls. So their numbers are
    not packed as tightly as those of `encode_block`.
    """
    ends = [0, *block.ends.tolist()]
    digests, long = block.digests.tobytes(), block.long.tolist()
    seen = _Parts(block.seen) if block.seen.any() else None
    youngest, counts = _Parts(block.youngest), _Parts(block.counts)
    times = None if block.times is None else _Parts(block.times)
    programs = [list(map(_Parts, each.values())) for each in block.values]
    found = []
    for start, stop in bounds:
        first, last = ends[start], ends[stop]
        saved = SavedBlock(
            stop - start,
            digests[start * DIGEST : stop * DIGEST],
            youngest.part(start, stop),
            None if seen is None else seen.part(start, stop),
            counts.part(start, stop),
            None if times is None else times.part(first, last),
            [[column.part(first, last) for column in each] for each in programs],
            [each for each in long[start:stop] if each is not None],
        )
        found.append(bytes(msgpack.packb(saved)))
    return found


class _Parts:
    """A column of which many short parts are packed."""

    def __init__(self, column: Any) -> None:
        self._list = column if isinstance(column, list) else None
        if self._list is None:
            little = column.astype(column.dtype.newbyteorder("<"), copy=False)
            self._kind, self._data = little.dtype.str, little.tobytes()

    def part(self, start: int, stop: int) -> Column:
        if self._list is not None:
            return Column.encode(self._list[start:stop])
        return Column(self._kind, [], self._data[_WORD * start : _WORD * stop])


def decode_parts(parts: Sequence[bytes | memoryview], shape: Shape) -> Block:
    """All keys of several blocks; Malformed unless they are keys of this shape."""
    saved = list(map(SavedBlock.unpack, parts))
    both = _end_to_end(saved, shape)
    return joined([each.decode(shape) for each in saved]) if both is None else both.decode(shape, None)


def _end_to_end(parts: list[SavedBlock], shape: Shape) -> SavedBlock | None:
    """One saved block with the keys of all parts, if their columns are numbers as they are in memory.

    None if not; then each part is decoded by itself, which also finds out what is wrong with it.
    """
    if any(part.seen is not None or part.long for part in parts):
        return None
    if any(kind.kind == "O" for each in shape.programs for _, kind in each):
        return None
    try:
        lengths = [part.keys for part in parts]
        rows = [int(np.frombuffer(part.counts[2], "<i8").sum()) for part in parts]
        clock = shape.clock.str
        return SavedBlock(
            sum(lengths),
            b"".join([part.digests for part in parts]),
            _together([part.youngest for part in parts], clock, lengths),
            None,
            _together([part.counts for part in parts], "<i8", lengths),
            _together([part.times for part in parts], clock, rows) if shape.timed else None,
            [
                [
                    _together([part.programs[number][index] for part in parts], kind.str, rows)
                    for index, (_, kind) in enumerate(known)
                ]
                for number, known in enumerate(shape.programs)
            ],
            [],
        )
    except (TypeError, ValueError, LookupError):
        return None


def _together(columns: Sequence[Any], kind: str, lengths: list[int]) -> Column:
    """Columns of numbers as one; ValueError if one of them is not written as numbers are in memory."""
    for each, length in zip(columns, lengths, strict=True):
        if len(each) != 3 or each[0] != kind or each[1] or len(each[2]) != _WORD * length:
            raise ValueError("a column is packed more tightly")
    return Column(kind, [], b"".join([each[2] for each in columns]))
