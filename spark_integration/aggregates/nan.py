"""Monoids as Spark has them where a value is NaN: a number greater than all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta import monoids
from mta.monoids.base import ColumnarMonoid, Columns, Monoid
from spark_integration.aggregates.inputs import in_total_order, total_order_key


class _Max(monoids.Max):
    def combine(self, older: Any, younger: Any) -> Any:
        if older is None or younger is None:
            return younger if older is None else older
        return younger if younger > older or younger != younger else older


class _Min(monoids.Min):
    # which takes NaN only where there is nothing else
    ufunc: np.ufunc = np.fmin  # type: ignore[assignment]

    def combine(self, older: Any, younger: Any) -> Any:
        if older is None or younger is None:
            return younger if older is None else older
        return younger if younger < older or older != older else older


class _Ordered(ColumnarMonoid):
    """Lifts the value, which is the first input, to whole numbers in Spark's order."""

    def lift_row(self, row: Any) -> Any:
        value, *rest = row if self.arity > 1 else (row,)
        return super().lift_row((total_order_key(value), *rest) if rest else total_order_key(value))

    def lift_columns(self, inputs: Columns) -> Columns:
        return super().lift_columns((in_total_order(inputs[0]), *inputs[1:]))  # type: ignore[safe-super]


class _MaxCount(_Ordered, monoids.MaxCount):
    pass


class _MinCount(_Ordered, monoids.MinCount):
    pass


class _ArgMax(_Ordered, monoids.ArgMax):
    pass


class _ArgMin(_Ordered, monoids.ArgMin):
    pass


class _CountDistinct(monoids.CountDistinct):
    # NaN is one value, and so are 0.0 and -0.0
    def lift_row(self, row: Any) -> Any:
        return super().lift_row(total_order_key(row))


class _GeometricMean(monoids.GeometricMean):
    def __repr__(self) -> str:
        return super().__repr__().removeprefix("_")

    def check_columns(self, inputs: Columns) -> Columns:
        negative = inputs[0] < 0
        if negative.any():
            raise ValueError(f"{self!r} takes no negative numbers, got {inputs[0][negative][0]}")
        return inputs

    def lift_row(self, row: Any) -> Any:
        if row < 0:
            raise ValueError(f"{self!r} takes no negative numbers, got {row!r}")
        return super().lift_row(row)


_WITH_NAN: dict[type[Monoid], type[Monoid]] = {
    monoids.Max: _Max,
    monoids.Min: _Min,
    monoids.MaxCount: _MaxCount,
    monoids.MinCount: _MinCount,
    monoids.ArgMax: _ArgMax,
    monoids.ArgMin: _ArgMin,
    monoids.GeometricMean: _GeometricMean,
    monoids.CountDistinct: _CountDistinct,
}

#: Monoids of the catalogue that take any value that Arrow has typed, NaN too, and need no check of their own.
UNCHECKED = (
    monoids.Sum,
    monoids.Product,
    _Max,
    _Min,
    monoids.Mean,
    monoids.SampleStdDev,
    monoids.PopulationStdDev,
    _MaxCount,
    _MinCount,
    _ArgMax,
    _ArgMin,
    monoids.First,
    monoids.Last,
    monoids.Collect,
    monoids.CollectDistinct,
    _CountDistinct,
    monoids.Count,
    monoids.Concat,
    monoids.DistinctCount,
    monoids.BloomFilter,
)
#: Those that need no check where rows are taken one by one.
UNCHECKED_ROWS = (*UNCHECKED, _GeometricMean)


def with_nan(monoid: Monoid) -> Monoid:
    """The monoid as Spark has it where a value is NaN."""
    kind = _WITH_NAN.get(type(monoid))
    return monoid if kind is None else kind(*monoid.fields)
