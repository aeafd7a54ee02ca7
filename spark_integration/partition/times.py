"""The order column as times, and its values that are no times."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mta.encoding.arrow import validity
from mta.monoids.base import Array
from spark_integration.aggregates.inputs import real_numbers, whole_numbers
from spark_integration.call.frames import Clock

#: Kinds of order values, in the order that Spark sorts them. Rows of one kind see no rows of another.
NULL, MINUS_INFINITY, TIME, INFINITY, NAN = range(5)


class Times:
    """The order column of a chunk: the kind of each value, and the time where it is one."""

    def __init__(self, column: pa.Array, clock: Clock) -> None:
        if clock == "whole":
            self.values = whole_numbers(column)
            if self.values.size and int(self.values.min()) < -(2**63) + 1:
                raise ValueError(f"an order value is {-(2**63)}, which is beyond the times of a window")
            self.kinds: Array | None = None
        else:
            values = real_numbers(column)
            kinds = np.full(len(values), TIME, dtype=np.int8)
            finite = np.isfinite(values)
            if not finite.all():
                kinds[np.isnan(values)] = NAN
                kinds[values == np.inf] = INFINITY
                kinds[values == -np.inf] = MINUS_INFINITY
                values = np.where(finite, values, 0.0)
            self.values = values
            self.kinds = None if finite.all() else kinds
        if column.null_count:
            kinds = np.full(len(column), TIME, dtype=np.int8) if self.kinds is None else self.kinds
            kinds[~validity(column)] = NULL
            self.kinds = kinds

    def kind_at(self, row: int) -> int:
        return TIME if self.kinds is None else int(self.kinds[row])

    def kind_changes(self) -> Array:
        """For each row but the first, whether it is of another kind than the one before."""
        if self.kinds is None:
            return np.zeros(max(len(self.values) - 1, 0), dtype=bool)
        changes: Array = self.kinds[1:] != self.kinds[:-1]
        return changes
