"""Monoids of means: Mean, GeometricMean, Variance and the standard deviations. A combine is cheap."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from mta.kinds import Array, Columns, Result, Results, Row, State
from mta.monoids.base import LOST, ColumnarMonoid
from mta.monoids.columns import check_numbers, exact_column, exact_number, is_finite, numeric_column
from mta.monoids.ufuncs import Sum, quiet
from mta.numbers.wide import ratios
from mta.options import check_between

_SUM = Sum()

#: the greatest number whose `exp` is a float: the rounded mean of logs may be greater
_LARGEST_LOG = 709.782712893384

#: If less than this share of a sum of squares is left after a subtraction, it is rounding.
_LEAST_LEFT = 1e-7

#: 1, 2, 3 …, shared by all columns that are not longer.
_COUNTING = np.arange(1, (1 << 14) + 1)
_COUNTING.flags.writeable = False
_COUNTING_REAL = _COUNTING.astype(np.float64)


def ones(count: int) -> Array:
    """A column of ones that takes no memory."""
    return np.broadcast_to(np.int64(1), count)


def counting(count: int) -> Array:
    """1, 2, 3 … as a column that must not be changed."""
    return _COUNTING[:count] if count <= len(_COUNTING) else np.arange(1, count + 1)


def counting_real(count: int) -> Array:
    """1.0, 2.0, 3.0 … as a column that must not be changed."""
    return _COUNTING_REAL[:count] if count <= len(_COUNTING_REAL) else np.arange(1.0, count + 1)


def _running(counts: Array) -> Array:
    """Running totals of counts. In states of single elements, all counts are 1."""
    return counting(len(counts)) if all_ones(counts) else np.add.accumulate(counts)


def all_ones(counts: Array) -> bool:
    """Whether all states are of single elements."""
    if not len(counts):
        return True
    return int(counts[0]) == 1 and (counts.strides[0] == 0 or int(counts.max()) == 1)


class Mean(ColumnarMonoid):
    """The arithmetic mean; NaN for no elements. A state is (count, sum); a sum of whole numbers is exact.

    Takes the name of the field to read, or none. TypeError, ValueError or OverflowError for an element that
    is no number of 64 bits.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Mean(), policies.CountWindow(2)).slide([3, 1, 4]).tolist()
    [3.0, 2.0, 2.5]
    """

    identity: tuple[int, int | float] = (0, 0)
    width = 2
    commutes = invertible = True

    def lift_row(self, row: Row) -> State:
        return (1, row)

    def combine(self, older: State, younger: State) -> State:
        return (older[0] + younger[0], older[1] + younger[1])

    def without(self, state: State, older: State) -> State:
        if not is_finite(state[1]):
            return LOST
        return (state[0] - older[0], state[1] - older[1])

    def lower(self, state: State) -> Result:
        count, total = state
        return total / count if count else math.nan

    def lift_columns(self, inputs: Columns) -> Columns:
        return (ones(len(inputs[0])), inputs[0])

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        return (older[0] + younger[0], *_SUM.combine_columns(older[1:], younger[1:]))

    def check_states(self, states: Columns) -> None:
        check_numbers(states, self)
        if (states[0] < 1).any():
            raise ValueError(f"{self!r} has no states of less than one number")

    def lower_columns(self, states: Columns) -> Results:
        counts, totals = states
        with quiet():
            return ratios(totals, counts)

    def prefix_columns(self, states: Columns) -> Columns:
        return (_running(states[0]), *_SUM.prefix_columns(states[1:]))

    def suffix_columns(self, states: Columns) -> Columns:
        return (_running(states[0][::-1])[::-1], *_SUM.suffix_columns(states[1:]))

    def fold_columns(self, states: Columns) -> Columns:
        return (states[0].sum(keepdims=True), *_SUM.fold_columns(states[1:]))


class GeometricMean(Mean):
    """The geometric mean; NaN for no elements. A state is (count, sum of logs).

    Takes the name of the field to read, or none. The errors of Mean, and ValueError for a number below 0.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.GeometricMean(), policies.CountWindow(2)).slide([0, 2, 8]).round(9).tolist()
    [0.0, 0.0, 4.0]
    """

    identity = (0, 0.0)

    def check_row(self, row: Row) -> Row:
        if type(row) is float and row >= 0:  # the common case
            return row
        row = super().check_row(row)
        if row < 0:
            raise ValueError(f"{self!r} takes no negative numbers, got {row!r}")
        return row

    def check_columns(self, inputs: Columns) -> Columns:
        column = numeric_column(inputs[0], self)
        if len(column) and column.min() < 0:
            row = int((column < 0).argmax())
            raise ValueError(f"{self!r} takes no negative numbers, got {column.tolist()[row]!r} in row {row}")
        return (column,)

    def lift_row(self, row: Row) -> State:
        return (1, math.log(row) if row else -math.inf)

    def lower(self, state: State) -> Result:
        count, logs = state
        if not count:
            return math.nan
        return math.inf if logs == math.inf else math.exp(min(logs / count, _LARGEST_LOG))

    def lift_columns(self, inputs: Columns) -> Columns:
        with quiet():
            return (ones(len(inputs[0])), np.log(inputs[0].astype(np.float64, copy=False)))

    def lower_columns(self, states: Columns) -> Results:
        with quiet():
            logs = states[1] / states[0]
            return np.exp(np.where(states[1] == math.inf, logs, np.minimum(logs, _LARGEST_LOG)))


class ScansElements(ColumnarMonoid):
    """A monoid with a faster way for states of single elements, whose first column is the count, 1."""

    @abstractmethod
    def scan_elements(self, states: Columns) -> Columns | None:
        """The aggregates of all prefixes of at least one element; None if a result is not finite."""

    @abstractmethod
    def fold_elements(self, states: Columns) -> Columns | None:
        """The aggregate of at least one element; None if it is not finite."""

    def prefix_columns(self, states: Columns) -> Columns:
        scanned = self._scanned(states)
        return super().prefix_columns(states) if scanned is None else scanned

    def suffix_columns(self, states: Columns) -> Columns:
        scanned = self._scanned(tuple(column[::-1] for column in states))
        if scanned is None:
            return super().suffix_columns(states)
        return tuple(column[::-1] for column in scanned)

    def fold_columns(self, states: Columns) -> Columns:
        folded = self.fold_elements(states) if all_ones(states[0]) else None
        return super().fold_columns(states) if folded is None else folded

    def _scanned(self, states: Columns) -> Columns | None:
        return self.scan_elements(states) if len(states[0]) and all_ones(states[0]) else None


class _Spread(ScansElements):
    """A state is (count, mean, sum of squared differences from the mean), with the combine of Chan et al.

    Infinity minus infinity is NaN, so one infinite element makes the result NaN, at any position.
    """

    identity = (0, 0.0, 0.0)
    width = 3
    commutes = invertible = True

    #: subtracted from the count that the sum of squares is divided by
    freedom: int

    def lift_row(self, row: Row) -> State:
        value = float(row)
        return (1, value, value - value)

    def combine(self, older: State, younger: State) -> State:
        n, mean, squares = older
        m, other, more = younger
        if not m:
            return older
        if not n:
            return younger
        total = n + m
        delta = other - mean
        shift = delta * (m / total)
        return (total, mean + shift, squares + more + delta * shift * n)

    def without(self, state: State, older: State) -> State:
        total, mean, squares = state
        m, other, more = older
        n = total - m
        if not n:
            return self.identity
        if not math.isfinite(squares):
            return LOST
        delta = other - mean
        left = squares - more - delta * delta * (m * total / n)
        if left < squares * _LEAST_LEFT:
            return LOST
        return (n, mean - delta * m / n, left)

    def lower(self, state: State) -> Result:
        count, _, squares = state
        return squares / (count - self.freedom) if count > self.freedom else math.nan

    def lift_columns(self, inputs: Columns) -> Columns:
        column = inputs[0].astype(np.float64, copy=False)
        with quiet():
            finite = np.isfinite(column).all()
            squares = np.broadcast_to(np.float64(0), len(column)) if finite else column - column
        return (ones(len(column)), column, squares)

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        n, mean, squares = older
        m, other, more = younger
        with quiet():
            total = n + m
            delta = other - mean
            shift = m / total
            shift *= delta
            delta *= shift
            delta *= n
            shift += mean
            delta += squares
            delta += more
        return (total, shift, delta)

    def check_states(self, states: Columns) -> None:
        check_numbers(states, self)
        if (states[0] < 1).any() or (states[2] < 0).any():
            raise ValueError(f"{self!r} has no states with a negative sum of squares or a count below 1")

    def lower_columns(self, states: Columns) -> Results:
        with quiet():
            return states[2] / (states[0] - self.freedom)

    def fold_elements(self, states: Columns) -> Columns | None:
        with quiet():
            first = states[1][0]
            differences = states[1] - first
            shift = differences.mean()
            differences -= shift
            differences *= differences
            squares = differences.sum()
        if not math.isfinite(squares):
            return None
        return (np.array([len(states[0])]), np.array([first + shift]), np.array([squares]))

    def scan_elements(self, states: Columns) -> Columns | None:
        """In a few passes, with all numbers relative to the first element.

        It is in every prefix, so its squared difference from the mean is at most j times the sum of squares
        of the j elements: the subtraction loses few digits.
        """
        values = states[1]
        first, count = values[0], len(values)
        with quiet():
            differences = values - first
            sums = np.add.accumulate(differences)
            differences *= differences
            squares = np.add.accumulate(differences, out=differences)
            means = sums / counting_real(count)
            sums *= means
            squares -= sums
            np.maximum(squares, 0.0, out=squares)
            means += first
        return (counting(count), means, squares) if math.isfinite(squares[-1]) else None


class Variance(_Spread):
    """The variance of a sample, which divides by n - 1; NaN for fewer than two elements.

    With `ddof=0` the variance of a population, which divides by n; NaN for no elements. `ddof` is subtracted
    from the number of elements, as in NumPy and pandas.

    Takes the name of the field to read, or none. The errors of Mean, and ValueError for another `ddof`. The
    differences are floats: ValueError for a whole number beyond 2**53 that a float would round. Subtract a
    start from such numbers first; the variance stays the same.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.Variance(), policies.CountWindow(3)).slide([3, 1, 5, 9]).tolist()
    [nan, 2.0, 4.0, 16.0]
    >>> AmortizedMTA(monoids.Variance(ddof=0), policies.CountWindow(2)).slide([3, 1, 9]).tolist()
    [0.0, 1.0, 16.0]
    """

    def __init__(self, *fields: str, ddof: int = 1) -> None:
        super().__init__(*fields)
        self.freedom = check_between("Variance", "ddof", ddof, 0, 1)

    def check_row(self, row: Row) -> Row:
        return exact_number(super().check_row(row), self)

    def check_columns(self, inputs: Columns) -> Columns:
        return (exact_column(numeric_column(inputs[0], self), self),)

    def fingerprint(self) -> str:
        return f"Variance({', '.join([*map(repr, self.fields), f'ddof={self.freedom}'])})"


class _StdDev(_Spread):
    def lower(self, state: State) -> Result:
        count, _, squares = state
        return math.sqrt(squares / (count - self.freedom)) if count > self.freedom else math.nan

    def lower_columns(self, states: Columns) -> Results:
        with quiet():
            out = super().lower_columns(states)
            return np.sqrt(out, out=out)


class SampleStdDev(_StdDev):
    """The standard deviation of a sample (n - 1); NaN for fewer than two elements.

    Takes the name of the field to read, or none. The errors of Mean. Whole numbers beyond 2**53 are
    rounded to floats before their differences are taken: subtract a start from them first.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.SampleStdDev(), policies.CountWindow(3)).slide([3, 1, 5, 9]).tolist()
    [nan, 1.4142135623730951, 2.0, 4.0]
    """

    freedom = 1


class PopulationStdDev(_StdDev):
    """The standard deviation of a population (n); NaN for no elements.

    Takes the name of the field to read, or none. The errors of Mean. Whole numbers beyond 2**53 are
    rounded to floats before their differences are taken: subtract a start from them first.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> AmortizedMTA(monoids.PopulationStdDev(), policies.CountWindow(2)).slide([3, 1, 9]).tolist()
    [0.0, 1.0, 4.0]
    """

    freedom = 0
