"""Monoids of pairs of numbers: Covariance, Correlation and Slope. A combine costs constant time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mta.kinds import Array, Columns, Result, Results, Row, State
from mta.monoids.columns import check_numbers, exact_column, exact_number, number, numeric_column
from mta.monoids.moments import ScansElements, counting, counting_real, ones
from mta.monoids.ufuncs import quiet
from mta.options import check_between


class _Pairs(ScansElements):
    """A state is (count, mean of x, mean of y, sums of products of differences from these means).

    Such a sum is of the squares of x, of the squares of y, or of the products of both. The combine is that
    of Chan et al. Infinity minus infinity is NaN, so one infinite element makes its sums NaN.
    """

    arity = 2
    commutes = True

    #: which two inputs each sum of products is of: 0 is x, 1 is y
    products: tuple[tuple[int, int], ...]

    def __init_subclass__(cls) -> None:
        cls.width = 3 + len(cls.products)
        cls.identity = (0, *(0.0,) * (cls.width - 1))

    def check_row(self, row: Row) -> Row:
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise TypeError(f"{self!r} takes a pair (x, y), got {row!r}")
        x, y = (exact_number(number(each, self), self) for each in row)
        return (x, y)

    def check_columns(self, inputs: Columns) -> Columns:
        return tuple(exact_column(numeric_column(column, self), self) for column in inputs)

    def lift_row(self, row: Row) -> State:
        means = (float(row[0]), float(row[1]))
        zeros = [mean - mean for mean in means]
        return (1, *means, *(zeros[a] * zeros[b] for a, b in self.products))

    def combine(self, older: State, younger: State) -> State:
        n, m = older[0], younger[0]
        if not n or not m:
            return older if n else younger
        total = n + m
        deltas = (younger[1] - older[1], younger[2] - older[2])
        shifts = (deltas[0] * (m / total), deltas[1] * (m / total))
        sums = zip(self.products, older[3:], younger[3:], strict=True)
        return (
            total,
            older[1] + shifts[0],
            older[2] + shifts[1],
            *(one + other + deltas[a] * shifts[b] * n for (a, b), one, other in sums),
        )

    def lift_columns(self, inputs: Columns) -> Columns:
        means = [column.astype(np.float64, copy=False) for column in inputs]
        zeros = np.broadcast_to(np.float64(0), len(means[0]))
        with quiet():
            differences = [zeros if np.isfinite(column).all() else column - column for column in means]
            sums = [
                zeros if differences[a] is differences[b] is zeros else differences[a] * differences[b]
                for a, b in self.products
            ]
        return (ones(len(means[0])), *means, *sums)

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        n, m = older[0], younger[0]
        with quiet():
            total = n + m
            share = m / total
            deltas = [younger[1] - older[1], younger[2] - older[2]]
            shifts = [delta * share for delta in deltas]
            sums = zip(self.products, older[3:], younger[3:], strict=True)
            return (
                total,
                older[1] + shifts[0],
                older[2] + shifts[1],
                *(one + other + deltas[a] * shifts[b] * n for (a, b), one, other in sums),
            )

    def check_states(self, states: Columns) -> None:
        check_numbers(states, self)
        squares = [column for (a, b), column in zip(self.products, states[3:], strict=True) if a == b]
        if (states[0] < 1).any() or any((column < 0).any() for column in squares):
            raise ValueError(f"{self!r} has no states with a negative sum of squares or a count below 1")

    def fold_elements(self, states: Columns) -> Columns | None:
        firsts = (states[1][0], states[2][0])
        with quiet():
            differences = [states[1] - firsts[0], states[2] - firsts[1]]
            shifts = [difference.mean() for difference in differences]
            for difference, shift in zip(differences, shifts, strict=True):
                difference -= shift
            sums = [(differences[a] * differences[b]).sum() for a, b in self.products]
        if not all(map(math.isfinite, sums)):
            return None
        parts = [firsts[0] + shifts[0], firsts[1] + shifts[1], *sums]
        return (np.array([len(states[0])]), *(np.array([part]) for part in parts))

    def scan_elements(self, states: Columns) -> Columns | None:
        """In a few passes, with all numbers relative to the first element.

        It is in every prefix, so the subtraction loses few digits of sums of squares. A sum of products is at
        most the root of both sums of squares, and loses as little beside that root.
        """
        count = len(states[0])
        columns = (states[1], states[2])
        with quiet():
            differences = [column - column[0] for column in columns]
            sums = [np.add.accumulate(difference) for difference in differences]
            means = [total / counting_real(count) for total in sums]
            scanned = [self._scan_products(a, b, differences, sums, means) for a, b in self.products]
            if not all(math.isfinite(column[-1]) for column in scanned):
                return None
            for mean, column in zip(means, columns, strict=True):
                mean += column[0]
        return (counting(count), *means, *scanned)

    @staticmethod
    def _scan_products(
        a: int, b: int, differences: Sequence[Array], sums: Sequence[Array], means: Sequence[Array]
    ) -> Array:
        scanned = differences[a] * differences[b]
        np.add.accumulate(scanned, out=scanned)
        scanned -= sums[a] * means[b]
        return np.maximum(scanned, 0.0, out=scanned) if a == b else scanned


class Covariance(_Pairs):
    """The covariance of pairs (x, y) as a sample, which divides by n - 1; NaN for fewer than two elements.

    With `ddof=0` the covariance as a population, which divides by n; NaN for no elements.

    An element is a pair (x, y), or a mapping: `Covariance("x", "y")` takes both field names. TypeError,
    ValueError or OverflowError for an x or y that is no number of 64 bits, and ValueError for another `ddof`.
    The differences are floats: ValueError for a whole number beyond 2**53 that a float would round. Subtract
    a start from such numbers first; the covariance stays the same.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Covariance("x", "y"), policies.CountWindow(3))
    >>> window.slide({"x": [1, 2, 3, 7], "y": [5, 7, 9, 2]}).tolist()
    [nan, 1.0, 2.0, -8.5]
    """

    products = ((0, 1),)

    def __init__(self, *fields: str, ddof: int = 1) -> None:
        super().__init__(*fields)
        #: subtracted from the count that the sum of products is divided by
        self.freedom = check_between("Covariance", "ddof", ddof, 0, 1)

    def lower(self, state: State) -> Result:
        count, products = state[0], state[3]
        return products / (count - self.freedom) if count > self.freedom else math.nan

    def lower_columns(self, states: Columns) -> Results:
        with quiet():
            return np.where(states[0] > self.freedom, states[3] / (states[0] - self.freedom), math.nan)

    def fingerprint(self) -> str:
        return f"Covariance({', '.join([*map(repr, self.fields), f'ddof={self.freedom}'])})"


class Correlation(_Pairs):
    """Pearson's correlation of pairs (x, y), from -1 to 1; NaN if all x or all y are equal.

    An element is a pair (x, y), or a mapping: `Correlation("x", "y")` takes both field names. The errors of
    Covariance.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Correlation("x", "y"), policies.CountWindow(3))
    >>> window.slide({"x": [1, 2, 3, 3], "y": [5, 7, 9, 7]}).round(3).tolist()
    [nan, 1.0, 1.0, 0.5]
    """

    products = ((0, 0), (1, 1), (0, 1))

    def lower(self, state: State) -> Result:
        *_, xs, ys, products = state
        scale = math.sqrt(xs) * math.sqrt(ys)
        found = products / scale if scale > 0 else math.nan
        return found if -1.0 <= found <= 1.0 else math.copysign(1.0, found) if found == found else math.nan

    def lower_columns(self, states: Columns) -> Results:
        *_, xs, ys, products = states
        with quiet():
            scale = np.sqrt(xs) * np.sqrt(ys)
            return np.clip(np.where(scale > 0, products / scale, math.nan), -1.0, 1.0)


class Slope(_Pairs):
    """The slope of the line that fits pairs (x, y) best: by how much y grows when x grows by 1.

    The order of the arguments is that of a graph, x first: `Slope("seconds", "price")` is the trend of the
    price. SQL has it as `regr_slope(y, x)`. The squares of the differences in y are least. NaN if all x are
    equal, so for fewer than two elements too.

    For a trend in time, take the seconds since a start as x. Nanoseconds since 1970 are whole numbers beyond
    2**53, which are refused where a float would round them: subtract a start from them first.

    An element is a pair (x, y), or a mapping: `Slope("x", "y")` takes both field names. The errors of
    Covariance.

    >>> from mta import AmortizedMTA, monoids, policies
    >>> window = AmortizedMTA(monoids.Slope("hour", "price"), policies.CountWindow(3))
    >>> window.slide({"hour": [1, 2, 3, 5], "price": [10, 14, 18, 18]}).round(3).tolist()
    [nan, 4.0, 4.0, 1.143]
    """

    products = ((0, 0), (0, 1))

    def lower(self, state: State) -> Result:
        *_, xs, products = state
        return products / xs if xs > 0 else math.nan

    def lower_columns(self, states: Columns) -> Results:
        *_, xs, products = states
        with quiet():
            return np.where(xs > 0, products / xs, math.nan)
