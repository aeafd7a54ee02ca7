"""Columns of values: how to make, join and scan them, and which values are numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from mta.kinds import Array, Columns, Value
from mta.numbers.wide import as_objects, widened
from mta.owned import own


def scan(combine: Callable[[Columns, Columns], Columns], states: Columns) -> Columns:
    """Inclusive prefix scan with about 2n combines in 2·log2(n) calls of `combine`."""
    length = len(states[0])
    if length <= 1:
        return states
    evens = tuple(column[0 : length - 1 : 2] for column in states)
    odds = tuple(column[1::2] for column in states)
    pairs = scan(combine, combine(evens, odds))
    rest = (length - 1) // 2
    between = combine(tuple(column[:rest] for column in pairs), tuple(column[2::2] for column in states))
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


def column_of(values: Sequence[Value]) -> Array:
    """A column of plain values: of 64-bit numbers if all values are numbers, of objects otherwise.

    Whole numbers beside real ones become real if that is exact, and the column holds objects if it is not.
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


def _same_numbers(values: Sequence[Value], column: Array) -> bool:
    """Whether a column of floats has the same numbers: only beyond 2^53 can they differ."""
    large = np.flatnonzero(np.abs(column) >= 2.0**53).tolist()
    return all(bool(float(values[at]) == values[at]) for at in large)


#: kinds of columns whose entries have the types of Python
_PLAIN = set("bifucUS")


def as_python(column: Array) -> Array:
    """The column with its entries as Python's objects, in memory of its own."""
    # `fromiter`, since an assignment would take lists of one length for a second dimension
    return np.fromiter(column.tolist(), object, len(column))


def scattered(results: Array | None, held: Array, empty: Value) -> Array:
    """Results, in order, where `held` is true, and the result of no elements where it is false."""
    if results is None:
        return column_of([own(empty) for _ in held])
    if held.all():
        return results
    kind = results.dtype.kind
    if type(empty) in {"i": (int,), "f": (int, float)}.get(kind, ()):
        column = np.full(len(held), empty, results.dtype)
        column[held] = results
        return column
    column = np.fromiter((own(empty) for _ in held), object, len(held))
    column[held] = as_python(results)
    return column


def alike(parts: Sequence[Array]) -> Sequence[Array]:
    """The columns, all made of one kind: of objects if whole numbers would be rounded beside real ones."""
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) < 2:
        return parts
    if kinds == {"i", "f"}:
        exact = all(part.dtype.kind == "f" or _fits_floats(part) for part in parts)
        return [part.astype(np.float64 if exact else object, copy=False) for part in parts]
    if "V" in kinds:  # whole numbers in two words
        wide = [part for part in map(widened, parts) if part is not None]
        return wide if len(wide) == len(parts) else list(map(as_objects, parts))
    if "O" in kinds:
        return [part.astype(object, copy=False) for part in parts]
    if kinds <= _PLAIN:  # only a user's monoid has other kinds
        return alike([part if part.dtype.kind in "if" else column_of(part.tolist()) for part in parts])
    return parts


def aligned(older: Columns, younger: Columns) -> tuple[Columns, Columns]:
    """Two tuples of columns, where each pair of columns is made of one kind."""
    pairs = [alike(pair) for pair in zip(older, younger, strict=True)]
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def joined(parts: Sequence[Array]) -> Array:
    """Columns end to end."""
    return np.concatenate(alike(parts))


def apart(column: Array) -> Array:
    """The column, copied if it is a view, which would keep a larger column in memory."""
    return column if column.base is None else column.copy()


def _fits_floats(column: Array) -> bool:
    if not len(column) or (int(column.min()) >= -(2**53) and int(column.max()) <= 2**53):
        return True
    return bool(column.tolist() == column.astype(np.float64).tolist())


def number(value: Value, monoid: object) -> int | float:
    """The value as a plain int or float. Raises TypeError, ValueError or OverflowError with the value."""
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
    if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        return number(int(value), monoid)
    if isinstance(value, np.floating):
        return number(float(value), monoid)
    raise TypeError(f"{monoid!r} takes an int or a float, got {value!r} of type {type(value).__name__}")


def numeric_column(column: Value, monoid: object) -> Array:
    """A column of 64-bit numbers without NaN. Raises the errors of `number`, with the first bad row."""
    array = np.asarray(column)
    kind = array.dtype.kind
    if array.ndim == 1 and kind == "f":
        with np.errstate(over="ignore"):  # a long float may be beyond the range of a float
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
    return column_of(row_by_row(lambda value: number(value, monoid), array.tolist()))


#: Floats hold all whole numbers up to this one.
_EXACT = 2**53


def exact_number(value: int | float, monoid: object, where: str = "") -> int | float:
    """The number, if a float holds it. Raises ValueError for a whole number that a float would round."""
    if type(value) is not int or -_EXACT <= value <= _EXACT or float(value) == value:
        return value
    raise ValueError(
        f"{monoid!r} got {value}{where}, a whole number beyond 2^53 that a float would round; subtract a "
        "start first, such as the first element, or scale it"
    )


def exact_column(column: Array, monoid: object) -> Array:
    """A column of 64-bit numbers, if floats hold all of them. The error of `exact_number` names the row."""
    if column.dtype.kind == "f" or (column.dtype.kind == "i" and _fits_floats(column)):
        return column
    for row, value in enumerate(column.tolist()):
        exact_number(value, monoid, f" in row {row}")
    return column


def row_by_row(change: Callable[[Value], Value], values: Iterable[Value]) -> list[Value]:
    """`change` of each value. An error of TypeError, ValueError or OverflowError names the row."""
    changed = []
    for row, value in enumerate(values):
        try:
            changed.append(change(value))
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"row {row}: {error}") from None
    return changed


def check_numbers(columns: Columns, monoid: object) -> None:
    """Raises TypeError if a column of objects has one that is neither an int, of any size, nor a float."""
    for column in columns:
        if column.dtype == object:
            for value in column.tolist():
                if type(value) is not int and type(value) is not float:
                    raise TypeError(f"{monoid!r} has numbers as states, got {value!r}")


def refuse_time_types(values: Value, monoid: object) -> None:
    """Raises TypeError for an array or a NumPy scalar of datetimes or of durations."""
    if values.dtype.kind in "mM":
        raise TypeError(
            f"{monoid!r} got values of type {values.dtype}; "
            "make them whole numbers first: values.astype('int64')"
        )


def is_finite(value: Value) -> bool:
    """Whether another number can be subtracted from this one: an int of any size is finite."""
    return not isinstance(value, float) or math.isfinite(value)
