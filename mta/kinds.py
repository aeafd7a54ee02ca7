"""Names for the kinds of values that pass through a window, so that a signature says which one it takes.

A user's monoid decides what a value, a row, a state and a result are, and Python cannot tell them apart:
these names are Any. What a caller or a store gives, and nobody has checked yet, is an `object`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

#: an element as a user gives it
Value: TypeAlias = Any

#: an element as a window keeps it: `Monoid.row` makes it of a value
Row: TypeAlias = Any

#: a partial aggregate: `Monoid.lift` makes it of one element, `Monoid.combine` of two states; never changed
State: TypeAlias = Any

#: a state as plain values that a store can hold: `Monoid.pack` makes it of a state
Packed: TypeAlias = Any

#: an aggregate as a user gets it: `Monoid.lower` makes it of a state
Result: TypeAlias = Any

#: results of a whole batch: an array with one entry a row, or a mapping of such arrays for `Fields`
Results: TypeAlias = Any

#: the time of an element: a finite number that fits in 64 bits
Time: TypeAlias = int | float

#: one column: a NumPy array of one dimension
Array: TypeAlias = npt.NDArray[Any]

#: the columns of several states, or of the inputs of several elements, all of one length
Columns: TypeAlias = tuple[Array, ...]

#: stands for an aggregate that has not been computed
UNKNOWN: State = type("Unknown", (), {"__repr__": lambda _: "UNKNOWN", "__slots__": ()})()
