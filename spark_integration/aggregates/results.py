"""Results of windows as Arrow columns of the DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.encoding.arrow import from_numpy
from spark_integration.aggregates.null_columns import PRESENT
from spark_integration.aggregates.parts import Aggregate
from spark_integration.aggregates.types import arrow_type

#: Results that take more bytes than this become several batches.
PART_BYTES = 16 << 20


class Results:
    """Arrow columns of the results of windows."""

    def __init__(self, aggregates: Sequence[Aggregate], zone: str) -> None:
        self._aggregates = aggregates
        parts = [part for aggregate in aggregates for part in aggregate.parts]
        self._types = {part.name: arrow_type(part.type, zone) for part in parts}
        self._nothing = {part.name: part.traits.nothing for part in parts}
        self.fields = [pa.field(aggregate.name, arrow_type(aggregate.type, zone)) for aggregate in aggregates]

    def columns(self, results: Mapping[str, Any]) -> list[pa.Array]:
        out = []
        for aggregate, target in zip(self._aggregates, self.fields, strict=True):
            parts = [self._column(part.name, results) for part in aggregate.parts]
            if aggregate.fields is None:
                out.append(parts[0])
            else:
                out.append(pa.StructArray.from_arrays(parts, fields=list(target.type)))
        return out

    def parts(self, results: Mapping[str, Any], count: int) -> Iterator[tuple[int, int]]:
        """Runs of rows whose results are not too large together: a window of a few rows may be many bytes."""
        sizes = np.zeros(count, dtype=np.int64)
        for name, kind in self._types.items():
            values = results[name][:count]  # there may be more, of rows that wait
            # NumPy's columns hold numbers
            if not pa.types.is_primitive(kind) and not _is_plain(values):
                sizes += _sizes(values, kind)
        ends = np.cumsum(sizes)
        start = 0
        while start < count:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(ends.searchsorted(before + PART_BYTES, "right")))
            yield start, stop
            start = stop

    def _column(self, name: str, results: Mapping[str, Any]) -> pa.Array:
        present = results.get(name + PRESENT)
        return to_arrow(results[name], present, self._types[name], self._nothing[name])


def _is_plain(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype != object


def _sizes(values: Any, kind: pa.DataType) -> list[int]:
    if pa.types.is_nested(kind):
        return list(map(_size, values))
    return [len(each) if isinstance(each, (str, bytes)) else 8 for each in values]


def _size(value: Any) -> int:
    """About how many bytes Arrow takes for a result."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.keys())) + sum(map(_size, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return 8 + sum(map(_size, value))
    return 8


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type that plain values have before a cast: dates and times are whole numbers."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _stored(f.type), f.nullable) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _stored(kind.value_type), kind.value_field.nullable))
    return kind


def to_arrow(values: Any, present: Any, kind: pa.DataType, nothing: Any) -> pa.Array:
    """Results as a column; `present` says which are not null, None for all that are not None."""
    if _is_plain(values):
        there = None if present is None or present.all() else present
        if there is not None and nothing is not None:
            values, there = np.where(there, values, nothing), None
        column = from_numpy(values, there)
    else:
        items = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if present is not None:
            items = [item if there else None for item, there in zip(items, present.tolist(), strict=True)]
        maker = _maker(kind)
        plain = [_made(nothing if item is None else item, maker) for item in items]
        try:
            column = pa.array(plain, type=_stored(kind), from_pandas=False)
        except OverflowError:
            raise OverflowError("a result does not fit in 64 bits") from None
    try:
        return column if column.type == kind else _cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(
            f"a result is {column.type} and not {kind}, {error}: give its type by types="
        ) from None


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind) and pa.types.is_int64(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_floating(column.type) and pa.types.is_floating(kind):
        return pc.cast(column, kind, safe=False)
    return column.cast(kind)


def _maker(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes of a result that is not null one that Arrow takes; None where all are taken as they are."""
    if pa.types.is_boolean(kind):
        return bool  # booleans without a null become whole numbers
    if pa.types.is_map(kind):
        return lambda value: list(value.items()) if isinstance(value, dict) else value
    if pa.types.is_struct(kind):
        names, makers = [field.name for field in kind], [_maker(field.type) for field in kind]

        def fields(value: Any) -> Any:
            if isinstance(value, tuple):
                named = value._asdict() if hasattr(value, "_asdict") else zip(names, value, strict=True)
                value = dict(named)
            made = zip(names, makers, strict=True)
            return {name: _made(value.get(name), maker) for name, maker in made}

        return fields
    if pa.types.is_list(kind):
        maker = _maker(kind.value_type)
        return lambda value: [_made(item, maker) for item in _in_order(value)]
    return None


def _made(value: Any, maker: Callable[[Any], Any] | None) -> Any:
    return value if value is None or maker is None else maker(value)


def _in_order(value: Any) -> Any:
    """Elements of a set sorted, NaN last and once."""
    if not isinstance(value, (set, frozenset)):
        return value
    some_nan = next(([item] for item in value if item != item), [])
    return [*sorted(item for item in value if item == item), *some_nan]
