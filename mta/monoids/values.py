"""Elements that need not be numbers: what passes, in what form it is kept, and how it is hashed."""

from __future__ import annotations

import array
import collections
import copy
import hashlib
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from mta.monoids.base import (
    Array,
    Columns,
    Monoid,
    column_of,
    number,
    numeric_column,
    refuse_time_types,
    required,
)

#: missing values that other libraries use; matched by name so that none of them has to be imported
_MISSING = frozenset({"NAType", "NaTType", "MaskedConstant"})


def plain(value: Any, monoid: Any) -> Any:
    """Any value as plain Python, a NumPy scalar without its wrapping; refuses what stands for no value."""
    if isinstance(value, np.generic):
        refuse_time_types(value, monoid)
        value = value.item()
    if value is None or type(value).__name__ in _MISSING:
        raise TypeError(
            f"{monoid!r} got {value!r}; drop or replace missing values before they enter a window"
        )
    if isinstance(value, float):
        return number(value, monoid)
    return own(value)


def plain_column(column: Any, monoid: Any) -> Array:
    """A column of any values but missing ones: 64-bit where all are numbers, objects otherwise."""
    given = np.asarray(column)
    if given.ndim != 1:
        raise TypeError(f"{monoid!r} takes one column of values, got an array of shape {given.shape}")
    kind = given.dtype.kind
    if kind in "fib" or (kind == "u" and given.dtype.itemsize < 8):
        return numeric_column(given, monoid)
    refuse_time_types(given, monoid)
    values = []
    for row, value in enumerate(given.tolist()):
        try:
            values.append(plain(value, monoid))
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {row}: {error}") from None
    return column_of(values)


#: what nobody can change
_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})

#: what somebody can, and is copied: so are tuples and frozen sets that hold such
_MUTABLE = (list, dict, set, bytearray, np.ndarray, collections.deque, array.array)


def own(value: Any) -> Any:
    """The value, with all in it that can be changed copied: a window shares no memory with its user.

    Objects of other classes are taken as they are, so nobody may change them.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, (tuple, frozenset)):
        return value if all(type(part) in _ATOMS for part in value) else _copied(value)
    if isinstance(value, np.ndarray):
        return np.array(value) if value.dtype != object and not is_masked(value) else _copied(value)
    return _copied(value) if isinstance(value, _MUTABLE) else value


def _copied(value: Any) -> Any:
    try:
        copied = copy.deepcopy(value)
    except RecursionError:
        raise ValueError(
            "a value that is nested hundreds of levels deep cannot be kept; make it flat"
        ) from None
    _refuse_masked(copied)
    return copied


def _refuse_masked(value: Any) -> None:
    """Refuses arrays with a mask, also inside a value: what is missing is no element."""
    if is_masked(value):
        raise ValueError(
            f"a masked array is no element, got {value!r}: take what is there by compressed() or filled()"
        )
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        for part in value:
            if type(part) not in _ATOMS:
                _refuse_masked(part)


def is_masked(value: Any) -> bool:
    return isinstance(value, np.ma.MaskedArray)


def own_list(values: Sequence[Any]) -> list[Any]:
    """`own`, of each."""
    return list(values) if _ATOMS.issuperset(map(type, values)) else [own(value) for value in values]


def own_results(results: Any, states: Columns) -> Any:
    """Results of a run of states in arrays that are not those of the states."""
    if isinstance(results, dict):
        return {name: own_results(each, states) for name, each in results.items()}
    if not isinstance(results, np.ndarray):
        return results
    if results.dtype == object:
        return np.fromiter(own_list(results.tolist()), dtype=object, count=len(results))
    shared = results.base is not None or any(results is column for column in states)
    return np.array(results) if shared else results


def unwrapped(value: Any) -> Any:
    """A NumPy scalar as plain Python, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def canonical(value: Any, monoid: Any) -> bytes:
    """The same bytes for equal values, in every process: what sketches and filters hash.

    Numbers that are equal are the same element, as in a Python set: 1, 1.0 and True.
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


def digest(value: Any, monoid: Any) -> bytes:
    """16 bytes that stand for a value, the same in every process."""
    return hashlib.blake2b(canonical(value, monoid), digest_size=16).digest()


class ValueMonoid(Monoid):
    """A monoid over Python objects whose element is one value, plain or under one field name."""

    def __init__(self, *fields: str) -> None:
        if len(fields) > 1 or not all(isinstance(field, str) for field in fields):
            raise TypeError(f"{type(self).__name__} takes one field name or none, got {fields!r}")
        self.fields = fields

    def row(self, value: Any) -> Any:
        return self.check_row(required(value, self.fields[0], self) if self.fields else value)

    def check_row(self, row: Any) -> Any:
        """The row as a plain value; refuses what is no element of this monoid."""
        return plain(row, self)

    def lift(self, value: Any) -> Any:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Any) -> Any:
        return row
