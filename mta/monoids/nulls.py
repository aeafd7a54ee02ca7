"""Monoids that skip missing values: `skipping_nulls(monoid)` is what a window with nulls="skip" aggregates.

An element whose input is missing is in the window, and contributes nothing to the aggregate that reads the
input. Without any value the result is that of an empty window. `mta.monoids.missing` says which values are
missing and what stands for them; `mta.monoids.skipping` has the states.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from mta.frames.limits import Limits, OfRest, Predicate
from mta.kinds import Array, Columns, Result, Results, Row, State, Value
from mta.monoids.base import ColumnarMonoid, Monoid, all_required, required
from mta.monoids.columns import alike
from mta.monoids.extrema import ArgMax, ArgMin, MaxCount, MinCount
from mta.monoids.fields import ColumnFields, Fields
from mta.monoids.missing import NO_VALUE, NULL, coded, is_code, is_missing, there_in, with_none
from mta.monoids.over import Over
from mta.monoids.runs import LongestIncreasingRun
from mta.monoids.skipping import Skipping, SkippingColumns, SkippingObjects, plainest, taken
from mta.monoids.ufuncs import Count, Max, Min, UfuncMonoid
from mta.monoids.values import plain, plain_column, unwrapped
from mta.owned import own

#: What a window does with missing values.
Nulls: TypeAlias = Literal["refuse", "skip"]


def skipping_nulls(monoid: Monoid) -> Monoid:
    """The monoid over elements whose inputs may be missing; the same for `Fields`, field by field.

    >>> from mta import monoids
    >>> some = skipping_nulls(monoids.Max())
    >>> states = [some.lift(value) for value in (3, None, float("nan"), 5)]
    >>> some.lower(some.combine(states[0], states[1])), some.lower(states[1])
    (3, None)
    """
    if monoid.skips_nulls:
        return monoid
    if isinstance(monoid, Fields):
        return _fields(monoid)
    if isinstance(monoid, Count):
        return CountPresent(monoid) if monoid.fields else CountAll(monoid)
    if isinstance(monoid, ColumnarMonoid):
        return NullableColumns(monoid)
    return NullableObjects(monoid)


def with_nulls(monoid: Monoid, nulls: object) -> Monoid:
    """What a window aggregates. Raises ValueError unless `nulls` is "refuse" or "skip"."""
    if nulls not in ("refuse", "skip"):
        raise ValueError(f'nulls is "refuse" or "skip", got {nulls!r}')
    return skipping_nulls(monoid) if nulls == "skip" else monoid


def nulls_hint(then: str, now: str) -> str:
    """What to say of two fingerprints that differ by `nulls` alone; nothing of others."""
    for nulls, text, other in (("skip", then, now), ("refuse", now, then)):
        if text.removeprefix(_SLICES) == f"skipping_nulls({other.removeprefix(_SLICES)})":
            return f' (give nulls="{nulls}")'
    return ""


#: how the fingerprints of a slicer's windows begin
_SLICES = "slices of "


def _text(monoid: Monoid) -> str:
    return f"skipping_nulls({monoid.fingerprint()})"


class NullableColumns(SkippingColumns):
    """A columnar monoid whose inputs may be missing."""

    skips_nulls = True

    def __init__(self, inner: ColumnarMonoid) -> None:
        super().__init__(inner, *inner.fields)
        self._needed = range(self.arity)[: inner.needs]

    @property
    def unseen(self) -> State:
        return _unseen(self.inner)

    def fingerprint(self) -> str:
        return _text(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)

    def row(self, value: Value) -> Row:
        if self.fields:
            inputs = all_required(value, self.fields, self.inner)
        elif self.arity == 1:
            if (type(value) is float or type(value) is int) and value > NULL:  # the common case
                return self.inner.check_row(value)
            inputs = (value,)
        elif isinstance(value, (tuple, list)) and len(value) == self.arity:
            inputs = tuple(value)
        elif is_missing(value):
            return (NULL,) * self.arity
        else:
            return self.inner.check_row(value)  # which says what it takes
        row = tuple(coded(each, self.inner) for each in inputs)
        return self.check_row(row if self.arity > 1 else row[0])

    def check_row(self, row: Row) -> Row:
        inputs = tuple(NULL if is_missing(each) else each for each in (row if self.arity > 1 else (row,)))
        if any(is_code(inputs[index]) for index in self._needed):
            row = tuple(plain(each, self.inner) for each in inputs)
            return row if self.arity > 1 else row[0]
        return self.inner.check_row(inputs if self.arity > 1 else inputs[0])

    def lift_row(self, row: Row) -> State:
        if self.arity == 1:
            missing = (type(row) is int or type(row) is float) and row == NULL
            return NO_VALUE if missing else self.inner.lift_row(row)
        return NO_VALUE if any(is_code(row[index]) for index in self._needed) else self.inner.lift_row(row)

    def lower(self, state: State) -> Result:
        result = super().lower(state)
        return None if self.inner.needs is not None and is_code(result) else result

    def there(self, inputs: Columns) -> Array | None:
        there = None
        for index in self._needed:
            these = there_in(inputs[index])
            there = these if there is None else there if these is None else there & these
        return there

    def check_columns(self, inputs: Columns) -> Columns:
        there = self.there(inputs)
        if there is None:
            return self.inner.check_columns(inputs)
        where = np.flatnonzero(there)
        try:
            checked = self.inner.check_columns(tuple(map(plainest, taken(inputs, where))))
        except (TypeError, ValueError, OverflowError):
            if not any(column.dtype.kind in "mM" for column in inputs):  # refused for their type
                self._name_row(inputs, where)
            raise
        return tuple(self._merged(*each, there) for each in zip(inputs, checked, strict=True))

    def _name_row(self, inputs: Columns, where: Array) -> None:
        """Raises the error of the first element that is refused, which names its row."""
        rows = zip(*(column[where].tolist() for column in inputs), strict=True)
        for number, row in zip(where.tolist(), rows, strict=True):
            try:
                self.inner.check_row(row if self.arity > 1 else row[0])
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"row {number}: {error}") from None

    def _merged(self, given: Array, checked: Array, there: Array) -> Array:
        """A column of checked inputs where these are there, and the given ones elsewhere."""
        if self.arity == 1:
            column = np.full(len(there), NULL, checked.dtype)
        else:
            checked, rest = alike((checked, plain_column(given[~there], self.inner)))
            column = np.empty(len(there), checked.dtype)
            column[~there] = rest
        column[there] = checked
        return column

    def lower_columns(self, states: Columns) -> Results:
        results = super().lower_columns(states)
        return results if self.inner.needs is None else with_none(results)


class NullableObjects(SkippingObjects):
    """A monoid over Python objects whose inputs may be missing; rows without them are None."""

    skips_nulls = True

    @property
    def unseen(self) -> State:
        return _unseen(self.inner)

    def fingerprint(self) -> str:
        return _text(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)

    def row(self, value: Value) -> Row:
        return None if self._lacks(value) else self.inner.row(value)

    def _lacks(self, value: Value) -> bool:
        if self.fields:
            needed = self.fields[: self.inner.needs]
            return any(is_missing(required(value, field, self.inner)) for field in needed)
        if isinstance(self.inner, LongestIncreasingRun) and isinstance(value, (tuple, list)):
            return any(map(is_missing, value))
        return is_missing(value)

    def check_row(self, row: Row) -> Row:
        return None if row is None else self.inner.check_row(row)

    def lift(self, value: Value) -> State:
        return NO_VALUE if self._lacks(value) else self.inner.lift(value)

    def lift_row(self, row: Row) -> State:
        return NO_VALUE if row is None else self.inner.lift_row(row)


class CountAll(Count):
    """Count() of elements that may be missing, which it counts too."""

    skips_nulls = reads_nothing = True
    presence = frozenset((0,))

    def __init__(self, inner: Count) -> None:
        super().__init__()
        self.inner = inner

    def fingerprint(self) -> str:
        return _text(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)


class CountPresent(UfuncMonoid):
    """Count("x"), which counts the elements whose x is not missing. It is no Count, as it reads an input."""

    ufunc = np.add
    identity = 0
    invertible = skips_nulls = True
    presence = frozenset((0,))

    combine = staticmethod(operator.add)  # type: ignore[assignment]

    def __init__(self, inner: Count) -> None:
        super().__init__(*inner.fields)
        self.inner = inner

    def fingerprint(self) -> str:
        return _text(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)

    def without(self, state: State, older: State) -> State:
        return state - older

    def row(self, value: Value) -> Row:
        return NULL if is_missing(required(value, self.fields[0], self.inner)) else 1

    def check_row(self, row: Row) -> Row:
        return row

    def lift(self, value: Value) -> State:
        return self.lift_row(self.row(value))

    def lift_row(self, row: Row) -> State:
        return 0 if is_code(row) else 1

    def check_columns(self, inputs: Columns) -> Columns:
        return inputs

    def lift_columns(self, inputs: Columns) -> Columns:
        there = there_in(inputs[0])
        return (np.ones(len(inputs[0]), np.int64) if there is None else there.astype(np.int64),)


class _NullableFields(Fields):
    """Fields of monoids that skip missing values. `only_counted` are fields that only CountPresent reads."""

    skips_nulls = True
    text: str
    only_counted: frozenset[str]

    def fingerprint(self) -> str:
        return f"skipping_nulls({self.text})"

    def __repr__(self) -> str:
        return self.text


class NullableFields(_NullableFields):
    """`Fields` whose elements are Python objects; a missing input is None in their rows."""

    def row(self, value: Value) -> Row:
        for monoid in self.monoids.values():
            monoid.row(value)
        if not self.fields:
            return None if is_missing(value) else own(unwrapped(value, self))
        pairs = zip(self.fields, all_required(value, self.fields, self), strict=True)
        inputs = tuple(self._kept(field, each) for field, each in pairs)
        return inputs[0] if len(inputs) == 1 else inputs

    def _kept(self, field: str, value: Value) -> Row:
        if is_missing(value):
            return None
        return 1 if field in self.only_counted else own(unwrapped(value, self))


class NullableColumnFields(_NullableFields, ColumnFields):
    """`Fields` of columnar monoids; a missing input is coded in their rows and columns."""

    def row(self, value: Value) -> Row:
        if self.reads_nothing:
            return 1
        if self.fields:
            inputs = all_required(value, self.fields, self)
        elif self.arity == 1:
            inputs = (value,)
        elif is_missing(value):
            return (NULL,) * self.arity
        else:
            inputs = tuple(self._split(value))
        row = tuple(self._coded(index, each) for index, each in enumerate(inputs))
        return self.check_row(row if self.arity > 1 else row[0])

    def _coded(self, index: int, value: Value) -> Row:
        if index in self.presence:
            return NULL if is_missing(value) else 1
        return coded(value, self.fields[index] if self.fields else self)


def _fields(given: Fields) -> Fields:
    """The fields, each of which skips missing values."""
    skipping = {name: skipping_nulls(monoid) for name, monoid in given.monoids.items()}
    fields: dict[str, Monoid | Over] = {
        name: Over(monoid, given.frames[name]) if name in given.frames else monoid
        for name, monoid in skipping.items()
    }
    columnar = all(isinstance(monoid, ColumnarMonoid) for monoid in skipping.values())
    made = NullableColumnFields(**fields) if columnar else NullableFields(**fields)
    others = {each for monoid in skipping.values() if not monoid.presence for each in monoid.fields}
    made.text, made.only_counted = given.fingerprint(), frozenset(made.fields) - others
    made.presence = frozenset(made.fields.index(field) for field in made.only_counted)
    return made


# -- predicates ---------------------------------------------------------------------------------------------

#: What predicates see where there is no value, if the identity cannot be compared with a state.
_UNSEEN: Mapping[type[Monoid], State] = {
    Max: -math.inf,
    Min: math.inf,
    MaxCount: (-math.inf, 0),
    MinCount: (math.inf, 0),
    ArgMax: (-math.inf, None),
    ArgMin: (math.inf, None),
}


def _unseen(monoid: Monoid) -> State:
    kinds = (kind for kind in type(monoid).__mro__ if kind in _UNSEEN)
    return next((_UNSEEN[kind] for kind in kinds), monoid.identity)


def seeing_values(limits: Limits, monoid: Monoid) -> Limits:
    """The limits of a window, with predicates that see states of the inner monoids and never NO_VALUE.

    Their rows are then pushed one by one.
    """
    if not limits.predicates:
        return limits
    shown = _shown_by(monoid)
    if shown is None:
        return limits
    predicates = tuple(
        _SeeingRest(each, shown) if isinstance(each, OfRest) else _seeing(each, shown)
        for each in limits.predicates
    )
    return replace(limits, predicates=predicates, in_columns=False)


def _shown_by(monoid: Monoid) -> Callable[[State], State] | None:
    """What predicates see of a state; None if that is the state itself."""
    if isinstance(monoid, Skipping):
        unseen = monoid.unseen
        return lambda state: unseen if state is NO_VALUE else state
    if not isinstance(monoid, Fields):
        return None
    parts = {name: each.unseen for name, each in monoid.monoids.items() if isinstance(each, Skipping)}
    if not parts:
        return None

    def shown(states: State) -> State:
        return {name: parts[name] if state is NO_VALUE else state for name, state in states.items()}

    return shown


def _seeing(predicate: Predicate, shown: Callable[[State], State]) -> Predicate:
    return lambda total, old: bool(predicate(shown(total), shown(old)))


class _SeeingRest(OfRest):
    def __init__(self, predicate: OfRest, shown: Callable[[State], State]) -> None:
        self._predicate, self._shown = predicate, shown

    def enough(self, rest: State) -> Any:
        return bool(self._predicate.enough(self._shown(rest)))

    def __call__(self, total: State, old: State) -> Any:
        return bool(self._predicate(self._shown(total), self._shown(old)))
