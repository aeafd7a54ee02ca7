"""Monoids whose elements may be without a value: such an element has the state NO_VALUE and changes nothing.

`SkippingColumns` is of states in columns, and `SkippingObjects` of states that are Python objects. Both have
the states of the monoid inside them, and NO_VALUE.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mta.kinds import Array, Columns, Packed, Result, Results, State
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.monoids.columns import alike, column_of, joined, scattered
from mta.monoids.missing import NO_VALUE
from mta.monoids.moments import ones
from mta.owned import own


class Skipping(Monoid):
    """The single states of monoids that skip missing values."""

    identity = NO_VALUE
    inner: Monoid

    @property
    def unseen(self) -> State:
        """The state that predicates see where there is no value."""
        return self.inner.identity

    def combine(self, older: State, younger: State) -> State:
        if older is NO_VALUE:
            return younger
        return older if younger is NO_VALUE else self.inner.combine(older, younger)

    def without(self, state: State, older: State) -> State:
        return state if older is NO_VALUE else self.inner.without(state, older)

    def lower(self, state: State) -> Result:
        return self.inner.lower(self.inner.identity if state is NO_VALUE else state)

    def pack(self, state: State) -> Packed:
        return None if state is NO_VALUE else [self.inner.pack(state)]

    def unpack(self, packed: Packed) -> State:
        if packed is None:
            return NO_VALUE
        if not isinstance(packed, list) or len(packed) != 1:
            raise TypeError(f"{self!r} has None or a list of one state packed, got {packed!r}")
        return self.inner.unpack(packed[0])


class SkippingObjects(Skipping):
    """Any monoid over Python objects."""

    def __init__(self, inner: Monoid) -> None:
        self.inner, self.fields = inner, inner.fields
        self.grows, self.commutes, self.invertible = inner.grows, inner.commutes, inner.invertible


class SkippingColumns(Skipping, ColumnarMonoid):
    """Any columnar monoid. States have the inner columns, and one that is 1 where there is a value.

    Where there is none, the inner columns have zeros, and the inner monoid never gets them. In runs where
    all entries have a value, all is left to the inner monoid.
    """

    inner: ColumnarMonoid

    def __init__(self, inner: ColumnarMonoid, *fields: str) -> None:
        self.arity = inner.arity
        super().__init__(*fields)
        self.inner, self.width = inner, inner.width + 1
        self.grows, self.commutes, self.invertible = inner.grows, inner.commutes, inner.invertible

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes + 8

    def there(self, inputs: Columns) -> Array | None:
        """Which elements have all inputs that they need; None for all elements."""
        raise NotImplementedError

    def lift_columns(self, inputs: Columns) -> Columns:
        there = self.there(inputs)
        if there is None:
            return (*self.inner.lift_columns(inputs), ones(len(inputs[0])))
        lifted = self.inner.lift_columns(tuple(map(plainest, taken(inputs, np.flatnonzero(there)))))
        return (*(spread(column, there) for column in lifted), there.astype(np.int64))

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        if _all(older[-1]) and _all(younger[-1]):
            both = self.inner.combine_columns(older[:-1], younger[:-1])
            return (*both, ones(len(both[0])))
        count = max(len(older[-1]), len(younger[-1]))
        older, younger = (tuple(np.broadcast_to(c, (count,)) for c in run) for run in (older, younger))
        before, after = older[-1] != 0, younger[-1] != 0
        both, flags = before & after, (before | after).astype(np.int64)
        start, stop = int(both.argmax()), count - int(both[::-1].argmax())
        if both[start] and both[start:stop].all():  # as of scans: then nothing is copied out
            some = slice(start, stop)
            pairs = self.inner.combine_columns(_cut(older[:-1], some), _cut(younger[:-1], some))
            ends = [
                _either(before[end], _cut(older[:-1], end), _cut(younger[:-1], end))
                for end in (slice(0, start), slice(stop, count))
            ]
            return (*map(_end_to_end, ends[0], pairs, ends[1]), flags)
        out = _either(before, older[:-1], younger[:-1])
        where = np.flatnonzero(both)
        if len(where):
            pairs = self.inner.combine_columns(taken(older[:-1], where), taken(younger[:-1], where))
            out = [_put(column, where, each) for column, each in zip(out, pairs, strict=True)]
        return (*out, flags)

    def prefix_columns(self, states: Columns) -> Columns:
        if _all(states[-1]):
            return (*self.inner.prefix_columns(states[:-1]), states[-1])
        there = states[-1] != 0
        scanned = self.inner.prefix_columns(taken(states[:-1], np.flatnonzero(there)))
        seen = np.cumsum(there)
        return _spread_out(scanned, seen - 1, seen != 0)

    def suffix_columns(self, states: Columns) -> Columns:
        if _all(states[-1]):
            return (*self.inner.suffix_columns(states[:-1]), states[-1])
        there = states[-1] != 0
        scanned = self.inner.suffix_columns(taken(states[:-1], np.flatnonzero(there)))
        # how many entries with a value are at or after each
        after = np.cumsum(there[::-1])[::-1]
        return _spread_out(scanned, after[0] - after, after != 0)

    def fold_columns(self, states: Columns) -> Columns:
        if not _all(states[-1]):
            where = np.flatnonzero(states[-1])
            if not len(where):
                return tuple(column[:1] for column in states)
            states = taken(states, where)
        return (*self.inner.fold_columns(states[:-1]), states[-1][:1])

    def check_states(self, states: Columns) -> None:
        flags = states[-1]
        if flags.dtype.kind != "i" or ((flags != 0) & (flags != 1)).any():
            raise ValueError(f"{self!r} has states with 1 for a value or 0 for none, got other numbers")
        there = self.inner.state_list(taken(states[:-1], np.flatnonzero(flags)))
        self.inner.check_states(
            self.inner.columns_of(there)
        )  # plain states, as lifted ones are no stored ones

    def state_at(self, states: Columns, index: int) -> State:
        return self.inner.state_at(states[:-1], index) if states[-1][index] else NO_VALUE

    def state_list(self, states: Columns) -> list[State]:
        if _all(states[-1]):
            return self.inner.state_list(states[:-1])
        found = iter(self.inner.state_list(taken(states[:-1], np.flatnonzero(states[-1]))))
        return [next(found) if there else NO_VALUE for there in states[-1].tolist()]

    def columns_of(self, states: Sequence[State]) -> Columns:
        there = np.fromiter((state is not NO_VALUE for state in states), bool, len(states))
        if there.all():
            return (*self.inner.columns_of(states), ones(len(states)))
        columns = self.inner.columns_of([state for state in states if state is not NO_VALUE])
        return (*(spread(column, there) for column in columns), there.astype(np.int64))

    def lower_columns(self, states: Columns) -> Results:
        there = states[-1] != 0
        if there.all():
            return self.inner.lower_columns(states[:-1])
        where = np.flatnonzero(there)
        results = self.inner.lower_columns(taken(states[:-1], where)) if len(where) else None
        return filled(results, there, self.inner.lower(self.inner.identity))


def filled(results: Results, there: Array, empty: Result) -> Results:
    """Results, in order, of the entries that are there, and the result of no elements for the others."""
    if isinstance(results, dict) and isinstance(empty, dict) and results.keys() == empty.keys():
        return {name: scattered(column, there, empty[name]) for name, column in results.items()}
    if isinstance(results, dict):  # a monoid of its own, whose results are mappings of one kind or another
        rows = zip(*(column.tolist() for column in results.values()), strict=True)
        results = column_of([dict(zip(results, row, strict=True)) for row in rows])
    if results is None and isinstance(empty, dict):
        return {name: column_of([own(each) for _ in there]) for name, each in empty.items()}
    return scattered(results, there, empty)


def plainest(column: Array) -> Array:
    """A column of objects as one of numbers, if it has only these."""
    return column_of(column.tolist()) if column.dtype == object else column


def taken(columns: Columns, where: Array) -> Columns:
    return tuple(column[where] for column in columns)


def spread(column: Array, there: Array) -> Array:
    """A column with its entries where `there` is true, and zeros elsewhere."""
    out = np.zeros(len(there), dtype=column.dtype)
    out[there] = column
    return out


def _all(flags: Array) -> bool:
    """Whether all entries have a value."""
    if not len(flags):
        return True
    return bool(flags[0]) and (flags.strides[0] == 0 or bool(flags.min()))


def _spread_out(scanned: Columns, indices: Array, there: Array) -> Columns:
    if not len(scanned[0]):
        zeros = tuple(np.zeros(len(there), dtype=column.dtype) for column in scanned)
        return (*zeros, there.astype(np.int64))
    return (*(column.take(indices, mode="clip") for column in scanned), there.astype(np.int64))


def _cut(columns: Columns, part: slice) -> Columns:
    return tuple(column[part] for column in columns)


def _either(first: Array, columns: Columns, others: Columns) -> list[Array]:
    """Entries of the columns where `first` is true, and of the others where it is false."""
    return [np.where(first, *alike(pair)) for pair in zip(columns, others, strict=True)]


def _end_to_end(*parts: Array) -> Array:
    some = [part for part in parts if len(part)]
    return some[0] if len(some) == 1 else joined(some)


def _put(column: Array, where: Array, values: Array) -> Array:
    column, values = alike((column, values))
    if column.base is not None or not column.flags.writeable:
        column = column.copy()
    column[where] = values
    return column
