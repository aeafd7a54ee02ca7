"""Monoids that go by position alone: First and Last."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.monoids.base import Array, ColumnarMonoid, Columns
from mta.monoids.values import own, plain, plain_column


class _Position(ColumnarMonoid):
    """The element at one end, which may be anything but a missing value; None of nothing."""

    def check_row(self, row: Any) -> Any:
        return plain(row, self)

    def check_columns(self, inputs: Columns) -> Columns:
        return (plain_column(inputs[0], self),)

    def lower(self, state: Any) -> Any:
        return own(state)

    def lift_columns(self, inputs: Columns) -> Columns:
        return inputs


class First(_Position):
    """The oldest element."""

    def combine(self, older: Any, younger: Any) -> Any:
        return younger if older is None else older

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        return (_repeated(older[0], len(younger[0])),)

    def prefix_columns(self, states: Columns) -> Columns:
        return (_repeated(states[0][:1], len(states[0])),)

    def suffix_columns(self, states: Columns) -> Columns:
        return states

    def fold_columns(self, states: Columns) -> Columns:
        return (states[0][:1],)


class Last(_Position):
    """The youngest element."""

    def combine(self, older: Any, younger: Any) -> Any:
        return older if younger is None else younger

    def combine_columns(self, older: Columns, younger: Columns) -> Columns:
        return (_repeated(younger[0], len(older[0])),)

    def prefix_columns(self, states: Columns) -> Columns:
        return states

    def suffix_columns(self, states: Columns) -> Columns:
        return (_repeated(states[0][-1:], len(states[0])),)

    def fold_columns(self, states: Columns) -> Columns:
        return (states[0][-1:],)


def _repeated(column: Array, length: int) -> Array:
    """A run of one at the length of its partner, without a copy; a longer run as it is."""
    return np.broadcast_to(column, (length,)) if len(column) == 1 else column
