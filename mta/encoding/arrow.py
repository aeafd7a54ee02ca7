"""Arrow columns as NumPy ones and back, by their buffers.

`pa.array`, `pa.scalar` and `Array.to_numpy` do as much, but import pandas, which costs a worker some 35 MB.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mta.monoids.base import Array


def to_numpy(column: pa.Array) -> Array:
    """The values of a column of a fixed width, without a copy but for booleans; anything where it is null."""
    kind = column.type
    buffer = column.buffers()[1]
    first, count = column.offset, len(column)
    if buffer is None or not count:
        return np.zeros(count, dtype=bool if pa.types.is_boolean(kind) else _dtype(kind))
    if pa.types.is_boolean(kind):
        return _bits(buffer, first, count)
    return np.frombuffer(buffer, dtype=_dtype(kind), count=first + count)[first:]


def validity(column: pa.Array) -> Array:
    """For each row whether it is not null."""
    bitmap = column.buffers()[0]
    if bitmap is None:
        return np.full(len(column), column.null_count == 0)
    return _bits(bitmap, column.offset, len(column))


def valid_values(column: pa.Array | pa.ChunkedArray) -> tuple[Array, Array | None]:
    """The values of a column, and which of them are not null; None for all.

    Numbers, booleans, dates and times come by their buffers, with anything where they are null; others as
    Python's objects.
    """
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        values = [_times(part) for part in parts]
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        values = [to_numpy(part) for part in parts]
    elif pa.types.is_nested(kind):  # inside of which NumPy would make whole numbers beside nulls real
        return np.fromiter(column.to_pylist(), object, len(column)), None
    else:
        return np.array(column, dtype=object), None  # which has None where it is null
    there = valid_entries(column) if column.null_count else None
    if len(values) == 1:
        return values[0], there
    empty = np.zeros(0, dtype=to_numpy(pa.array([], kind)).dtype) if not values else None
    return (np.concatenate(values) if empty is None else empty), there


def valid_entries(column: pa.Array | pa.ChunkedArray) -> Array:
    """For each row of a column of any type whether it is not null."""
    found = column.is_valid()
    parts = found.chunks if isinstance(found, pa.ChunkedArray) else [found]
    return np.concatenate([*map(to_numpy, parts), np.zeros(0, dtype=bool)])


def is_real(column: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pa.types.is_floating(column.type))


def _times(column: pa.Array) -> Array:
    kind = column.type
    if pa.types.is_date(kind):
        unit = "M8[D]" if pa.types.is_date32(kind) else "M8[ms]"
    else:
        unit = f"{'m8' if pa.types.is_duration(kind) else 'M8'}[{kind.unit}]"
    return to_numpy(column).astype(np.int64).view(unit)


def from_numpy(values: Array, present: Array | None = None) -> pa.Array:
    """A column of whole or real numbers or booleans, null where not present."""
    bitmap = None if present is None else _packed(present)
    if values.dtype == bool:
        return pa.Array.from_buffers(pa.bool_(), len(values), [bitmap, _packed(values)])
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [bitmap, data])


def one_row(count: int, row: int, text: str) -> pa.Array:
    """A column of nulls with a text in one row."""
    data = text.encode()
    offsets, there = np.zeros(count + 1, dtype=np.int32), np.zeros(count, dtype=bool)
    offsets[row + 1 :], there[row] = len(data), True
    buffers = [_packed(there), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _packed(flags: Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _bits(buffer: pa.Buffer, first: int, count: int) -> Array:
    start = first // 8
    some = np.frombuffer(buffer, dtype=np.uint8)[start : (first + count + 7) // 8]
    bits: Array = np.unpackbits(some, bitorder="little")[first - 8 * start :][:count].view(bool)
    return bits


def _dtype(kind: pa.DataType) -> np.dtype[np.generic]:
    if pa.types.is_floating(kind):
        return np.dtype(f"f{kind.bit_width // 8}")
    unsigned = pa.types.is_unsigned_integer(kind)
    return np.dtype(f"{'u' if unsigned else 'i'}{kind.bit_width // 8}")
