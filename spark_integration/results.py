"""The type of an aggregate's result, and results as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as sql

from mta import monoids
from mta.monoids.base import Array, Monoid
from mta.monoids.ufuncs import FromUfunc
from spark_integration.buffers import from_numpy
from spark_integration.columns import Input, encoding_of
from spark_integration.errors import RollingError, UnsupportedColumn

_NUMBERS = (sql.IntegralType, sql.DoubleType, sql.FloatType)


def result_type(name: str, monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType | None:
    """The type of a result, None where only the caller can know it; refuses inputs that do not go with it."""
    for source in inputs:
        if source.encoding is None:
            raise UnsupportedColumn(_refusal(name, monoid, source))
    kind = type(monoid)
    known = _RESULTS.get(kind)
    if known is None:
        if isinstance(monoid, FromUfunc):
            _check_number(name, monoid, inputs[0])
            return _of_ufunc(
                monoid, np.array([1], dtype=np.int64 if inputs[0].encoding == "whole" else float)
            )
        return None
    found: sql.DataType = known(name, monoid, inputs)
    return found


def _of_ufunc(monoid: FromUfunc, ones: Array) -> sql.DataType | None:
    """The type of the results, as seen from those of two ones; None if they are no numbers."""
    try:
        lifted = monoid.lift_columns((ones,))
        kind = np.asarray(monoid.lower_columns(monoid.combine_columns(lifted, lifted))).dtype.kind
    except Exception:  # the functions are the caller's; what they refuse is for the data to show
        return None
    return {"i": sql.LongType(), "f": sql.DoubleType(), "b": sql.BooleanType()}.get(kind)


def _refusal(name: str, monoid: Monoid, source: Input) -> str:
    what = (
        f"aggregate {name!r}: {monoid!r} reads column {source.name!r} of type {source.type.simpleString()}, "
    )
    if isinstance(source.type, sql.DecimalType):
        return what + (
            "and decimals would have to be rounded: cast it to double, or to bigint in its smallest unit"
        )
    return (
        what
        + "which no window can keep: take a column of numbers, booleans, dates, timestamps, text or bytes"
    )


def _check_number(name: str, monoid: Monoid, source: Input) -> None:
    if not isinstance(source.type, _NUMBERS):
        raise UnsupportedColumn(
            f"aggregate {name!r}: {monoid!r} takes numbers, and column {source.name!r} is of type "
            f"{source.type.simpleString()}"
        )


def _sum(name: str, monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    _check_number(name, monoid, inputs[0])
    return sql.LongType() if inputs[0].encoding == "whole" else sql.DoubleType()


def _mean(name: str, monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    _check_number(name, monoid, inputs[0])
    return sql.DoubleType()


def _same(_name: str, _monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    return inputs[-1].type


def _long(_name: str, _monoid: Monoid, _inputs: Sequence[Input]) -> sql.DataType:
    return sql.LongType()


def _array(_name: str, _monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    return sql.ArrayType(inputs[0].type, containsNull=False)


def _text(name: str, monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    if not isinstance(inputs[0].type, sql.StringType):
        raise UnsupportedColumn(
            f"aggregate {name!r}: {monoid!r} takes text, and column {inputs[0].name!r} is of type "
            f"{inputs[0].type.simpleString()}"
        )
    return sql.StringType()


def _run(name: str, monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    _check_number(name, monoid, inputs[0])
    place: sql.DataType = sql.LongType()
    distance: sql.DataType = sql.LongType()
    if len(inputs) == 2:
        place = inputs[1].type
        distance = sql.LongType() if inputs[1].encoding == "whole" else sql.DoubleType()
        if inputs[1].encoding == "object":
            _check_number(name, monoid, inputs[1])
    return sql.StructType(
        [
            sql.StructField("start", place),
            sql.StructField("end", place),
            sql.StructField("interval", distance),
            sql.StructField("count", sql.LongType()),
        ]
    )


def _double(_name: str, _monoid: Monoid, _inputs: Sequence[Input]) -> sql.DataType:
    return sql.DoubleType()


def _quantiles(name: str, monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    _check_number(name, monoid, inputs[0])
    return sql.MapType(sql.DoubleType(), sql.DoubleType(), valueContainsNull=False)


def _hitters(_name: str, _monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType:
    item = sql.StructType([sql.StructField("item", inputs[0].type), sql.StructField("count", sql.LongType())])
    return sql.ArrayType(item, containsNull=False)


def _binary(_name: str, _monoid: Monoid, _inputs: Sequence[Input]) -> sql.DataType:
    return sql.BinaryType()


_RESULTS: dict[type[Monoid], Any] = {
    monoids.Count: _long,
    monoids.Sum: _sum,
    monoids.Product: _sum,
    monoids.Max: _same,
    monoids.Min: _same,
    monoids.Mean: _mean,
    monoids.GeometricMean: _mean,
    monoids.SampleStdDev: _mean,
    monoids.PopulationStdDev: _mean,
    monoids.MaxCount: _long,
    monoids.MinCount: _long,
    monoids.ArgMax: _same,
    monoids.ArgMin: _same,
    monoids.First: _same,
    monoids.Last: _same,
    monoids.Concat: _text,
    monoids.Collect: _array,
    monoids.CollectDistinct: _array,
    monoids.CountDistinct: _long,
    monoids.LongestIncreasingRun: _run,
    monoids.DistinctCount: _double,
    monoids.Quantiles: _quantiles,
    monoids.HeavyHitters: _hitters,
    monoids.BloomFilter: _binary,
}

#: Results of no value that are not null.
_OF_NOTHING: dict[type[Monoid], Any] = {
    monoids.Count: 0,
    monoids.MaxCount: 0,
    monoids.MinCount: 0,
    monoids.Collect: (),
    monoids.CountDistinct: 0,
    monoids.CollectDistinct: (),
    monoids.DistinctCount: 0.0,
    monoids.HeavyHitters: (),
}


def of_nothing(monoid: Monoid) -> Any:
    """What the aggregate of no value is; None for null."""
    return next((value for kind, value in _OF_NOTHING.items() if isinstance(monoid, kind)), None)


def arrow_type(kind: sql.DataType, zone: str | None) -> pa.DataType:
    """The Arrow type that Spark expects of a column; only those that a result can have."""
    if isinstance(kind, sql.TimestampType):
        return pa.timestamp("us", tz=zone or "UTC")
    if isinstance(kind, sql.StructType):
        return pa.struct(
            [pa.field(each.name, arrow_type(each.dataType, zone), each.nullable) for each in kind.fields]
        )
    if isinstance(kind, sql.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType, zone), kind.containsNull))
    if isinstance(kind, sql.MapType):
        value = pa.field("value", arrow_type(kind.valueType, zone), kind.valueContainsNull)
        return pa.map_(pa.field("key", arrow_type(kind.keyType, zone), nullable=False), value)
    from pyspark.sql.pandas.types import to_arrow_type

    found: pa.DataType = to_arrow_type(kind)
    return found


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
    if isinstance(values, np.ndarray) and values.dtype != object:
        there = None if present is None or present.all() else present
        if there is not None and nothing is not None:
            values, there = np.where(there, values, nothing), None
        column = from_numpy(values, there)
    else:
        items = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if present is not None:
            items = [item if there else None for item, there in zip(items, present.tolist(), strict=True)]
        plain = [_plain(nothing if item is None else item, kind) for item in items]
        column = pa.array(plain, type=_stored(kind), from_pandas=False)
    return column if column.type == kind else _cast(column, kind)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind) and pa.types.is_int64(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_floating(column.type) and pa.types.is_floating(kind):
        return pc.cast(column, kind, safe=False)
    return column.cast(kind)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A result as what Arrow makes a value of this type from."""
    if value is None:
        return None
    if isinstance(value, (set, frozenset)):
        some_nan = next(([item] for item in value if item != item), [])
        return [*sorted(item for item in value if item == item), *some_nan]
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return value._asdict()
    if pa.types.is_map(kind) and isinstance(value, dict):
        return list(value.items())
    if pa.types.is_list(kind):
        if pa.types.is_struct(kind.value_type):
            names = [field.name for field in kind.value_type]
            return [
                dict(zip(names, item, strict=True)) if isinstance(item, tuple) else item for item in value
            ]
        return list(value)
    return value


def check_result_type(name: str, kind: Any) -> sql.DataType:
    """A type that a user gives for a result, as a DataType or as text such as "double"."""
    if isinstance(kind, sql.DataType):
        return kind
    simple = _SIMPLE.get(kind) if isinstance(kind, str) else None
    if simple is None:
        raise RollingError(
            f"types={{{name!r}: ...}} takes a type of pyspark.sql.types, or one of {', '.join(_SIMPLE)}, "
            f"got {kind!r}"
        )
    return simple


_SIMPLE: dict[str, sql.DataType] = {
    "double": sql.DoubleType(),
    "float": sql.FloatType(),
    "bigint": sql.LongType(),
    "long": sql.LongType(),
    "int": sql.IntegerType(),
    "boolean": sql.BooleanType(),
    "string": sql.StringType(),
    "binary": sql.BinaryType(),
    "date": sql.DateType(),
    "timestamp": sql.TimestampType(),
    "timestamp_ntz": sql.TimestampNTZType(),
}

__all__ = ["arrow_type", "check_result_type", "encoding_of", "of_nothing", "result_type", "to_arrow"]
