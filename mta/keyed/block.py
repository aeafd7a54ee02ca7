"""Keys in columns: the digest of each, the time of its youngest row, and the rows of its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mta.monoids.base import Array

#: What `counts` has for a key whose windows are its own.
LONG = -1

#: Bytes of a digest.
DIGEST = 16

_DIGESTS = np.dtype(f"S{DIGEST}")


@dataclass(frozen=True)
class Shape:
    """Which columns blocks of a query have."""

    #: whether times are whole numbers
    whole: bool
    #: whether windows ask for the times of their rows
    timed: bool
    #: for each program the dtypes of its elements' fields; object for one over Python objects
    programs: tuple[tuple[tuple[str, np.dtype[Any]], ...], ...]

    @cached_property
    def clock(self) -> np.dtype[Any]:
        return np.dtype(np.int64 if self.whole else np.float64)

    def empty(self) -> Block:
        return self.keys(np.zeros(0, dtype=_DIGESTS), np.zeros(0, dtype=self.clock))

    def keys(self, digests: Array, youngest: Array) -> Block:
        """Keys whose windows are empty."""
        nothing = np.zeros(len(digests), dtype=np.int64)
        values: list[Any] = [
            {name: [] if kind.kind == "O" else np.zeros(0, dtype=kind) for name, kind in fields}
            for fields in self.programs
        ]
        times = np.zeros(0, dtype=self.clock) if self.timed else None
        long = np.full(len(digests), None, dtype=object)
        return Block(digests, youngest, nothing, nothing, times, values, long)


@dataclass
class Block:
    """Keys in the order of their digests; the rows of each stand together, in their order."""

    digests: Array
    youngest: Array
    #: microseconds on the clock when the key had its last rows; 0 where nobody asks
    seen: Array
    #: rows of each key's window, LONG for a key that has windows of its own
    counts: Array
    times: Array | None
    #: for each program a mapping of columns: arrays, or lists of Python objects
    values: list[dict[str, Any]]
    #: of keys with windows of their own, what stands for them; else None
    long: Array

    def __len__(self) -> int:
        return len(self.digests)

    @property
    def rows(self) -> Array:
        """How many rows of each key stand here."""
        return np.maximum(self.counts, 0)

    @cached_property
    def ends(self) -> Array:
        return np.cumsum(self.rows)

    @property
    def hashes(self) -> Array:
        """The first 64 bits of the digests, in the same order."""
        return hashes_of(self.digests)

    def cut(self, start: int, stop: int) -> Block:
        """Keys start to stop; nothing is copied."""
        ends = self.ends
        first = int(ends[start - 1]) if start else 0
        last = int(ends[stop - 1]) if stop else 0
        return Block(
            self.digests[start:stop],
            self.youngest[start:stop],
            self.seen[start:stop],
            self.counts[start:stop],
            None if self.times is None else self.times[first:last],
            [{name: column[first:last] for name, column in each.items()} for each in self.values],
            self.long[start:stop],
        )

    def take(self, keys: Array) -> Block:
        """Some keys, by ascending places."""
        return self if len(keys) == len(self) else self.at(keys)

    def at(self, keys: Array) -> Block:
        """The keys at some places, in their order."""
        rows = self.rows
        places = ranges(self.ends[keys] - rows[keys], rows[keys])
        return Block(
            self.digests[keys],
            self.youngest[keys],
            self.seen[keys],
            self.counts[keys],
            None if self.times is None else self.times[places],
            [{name: taken(column, places) for name, column in each.items()} for each in self.values],
            self.long[keys],
        )

    def find(self, digests: Array) -> Array:
        """The places of keys, -1 for those that are not here."""
        if not len(self):
            return np.full(len(digests), -1)
        places = np.searchsorted(self.digests, digests)
        places[places == len(self)] = 0
        return np.where(self.digests[places] == digests, places, -1)


def joined(blocks: Sequence[Block]) -> Block:
    """Blocks that share no key as one."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    both = Block(
        np.concatenate([each.digests for each in blocks]),
        np.concatenate([each.youngest for each in blocks]),
        np.concatenate([each.seen for each in blocks]),
        np.concatenate([each.counts for each in blocks]),
        None if first.times is None else np.concatenate([each.times for each in blocks]),
        [
            {name: end_to_end([each.values[program][name] for each in blocks]) for name in fields}
            for program, fields in enumerate(first.values)
        ],
        np.concatenate([each.long for each in blocks]),
    )
    if len(both) < 2 or bool((both.digests[1:] > both.digests[:-1]).all()):
        return both
    return both.at(np.argsort(both.digests, kind="stable"))


def digests_of(data: Any) -> Array:
    """Digests that follow each other, as an array."""
    return np.frombuffer(data, dtype=_DIGESTS)


def digest_at(digests: Array, place: int) -> bytes:
    """One digest; NumPy's own items end before zeros."""
    return digests[place : place + 1].tobytes()


def hashes_of(digests: Array) -> Array:
    found: Array = np.ascontiguousarray(digests).view(">u8")[::2].astype(np.uint64)
    return found


def ranges(starts: Array, lengths: Array) -> Array:
    """The numbers from each start on, as many as its length says."""
    ends = np.cumsum(lengths)
    found: Array = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
    return found


def taken(column: Any, places: Array) -> Any:
    """Entries of an array or a list."""
    if isinstance(column, list):
        return [column[place] for place in places.tolist()]
    return column[places]


def end_to_end(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], list):
        return [item for column in columns for item in column]
    return np.concatenate(columns)
