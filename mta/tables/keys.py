"""Keys of rows: columns of Arrow as numbers that are equal where the keys are equal, and as hashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.kinds import Array
from mta.monoids.hashes import hashes_of

#: The hash of a missing key, and the factor that sets columns of a key apart.
_MISSING, _FACTOR = np.uint64(0x5851F42D4C957F2D), np.uint64(0x9E3779B97F4A7C15)

#: Radix sort takes numbers of this many bits.
_DIGIT = 16


def key_column(name: str, column: pa.Array) -> pa.Array:
    """A column of keys in the form in which equal keys are equal. Raises TypeError for nested columns."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return key_column(name, column.dictionary_decode())
    if isinstance(column, pa.ExtensionArray):
        return key_column(name, column.storage)
    if pa.types.is_nested(kind):
        raise TypeError(
            f"by= takes columns of plain values, and {name!r} is of type {kind}: name columns of its parts, "
            "or make it text"
        )
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.binary())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_float16(kind):
        column, kind = column.cast(pa.float32()), pa.float32()
    if pa.types.is_floating(kind):
        return pc.add(column, pa.scalar(0, kind))  # makes -0.0 to 0.0
    return column


def codes_of(columns: Sequence[pa.Array], count: int) -> tuple[Array, int]:
    """For each row a number from 0 on, equal for equal keys, and how many numbers there are.

    Numbers go up in the order in which keys come first.
    """
    codes: Array = np.zeros(count, np.int64)
    size = min(count, 1)
    for column in columns:
        indices, values = _encoded(column)
        if size > 1:  # together with the columns before it
            indices, values = _encoded(pa.array(codes * max(1, values) + indices))
        codes, size = indices, values
    return codes, size


def _encoded(column: pa.Array) -> tuple[Array, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def hashes_of_keys(columns: Sequence[pa.Array], count: int) -> Array:
    """A hash of 64 bits of each key, the same for equal keys of one type."""
    found = np.zeros(count, np.uint64)
    for column in columns:
        found = found * _FACTOR + _hashes(column)
    return found ^ (found >> np.uint64(29))


def _hashes(column: pa.Array) -> Array:
    kind = column.type
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):  # Python has not all dates of Arrow
        column = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
        kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        plain = np.int64 if pa.types.is_integer(kind) else np.float64
        numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(plain)
        found: Array = hashes_of(numbers, None)
        if column.null_count:
            found[column.is_null().to_numpy(zero_copy_only=False)] = _MISSING
        return found
    encoded = column.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary.to_pylist()
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        values = [None if value is None else repr(value) for value in values]
    texts = np.fromiter(("" if value is None else value for value in values), object, len(values))
    hashes = hashes_of(texts, None)
    hashes[[value is None for value in values]] = _MISSING
    return np.asarray(hashes[encoded.indices.to_numpy(zero_copy_only=False)])


def order_of(codes: Array, size: int, times: Array | None) -> Array:
    """The rows in the order of their codes, and within one code by time, and then as they came."""
    order = None
    if times is not None and len(times) and not bool((times[1:] >= times[:-1]).all()):
        order = times.argsort(kind="stable")
    for shift in range(0, max(1, size - 1).bit_length(), _DIGIT):
        digits = (codes >> shift).astype(np.uint16)
        if order is None:
            order = digits.argsort(kind="stable")
        else:
            order = order[digits[order].argsort(kind="stable")]
    return np.arange(len(codes)) if order is None else order
