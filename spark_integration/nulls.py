"""Monoids as SQL has them: nulls are skipped, and NaN is a number greater than all others.

`Nullable` does it over NumPy columns and `NullableObjects` over Python objects; both wrap a monoid that
knows nothing of nulls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mta import monoids
from mta.monoids.base import Array, ColumnarMonoid, Columns, Monoid
from mta.monoids.fields import ColumnFields
from mta.monoids.ufuncs import quiet
from spark_integration.columns import are_valid, in_total_order, total_order_key

#: Ends the name of the column that says which of an aggregate's results are not null.
PRESENT = "\0present"

# -- NaN ------------------------------------------------------------------------------------------------


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
_UNCHECKED = (
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


def with_nan(monoid: Monoid) -> Monoid:
    """The monoid as Spark has it where a value is NaN."""
    kind = _WITH_NAN.get(type(monoid))
    return monoid if kind is None else kind(*monoid.fields)


# -- null, over columns ---------------------------------------------------------------------------------


class Nullable(ColumnarMonoid):
    """A columnar monoid over inputs that may be null; an element is skipped if one of those it needs is.

    `skips` are the places of the inputs that it needs and that may be null; an argument, as of ArgMax, may be
    null and still be the result.

    A state is the inner one and whether there is any. In runs without a null all is left to the inner monoid.
    Its `lower_columns` gives a mapping: results, and under `PRESENT` which of them are not null.
    """

    def __init__(self, inner: ColumnarMonoid, fields: Sequence[str], *, skips: Sequence[int]) -> None:
        self.arity = len(fields)
        super().__init__(*fields)
        self.inner = inner
        self._skips = tuple(skips)
        self.width = inner.width + 1
        self.identity = (*(0,) * inner.width, 0)
        self._checked = type(inner) not in _UNCHECKED

    def fingerprint(self) -> str:
        return f"Nullable({self.inner.fingerprint()}, {', '.join(map(repr, self.fields))})"

    # -- plain states

    def lift_row(self, row: Any) -> Any:
        inputs = row if self.arity > 1 else (row,)
        if not all(are_valid(np.asarray([inputs[index]]))[0] for index in self._skips):
            return self.identity
        state = self.inner.lift_row(row)
        return (*(state if self.inner.width > 1 else (state,)), 1)

    def combine(self, older: Any, younger: Any) -> Any:
        if not older[-1] or not younger[-1]:
            return older if older[-1] else younger
        if self.inner.width == 1:
            return (self.inner.combine(older[0], younger[0]), 1)
        return (*self.inner.combine(older[:-1], younger[:-1]), 1)

    def lower(self, state: Any) -> Any:
        raise NotImplementedError("results are lowered as columns")

    # -- columns

    def check_row(self, row: Any) -> Any:
        return row

    def check_columns(self, inputs: Columns) -> Columns:
        if self._checked:
            valid = self._valid(inputs)
            self.inner.check_columns(inputs if valid is None else _taken(inputs, np.flatnonzero(valid)))
        return inputs

    def lift_columns(self, inputs: Columns) -> Columns:
        valid = self._valid(inputs)
        if valid is None:
            return (*self.inner.lift_columns(inputs), np.ones(len(inputs[0]), dtype=np.int64))
        lifted = self.inner.lift_columns(_taken(inputs, np.flatnonzero(valid)))
        return (*(_spread(column, valid) for column in lifted), valid.astype(np.int64))

    def _valid(self, inputs: Columns) -> Array | None:
        """Which elements count; None for all."""
        valid = None
        for index in self._skips:
            these = are_valid(inputs[index])
            valid = these if valid is None else valid & these
        return None if valid is None or valid.all() else valid

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        if older[-1].all() and younger[-1].all():
            both = self.inner.combine_columns(older[:-1], younger[:-1])
            return (*both, np.ones(len(both[0]), dtype=np.int64))
        count = max(len(older[-1]), len(younger[-1]))
        older, younger = (tuple(np.broadcast_to(c, (count,)) for c in run) for run in (older, younger))
        before, after = older[-1] != 0, younger[-1] != 0
        out = [np.where(before, a, b) for a, b in zip(older[:-1], younger[:-1], strict=True)]
        where = np.flatnonzero(before & after)
        if len(where):
            pairs = self.inner.combine_columns(_taken(older[:-1], where), _taken(younger[:-1], where))
            for index, column in enumerate(pairs):
                out[index] = _put(out[index], where, column)
        return (*out, (before | after).astype(np.int64))

    def prefix_columns(self, states: Columns) -> Columns:
        return self._scanned(states, self.inner.prefix_columns)

    def suffix_columns(self, states: Columns) -> Columns:
        if states[-1].all():
            return (*self.inner.suffix_columns(states[:-1]), states[-1])
        present = states[-1] != 0
        scanned = self.inner.suffix_columns(_taken(states[:-1], np.flatnonzero(present)))
        # the next present entry at or after each
        after = np.cumsum(present[::-1])[::-1]
        return self._spread_out(scanned, after[0] - after if len(after) else after, after != 0)

    def _scanned(self, states: Columns, scan: Callable[[Columns], Columns]) -> Columns:
        if states[-1].all():
            return (*scan(states[:-1]), states[-1])
        present = states[-1] != 0
        scanned = scan(_taken(states[:-1], np.flatnonzero(present)))
        seen = np.cumsum(present)
        return self._spread_out(scanned, seen - 1, seen != 0)

    @staticmethod
    def _spread_out(scanned: Columns, places: Array, there: Array) -> Columns:
        if not len(scanned[0]):
            zeros = tuple(np.zeros(len(there), dtype=column.dtype) for column in scanned)
            return (*zeros, there.astype(np.int64))
        return (*(column.take(places, mode="clip") for column in scanned), there.astype(np.int64))

    def fold_columns(self, states: Columns) -> Columns:
        if not states[-1].all():
            where = np.flatnonzero(states[-1])
            if not len(where):
                return tuple(column[:1] for column in states)
            states = _taken(states, where)
        return (*self.inner.fold_columns(states[:-1]), states[-1][:1])

    def lower_columns(self, states: Columns) -> Any:
        present = states[-1] != 0
        if isinstance(self.inner, (monoids.SampleStdDev, monoids.PopulationStdDev)):
            present &= states[0] > self.inner.freedom
        with quiet():
            results = self.inner.lower_columns(states[:-1])
        if isinstance(self.inner, monoids.ArgMax):  # whose argument may be null
            present &= are_valid(results)
        return {"": results, PRESENT: present}


def _spread(column: Array, valid: Array) -> Array:
    out = np.zeros(len(valid), dtype=column.dtype)
    out[valid] = column
    return out


def _taken(states: Columns, where: Array) -> Columns:
    return tuple(column[where] for column in states)


def _put(column: Array, where: Array, values: Array) -> Array:
    if column.dtype != values.dtype:  # a sum that left 64 bits, or a whole number that met a real one
        column = column.astype(object if object in (column.dtype, values.dtype) else np.float64)
    column[where] = values
    return column


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


# -- null, over objects ---------------------------------------------------------------------------------


class NullableObjects(Monoid):
    """Any monoid over plain values that may be None; the state of nothing is None.

    `skips` is how many of the inputs, from the first on, make an element be skipped when they are null. With
    `checked` the inner monoid checks every element itself, and refuses NaN.
    """

    identity = None

    def __init__(self, inner: Monoid, fields: Sequence[str], *, skips: int, checked: bool = False) -> None:
        self.inner = inner
        self.fields = tuple(fields)
        self._skips = self.fields[:skips]
        self._typed = type(inner) in (*_UNCHECKED, _GeometricMean) and not checked
        self._combine = inner.combine

    def fingerprint(self) -> str:
        return f"NullableObjects({self.inner.fingerprint()}, {', '.join(map(repr, self.fields))})"

    def lift(self, value: Mapping[str, Any]) -> Any:
        for field in self._skips:
            if value[field] is None:
                return None
        if self._typed:
            inputs = tuple(value[field] for field in self.fields)
            return self.inner.lift_row(inputs[0] if len(inputs) == 1 else inputs)
        mapping = {name: value[field] for name, field in zip(self.inner.fields, self.fields, strict=True)}
        return self.inner.lift(mapping)

    def combine(self, older: Any, younger: Any) -> Any:
        if older is None or younger is None:
            return younger if older is None else older
        return self._combine(older, younger)

    def lower(self, state: Any) -> Any:
        if state is None:
            return None
        if isinstance(self.inner, monoids.BloomFilter):
            return self.inner.pack(state)
        if isinstance(self.inner, (monoids.SampleStdDev, monoids.PopulationStdDev)):
            if state[0] <= self.inner.freedom:
                return None
            return math.nan if math.isnan(state[2]) else self.inner.lower(state)
        return self.inner.lower(state)

    def pack(self, state: Any) -> Any:
        return None if state is None else [self.inner.pack(state)]

    def unpack(self, packed: Any) -> Any:
        return None if packed is None else self.inner.unpack(packed[0])
