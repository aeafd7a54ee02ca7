"""Monoids over NumPy columns as SQL has them: nulls are skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mta.monoids.base import Array, ColumnarMonoid, Columns
from mta.monoids.fields import ColumnFields
from mta.monoids.missing import NO_VALUE
from mta.monoids.skipping import SkippingColumns, taken
from mta.monoids.ufuncs import quiet
from spark_integration.aggregates.inputs import are_valid
from spark_integration.aggregates.traits import SqlTraits

#: Ends the name of the column that says which of an aggregate's results are not null.
PRESENT = "\0present"


class Nullable(SkippingColumns):
    """A columnar monoid over inputs that may be null; an element is skipped if an input it needs is null.

    `skips` are the indices of the inputs that it needs and that may be null. An argument, as of ArgMax, may
    be null and still be the result. Its `lower_columns` gives a mapping: results, and under `PRESENT` which
    of them are not null.
    """

    def __init__(
        self, inner: ColumnarMonoid, fields: Sequence[str], traits: SqlTraits, *, skips: Sequence[int]
    ) -> None:
        super().__init__(inner, *fields)
        self._skips = tuple(skips)
        self._traits = traits

    def fingerprint(self) -> str:
        return f"Nullable({self.inner.fingerprint()}, {', '.join(map(repr, self.fields))})"

    def lift_row(self, row: Any) -> Any:
        inputs = row if self.arity > 1 else (row,)
        if not all(are_valid(np.asarray([inputs[index]]))[0] for index in self._skips):
            return NO_VALUE
        return self.inner.lift_row(row)

    def lower(self, state: Any) -> Any:
        raise NotImplementedError("results are lowered as columns")

    def check_row(self, row: Any) -> Any:
        return row

    def check_columns(self, inputs: Columns) -> Columns:
        refuses = self._traits.refuses
        if refuses is None and self._traits.takes_nan:
            return inputs
        valid = self.there(inputs)
        those = inputs if valid is None else taken(inputs, np.flatnonzero(valid))
        if not self._traits.takes_nan:
            self.inner.check_columns(those)
        if refuses is not None:
            refused = np.flatnonzero(refuses[1](those[0]))
            if len(refused):
                raise ValueError(f"{self.inner!r} takes no {refuses[0]}, got {those[0][refused[0]]}")
        return inputs

    def there(self, inputs: Columns) -> Array | None:
        valid = None
        for index in self._skips:
            these = are_valid(inputs[index])
            valid = these if valid is None else valid & these
        return None if valid is None or valid.all() else valid

    def lower_columns(self, states: Columns) -> Any:
        present = states[-1] != 0
        if self._traits.defined is not None:
            present &= self._traits.defined(self.inner, states[:-1])
        with quiet():
            results = self.inner.lower_columns(states[:-1])
        if self._traits.needs is not None:  # and an input that may be null is the result
            present &= are_valid(results)
        return {"": results, PRESENT: present}


class Columnar(ColumnFields):
    """`Fields` of `Nullable` aggregates and Count, whose results are arrays and where they are present."""

    def lower_columns(self, states: Columns) -> Any:
        results: dict[str, Any] = {}
        for name, monoid, part, _ in self._parts:
            lowered = monoid.lower_columns(states[part])
            if isinstance(monoid, Nullable):
                results[name], results[name + PRESENT] = lowered[""], lowered[PRESENT]
            else:
                results[name] = lowered
        return results
