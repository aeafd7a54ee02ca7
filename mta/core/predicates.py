"""The heads of a batch's rows under a predicate that takes columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from mta.core.log import Piece
from mta.core.states import NOTHING, ColumnLayout, Run
from mta.core.view import View
from mta.frames.limits import Predicate
from mta.monoids.base import Array, Columns, joined
from mta.monoids.ufuncs import quiet
from mta.numbers.wide import is_large, subtractable

#: The oldest elements that are looked at are as many as the rows, and this many more. A row that lets all of
#: them go is pushed.
LEAST = 256

#: Rows are searched in rounds: each round has this many times as many rows, between the rows that are known.
FAN = 32

#: A predicate under which heads still move after this many rounds is not monotone, and rows are pushed.
ROUNDS = 16

#: A sum of real numbers, which have 53 bits, is too large if it is more than this many typical elements.
LARGE = 2.0**28


class NotInColumns(Exception):
    """Rows have to be asked for one by one."""


class RowStarts:
    """Searches for the heads of all rows at once.

    An aggregate begins at an element before which all elements have left, and not at the oldest element of
    the window: an element that left long ago takes no part in a sum, however large the element was. Two
    questions settle a head, the same that a push asks: the oldest element of the row's window stays, and the
    element before it does not.

    The search is over one run: the oldest elements of the window, one state for the others, and the rows.
    """

    def __init__(self, view: View, predicate: Predicate, states: Run) -> None:
        assert isinstance(view.layout, ColumnLayout)
        self._layout, self._predicate = view.layout, predicate
        self._view, self._rows = view, view.layout.length(states)
        #: how many of the oldest elements are single entries of the run, and the entry where the rows begin
        self._singles = min(len(view), self._rows + LEAST)
        self._hides = self._singles < len(view)
        self._begin = self._singles + self._hides
        self._parts = [*self._older(), states]
        #: by the first column of a field
        self._fields: dict[int, Stretches] = {}
        #: whether aggregates that begin at other entries may be rounded otherwise
        self._rounded = False
        #: whether the predicate has read columns of Python objects
        self._saw_objects = False

    def find(self) -> Array:
        """The heads of the rows, up to a row that has to be pushed."""
        found = self._all()
        rows = self._begin + np.arange(self._rows)
        stuck = found == rows
        if stuck.any():
            stuck[stuck] = self._gone(rows[stuck], rows[stuck], rows[stuck])
        if self._hides:
            stuck |= found == self._singles
        count = int(stuck.argmax()) if stuck.any() else self._rows
        heads = np.where(found < self._singles, found + self._view.head, found - self._begin + self._view.end)
        return heads[:count]

    def _older(self) -> Iterator[Run]:
        """The entries of the run before the rows."""
        view, layout, count = self._view, self._layout, self._singles
        if count:
            log, stop = view.log, view.head + count
            edges = [view.head, *range((view.head | view.mask) + 1, stop, view.mask + 1), stop]
            pages = log.read([Piece(0, *ends) for ends in pairwise(edges)])
            yield layout.lift(layout.concat([page.run for page in pages]))
        if self._hides:
            younger = view.coming(NOTHING)
            if count <= view.rests_ready():
                yield layout.gather([view.rest(count, younger, NOTHING)])
            else:
                yield layout.gather([view.log.fold(view.head + count, view.end)])

    def _all(self) -> Array:
        """The entry of each row's head: of few rows first, then of the rows between them."""
        known, stride = np.zeros(0, dtype=np.int64), 1
        while stride * FAN <= self._rows:
            stride *= FAN
        while stride:
            at = np.arange(stride - 1, self._rows, stride)
            rows, group = at + self._begin, (at + 1) // (stride * FAN)
            low = np.concatenate(([0], known))[group]
            high = np.minimum(np.concatenate((known, [self._begin + self._rows]))[group], rows)
            known = self._between(rows, low, np.maximum(low, high))
            stride //= FAN
        return known

    def _between(self, rows: Array, low: Array, high: Array) -> Array:
        """The entries of the heads of some rows: at `low` at least, and likely at `high` at most."""
        found = self._halved(rows, low, low, high, careful=False)
        if self._rounded:
            moved = np.flatnonzero(found > low)
            wrong = moved[~self._gone(found[moved] - 1, found[moved] - 1, rows[moved])]
            if len(wrong):
                start, most = low[wrong], found[wrong] - 1
                found[wrong] = self._halved(rows[wrong], start, start, most, careful=True)
        more = np.flatnonzero((found < rows) & (self._rounded | (found == high)))
        for _ in range(ROUNDS):
            found = np.maximum.accumulate(found)
            more = more[self._gone(found[more], found[more], rows[more])]
            if not len(more):
                return found
            found[more] = self._halved(rows[more], found[more], found[more], rows[more], careful=True)
            more = np.flatnonzero(found < rows)
        raise NotInColumns

    def _halved(self, rows: Array, start: Array, low: Array, high: Array, *, careful: bool) -> Array:
        """The first entry that stays, between `low` and `high`; aggregates begin at `start`.

        With `careful`, an entry goes only if it also goes as the oldest of its window.
        """
        total = self._of(start, rows)
        while count := np.count_nonzero(wide := low < high):
            if 2 * count < len(rows):
                some, low = np.flatnonzero(wide), low.copy()
                low[some] = self._halved(rows[some], start[some], low[some], high[some], careful=careful)
                return low
            middle = (low + high) >> 1
            gone = self._answers(total, self._of(start, middle), len(rows)) & wide
            if careful:
                gone &= self._gone(middle, middle, rows)
            low, high = np.where(gone, middle + 1, low), np.where(gone, high, middle)
        return low

    # -- questions --------------------------------------------------------------------------------------

    def _gone(self, start: Array, last: Array, rows: Array) -> Array:
        """Whether the entries from `start` to `last` leave the window of a row that begins at `start`."""
        return self._answers(self._of(start, rows), self._of(start, last), len(rows))

    def _answers(self, total: Read, old: Read, count: int) -> Array:
        if not count:
            return np.zeros(0, dtype=bool)
        try:
            with quiet():
                found = self._predicate(self._layout.shaped(total), self._layout.shaped(old))
                return answers(found, count)
        except Exception as error:
            if self._saw_objects:  # few functions of NumPy take objects
                raise NotInColumns from error
            raise

    def _of(self, first: Array, last: Array) -> Read:
        return Read(self._layout.monoid.width, lambda part: self._columns(part, first, last))

    def _columns(self, part: slice, first: Array, last: Array) -> Columns:
        return tuple(map(self._shown, self._stretches(part).of(first, last)))

    def _shown(self, column: Array) -> Array:
        column = read_only(column)
        self._saw_objects |= column.dtype == object
        return column

    def _stretches(self, part: slice) -> Stretches:
        found = self._fields.get(part.start)
        if found is None:
            layout = self._layout.of_part(part)
            found = stretches(layout, layout.concat([run[part] for run in self._parts]), self._begin)
            self._fields[part.start] = found
            self._rounded |= isinstance(found, Ranges)
        return found


class Read:
    """Columns that are made when they are first read, one field at a time."""

    def __init__(self, width: int, make: Callable[[slice], tuple[Any, ...]]) -> None:
        self._width, self._make = width, make
        self._made: dict[int, tuple[Any, ...]] = {}

    def __getitem__(self, part: slice) -> tuple[Any, ...]:
        """The columns of a field, or all columns."""
        if part.start not in self._made:
            self._made[part.start] = self._make(part)
        return self._made[part.start]

    def __iter__(self) -> Iterator[Any]:
        return iter(self[slice(0, self._width)])

    @property
    def parts(self) -> list[slice]:
        """The columns that were read."""
        return [slice(start, start + len(columns)) for start, columns in self._made.items()]


def answers(given: Any, count: int) -> Array:
    """The answers of a predicate, one for each row, as an array of bools."""
    found: Array = np.asarray(given)
    if found.shape != (count,):
        raise TypeError(
            f"a predicate that takes columns gives one answer a row: for columns of {count} entries it "
            f"gave {found!r}"
        )
    return found.astype(bool, copy=False)


def read_only(column: Array) -> Array:
    """A view of a column that a user's function cannot change: pages and stacks share the column."""
    view = column.view()
    view.flags.writeable = False
    return view


class Stretches(Protocol):
    def of(self, first: Array, last: Array) -> Run:
        """The aggregates of the ranges from each of some entries to another, both included.

        Aggregates may begin before their first entry, but all with one first entry begin at the same entry.
        A difference of two such aggregates of whole numbers is exact.
        """


def stretches(layout: ColumnLayout, states: Run, window: int) -> Stretches:
    """The cheapest form in which no element is rounded away. `window` entries are in the window as it is."""
    prefixes = layout.prefixes(states)
    large = [column for column in prefixes if is_large(column)]
    if large:  # sums of all entries are, but those of a window may be smaller
        kept = window and any(is_large(column[window - 1 : window]) for column in large)
        return Prefixes(layout, prefixes) if kept else Ranges(layout, states)
    if any(column.dtype.kind == "f" for column in prefixes):
        twice = layout.combine(states, states)
        if any(map(_outweighed, prefixes, states, twice)):
            return Ranges(layout, states)
    return Prefixes(layout, prefixes)


def _outweighed(totals: Array, states: Array, twice: Array) -> bool:
    """Whether some totals are sums of real numbers so large that elements are rounded away.

    `twice` has each state combined with itself: that changes a sum, and does not change an extremum.
    """
    if totals.dtype.kind != "f":
        return False
    added = states[(states != 0) & (twice != states)]
    return bool(len(added)) and not float(np.abs(totals).max()) <= LARGE * float(np.median(np.abs(added)))


class Prefixes:
    """Every aggregate begins at the first entry of the run: the predicate does not mind entries that left."""

    def __init__(self, layout: ColumnLayout, prefixes: Run) -> None:
        self._layout, self._prefixes = layout, tuple(map(subtractable, prefixes))

    def of(self, first: Array, last: Array) -> Run:  # noqa: ARG002
        return self._layout.take(self._prefixes, last)


class Ranges:
    """Every aggregate begins at its first entry: a disjoint sparse table, where two entries make any range.

    Level j cuts the run into blocks of 2^(j + 1) entries. An entry in the older half of its block aggregates
    from itself to the middle, an entry in the younger half from the middle to itself. The two ends of a range
    are in the two halves of one block, on the level of the highest bit in which the ends differ. An aggregate
    is the result of O(log n) combines of its own entries, so no element is rounded away beside others.
    """

    def __init__(self, layout: ColumnLayout, states: Run) -> None:
        self._layout, self._count = layout, layout.length(states)
        levels: list[Run] = []
        at = np.arange(self._count)
        prefixes = suffixes = states
        half = 1
        while True:
            younger = (at & half) != 0
            levels.append(layout.choose(younger, prefixes, suffixes))
            if 2 * half >= self._count:
                break
            begin = at & -half
            rows = at[younger]
            ends = layout.take(prefixes, begin[rows] - 1)
            prefixes = layout.put(prefixes, rows, layout.combine(ends, layout.take(prefixes, rows)))
            # the last block may have no younger half: then no range begins in it and ends behind it
            rows = at[~younger & (begin + 2 * half <= self._count)]
            others = layout.take(suffixes, begin[rows] + half)
            suffixes = layout.put(suffixes, rows, layout.combine(layout.take(suffixes, rows), others))
            half *= 2
        self._levels = tuple(joined(columns) for columns in zip(*levels, strict=True))

    def of(self, first: Array, last: Array) -> Run:
        """The aggregates from each of some entries to another, both included."""
        layout = self._layout
        _, bits = np.frexp((first ^ last).astype(np.float64))
        level = (np.maximum(bits, 1) - 1) * self._count
        found = layout.take(self._levels, level + first)
        alone = first == last
        if not alone.all():
            both = layout.combine(found, layout.take(self._levels, level + last))
            found = layout.choose(alone, found, both) if alone.any() else both
        return tuple(map(subtractable, found))
