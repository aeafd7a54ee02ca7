"""The rows of a sorted partition where a new key begins."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.encoding.arrow import to_numpy, validity
from mta.encoding.packing import pack
from mta.monoids.base import Array
from spark_integration.aggregates.inputs import Input, real_numbers, whole_numbers
from spark_integration.partition.chunks import Chunk
from spark_integration.partition.plain import plain, values_of


class KeyChanges:
    """Finds the rows where a new key begins, within a chunk and at its first row."""

    def __init__(self, keys: Sequence[Input]) -> None:
        self._keys = keys
        self._last: dict[int, pa.Array] = {}

    def changes(self, chunk: Chunk) -> Array:
        """For each row, whether its key differs from that of the row before; true for the first row."""
        changed = np.zeros(chunk.rows, dtype=bool)
        for key in self._keys:
            column = chunk.columns[key.index]
            changed[1:] |= differences(column)
            last = self._last.get(key.index)
            if last is None or differences(pa.concat_arrays([last, column.slice(0, 1)]))[0]:
                changed[0] = True
            self._last[key.index] = column.slice(chunk.rows - 1)
        return changed


def differences(column: pa.Array) -> Array:
    """Whether each row but the first differs from the row before; null equals null, NaN equals NaN."""
    count = len(column)
    if count < 2:
        return np.zeros(0, dtype=bool)
    found = _value_differences(column)
    if column.null_count:
        valid = validity(column)
        found = np.where(valid[1:] & valid[:-1], found, valid[1:] != valid[:-1])
    return found


def _value_differences(column: pa.Array) -> Array:
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column) - 1, dtype=bool)
    if pa.types.is_floating(kind):
        values = real_numbers(column)
        both_missing = np.isnan(values[1:]) & np.isnan(values[:-1])
        found: Array = (values[1:] != values[:-1]) & ~both_missing
        return found
    if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind):
        values = whole_numbers(column)
        unlike: Array = values[1:] != values[:-1]
        return unlike
    if pa.types.is_struct(kind):
        found = np.zeros(len(column) - 1, dtype=bool)
        for part in column.flatten():
            found |= differences(part)
        return found
    if pa.types.is_nested(kind):
        items = [canonical(item) for item in values_of(plain(column))]
        return np.fromiter((a != b for a, b in pairwise(items)), bool, len(items) - 1)
    different = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
    unequal: Array = to_numpy(pc.fill_null(different, False))
    return unequal


def canonical(value: Any) -> Any:
    """A plain value that equals another one of its column just where Spark says that keys are equal."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    if isinstance(value, dict):
        return [canonical(item) for item in value.values()]
    if isinstance(value, list) and value and isinstance(value[0], tuple):  # a map, whose order means nothing
        return sorted(([canonical(item) for item in entry] for entry in value), key=pack)
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if isinstance(value, Decimal):
        return _shortest(value)
    return value


def _shortest(value: Decimal) -> tuple[int, int]:
    """The digits without zeros at their end, and the exponent: 1.50 equals 1.5."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)))
    if not number:
        return 0, 0
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    return -number if sign else number, exponent
