"""Monoids over values in Spark's order, where NaN is a number greater than all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta import monoids
from mta.monoids.base import ColumnarMonoid, Columns
from spark_integration.aggregates.inputs import in_total_order, total_order_key


class Max(monoids.Max):
    def combine(self, older: Any, younger: Any) -> Any:
        if older is None or younger is None:
            return younger if older is None else older
        return younger if younger > older or younger != younger else older


class Min(monoids.Min):
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


class MaxCount(_Ordered, monoids.MaxCount):
    pass


class MinCount(_Ordered, monoids.MinCount):
    pass


class ArgMax(_Ordered, monoids.ArgMax):
    pass


class ArgMin(_Ordered, monoids.ArgMin):
    pass


class CountDistinct(monoids.CountDistinct):
    # NaN is one value, and so are 0.0 and -0.0
    def lift_row(self, row: Any) -> Any:
        return super().lift_row(total_order_key(row))
