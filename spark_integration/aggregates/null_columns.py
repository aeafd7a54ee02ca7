"""Monoids over NumPy columns as SQL has them: nulls are skipped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mta.kinds import State
from mta.monoids.base import Array, ColumnarMonoid, Columns
from mta.monoids.columns import alike, column_of
from mta.monoids.fields import ColumnFields
from mta.monoids.ufuncs import quiet
from spark_integration.aggregates.inputs import are_valid
from spark_integration.aggregates.traits import SqlTraits

#: Ends the name of the column that says which of an aggregate's results are not null.
PRESENT = "\0present"


class Nullable(ColumnarMonoid):
    """A columnar monoid over inputs that may be null; an element is skipped if an input it needs is null.

    `skips` are the indices of the inputs that it needs and that may be null. An argument, as of ArgMax, may
    be null and still be the result.

    A state is the inner one and whether there is any. In runs without a null all is left to the inner monoid.
    Its `lower_columns` gives a mapping: results, and under `PRESENT` which of them are not null.
    """

    def __init__(
        self, inner: ColumnarMonoid, fields: Sequence[str], traits: SqlTraits, *, skips: Sequence[int]
    ) -> None:
        self.arity = len(fields)
        super().__init__(*fields)
        self.inner = inner
        self._skips = tuple(skips)
        self.width = inner.width + 1
        self.identity = (*(0,) * inner.width, 0)
        self._traits = traits

    def fingerprint(self) -> str:
        return f"Nullable({self.inner.fingerprint()}, {', '.join(map(repr, self.fields))})"

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

    def check_row(self, row: Any) -> Any:
        return row

    def check_columns(self, inputs: Columns) -> Columns:
        refuses = self._traits.refuses
        if refuses is None and self._traits.takes_nan:
            return inputs
        valid = self._valid(inputs)
        those = inputs if valid is None else _taken(inputs, np.flatnonzero(valid))
        if not self._traits.takes_nan:
            self.inner.check_columns(those)
        if refuses is not None:
            refused = np.flatnonzero(refuses[1](those[0]))
            if len(refused):
                raise ValueError(f"{self.inner!r} takes no {refuses[0]}, got {those[0][refused[0]]}")
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
        out = [np.where(before, *_in_words(a, b)) for a, b in zip(older[:-1], younger[:-1], strict=True)]
        where = np.flatnonzero(before & after)
        if len(where):
            pairs = self.inner.combine_columns(_taken(older[:-1], where), _taken(younger[:-1], where))
            for index, column in enumerate(pairs):
                out[index] = _put(out[index], where, column)
        return (*out, (before | after).astype(np.int64))

    def prefix_columns(self, states: Columns) -> Columns:
        if states[-1].all():
            return (*self.inner.prefix_columns(states[:-1]), states[-1])
        present = states[-1] != 0
        scanned = self.inner.prefix_columns(_taken(states[:-1], np.flatnonzero(present)))
        seen = np.cumsum(present)
        return self._spread_out(scanned, seen - 1, seen != 0)

    def suffix_columns(self, states: Columns) -> Columns:
        if states[-1].all():
            return (*self.inner.suffix_columns(states[:-1]), states[-1])
        present = states[-1] != 0
        scanned = self.inner.suffix_columns(_taken(states[:-1], np.flatnonzero(present)))
        # the next present entry at or after each
        after = np.cumsum(present[::-1])[::-1]
        return self._spread_out(scanned, after[0] - after if len(after) else after, after != 0)

    @staticmethod
    def _spread_out(scanned: Columns, indices: Array, there: Array) -> Columns:
        if not len(scanned[0]):
            zeros = tuple(np.zeros(len(there), dtype=column.dtype) for column in scanned)
            return (*zeros, there.astype(np.int64))
        return (*(column.take(indices, mode="clip") for column in scanned), there.astype(np.int64))

    def fold_columns(self, states: Columns) -> Columns:
        if not states[-1].all():
            where = np.flatnonzero(states[-1])
            if not len(where):
                return tuple(column[:1] for column in states)
            states = _taken(states, where)
        return (*self.inner.fold_columns(states[:-1]), states[-1][:1])

    @property
    def state_bytes(self) -> int:
        return self.inner.state_bytes

    def state_at(self, states: Columns, index: int) -> State:
        return self.state_list(tuple(column[index : index + 1] for column in states))[0]

    def state_list(self, states: Columns) -> list[State]:
        inner, present = self.inner.state_list(states[:-1]), states[-1].tolist()
        if self.inner.width == 1:
            return list(zip(inner, present, strict=True))
        return [(*state, there) for state, there in zip(inner, present, strict=True)]

    def columns_of(self, states: Sequence[State]) -> Columns:
        parts = [state[:-1] if self.inner.width > 1 else state[0] for state in states]
        return (*self.inner.columns_of(parts), column_of([state[-1] for state in states]))

    def lower_columns(self, states: Columns) -> Any:
        present = states[-1] != 0
        if self._traits.defined is not None:
            present &= self._traits.defined(self.inner, states[:-1])
        with quiet():
            results = self.inner.lower_columns(states[:-1])
        if self._traits.needs is not None:  # and an input that may be null is the result
            present &= are_valid(results)
        return {"": results, PRESENT: present}


def _spread(column: Array, valid: Array) -> Array:
    out = np.zeros(len(valid), dtype=column.dtype)
    out[valid] = column
    return out


def _taken(states: Columns, where: Array) -> Columns:
    return tuple(column[where] for column in states)


def _in_words(a: Array, b: Array) -> Sequence[Array]:
    """Two columns, of one kind if one is of sums in two words, or of other entries with several parts."""
    return alike((a, b)) if "V" in (a.dtype.kind, b.dtype.kind) else (a, b)


def _put(column: Array, where: Array, values: Array) -> Array:
    column, values = _in_words(column, values)
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
