"""Monoids that keep k elements: LastK and TopK. A state has a count and k elements, in columns of their own.

Columns of unused elements hold zeros, so that equal states have equal columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from mta.kinds import Array, Columns, Result, Results, Row, State
from mta.monoids.base import ColumnarMonoid
from mta.monoids.columns import aligned, alike, check_numbers, column_of
from mta.monoids.moments import all_ones, counting, ones
from mta.monoids.values import plain, plain_column
from mta.options import check_between
from mta.owned import own

#: The most elements that a state keeps: a combine takes time in their number.
MOST_KEPT = 1000


class _Kept(ColumnarMonoid):
    """A state is (count, element, element …): the elements of the window that count, then zeros."""

    @overload
    def __init__(self, k: int, *fields: str) -> None: ...

    @overload
    def __init__(self, *fields: str, k: int) -> None: ...

    def __init__(self, *fields: Any, k: Any = None) -> None:
        """`k` comes first, or by its name as the options of other monoids do."""
        if k is None:
            if not fields:
                name = type(self).__name__
                raise TypeError(f'{name} takes k, from 1 to {MOST_KEPT}: {name}(3), or {name}("x", k=3)')
            k, *fields = fields  # type: ignore[assignment]
        super().__init__(*fields)
        self.k = check_between(type(self).__name__, "k", k, 1, MOST_KEPT)
        self.width = self.k + 1
        self.identity = (0,) * self.width

    def lift_row(self, row: Row) -> State:
        return (1, row, *self.identity[2:])

    def lift_columns(self, inputs: Columns) -> Columns:
        unused = _zeros(inputs[0].dtype, len(inputs[0]))
        return (ones(len(inputs[0])), inputs[0], *(unused,) * (self.k - 1))

    def check_states(self, states: Columns) -> None:
        counts = states[0]
        if counts.dtype.kind != "i" or (counts < 1).any() or (counts > self.k).any():
            raise ValueError(f"{self!r} has states of 1 to {self.k} elements")

    def fingerprint(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, (self.k, *self.fields)))})"


class LastK(_Kept):
    """A tuple of the last k elements, the oldest first; of all of them if the window has fewer.

    In `slide` the results are an array of such tuples. Elements are of any type, and must not be missing.

    Takes k, from 1 to 1,000, and the name of the field to read, or none: `LastK(3, "price")` or
    `LastK("price", k=3)`. ValueError for another k, TypeError for a missing element. A combine takes time in
    k, and memory does not grow with the window.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.LastK(2), policies.TimeWindow(10))
    >>> window.slide([3, 1, 4, 1], [0, 1, 2, 30]).tolist()
    [(3,), (3, 1), (1, 4), (1,)]
    """

    # the youngest element is the first of the state

    def check_row(self, row: Row) -> Row:
        return plain(row, self)

    def check_columns(self, inputs: Columns) -> Columns:
        return (plain_column(inputs[0], self),)

    def combine(self, older: State, younger: State) -> State:
        count = younger[0]
        if count == self.k:
            return younger
        return (min(older[0] + count, self.k), *younger[1 : count + 1], *older[1 : self.k - count + 1])

    def lower(self, state: State) -> Result:
        return own(state[state[0] : 0 : -1])

    def lower_columns(self, states: Columns) -> Results:
        rows = list(zip(*(column.tolist() for column in states[:0:-1]), strict=True))
        for row in np.flatnonzero(states[0] < self.k).tolist():
            rows[row] = rows[row][self.k - int(states[0][row]) :]
        return np.fromiter(rows, dtype=object, count=len(rows))

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        length = max(len(older[0]), len(younger[0]))
        younger = tuple(np.broadcast_to(column, (length,)) for column in younger)
        short = np.flatnonzero(younger[0] < self.k)
        if not len(short):
            return younger
        if len(older[0]) > 1:
            older = tuple(column[short] for column in older)
        joined = self._behind(older, tuple(column[short] for column in younger))
        if len(short) == length:
            return joined
        columns = []
        for column, some in zip(*aligned(younger, joined), strict=True):
            column = column.copy()
            column[short] = some
            columns.append(column)
        return tuple(columns)

    def _behind(self, older: Columns, younger: Columns) -> Columns:
        """`combine` of states whose younger one has fewer than k elements."""
        counts = younger[0]
        slots = alike((*younger[1:], *(np.broadcast_to(column, (len(counts),)) for column in older[1:])))
        places = np.arange(self.k)[:, None] - counts
        # an element of the older state comes behind those of the younger one
        places = np.where(places < 0, np.arange(self.k)[:, None], places + self.k)
        chosen = np.take_along_axis(np.stack(slots), places, axis=0)
        return (np.minimum(older[0] + counts, self.k), *chosen)

    def prefix_columns(self, states: Columns) -> Columns:
        if not len(states[0]):
            return states
        elements, ends = self._end_to_end(states)
        columns = []
        for back in range(1, self.k + 1):
            there = elements.take(np.maximum(ends - back, 0))
            columns.append(there if int(ends[0]) >= back else np.where(ends >= back, there, 0))
        return (np.minimum(ends, self.k), *columns)

    def suffix_columns(self, states: Columns) -> Columns:
        elements, ends = self._end_to_end(states)
        total = len(elements)
        counts = total - ends + states[0]
        columns = []
        for back in range(1, self.k + 1):
            if back > total:
                columns.append(_zeros(elements.dtype, len(ends)))
            else:
                columns.append(np.where(counts >= back, elements[total - back : total - back + 1], 0))
        return (np.minimum(counts, self.k), *columns)

    def fold_columns(self, states: Columns) -> Columns:
        last = tuple(column[-self.k :] for column in states)  # each has an element at least
        return tuple(column[:1] for column in self.suffix_columns(last))

    def _end_to_end(self, states: Columns) -> tuple[Array, Array]:
        """The elements of all states, oldest first, and where those of each state end."""
        counts = states[0]
        if all_ones(counts):
            return states[1], counting(len(counts))
        slots = np.stack(alike(states[:0:-1]), axis=1)
        used = np.arange(self.k, 0, -1) <= counts[:, None]
        return slots[used], np.add.accumulate(counts)


class TopK(_Kept):
    """A tuple of the k largest numbers, the largest first; of all of them if the window has fewer.

    A number that occurs several times is there as often. In `slide` the results are an array of such tuples.

    Takes k, from 1 to 1,000, and the name of the field to read, or none: `TopK(3, "price")` or
    `TopK("price", k=3)`. ValueError for another k; the errors of Sum for an element that is no number. A
    combine takes time in k, and memory does not grow with the window.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.TopK(2), policies.CountWindow(3))
    >>> window.slide([3, 1, 4, 4, 2]).tolist()
    [(3,), (3, 1), (4, 3), (4, 4), (4, 4)]
    """

    commutes = True

    def combine(self, older: State, younger: State) -> State:
        count, other = older[0], younger[0]
        if not count or not other:
            return older if count else younger
        best = sorted((*older[1 : count + 1], *younger[1 : other + 1]), reverse=True)[: self.k]
        return (len(best), *best, *self.identity[len(best) + 1 :])

    def lower(self, state: State) -> Result:
        return state[1 : state[0] + 1]

    def lower_columns(self, states: Columns) -> Results:
        rows = list(zip(*(column.tolist() for column in states[1:]), strict=True))
        for row in np.flatnonzero(states[0] < self.k).tolist():
            rows[row] = rows[row][: int(states[0][row])]
        return np.fromiter(rows, dtype=object, count=len(rows))

    def check_states(self, states: Columns) -> None:
        super().check_states(states)
        check_numbers(states, self)
        for place in range(1, self.k):
            larger, smaller = alike(states[place : place + 2])
            if ((states[0] > place) & (larger < smaller)).any():
                raise ValueError(f"{self!r} has states whose numbers are not sorted, the largest first")

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        slots = alike((*older[1:], *younger[1:]))
        larger = _with_lowest(older[0], slots[: self.k])
        others = _with_lowest(younger[0], slots[self.k :])
        return self._states(np.minimum(older[0] + younger[0], self.k), _largest(larger, others))

    def prefix_columns(self, states: Columns) -> Columns:
        if not all_ones(states[0]) or not len(states[0]):
            return super().prefix_columns(states)
        rest, columns = states[1], []
        for _ in range(self.k):
            best = np.maximum.accumulate(rest)
            columns.append(best)
            # each number that is not the largest so far, or that was until now, goes on to the next column
            beaten = np.empty_like(rest)
            beaten[0] = _lowest(rest.dtype)
            np.minimum(best[:-1], rest[1:], out=beaten[1:])
            rest = beaten
        return self._states(np.minimum(counting(len(rest)), self.k), columns)

    def suffix_columns(self, states: Columns) -> Columns:
        scanned = self.prefix_columns(tuple(column[::-1] for column in states))
        return tuple(column[::-1] for column in scanned)

    def fold_columns(self, states: Columns) -> Columns:
        slots = np.stack(alike(states[1:]), axis=1)
        best = np.sort(slots[np.arange(self.k) < states[0][:, None]])[: -self.k - 1 : -1]
        unused = np.zeros(self.k - len(best), dtype=best.dtype)
        return (column_of([len(best)]), *np.concatenate([best, unused])[:, None])

    def _states(self, counts: Array, columns: Sequence[Array]) -> Columns:
        """Columns of states, with zeros where the counts say that there is no number."""
        short = int(counts.min(initial=self.k))
        used = columns[:short]
        return (counts, *used, *(np.where(counts > j, columns[j], 0) for j in range(short, self.k)))


def _zeros(kind: np.dtype[Any], count: int) -> Array:
    """A column of zeros that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype=kind), count)


def _lowest(kind: np.dtype[Any]) -> int | float:
    return -(2**63) if kind.kind == "i" else -math.inf


def _with_lowest(counts: Array, columns: Sequence[Array]) -> list[Array]:
    """The columns of numbers, with the lowest number in place of unused ones."""
    short = int(counts.min(initial=len(columns)))
    lowest = _lowest(columns[0].dtype)
    return [
        column if place < short else np.where(counts > place, column, lowest)
        for place, column in enumerate(columns)
    ]


def _largest(some: Sequence[Array], others: Sequence[Array]) -> list[Array]:
    """The k largest of twice k numbers, entry by entry, where both halves are sorted, the largest first.

    Batcher's bitonic merge: the first step finds the k largest, which rise after they have fallen, and each
    further step sorts by comparing pairs half as far apart. It compares whole columns, in O(log k) steps.
    None stands for the lowest number, where k is no power of two.
    """
    k = len(some)
    size = 1 << (k - 1).bit_length()
    a: list[Array | None] = [*some, *(None,) * (size - k)]
    b: list[Array | None] = [*others, *(None,) * (size - k)]
    found = [_larger(a[place], b[size - 1 - place]) for place in range(size)]
    step = size // 2
    while step:
        for place in range(size):
            if not place & step:
                one, other = found[place], found[place + step]
                found[place], found[place + step] = _larger(one, other), _smaller(one, other)
        step //= 2
    return [column for column in found[:k] if column is not None]


def _larger(one: Array | None, other: Array | None) -> Array | None:
    if one is None or other is None:
        return other if one is None else one
    return np.asarray(np.maximum(one, other))


def _smaller(one: Array | None, other: Array | None) -> Array | None:
    return None if one is None or other is None else np.asarray(np.minimum(one, other))
