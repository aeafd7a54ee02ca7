"""Monoids of extrema and of the two ends of a window: MinCount, MaxCount, ArgMin, ArgMax, First and Last.

States have constant size, and each call costs constant time an element.
"""

from __future__ import annotations

import numpy as np

from mta.kinds import Array, Columns, Result, Results, Row, State
from mta.monoids.base import ColumnarMonoid
from mta.monoids.columns import aligned, check_numbers, number, numeric_column
from mta.monoids.values import plain, plain_column
from mta.owned import own


class MaxCount(ColumnarMonoid):
    """How often the greatest number occurs; 0 for no elements. A state is (maximum, count).

    Takes the name of the field to read, or none. The errors of Mean.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.MaxCount(), policies.CountWindow(3)).slide([5, 5, 1, 5]).tolist()
    [1, 2, 2, 2]
    """

    identity = (None, 0)
    commutes = True
    width = 2
    extreme: np.ufunc = np.maximum

    def lift_row(self, row: Row) -> State:
        return (row, 1)

    def combine(self, older: State, younger: State) -> State:
        if not older[1] or not younger[1]:
            return younger if not older[1] else older
        if older[0] == younger[0]:
            return (older[0], older[1] + younger[1])
        return older if older[0] > younger[0] else younger

    def lower(self, state: State) -> Result:
        return state[1]

    def lift_columns(self, inputs: Columns) -> Columns:
        return (inputs[0], np.ones(len(inputs[0]), dtype=np.int64))

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        older, younger = aligned(older, younger)
        best = self.extreme(older[0], younger[0])
        count = older[1] * (older[0] == best)
        count += younger[1] * (younger[0] == best)
        return (best, count)

    def check_states(self, states: Columns) -> None:
        check_numbers(states, self)

    def lower_columns(self, states: Columns) -> Results:
        return states[1]

    def prefix_columns(self, states: Columns) -> Columns:
        best = self.extreme.accumulate(states[0])
        seen = np.add.accumulate((states[0] == best) * states[1])
        before = np.zeros_like(seen)
        records = best[1:] != best[:-1]
        before[1:] = seen[:-1] * records
        return (best, seen - np.maximum.accumulate(before))

    def suffix_columns(self, states: Columns) -> Columns:
        scanned = self.prefix_columns(tuple(column[::-1] for column in states))
        return tuple(column[::-1] for column in scanned)


class MinCount(MaxCount):
    """How often the least number occurs; 0 for no elements. A state is (minimum, count).

    Takes the name of the field to read, or none. The errors of Mean.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.MinCount(), policies.CountWindow(3)).slide([1, 1, 5, 0]).tolist()
    [1, 2, 2, 1]
    """

    extreme = np.minimum

    def combine(self, older: State, younger: State) -> State:
        if not older[1] or not younger[1]:
            return younger if not older[1] else older
        if older[0] == younger[0]:
            return (older[0], older[1] + younger[1])
        return older if older[0] < younger[0] else younger


class ArgMax(ColumnarMonoid):
    """The argument of the greatest value, the oldest one if several tie; None for no elements.

    An element is a pair (value, argument), or a mapping: `ArgMax("amount", "user")` takes both field names.
    TypeError for a value that is no number, and for a missing argument. A state is (maximum, argument).

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.ArgMax("amount", "user"), policies.CountWindow(2))
    >>> window.slide({"amount": [9, 9, 1], "user": ["ada", "bob", "eve"]}).tolist()
    ['ada', 'ada', 'bob']
    """

    identity = (None, None)
    arity = 2
    width = 2
    needs = 1
    extreme: np.ufunc = np.maximum

    def check_row(self, row: Row) -> Row:
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise TypeError(f"{self!r} takes a pair (value, argument), got {row!r}")
        return (number(row[0], self), plain(row[1], self))

    def check_columns(self, inputs: Columns) -> Columns:
        return (numeric_column(inputs[0], self), plain_column(inputs[1], self))

    def check_states(self, states: Columns) -> None:
        check_numbers(states[:1], self)

    def combine(self, older: State, younger: State) -> State:
        if younger[0] is None:
            return older
        return younger if older[0] is None or younger[0] > older[0] else older

    def lower(self, state: State) -> Result:
        return own(state[1])

    def lift_columns(self, inputs: Columns) -> Columns:
        return inputs

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        older, younger = aligned(older, younger)
        best = self.extreme(older[0], younger[0])
        return (best, np.where(older[0] == best, older[1], younger[1]))

    def lower_columns(self, states: Columns) -> Results:
        return states[1]

    def prefix_columns(self, states: Columns) -> Columns:
        best = self.extreme.accumulate(states[0])
        records = np.ones(len(best), dtype=bool)
        np.not_equal(best[1:], best[:-1], out=records[1:])
        return (best, _last_marked(states[1], records))

    def suffix_columns(self, states: Columns) -> Columns:
        values, arguments = (column[::-1] for column in states)
        best = self.extreme.accumulate(values)
        return (best[::-1], _last_marked(arguments, values == best)[::-1])

    def fold_columns(self, states: Columns) -> Columns:
        values = states[0]
        index = int(values.argmax() if self.extreme is np.maximum else values.argmin())
        return tuple(column[index : index + 1] for column in states)


class ArgMin(ArgMax):
    """The argument of the least value, the oldest one if several tie; None for no elements. See ArgMax.

    >>> from mta import AmortizedMTA, monoids
    >>> window = AmortizedMTA(monoids.ArgMin())
    >>> [window.push((price, shop)) for price, shop in ((4, "here"), (3, "there"), (5, "elsewhere"))]
    ['here', 'there', 'there']
    """

    extreme = np.minimum

    def combine(self, older: State, younger: State) -> State:
        if younger[0] is None:
            return older
        return younger if older[0] is None or younger[0] < older[0] else older


class _Position(ColumnarMonoid):
    """The element at one end of the window; None for no elements. An element must not be missing."""

    def check_row(self, row: Row) -> Row:
        return plain(row, self)

    def check_columns(self, inputs: Columns) -> Columns:
        return (plain_column(inputs[0], self),)

    def lower(self, state: State) -> Result:
        return own(state)

    def lift_columns(self, inputs: Columns) -> Columns:
        return inputs


class First(_Position):
    """The oldest element; None for no elements. TypeError for a missing element.

    Takes the name of the field to read, or none.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.First(), policies.CountWindow(2)).slide(["a", "b", "c"]).tolist()
    ['a', 'a', 'b']
    """

    def combine(self, older: State, younger: State) -> State:
        return younger if older is None else older

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        return (_repeated(older[0], len(younger[0])),)

    def prefix_columns(self, states: Columns) -> Columns:
        return (_repeated(states[0][:1], len(states[0])),)

    def suffix_columns(self, states: Columns) -> Columns:
        return states

    def fold_columns(self, states: Columns) -> Columns:
        return (states[0][:1],)


class Last(_Position):
    """The youngest element; None for no elements. TypeError for a missing element.

    Takes the name of the field to read, or none.

    >>> from mta import AmortizedMTA, monoids
    >>> window = AmortizedMTA(monoids.Fields(opened=monoids.First("price"), closed=monoids.Last("price")))
    >>> window.extend({"price": [7.5, 8.25, 8.0]})
    >>> window.query()
    {'opened': 7.5, 'closed': 8.0}
    """

    def combine(self, older: State, younger: State) -> State:
        return older if younger is None else younger

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        return (_repeated(younger[0], len(older[0])),)

    def prefix_columns(self, states: Columns) -> Columns:
        return states

    def suffix_columns(self, states: Columns) -> Columns:
        return (_repeated(states[0][-1:], len(states[0])),)

    def fold_columns(self, states: Columns) -> Columns:
        return (states[0][-1:],)


def _last_marked(column: Array, marks: Array) -> Array:
    """Entry i is the entry at the last mark up to i. The first entry is marked."""
    length = len(column)
    marked = np.flatnonzero(marks)
    if 4 * len(marked) < length:
        return np.repeat(column[marked], np.diff(marked, append=length))
    indices = np.arange(length)
    indices *= marks
    return column.take(np.maximum.accumulate(indices, out=indices))


def _repeated(column: Array, length: int) -> Array:
    """A column of one entry at the length of its partner, without a copy; a longer column unchanged."""
    return np.broadcast_to(column, (length,)) if len(column) == 1 else column
