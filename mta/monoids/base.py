"""The Monoid interface, and its extension for monoids whose states fit in NumPy columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mta.kinds import Array, Columns, Packed, Result, Results, Row, State, Value
from mta.monoids.columns import alike, column_of, joined, number, numeric_column, scan
from mta.monoids.over import Over, frame_of
from mta.numbers.wide import as_objects, is_wide, plain_list
from mta.owned import own

__all__ = ["LOST", "Array", "ColumnarMonoid", "Columns", "Monoid", "alike", "column_of", "joined"]

#: `Monoid.without` returns it where a state does not determine its rest.
LOST: State = type("Lost", (), {"__repr__": lambda _: "LOST", "__slots__": ()})()


class Monoid(ABC):
    """An associative operator with an identity, with `lift` from elements and `lower` to results.

    The operator need not commute and need not have an inverse: `combine` always gets the older state first.
    No method may change a state in place, because pages, stacks and results share states. Only `identity`,
    `lift` and `combine` are needed; `mta.monoids.laws.monoid_laws` tests a monoid.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> class Longest(monoids.Monoid):
    ...     identity = ""
    ...     def lift(self, value):
    ...         return value
    ...     def combine(self, older, younger):
    ...         return younger if len(younger) > len(older) else older
    >>> window = AmortizedMTA(Longest(), policies.CountWindow(2))
    >>> [window.push(word) for word in ("to", "begin", "at", "the")]
    ['to', 'begin', 'begin', 'the']
    """

    #: the aggregate of no elements
    identity: State = None

    #: the fields that the monoid reads of an element that is a mapping; empty if it reads the element itself
    fields: tuple[str, ...] = ()

    #: whether a state grows with its number of elements, as a list of them does. A window then stores no
    #: aggregate of each suffix of a page, which would take quadratic space, but folds for each query.
    grows: bool = False

    #: how many inputs, from the first on, an element needs to count where missing values are skipped
    #: (`mta.monoids.nulls`); None for all. The monoid gets the others as `mta.monoids.missing` codes them.
    needs: int | None = None

    #: whether elements may be without values, which the monoid skips
    skips_nulls: bool = False

    #: the indices of the inputs of which it only matters whether they are there, where values may be missing
    presence: frozenset[int] = frozenset()

    #: whether the order of the arguments of `combine` does not matter, except for the rounding of floats and
    #: the randomness of sketches. A late element can then be added to a state without its position.
    commutes: bool = False

    #: whether `without` can remove the oldest part of a state, at about the cost of a combine
    invertible: bool = False

    @abstractmethod
    def lift(self, value: Value) -> State:
        """The state of one element.

        Raises TypeError, ValueError or OverflowError, with the value in the message, if the monoid does not
        take the value; KeyError if a field is missing.
        """

    @abstractmethod
    def combine(self, older: State, younger: State) -> State:
        """The state of the elements of two adjacent states, the older one first. Must be associative."""

    def without(self, state: State, older: State) -> State:  # noqa: ARG002
        """The state without its oldest part: `without(combine(a, b), a)` is b.

        LOST if the state does not determine the rest, as an infinite sum does not. Raises TypeError if the
        monoid is not `invertible`.
        """
        raise TypeError(f"{self!r} is not invertible: it cannot subtract from its states")

    def lower(self, state: State) -> Result:
        """The result that users get for a state. The user may change the result; that changes no state."""
        return own(state)

    def row(self, value: Value) -> Row:
        """The row that a window stores for an element: its inputs, checked, without unused fields.

        Raises the same errors as `lift`.
        """
        return value

    def check_row(self, row: Row) -> Row:
        """A row that a store returned, after a check. Raises TypeError or ValueError if it is no row."""
        return row

    def lift_row(self, row: Row) -> State:
        """The state of one element, from its row."""
        return self.lift(row)

    def pack(self, state: State) -> Packed:
        """The state as a value that `mta.encoding.packing` can serialize."""
        return state

    def unpack(self, packed: Packed) -> State:
        """The reverse of `pack`. Raises TypeError or ValueError for a value that `pack` never returns."""
        return packed

    def fingerprint(self) -> str:
        """A text that a checkpoint stores: equal texts mean that states of both monoids may be mixed."""
        return f"{type(self).__name__}({', '.join(map(repr, self.fields))})"

    def over(self, frame: Any = None, *, rows: int | None = None, min_count: int | None = None) -> Over:
        """The monoid over a frame of its own, for `Fields`.

        `frame` is a duration d, which stands for `TimeWindow(d)`, or a TimeWindow, a CountWindow, or a union
        of such. `rows=n` stands for `CountWindow(n)`; with a duration too, both limits hold. Fewer than
        `min_count` elements give None. Raises TypeError or ValueError for anything else, and for predicates.

        >>> from mta import AmortizedMTA, monoids
        >>> features = monoids.Fields(last=monoids.Sum().over(10), all=monoids.Sum().over(60))
        >>> window = AmortizedMTA(features)
        >>> [window.push(1, time=time)["last"] for time in (0, 5, 12)], window.query()["all"]
        ([1, 2, 2], 3)
        """
        return Over(self, frame_of(frame, rows, min_count))

    def __repr__(self) -> str:
        return self.fingerprint()


class ColumnarMonoid(Monoid):
    """A monoid whose states all have the same parts, so that many states are a tuple of NumPy columns.

    A state is a plain value if it has one column, and a tuple of plain values otherwise. The identity never
    appears in columns: no elements are columns of length zero. A column has the type int64 or float64, or
    object if a value fits in neither; sums of whole numbers may have two words (`mta.numbers.wide`). Columns
    of booleans and of other numbers are stored unchanged. A window with a store refuses all other types.

    Parameters: the names of the fields to read if elements are mappings, one for each input (`arity`).
    Raises TypeError for another number of names.

    >>> import numpy as np
    >>> from mta import AmortizedMTA, monoids, policies
    >>> class Span(monoids.ColumnarMonoid):
    ...     "The greatest less the least; a state is both."
    ...     identity, width = (float("inf"), float("-inf")), 2
    ...     def lift_row(self, row):
    ...         return (row, row)
    ...     def combine(self, older, younger):
    ...         return (min(older[0], younger[0]), max(older[1], younger[1]))
    ...     def lower(self, state):
    ...         return state[1] - state[0]
    ...     def lift_columns(self, inputs):
    ...         return (inputs[0], inputs[0])
    ...     def combine_columns(self, older, younger):
    ...         return (np.minimum(older[0], younger[0]), np.maximum(older[1], younger[1]))
    ...     def lower_columns(self, states):
    ...         return states[1] - states[0]
    >>> AmortizedMTA(Span(), policies.CountWindow(3)).slide([3, 1, 4, 1, 5]).tolist()
    [0, 2, 3, 3, 4]
    """

    #: inputs of an element: 1 for a plain value, 2 for a pair; a row is a tuple unless this is 1
    arity: int = 1

    #: columns of a state
    width: int = 1

    #: whether all elements are alike to the monoid, as to `Fields` that only count
    reads_nothing: bool = False

    @property
    def state_bytes(self) -> int:
        """About how many bytes a state takes: windows of large states have shorter pages by default."""
        return 8 * self.width

    def __init__(self, *fields: str) -> None:
        if fields and len(fields) != self.arity:
            raise TypeError(f"{type(self).__name__} takes {self.arity} field name(s) or none, got {fields!r}")
        for field in fields:
            if not isinstance(field, str):
                raise TypeError(f"{type(self).__name__} takes field names, got {field!r}")
        self.fields = fields

    def row(self, value: Value) -> Row:
        if self.fields:  # a window of plain elements calls check_row itself
            inputs = all_required(value, self.fields, self)
            return self.check_row(inputs[0] if self.arity == 1 else inputs)
        return self.check_row(value)

    def check_row(self, row: Row) -> Row:
        """The row as plain values. Raises TypeError, ValueError or OverflowError if it is no row."""
        return number(row, self)

    def lift(self, value: Value) -> State:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Row) -> State:
        return row

    def check_columns(self, inputs: Columns) -> Columns:
        """The inputs of a batch in the form that is stored.

        Raises the same errors as `lift`, with the number of the row and its value.
        """
        return tuple(numeric_column(column, self) for column in inputs)

    def check_states(self, states: Columns) -> None:
        """Checks columns of states that a store returned. Raises TypeError or ValueError for a bad state."""

    @abstractmethod
    def lift_columns(self, inputs: Columns) -> Columns:
        """The state of each element of a batch, from inputs that `check_columns` has returned."""

    @abstractmethod
    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        """`combine`, entry by entry. Both arguments have the same length, or one of them has one entry."""

    def lower_columns(self, states: Columns) -> Results:
        """`lower`, entry by entry: an array, or a mapping of arrays for Fields."""
        return states[0]

    def prefix_columns(self, states: Columns) -> Columns:
        """Entry i is the aggregate of entries 0 to i. Override it if a scan in one pass exists."""
        return scan(self.combine_columns, states)

    def suffix_columns(self, states: Columns) -> Columns:
        """Entry i is the aggregate of entries i to the last."""
        flipped = tuple(column[::-1] for column in states)
        scanned = scan(lambda older, younger: self.combine_columns(younger, older), flipped)
        return tuple(column[::-1] for column in scanned)

    def fold_columns(self, states: Columns) -> Columns:
        """The aggregate of one entry or more, by halving, as columns of length one."""
        while (length := len(states[0])) > 1:
            evens = tuple(column[0 : length - 1 : 2] for column in states)
            odds = tuple(column[1::2] for column in states)
            paired = self.combine_columns(evens, odds)
            if length % 2:
                last = tuple(column[-1:] for column in states)
                paired = tuple(joined(pair) for pair in zip(paired, last, strict=True))
            states = paired
        return states

    def state_at(self, states: Columns, index: int) -> State:
        """The state at an index of columns, as the plain value or tuple that `combine` takes."""
        parts = tuple(plain_list(column[index : index + 1])[0] for column in states)
        return parts[0] if self.width == 1 else parts

    def shaped(self, states: Columns) -> State:
        """Columns in the shape of a state: a column, or a tuple of columns (a mapping for Fields)."""
        parts = tuple(as_objects(column) if is_wide(column) else column for column in states)
        return parts[0] if self.width == 1 else parts

    def part(self, columns: slice) -> ColumnarMonoid:  # noqa: ARG002
        """The monoid to which a slice of the columns of a state belongs: a field's, or this one for all."""
        return self

    def state_list(self, states: Columns) -> list[State]:
        """All states of columns, as plain values or tuples."""
        parts = [plain_list(column) for column in states]
        return parts[0] if self.width == 1 else list(zip(*parts, strict=True))

    def columns_of(self, states: Sequence[State]) -> Columns:
        """Columns of plain states. None of the states may be the identity."""
        return _columns_of(states, self.width)


def row_columns(monoid: ColumnarMonoid, rows: Sequence[Row]) -> Columns:
    """The input columns of rows that were checked one by one."""
    return _columns_of(rows, monoid.arity)


def _columns_of(entries: Sequence[Value], count: int) -> Columns:
    """One column of the entries, or `count` columns of the parts of tuples."""
    if count == 1:
        return (column_of(entries),)
    return tuple(map(column_of, zip(*entries, strict=True) if entries else ((),) * count))


def all_required(mapping: Value, fields: Sequence[str], monoid: object) -> tuple[Value, ...]:
    """Some fields of an element that has to be a mapping. Raises TypeError or KeyError."""
    if type(mapping) is dict:
        with suppress(KeyError):
            return tuple(map(mapping.__getitem__, fields))
    return tuple(required(mapping, field, monoid) for field in fields)


def required(mapping: Value, field: str, monoid: object) -> Value:
    """One field of an element that has to be a mapping. Raises TypeError or KeyError."""
    if not isinstance(mapping, Mapping):
        raise TypeError(f"{monoid!r} takes a mapping with {field!r}, got {mapping!r}")
    try:
        return mapping[field]
    except KeyError:
        raise KeyError(
            f"{monoid!r} needs the field {field!r}, got only {sorted(map(str, mapping))}"
        ) from None
