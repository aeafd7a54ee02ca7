"""Slices as the elements of a window in a store: an element is the state of a slice."""

from __future__ import annotations

from typing import Any

from mta.core.states import NOTHING
from mta.kinds import Columns, Packed, Row, State
from mta.monoids.base import ColumnarMonoid, Monoid, column_of


def slice_states(monoid: Monoid) -> Monoid:
    """The monoid of a window of slices: its elements, states and results are states of `monoid`.

    The aggregate of an empty window is NOTHING.
    """
    return ColumnStates(monoid) if isinstance(monoid, ColumnarMonoid) else ObjectStates(monoid)


class ObjectStates(Monoid):
    """States that are Python objects. The window keeps them packed, so that a store can hold them."""

    identity = NOTHING

    def __init__(self, inner: Monoid) -> None:
        self.inner = inner
        self.grows = inner.grows

    def row(self, value: State) -> Row:
        return self.inner.pack(value)

    def lift(self, value: State) -> State:
        return value

    def lift_row(self, row: Row) -> State:
        return self.inner.unpack(row)

    def combine(self, older: State, younger: State) -> State:
        return self.inner.combine(older, younger)

    def pack(self, state: State) -> Packed:
        return self.inner.pack(state)

    def unpack(self, packed: Packed) -> State:
        return self.inner.unpack(packed)

    def fingerprint(self) -> str:
        return f"slices of {self.inner.fingerprint()}"


class ColumnStates(ColumnarMonoid):
    """States in columns: tier 0 holds columns of states, as the tiers above it do."""

    identity = NOTHING

    def __init__(self, inner: ColumnarMonoid) -> None:
        super().__init__()
        self.inner = inner
        self.grows = inner.grows
        self.arity = self.width = inner.width

    def check_row(self, row: State) -> Row:
        parts = tuple(column.tolist()[0] for column in self.inner.columns_of([row]))
        return parts[0] if self.width == 1 else parts

    def lift_row(self, row: Row) -> State:
        parts = (row,) if self.width == 1 else row
        return self.inner.state_at(tuple(column_of([part]) for part in parts), 0)

    def check_columns(self, inputs: Columns) -> Columns:
        return inputs

    def lift_columns(self, inputs: Columns) -> Columns:
        return inputs

    def combine(self, older: State, younger: State) -> State:
        return self.inner.combine(older, younger)

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        return self.inner.combine_columns(older, younger)

    def prefix_columns(self, states: Columns) -> Columns:
        return self.inner.prefix_columns(states)

    def suffix_columns(self, states: Columns) -> Columns:
        return self.inner.suffix_columns(states)

    def fold_columns(self, states: Columns) -> Columns:
        return self.inner.fold_columns(states)

    def state_at(self, states: Columns, index: int) -> State:
        return self.inner.state_at(states, index)

    def state_list(self, states: Columns) -> list[State]:
        return self.inner.state_list(states)

    def columns_of(self, states: Any) -> Columns:
        return self.inner.columns_of(states)

    def fingerprint(self) -> str:
        return f"slices of {self.inner.fingerprint()}"
