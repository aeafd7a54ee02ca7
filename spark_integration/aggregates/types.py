"""The types of inputs, results and Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.pandas.types import to_arrow_type

from mta.monoids.base import Monoid
from spark_integration.aggregates.catalogue import traits_of
from spark_integration.aggregates.inputs import Input
from spark_integration.errors import RollingError, UnsupportedColumn

_NUMBERS = (sql.IntegralType, sql.DoubleType, sql.FloatType)


def result_type(name: str, monoid: Monoid, inputs: Sequence[Input]) -> sql.DataType | None:
    """The type of a result, None where only the caller can know it; refuses inputs that do not go with it."""
    traits = traits_of(monoid)
    for number, source in enumerate(inputs):
        if source.encoding is None:
            raise UnsupportedColumn(_refusal(name, monoid, source))
        kind = traits.kind_of(number)
        if kind == "number" or (kind == "numeric" and source.encoding == "object"):
            _check(name, monoid, source, _NUMBERS, "numbers")
        elif kind == "text":
            _check(name, monoid, source, (sql.StringType,), "text")
    found = traits.result(monoid, inputs) if callable(traits.result) else traits.result
    return found if found is None else data_type(found, f"the result of {monoid!r}")


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


def _check(name: str, monoid: Monoid, source: Input, kinds: tuple[type, ...], what: str) -> None:
    if not isinstance(source.type, kinds):
        raise UnsupportedColumn(
            f"aggregate {name!r}: {monoid!r} takes {what}, and column {source.name!r} is of type "
            f"{source.type.simpleString()}"
        )


def data_type(kind: Any, where: str) -> sql.DataType:
    """The type that a DataType, or text such as "double", names."""
    if isinstance(kind, sql.DataType):
        return kind
    simple = _SIMPLE.get(kind) if isinstance(kind, str) else None
    if simple is None:
        raise RollingError(
            f"{where} takes a type of pyspark.sql.types, or one of {', '.join(_SIMPLE)}, got {kind!r}"
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


def arrow_type(kind: sql.DataType, zone: str | None) -> pa.DataType:
    """The Arrow type that Spark expects of a column, for all types that a result can have."""
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
    found: pa.DataType = to_arrow_type(kind)
    return found
