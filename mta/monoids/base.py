"""The Monoid interface, and what a monoid adds when its states can live in NumPy columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mta.kinds import Array, Columns
from mta.monoids.columns import alike, column_of, joined, number, numeric_column, scan
from mta.numbers.wide import as_objects, is_wide, plain_list
from mta.owned import own

__all__ = [
    "LOST",
    "Array",
    "ColumnarMonoid",
    "Columns",
    "Monoid",
    "alike",
    "column_of",
    "joined",
    "required",
    "row_columns",
]

#: What `Monoid.without` answers where nothing tells what is left.
LOST: Any = type("Lost", (), {"__repr__": lambda _: "LOST", "__slots__": ()})()


class Monoid(ABC):
    """An associative operator with an identity, between a `lift` of elements and a `lower` of results.

    The operator need not commute nor have an inverse: `combine` always gets the older state first. A state
    is never changed in place, because pages, stacks and results share them.

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

    #: the aggregate of nothing
    identity: Any = None

    #: names of the inputs of an element that is a mapping; empty when the element is the input itself
    fields: tuple[str, ...] = ()

    #: whether a state grows with the elements in it, as a list of them does: then a window keeps no aggregate
    #: of every suffix of a page, which would take the square of it, and folds when it is asked
    grows: bool = False

    #: whether `combine` gives the same whichever state comes first, but for the rounding of floats and the
    #: chance in sketches: then an element that comes late needs no place among those in a state already
    commutes: bool = False

    #: whether `without` takes the oldest part off a state, at about the cost of a combine
    invertible: bool = False

    @abstractmethod
    def lift(self, value: Any) -> Any:
        """The state of one element. Refuses what is no element of this monoid, naming the value."""

    @abstractmethod
    def combine(self, older: Any, younger: Any) -> Any:
        """The state of two adjacent runs of elements, the older run first."""

    def without(self, state: Any, older: Any) -> Any:  # noqa: ARG002
        """What is left of a state when its oldest part leaves: `without(combine(a, b), a)` is b.

        LOST where the state does not tell, as an infinite sum does not. Only of invertible monoids.
        """
        raise TypeError(f"{self!r} is not invertible: nothing can be taken off its states")

    def lower(self, state: Any) -> Any:
        """The result that a state stands for; whoever gets it may change it, and changes no state."""
        return own(state)

    def row(self, value: Any) -> Any:
        """What a window keeps of an element: its inputs, checked, without what no aggregate reads."""
        return value

    def check_row(self, row: Any) -> Any:
        """What a store returned as a row. Refuses what `row` never makes, where that can be known."""
        return row

    def lift_row(self, row: Any) -> Any:
        """`lift`, of what `row` made of an element."""
        return self.lift(row)

    def pack(self, state: Any) -> Any:
        """The state as something that `mta.encoding.packing` can write."""
        return state

    def unpack(self, packed: Any) -> Any:
        """The reverse of `pack`. Refuses what `pack` never makes, where that can be known."""
        return packed

    def fingerprint(self) -> str:
        """What a checkpoint remembers of the monoid: equal for monoids whose states may be mixed."""
        return f"{type(self).__name__}({', '.join(map(repr, self.fields))})"

    def __repr__(self) -> str:
        return self.fingerprint()


class ColumnarMonoid(Monoid):
    """A monoid whose states have the same parts each, so that a run of them is a tuple of NumPy columns.

    A state is a plain value where there is one column, and a tuple of plain values where there are several.
    The identity never appears in columns: an empty run is a run of length zero. A column is int64, float64,
    or object where a value fits in neither; sums of whole numbers may be in two words (`mta.numbers.wide`).
    Columns of truth and of other numbers are stored as they are too, and all else is refused by a window with
    a store.

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

    #: inputs of an element: 1 for a plain value, 2 for a pair; a row is a tuple where it is not 1
    arity: int = 1

    #: columns of a state
    width: int = 1

    def __init__(self, *fields: str) -> None:
        if fields and len(fields) != self.arity:
            raise TypeError(f"{type(self).__name__} takes {self.arity} field name(s) or none, got {fields!r}")
        for field in fields:
            if not isinstance(field, str):
                raise TypeError(f"{type(self).__name__} takes field names, got {field!r}")
        self.fields = fields

    def row(self, value: Any) -> Any:
        if self.fields:  # a window of plain elements calls check_row itself
            inputs = all_required(value, self.fields, self)
            return self.check_row(inputs[0] if self.arity == 1 else inputs)
        return self.check_row(value)

    def check_row(self, row: Any) -> Any:
        """The row as plain values; refuses what is no element of this monoid."""
        return number(row, self)

    def lift(self, value: Any) -> Any:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Any) -> Any:
        return row

    def check_columns(self, inputs: Columns) -> Columns:
        """The inputs in the form that is stored. Refuses what `lift` would refuse, naming row and value."""
        return tuple(numeric_column(column, self) for column in inputs)

    def check_states(self, states: Columns) -> None:
        """What a store returned as states in columns. Refuses what no state is, where that can be known."""

    @abstractmethod
    def lift_columns(self, inputs: Columns) -> Columns:
        """The states of a run of elements, from inputs that `check_columns` has passed."""

    @abstractmethod
    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        """`combine`, element by element, of two runs of equal length, or of a run and a run of one."""

    def lower_columns(self, states: Columns) -> Any:
        """`lower`, element by element: an array (a mapping of arrays for Fields)."""
        return states[0]

    def prefix_columns(self, states: Columns) -> Columns:
        """Entry i is the aggregate of entries 0 to i. Override where a scan in one pass exists."""
        return scan(self.combine_columns, states)

    def suffix_columns(self, states: Columns) -> Columns:
        """Entry i is the aggregate of entries i to the last."""
        flipped = tuple(column[::-1] for column in states)
        scanned = scan(lambda older, younger: self.combine_columns(younger, older), flipped)
        return tuple(column[::-1] for column in scanned)

    def fold_columns(self, states: Columns) -> Columns:
        """The aggregate of a run that is not empty, as a run of one, by halving."""
        length = len(states[0])
        while length > 1:
            half = length // 2
            paired = self.combine_columns(
                tuple(column[0 : 2 * half : 2] for column in states),
                tuple(column[1 : 2 * half : 2] for column in states),
            )
            if length % 2:
                last = tuple(column[-1:] for column in states)
                states = tuple(joined(pair) for pair in zip(paired, last, strict=True))
            else:
                states = paired
            length = len(states[0])
        return states

    def state_at(self, states: Columns, index: int) -> Any:
        """One state out of columns, as the plain value or tuple that `combine` takes."""
        parts = tuple(plain_list(column[index : index + 1])[0] for column in states)
        return parts[0] if self.width == 1 else parts

    def shaped(self, states: Columns) -> Any:
        """Columns in the shape of a state: a column, or a tuple of them (a mapping for Fields)."""
        parts = tuple(as_objects(column) if is_wide(column) else column for column in states)
        return parts[0] if self.width == 1 else parts

    def part(self, columns: slice) -> ColumnarMonoid:  # noqa: ARG002
        """The monoid that some columns of a state are of, which are all of them or those of a field."""
        return self

    def state_list(self, states: Columns) -> list[Any]:
        """All states out of columns."""
        parts = [plain_list(column) for column in states]
        return parts[0] if self.width == 1 else list(zip(*parts, strict=True))

    def columns_of(self, states: Sequence[Any]) -> Columns:
        """Columns out of states, none of which is the identity."""
        if self.width == 1:
            return (column_of(states),)
        parts = zip(*states, strict=True) if states else ((),) * self.width
        return tuple(column_of(part) for part in parts)


def row_columns(monoid: ColumnarMonoid, rows: Sequence[Any]) -> Columns:
    """The input columns of rows that were checked one by one."""
    if monoid.arity == 1:
        return (column_of(rows),)
    parts = zip(*rows, strict=True) if rows else ((),) * monoid.arity
    return tuple(column_of(part) for part in parts)


def all_required(mapping: Any, fields: Sequence[str], monoid: Any) -> tuple[Any, ...]:
    """Some fields of an element that is a mapping."""
    if type(mapping) is dict:
        with suppress(KeyError):
            return tuple(map(mapping.__getitem__, fields))
    return tuple(required(mapping, field, monoid) for field in fields)


def required(mapping: Any, field: str, monoid: Any) -> Any:
    """One field of an element that is a mapping."""
    if not isinstance(mapping, Mapping):
        raise TypeError(f"{monoid!r} takes a mapping with {field!r}, got {mapping!r}")
    try:
        return mapping[field]
    except KeyError:
        raise KeyError(
            f"{monoid!r} needs the field {field!r}, got only {sorted(map(str, mapping))}"
        ) from None
