"""Elements that need not be numbers: how they are checked, stored and hashed."""

from __future__ import annotations

import hashlib
import struct

import numpy as np

from mta.kinds import Array, Row, State, Value
from mta.monoids.base import Monoid, required
from mta.monoids.columns import column_of, number, numeric_column, refuse_time_types, row_by_row
from mta.owned import own

#: Names of the types that other libraries have for missing values. By name, no library has to be imported.
MISSING_TYPES = frozenset({"NAType", "NaTType", "MaskedConstant"})


#: types whose values are plain as they are
_TEXTS = {str, bytes}


def plain(value: Value, monoid: object) -> Value:
    """A value as plain Python. Raises TypeError or ValueError for a missing value and for NaN."""
    value = unwrapped(value, monoid)
    if value is None or type(value).__name__ in MISSING_TYPES:
        raise TypeError(
            f"{monoid!r} got {value!r}; drop or replace missing values before they enter a window"
        )
    if isinstance(value, float):
        return number(value, monoid)
    return own(value)


def plain_column(column: Value, monoid: object) -> Array:
    """A column of plain values: of 64-bit numbers if all are numbers, of objects otherwise.

    Raises the errors of `plain`, with the number of the row.
    """
    given = np.asarray(column)
    if given.ndim != 1:
        raise TypeError(f"{monoid!r} takes one column of values, got an array of shape {given.shape}")
    kind = given.dtype.kind
    if kind in "fib" or (kind == "u" and given.dtype.itemsize < 8):
        return numeric_column(given, monoid)
    refuse_time_types(given, monoid)
    values = given.tolist()
    if set(map(type, values)) <= _TEXTS:
        return column_of(values)
    return column_of(row_by_row(lambda value: plain(value, monoid), values))


def unwrapped(value: Value, monoid: object) -> Value:
    """A NumPy scalar as plain Python; any other value unchanged."""
    if not isinstance(value, np.generic):
        return value
    refuse_time_types(value, monoid)
    plain = value.item()
    if isinstance(plain, np.generic):  # a long float, with more digits than a float
        return complex(plain) if isinstance(plain, np.complexfloating) else float(plain)
    return plain


def plain_parts(value: Value, monoid: object) -> Value:
    """The value, with NumPy's scalars in a tuple as plain Python."""
    if isinstance(value, tuple):
        return tuple(plain_parts(part, monoid) for part in value)
    return unwrapped(value, monoid)


def canonical(value: Value, monoid: object) -> bytes:
    """Bytes that sketches and filters hash: the same for equal values, in every process.

    Equal numbers are the same element, as in a Python set: 1, 1.0 and True. Raises TypeError for other types.
    """
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, int):
        return b"i%x" % value
    if isinstance(value, float):
        return b"i%x" % int(value) if value.is_integer() else b"f" + struct.pack("<d", value)
    if isinstance(value, tuple):
        parts = [canonical(part, monoid) for part in value]
        return b"t" + b"".join(b"%d:%b" % (len(part), part) for part in parts)
    raise TypeError(
        f"{monoid!r} takes str, bytes, int, float or tuples of them, "
        f"got {value!r} of type {type(value).__name__}"
    )


def digest(value: Value, monoid: object) -> bytes:
    """A hash of 16 bytes of a value, the same in every process."""
    return hashlib.blake2b(canonical(value, monoid), digest_size=16).digest()


class ValueMonoid(Monoid):
    """A monoid over Python objects, which reads one input: the element itself or one field of it.

    Parameters: the name of the field, or none. Raises TypeError for more names.
    """

    #: the options of the constructor that the fingerprint names
    options: tuple[str, ...] = ()

    def __init__(self, *fields: str) -> None:
        if len(fields) > 1 or not all(isinstance(field, str) for field in fields):
            raise TypeError(f"{type(self).__name__} takes one field name or none, got {fields!r}")
        self.fields = fields

    def row(self, value: Value) -> Row:
        return self.check_row(required(value, self.fields[0], self) if self.fields else value)

    def check_row(self, row: Row) -> Row:
        """The row as a plain value. Raises TypeError or ValueError if the monoid does not take it."""
        return plain(row, self)

    def lift(self, value: Value) -> State:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Row) -> State:
        return row

    def fingerprint(self) -> str:
        options = (f"{name}={getattr(self, name)}" for name in self.options)
        return f"{type(self).__name__}({', '.join([*map(repr, self.fields), *options])})"


class HashedMonoid(ValueMonoid):
    """A monoid that hashes its elements: str, bytes, numbers or tuples of them."""

    def check_row(self, row: Row) -> Row:
        row = plain_parts(super().check_row(row), self)
        canonical(row, self)
        return row
