"""Keys in columns: the digest of each, the time of its youngest row, and the rows of its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from mta.monoids.base import Array

#: The count of a key that has windows of its own.
LONG = -1

#: Bytes of a digest.
DIGEST = 16

_DIGESTS = np.dtype(f"S{DIGEST}")


@dataclass(frozen=True)
class Shape:
    """The columns of a block."""

    #: whether times are whole numbers
    whole: bool
    #: whether windows need the times of their rows
    timed: bool
    #: for each program the dtypes of its elements' fields; object for one over Python objects
    programs: tuple[tuple[tuple[str, np.dtype[Any]], ...], ...]

    @cached_property
    def clock(self) -> np.dtype[Any]:
        """The dtype of times."""
        return np.dtype(np.int64 if self.whole else np.float64)

    def empty(self) -> Block:
        return self.keys(np.zeros(0, dtype=_DIGESTS), np.zeros(0, dtype=self.clock))

    def keys(self, digests: Array, youngest: Array) -> Block:
        """Keys whose windows are empty."""
        zeros = np.zeros(len(digests), dtype=np.int64)
        values: list[dict[str, Any]] = [
            {name: [] if kind.kind == "O" else np.zeros(0, dtype=kind) for name, kind in fields}
            for fields in self.programs
        ]
        times = np.zeros(0, dtype=self.clock) if self.timed else None
        long = np.full(len(digests), None, dtype=object)
        return Block(digests, youngest, zeros, zeros, times, values, long)


@dataclass
class Block:
    """Keys in the order of their digests; the rows of each key stand together, in their order."""

    digests: Array
    youngest: Array
    #: microseconds on the clock when the key had its last rows; 0 where keys are not forgotten by the clock
    seen: Array
    #: the number of rows in each key's window, LONG for a key that has windows of its own
    counts: Array
    times: Array | None
    #: for each program a mapping of columns: arrays, or lists of Python objects
    values: list[dict[str, Any]]
    #: the saved windows (`mta.keyed.long`) of each key that has windows of its own; None for the others
    long: Array

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def rows(self) -> Array:
        """The number of rows of each key in this block."""
        return np.maximum(self.counts, 0)

    @cached_property
    def ends(self) -> Array:
        """The end of each key's rows."""
        return np.cumsum(self.rows)

    def take(self, keys: Array) -> Block:
        """Some keys, by ascending indices."""
        return self if len(keys) == len(self) else self.at(keys)

    def at(self, keys: Array) -> Block:
        """The keys at some indices, in their order."""
        counts = self.rows[keys]
        rows = ranges(self.ends[keys] - counts, counts)
        return Block(
            self.digests[keys],
            self.youngest[keys],
            self.seen[keys],
            self.counts[keys],
            None if self.times is None else self.times[rows],
            taken(self.values, rows),
            self.long[keys],
        )

    def without(self, keys: Array) -> Block:
        """The other keys than those at some indices."""
        return self.at(np.delete(np.arange(len(self)), keys))

    def find(self, digests: Array) -> Array:
        """The indices of keys, -1 for a key that is not in this block."""
        if not len(self):
            return np.full(len(digests), -1)
        indices = np.searchsorted(self.digests, digests)
        indices[indices == len(self)] = 0
        return np.where(self.digests[indices] == digests, indices, -1)


_COLUMNS = attrgetter("digests", "youngest", "seen", "counts", "long", "times", "values")


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks that share no key as one."""
    if len(blocks) == 1:
        return blocks[0]
    *of_keys, times, values = zip(*map(_COLUMNS, blocks), strict=True)
    digests, youngest, seen, counts, long = map(np.concatenate, of_keys)
    all_times = None if times[0] is None else np.concatenate(times)
    both = Block(digests, youngest, seen, counts, all_times, end_to_end(values), long)
    if len(both) < 2 or bool((both.digests[1:] > both.digests[:-1]).all()):
        return both
    return both.at(np.argsort(both.digests, kind="stable"))


def digests_of(data: Any) -> Array:
    """The digests that bytes consist of, as an array."""
    return np.frombuffer(data, dtype=_DIGESTS)


def digest_at(digests: Array, index: int) -> bytes:
    """One digest, with the zeros at its end, which NumPy's own items lack."""
    return digests[index : index + 1].tobytes()


def hashes_of(digests: Array) -> Array:
    """The first 64 bits of digests, which are in the same order."""
    found: Array = np.ascontiguousarray(digests).view(">u8")[::2].astype(np.uint64)
    return found


def ranges(starts: Array, lengths: Array) -> Array:
    """The numbers from each start, `length` of them, one range after the other."""
    ends = np.cumsum(lengths)
    found: Array = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
    return found


def elements(columns: Mapping[str, Any], count: int) -> Any:
    """The columns of a block as a batch of elements."""
    return columns if columns else np.ones(count, dtype=np.int64)


def taken(values: Sequence[Mapping[str, Any]], rows: Array) -> list[dict[str, Any]]:
    """Some rows of the columns of each program."""
    found: list[dict[str, Any]] = [{} for _ in values]
    for columns, some in zip(values, found, strict=True):
        for name, column in columns.items():
            if isinstance(column, list):
                some[name] = [column[row] for row in rows.tolist()]
            else:
                some[name] = column[rows]
    return found


def end_to_end(parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The columns of each program, one part behind the other. The first part says which columns there are."""
    found: list[dict[str, Any]] = [{} for _ in parts[0]]
    for values, names in zip(zip(*parts, strict=True), found, strict=True):
        for name in values[0]:
            columns = [each[name] for each in values]
            listed = isinstance(columns[0], list)
            names[name] = list(chain.from_iterable(columns)) if listed else np.concatenate(columns)
    return found
