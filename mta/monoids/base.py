"""The Monoid interface, and what a monoid adds when its states can live in NumPy columns."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = tuple[Array, ...]


class Monoid(ABC):
    """An associative operator with an identity, between a `lift` of elements and a `lower` of results.

    The operator need not commute nor have an inverse: `combine` always gets the older state first. A state
    is never changed in place, because pages, stacks and results share them.
    """

    #: the aggregate of nothing
    identity: Any = None

    #: names of the inputs of an element that is a mapping; empty when the element is the input itself
    fields: tuple[str, ...] = ()

    #: whether a state grows with the elements in it, as a list of them does: then a window keeps no aggregate
    #: of every suffix of a page, which would take the square of it, and folds when it is asked
    grows: bool = False

    @abstractmethod
    def lift(self, value: Any) -> Any:
        """The state of one element. Refuses what is no element of this monoid, naming the value."""

    @abstractmethod
    def combine(self, older: Any, younger: Any) -> Any:
        """The state of two adjacent runs of elements, the older run first."""

    def lower(self, state: Any) -> Any:
        """The result that a state stands for."""
        return state

    def row(self, value: Any) -> Any:
        """What a window keeps of an element: its inputs, checked, without what no aggregate reads."""
        return value

    def lift_row(self, row: Any) -> Any:
        """`lift`, of what `row` made of an element."""
        return self.lift(row)

    def pack(self, state: Any) -> Any:
        """The state as something that `mta.packing` can write."""
        return state

    def unpack(self, packed: Any) -> Any:
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
    or object where a value fits in neither.
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
            inputs = tuple(required(value, field, self) for field in self.fields)
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
        parts = tuple(column[index : index + 1].tolist()[0] for column in states)
        return parts[0] if self.width == 1 else parts

    def state_list(self, states: Columns) -> list[Any]:
        """All states out of columns."""
        parts = [column.tolist() for column in states]
        return parts[0] if self.width == 1 else list(zip(*parts, strict=True))

    def columns_of(self, states: Sequence[Any]) -> Columns:
        """Columns out of states, none of which is the identity."""
        if self.width == 1:
            return (column_of(states),)
        parts = zip(*states, strict=True) if states else ((),) * self.width
        return tuple(column_of(part) for part in parts)


def scan(combine: Any, states: Columns) -> Columns:
    """Inclusive prefix scan with about 2n combines in 2·log2(n) whole-array calls."""
    length = len(states[0])
    if length <= 1:
        return states
    half = length // 2
    evens = tuple(column[0 : 2 * half : 2] for column in states)
    odds = tuple(column[1 : 2 * half : 2] for column in states)
    pairs = scan(combine, combine(evens, odds))
    rest = (length + 1) // 2 - 1
    between = combine(
        tuple(column[:rest] for column in pairs),
        tuple(column[2::2] for column in states),
    )
    return tuple(
        _interleave(column, pair, gap) for column, pair, gap in zip(states, pairs, between, strict=True)
    )


def _interleave(column: Array, pairs: Array, between: Array) -> Array:
    """Entries 0, 2, 4 … from `column[0]` and `between`, entries 1, 3, 5 … from `pairs`."""
    column, pairs, between = alike((column, pairs, between))
    out = np.empty(column.shape, dtype=column.dtype)
    out[0] = column[0]
    out[1::2] = pairs
    out[2::2] = between
    return out


def column_of(values: Sequence[Any]) -> Array:
    """A column of plain values: 64-bit where all are whole or real numbers, objects otherwise.

    Whole numbers beside real ones become real where that is exact.
    """
    kinds = set(map(type, values))
    if kinds <= {int, bool}:
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    elif kinds <= {float, int, bool}:
        try:
            column = np.array(values, dtype=np.float64)
            if int not in kinds or _same_numbers(values, column):
                return column
        except OverflowError:
            pass
    return np.fromiter(values, dtype=object, count=len(values))


def row_columns(monoid: ColumnarMonoid, rows: Sequence[Any]) -> Columns:
    """The input columns of rows that were checked one by one."""
    if monoid.arity == 1:
        return (column_of(rows),)
    parts = zip(*rows, strict=True) if rows else ((),) * monoid.arity
    return tuple(column_of(part) for part in parts)


def _same_numbers(values: Sequence[Any], column: Array) -> bool:
    """Whether floats hold the same numbers; only beyond 2^53 can they differ."""
    large = np.flatnonzero(np.abs(column) >= 2.0**53).tolist()
    return all(bool(float(values[at]) == values[at]) for at in large)


def alike(parts: Sequence[Array]) -> Sequence[Array]:
    """Columns of one kind: whole numbers beside real ones stay whole, in objects, where floats round them."""
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) < 2:
        return parts
    if kinds == {"i", "f"}:
        exact = all(part.dtype.kind == "f" or _fits_floats(part) for part in parts)
        return [part.astype(np.float64 if exact else object, copy=False) for part in parts]
    return [part.astype(object, copy=False) for part in parts] if "O" in kinds else parts


def aligned(older: Columns, younger: Columns) -> tuple[Columns, Columns]:
    """Two runs whose columns are of one kind, pair by pair."""
    pairs = [alike(pair) for pair in zip(older, younger, strict=True)]
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def joined(parts: Sequence[Array]) -> Array:
    """Columns end to end."""
    return np.concatenate(alike(parts))


def _fits_floats(column: Array) -> bool:
    if not len(column) or (int(column.min()) >= -(2**53) and int(column.max()) <= 2**53):
        return True
    return bool(column.tolist() == column.astype(np.float64).tolist())


def number(value: Any, monoid: Any) -> int | float:
    """A plain int or float out of what counts as a number; anything else is an error that shows it."""
    kind = type(value)
    if kind is float:
        if value == value:
            return value  # type: ignore[no-any-return]
        raise ValueError(f"{monoid!r} got NaN; drop or replace missing values before they enter a window")
    if kind is int:
        if -(2**63) <= value < 2**63:
            return int(value)
        shown = value if value.bit_length() < 1000 else f"a whole number of {value.bit_length()} bits"
        raise OverflowError(
            f"{monoid!r} got {shown}, which does not fit in 64 bits; scale it or make it a float"
        )
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, np.integer):
        return number(int(value), monoid)
    if isinstance(value, np.floating):
        return number(float(value), monoid)
    raise TypeError(f"{monoid!r} takes an int or a float, got {value!r} of type {type(value).__name__}")


def numeric_column(column: Any, monoid: Any) -> Array:
    """A column of 64-bit numbers without NaN; the error names the first row that is none."""
    array = np.asarray(column)
    kind = array.dtype.kind
    if array.ndim == 1 and kind == "f":
        array = array.astype(np.float64, copy=False)
        if len(array) and math.isnan(float(array.min())):
            row = int(np.isnan(array).argmax())
            raise ValueError(
                f"{monoid!r} got NaN in row {row}; drop or replace missing values before they enter a window"
            )
        return array
    if array.ndim == 1 and kind in "iub":
        if array.dtype == np.uint64 and len(array) and int(array.max()) >= 2**63:
            row = int((array >= 2**63).argmax())
            raise OverflowError(f"{monoid!r} got {array[row]} in row {row}, which does not fit in 64 bits")
        return array.astype(np.int64, copy=False)
    if array.ndim != 1:
        raise TypeError(f"{monoid!r} takes one column of numbers, got an array of shape {array.shape}")
    refuse_time_types(array, monoid)
    for row, value in enumerate(array.tolist()):
        try:
            number(value, monoid)
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"row {row}: {error}") from None
    return column_of([number(value, monoid) for value in array.tolist()])


def refuse_time_types(values: Any, monoid: Any) -> None:
    if values.dtype.kind in "mM":
        raise TypeError(
            f"{monoid!r} got values of type {values.dtype}; "
            "make them whole numbers first: values.astype('int64')"
        )


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
