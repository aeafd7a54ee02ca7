"""Where the windows of a batch's rows start under a predicate that takes columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from mta.core.limits import Predicate
from mta.core.log import Piece
from mta.core.predicates.ranges import Ranges, Stretches, stretches
from mta.core.states import NOTHING, ColumnLayout, Run
from mta.core.view import View
from mta.monoids.base import Array, Columns
from mta.monoids.ufuncs import quiet

#: Rows are taken to let as many of the oldest leaves go as they are, and so many more. One that lets all of
#: those go is pushed.
LEAST = 256

#: Rows are searched in steps: each that many times as many as before, between those that are known.
FAN = 32

#: After so many rounds of which each changes something, a predicate is not the same of all parts of a window.
ROUNDS = 16


class NotInColumns(Exception):
    """Rows have to be asked for one by one."""


class RowStarts:
    """A search for all rows at once.

    Each question is of aggregates that begin at a leaf before which all has gone, and not at the oldest there
    was: what left long ago takes no part in a sum, however large it was. Where a window starts is settled by
    two questions of it as it is, which are those of a push: that its oldest element stays, and that the one
    before did not.

    The run that is searched has the oldest leaves of the window, one state for its others, and the rows.
    """

    def __init__(self, view: View, predicate: Predicate, states: Run) -> None:
        assert isinstance(view.layout, ColumnLayout)
        self._layout, self._predicate = view.layout, predicate
        self._view, self._rows = view, view.layout.length(states)
        #: how many leaves can be told from each other, and where the rows begin
        self._leaves = min(len(view), self._rows + LEAST)
        self._hides = self._leaves < len(view)
        self._begin = self._leaves + self._hides
        self._parts = [*self._older(), states]
        #: by the first column of a field
        self._fields: dict[int, Stretches] = {}
        #: whether aggregates that begin at other entries may be rounded otherwise
        self._rounded = False
        #: whether the predicate has read columns of Python objects
        self._saw_objects = False

    def find(self) -> Array:
        """The first leaf of each row's window, up to a row that has to be pushed."""
        found = self._all()
        rows = self._begin + np.arange(self._rows)
        stuck = found == rows
        if stuck.any():
            stuck[stuck] = self._gone(rows[stuck], rows[stuck], rows[stuck])
        if self._hides:
            stuck |= found == self._leaves
        count = int(stuck.argmax()) if stuck.any() else self._rows
        leaves = np.where(found < self._leaves, found + self._view.head, found - self._begin + self._view.end)
        return leaves[:count]

    def _older(self) -> Iterator[Run]:
        """What is before the rows."""
        view, layout, count = self._view, self._layout, self._leaves
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
        """Where the window of each row starts in the run: of few rows first, and then between those."""
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
        """Where the windows of some rows start, which is from `low` on and likely up to `high`."""
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
        """The first entry that stays, between `low` and `high`, of aggregates that begin at `start`.

        Where that is careful, an entry goes only if it would also as the oldest of its window.
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
            if self._saw_objects:  # which few functions of NumPy take
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
    """Columns that are made when they are first read, those of one field at a time."""

    def __init__(self, width: int, make: Callable[[slice], tuple[Any, ...]]) -> None:
        self._width, self._make = width, make
        self._made: dict[int, tuple[Any, ...]] = {}

    def __getitem__(self, part: slice) -> tuple[Any, ...]:
        """The columns of a field, or all."""
        if part.start not in self._made:
            self._made[part.start] = self._make(part)
        return self._made[part.start]

    def __iter__(self) -> Iterator[Any]:
        return iter(self[slice(0, self._width)])

    @property
    def parts(self) -> list[slice]:
        """What was read."""
        return [slice(start, start + len(columns)) for start, columns in self._made.items()]


def answers(given: Any, count: int) -> Array:
    """What a predicate has said of each of some rows."""
    found: Array = np.asarray(given)
    if found.shape != (count,):
        raise TypeError(
            f"a predicate that takes columns gives one answer a row: for columns of {count} entries it "
            f"gave {found!r}"
        )
    return found.astype(bool, copy=False)


def read_only(column: Array) -> Array:
    """A view that a function of the user's cannot change, of what pages and stacks share."""
    view = column.view()
    view.flags.writeable = False
    return view
