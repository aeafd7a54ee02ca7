"""Monoids of a NumPy ufunc: Count, Sum, Product, Min and Max; `from_ufunc` makes others.

A combine costs constant time, and a batch a few calls of NumPy.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable

import numpy as np

from mta.kinds import Array, Columns, Result, Results, Row, State, Value
from mta.monoids.base import LOST, ColumnarMonoid
from mta.monoids.columns import alike, check_numbers, column_of, is_finite
from mta.numbers.wide import added, as_objects, is_wide, narrowed, plain_list, reach, running, total

_WORD = 2**63

#: Whole numbers are exact up to the range of floats. A product beyond it stays at this limit.
_LARGEST = 2**1024


def quiet() -> np.errstate:
    """No warnings: a float beyond its range is infinity, and infinity minus infinity is NaN, as in Python."""
    return np.errstate(all="ignore")


def _times(older: State, younger: State) -> State:
    if type(older) is not type(younger):
        return _as_float(older) * _as_float(younger)
    return _clamped(older * younger)


def _lcm(older: State, younger: State) -> State:
    return _clamped(math.lcm(older, younger))


def _clamped(value: Value) -> State:
    if type(value) is int and not -_LARGEST < value < _LARGEST:
        return _LARGEST if value > 0 else -_LARGEST
    return value


def _as_float(value: Value) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def call_ufunc(ufunc: np.ufunc, older: State, younger: State) -> State:
    result = ufunc(older, younger)
    result = result.item() if isinstance(result, np.generic) else result
    return int(result) if isinstance(result, bool) else result


#: the same operation on plain numbers, faster than a ufunc for a single value
SCALAR: dict[np.ufunc, Callable[[State, State], State]] = {
    np.add: operator.add,
    np.multiply: _times,
    np.maximum: max,
    np.minimum: min,
    np.fmax: max,
    np.fmin: min,
    np.gcd: math.gcd,
    np.lcm: _lcm,
    np.bitwise_or: operator.or_,
    np.bitwise_and: operator.and_,
    np.bitwise_xor: operator.xor,
}


def _sum_fits(column: Array) -> bool:
    return reach(column) * len(column) < _WORD


def _product_fits(column: Array) -> bool:
    factors = np.maximum(np.abs(column.astype(np.float64)), 1.0)
    return float(np.log2(factors).sum()) < 62.9


#: for ufuncs whose results can leave 64 bits: a bound from two magnitudes, and whether a fold stays inside
_GROWTH: dict[np.ufunc, tuple[Callable[[int, int], int], Callable[[Array], bool]]] = {
    np.add: (operator.add, _sum_fits),
    np.multiply: (operator.mul, _product_fits),
    np.lcm: (operator.mul, _product_fits),
}


class UfuncMonoid(ColumnarMonoid):
    """An associative binary ufunc over numbers; scans and folds are its `accumulate` and `reduce`.

    Whole numbers never wrap around. If a bound does not exclude that, sums are computed in two words and
    other results in Python's ints, so a state may exceed 64 bits. `lower` raises OverflowError if a result
    exceeds 64 bits.
    """

    ufunc: np.ufunc
    commutes = True

    def combine(self, older: State, younger: State) -> State:
        if older is None or younger is None:
            return younger if older is None else older
        return self.combine_values(older, younger)

    def combine_values(self, older: State, younger: State) -> State:
        """`combine`, for two states that are not None."""
        scalar = SCALAR.get(self.ufunc)
        return scalar(older, younger) if scalar else call_ufunc(self.ufunc, older, younger)

    def lower(self, state: State) -> Result:
        if type(state) is int and not -_WORD <= state < _WORD:
            raise OverflowError(self._beyond(state, ""))
        return state

    def check_states(self, states: Columns) -> None:
        if not self._takes_objects():
            check_numbers(states, self)

    def lift_columns(self, inputs: Columns) -> Columns:
        return inputs

    def lower_columns(self, states: Columns) -> Results:
        (column,) = states
        if is_wide(column):
            column = narrowed(column)
        if column.dtype != object and not is_wide(column):
            return column
        values = plain_list(column)
        for row, value in enumerate(values):
            if type(value) is int and not -_WORD <= value < _WORD:
                raise OverflowError(self._beyond(value, f" in row {row}"))
        return column_of(values)

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        a, b = alike((*older, *younger))
        with quiet():
            if self._pair_fits(a, b):
                return (settled(self.ufunc(a, b)),)
            if self._adds_words(a) and self._adds_words(b):
                return (added(a, b),)
            return (settled(self._exact()(as_objects(a), as_objects(b))),)

    def prefix_columns(self, states: Columns) -> Columns:
        (column,) = states
        with quiet():
            if self._fold_fits(column):
                return (settled(self.ufunc.accumulate(column)),)
            if self._adds_words(column):
                return (running(column),)
            return (settled(self._exact().accumulate(as_objects(column), dtype=object)),)

    def suffix_columns(self, states: Columns) -> Columns:
        # The flipped scan swaps older and younger, so the operator has to commute.
        if not self.commutes:
            return super().suffix_columns(states)
        return (self.prefix_columns((states[0][::-1],))[0][::-1],)

    def fold_columns(self, states: Columns) -> Columns:
        (column,) = states
        with quiet():
            if self._fold_fits(column):
                return (settled(self.ufunc.reduce(column, keepdims=True)),)
            if self._adds_words(column):
                return (column_of([total(column)]),)
            return (column_of([functools.reduce(self.combine_values, column.tolist())]),)

    def _pair_fits(self, a: Array, b: Array) -> bool:
        """Whether the ufunc itself combines two columns without overflow."""
        if a.dtype.kind in "OV" or b.dtype.kind in "OV" or self._takes_objects():
            return False
        growth = _GROWTH.get(self.ufunc)
        if growth is None or a.dtype.kind != "i" or b.dtype.kind != "i" or not len(a) or not len(b):
            return True
        return growth[0](reach(a), reach(b)) < _WORD

    def _fold_fits(self, column: Array) -> bool:
        """Whether the ufunc itself folds and scans a column without overflow."""
        if column.dtype.kind in "OV" or self._takes_objects():
            return False
        growth = _GROWTH.get(self.ufunc)
        return growth is None or column.dtype.kind != "i" or not len(column) or growth[1](column)

    def _adds_words(self, column: Array) -> bool:
        """Whether sums of the column are computed in two words."""
        return self.ufunc is np.add and column.dtype.kind in "iV" and len(column) > 0

    def _takes_objects(self) -> bool:
        return self.ufunc.types == ["OO->O"]

    def _exact(self) -> np.ufunc:
        exact: np.ufunc = np.frompyfunc(self.combine_values, 2, 1)
        return exact

    def _beyond(self, value: int, where: str) -> str:
        size = "a number of more than 300 digits" if abs(value) >= _LARGEST else str(value)
        return (
            f"the result of {self!r}{where} is {size}, which does not fit in 64 bits; "
            "the window itself is intact: scale the elements, make them floats, or take a smaller window"
        )


def settled(column: Array) -> Array:
    """The column as int64 or float64, or as objects if neither holds all entries."""
    kind = column.dtype.kind
    if kind == "O":
        return column_of(column.tolist())
    return column.astype(np.float64 if kind == "f" else np.int64, copy=False)


class Count(UfuncMonoid):
    """The number of elements, of any type.

    Takes the name of a field, or none. In `rolling`, and in windows with `nulls="skip"`, `Count("x")` does
    not count elements without an x, as SQL's COUNT(x) does not. Other windows have no nulls.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Count(), policies.TimeWindow(10)).slide(["a", "b", "c"], [0, 9, 11]).tolist()
    [1, 2, 2]
    """

    ufunc = np.add
    identity = 0
    invertible = True

    combine = staticmethod(operator.add)  # type: ignore[assignment]

    def without(self, state: State, older: State) -> State:
        return state - older

    def check_row(self, row: Row) -> Row:  # noqa: ARG002
        return 1

    def check_columns(self, inputs: Columns) -> Columns:
        return (np.ones(len(inputs[0]), dtype=np.int64),)

    def lift_row(self, row: Row) -> State:  # noqa: ARG002
        return 1

    lift_columns = check_columns


class Sum(UfuncMonoid):
    """The sum; exact for whole numbers. OverflowError for a result beyond 64 bits.

    Takes the name of the field to read, or none. TypeError, ValueError or OverflowError for an element that
    is no number of 64 bits.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Sum(), policies.CountWindow(2)).slide([3, 1, 4, 1.5]).tolist()
    [3.0, 4.0, 5.0, 5.5]
    """

    ufunc = np.add
    identity = 0
    invertible = True

    combine = staticmethod(operator.add)  # type: ignore[assignment]

    def without(self, state: State, older: State) -> State:
        return state - older if is_finite(state) else LOST


class Product(UfuncMonoid):
    """The product; exact for whole numbers. OverflowError for a result beyond 64 bits.

    Takes the name of the field to read, or none. The errors of Sum.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Product(), policies.CountWindow(2)).slide([3, 2, 0, 7]).tolist()
    [3, 6, 0, 0]
    """

    ufunc = np.multiply
    identity = 1

    combine = staticmethod(_times)


class Min(UfuncMonoid):
    """The least number; None for no elements.

    Takes the name of the field to read, or none. The errors of Sum.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Min(), policies.CountWindow(2)).slide([3, 1, 4, 5]).tolist()
    [3, 1, 1, 4]
    """

    ufunc = np.minimum

    lower = ColumnarMonoid.lower  # a result is an element, so it fits in 64 bits

    def combine(self, older: State, younger: State) -> State:
        if older is None or younger is None:
            return younger if older is None else older
        return younger if younger < older else older


class Max(UfuncMonoid):
    """The greatest number; None for no elements.

    Takes the name of the field to read, or none. The errors of Sum.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Max("temp"), policies.CountWindow(2)).slide({"temp": [3, 1, 4, 1]}).tolist()
    [3, 3, 4, 4]
    """

    ufunc = np.maximum

    lower = ColumnarMonoid.lower  # a result is an element, so it fits in 64 bits

    def combine(self, older: State, younger: State) -> State:
        if older is None or younger is None:
            return younger if older is None else older
        return younger if younger > older else older
