"""Missing values: which values are missing, and what stands for them in rows, columns and states.

In a column the number -2^63, whole or real, stands for a missing value, so that a column of numbers stays
one, and no second column is needed. It fits in both kinds of columns, and so survives where they are joined.
Rows of Python objects have None. The state of elements whose inputs are all missing is NO_VALUE.
"""

from __future__ import annotations

import numpy as np

from mta.kinds import Array, Row, State, Value
from mta.monoids.columns import as_python
from mta.monoids.values import MISSING_TYPES

#: Stands for a missing value in columns.
NULL = -(2**63)


class _NoValue:
    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_VALUE"

    def __reduce__(self) -> str:  # a copy is the same object
        return "NO_VALUE"


#: The state of elements whose inputs are missing: the aggregate of no value.
NO_VALUE: State = _NoValue()

#: Types whose values are never missing, except for NaN.
_PLAIN = frozenset({bool, int, str, bytes, tuple, list, dict, set, frozenset})


def is_missing(value: Value) -> bool:
    """Whether it is None, NaN, NaT, pandas' NA or NumPy's masked."""
    if value is None:
        return True
    if type(value) in _PLAIN:
        return False
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in MISSING_TYPES


def is_code(value: Value) -> bool:
    """Whether it is the number that stands for a missing value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(value == NULL)


def coded(value: Value, monoid: object) -> Row:
    """The value, or the number that stands for a missing one. Raises ValueError for that number itself."""
    if is_missing(value):
        return NULL
    if is_code(value):
        raise ValueError(refusal(monoid))
    return value


def refusal(monoid: object, where: str = "") -> str:
    return (
        f"{monoid!r} got {NULL}{where}, the one number that nulls='skip' keeps for missing values; scale it, "
        "or replace it"
    )


def there_in(column: Array) -> Array | None:
    """Which entries of a coded column are not missing; None for all."""
    kind = column.dtype.kind
    if not len(column) or kind in "bUS":
        return None
    if kind == "O":
        values = column.tolist()
        if {int, float}.isdisjoint(map(type, values)):
            return None
        there = np.fromiter((type(each) not in (int, float) or each != NULL for each in values), bool)
    elif kind in "mM":
        there = ~np.isnat(column)
    elif column.min() > NULL:
        return None
    else:
        there = column != NULL
    return None if there.all() else there


def with_none(column: Array) -> Array:
    """A coded column with None for missing values."""
    there = there_in(column)
    if there is None:
        return column
    found = as_python(column)
    found[~there] = None
    return found
