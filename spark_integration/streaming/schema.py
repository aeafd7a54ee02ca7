"""Rows with their schema, so that a query finds its columns by name when it is started with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgpack
import pyarrow as pa
from pyspark.sql import types as sql

from mta.encoding.packing import pack, unpack
from mta.encoding.untrusted import Malformed, fields, raw, shown, text
from mta.keyed.block import DIGEST
from spark_integration.aggregates.types import arrow_type
from spark_integration.errors import RollingError

#: Whole numbers, from the narrowest to the widest.
_WHOLE = (sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType)
#: The column of digests, which is none of the rows'.
KEY = "key"

_DIGITS = {sql.ByteType: 3, sql.ShortType: 5, sql.IntegerType: 10, sql.LongType: 20}


def arrow_schema(schema: sql.StructType, zone: str) -> pa.Schema:
    """Columns are named by their positions, since a DataFrame takes any name."""
    kinds = (arrow_type(field.dataType, zone) for field in schema.fields)
    return pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)])


def keyed(schema: pa.Schema) -> pa.Schema:
    """With the digest of the key behind each row."""
    return schema.append(pa.field(KEY, pa.binary(DIGEST), nullable=False))


class RowSchema:
    """The columns of the rows of a stream: names as the state knows them, and types."""

    def __init__(self, schema: sql.StructType, zone: str, *, sensitive: bool = True) -> None:
        self.sensitive = sensitive
        plain = sql.StructType.fromJson(_without_classes(schema.jsonValue()))
        self.types = {column_name(each.name, sensitive): each.dataType for each in plain.fields}
        if len(self.types) < len(schema.fields):
            names = [column_name(each.name, sensitive) for each in schema.fields]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise RollingError(
                f"several columns are named {', '.join(map(repr, twice))}, and a stream keeps its columns by "
                "name: rename or drop all but one of each"
            )
        self.zone = zone
        self.arrow = arrow_schema(schema, zone)
        #: with the digest of the key behind each row
        self.keyed = keyed(self.arrow)
        #: the bytes of the schema, which are saved with rows
        self.packed = packed_types(self.types)

    def with_schema(self, batch: pa.RecordBatch) -> bytes:
        """Rows with their keys as bytes that can be read under a later schema too."""
        data: bytes = msgpack.packb([self.packed, serialized(batch)])
        return data

    def read(self, data: bytes | memoryview) -> pa.RecordBatch:
        """What `with_schema` gave to this or another schema, with the columns of this one.

        Columns that were not there then are null.
        """
        packed, rows = fields(unpack(data), "rows with their schema", 2)
        if packed == self.packed:
            return _checked(raw(rows, "rows"), self.keyed)
        names, arrow = _opened(raw(packed, "the schema of rows"), self.zone)
        batch = _checked(raw(rows, "rows"), keyed(arrow))
        columns = [
            self._column(batch, names.get(name), name, field)
            for name, field in zip(self.types, self.arrow, strict=True)
        ]
        return pa.RecordBatch.from_arrays([*columns, batch.column(KEY)], schema=self.keyed)

    def _column(
        self, batch: pa.RecordBatch, found: tuple[int, sql.DataType] | None, name: str, field: pa.Field
    ) -> pa.Array:
        if found is None:
            return pa.nulls(batch.num_rows, field.type)
        index, old = found
        if not widens(old, self.types[name]):
            raise RollingError(changed_type(name, old, self.types[name]))
        column = batch.column(index)
        return column if column.type == field.type else column.cast(field.type)


@lru_cache
def _opened(packed: bytes, zone: str) -> tuple[Mapping[str, tuple[int, sql.DataType]], pa.Schema]:
    """Indices and types of columns by name, and their Arrow schema."""
    types = unpacked_types(packed)
    schema = sql.StructType([sql.StructField(name, kind) for name, kind in types.items()])
    columns = {name: (index, kind) for index, (name, kind) in enumerate(types.items())}
    return columns, arrow_schema(schema, zone)


def column_name(name: str, sensitive: bool) -> str:
    """A column's name in the state, one for all that Spark takes for one."""
    return name if sensitive else name.lower()


def packed_types(types: Mapping[str, sql.DataType]) -> bytes:
    return pack([[name, kind.jsonValue()] for name, kind in types.items()])


def unpacked_types(packed: bytes) -> dict[str, sql.DataType]:
    """The reverse of `packed_types`; Malformed where these are no types."""
    pairs = [fields(each, "a column", 2) for each in fields(unpack(packed), "the columns")]
    described = [
        {"name": text(name, "the name of a column"), "type": kind, "nullable": True, "metadata": {}}
        for name, kind in pairs
    ]
    try:
        schema = sql.StructType.fromJson(_without_classes({"type": "struct", "fields": described}))
    except Exception as error:  # of Spark's parser, which expects nothing else
        raise Malformed(f"the types of columns are none: {shown(pairs)}") from error
    return {each.name: each.dataType for each in schema.fields}


def _without_classes(described: Any) -> Any:
    """The JSON of a type, without the classes of users, which Spark would import."""
    if isinstance(described, dict):
        if described.get("type") == "udt":
            return _without_classes(described["sqlType"])
        return {
            name: each if name == "metadata" else _without_classes(each) for name, each in described.items()
        }
    if isinstance(described, (list, tuple)):
        return [_without_classes(each) for each in described]
    return described


def serialized(batch: pa.RecordBatch) -> bytes:
    data: bytes = batch.serialize().to_pybytes()
    return data


def _checked(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    try:
        # Arrow checks text, which Spark does not
        deserialized(data, _with_bytes(schema)).validate(full=True)
        batch = deserialized(data, schema)
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise Malformed(f"rows are not of their schema: {error}") from error
    if batch.column(KEY).null_count:
        raise Malformed("rows are of no key")
    return batch


@lru_cache
def _with_bytes(schema: pa.Schema) -> pa.Schema:
    """The same columns in the same bytes, but no text among them."""
    return pa.schema([field.with_type(_without_text(field.type)) for field in schema])


def _without_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_without_text(each.type)) for each in kind])
    if pa.types.is_map(kind):
        key, item = (each.with_type(_without_text(each.type)) for each in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_text(kind.value_type)))
    return kind


def deserialized(data: Any, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(index) for batch in batches])
        for index in range(batches[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def changed_type(name: str, old: sql.DataType, new: sql.DataType) -> str:
    nulls = " without nulls among its fields, elements or values" if widens(old, new, nulls=False) else ""
    return (
        f"column {name!r} was {old.simpleString()} in the rows that this query keeps, and is now "
        f"{new.simpleString()}{nulls}, which does not hold all of its values: cast it back, or start the "
        "query with a new checkpoint"
    )


def widens(old: sql.DataType, new: sql.DataType, *, nulls: bool = True) -> bool:
    """Whether each value of a type is a value of another one too, in any session, as Delta's tables widen.

    Whether there is room for nulls in structs, arrays and maps is looked at unless `nulls` is false.
    """

    def inner(one: sql.DataType, other: sql.DataType) -> bool:
        return widens(one, other, nulls=nulls)

    if isinstance(old, sql.StructType) and isinstance(new, sql.StructType):
        before, after = ({each.name: each for each in kind.fields} for kind in (old, new))
        # a field that was not there is null in the rows from before
        room = not nulls or all(
            each.nullable or (name in before and not before[name].nullable) for name, each in after.items()
        )
        return room and all(
            name in after and inner(each.dataType, after[name].dataType) for name, each in before.items()
        )
    if isinstance(old, sql.ArrayType) and isinstance(new, sql.ArrayType):
        fits = not nulls or old.containsNull <= new.containsNull
        return fits and inner(old.elementType, new.elementType)
    if isinstance(old, sql.MapType) and isinstance(new, sql.MapType):
        fits = not nulls or old.valueContainsNull <= new.valueContainsNull
        return fits and inner(old.keyType, new.keyType) and inner(old.valueType, new.valueType)
    if isinstance(old, sql.StringType) and isinstance(new, sql.StringType):
        return True
    return old == new or _widens_plain(old, new)


def _widens_plain(old: sql.DataType, new: sql.DataType) -> bool:
    if isinstance(old, _WHOLE):
        if isinstance(new, _WHOLE):
            return _WHOLE.index(type(old)) <= _WHOLE.index(type(new))
        if isinstance(new, sql.DecimalType):
            return new.precision - new.scale >= _DIGITS[type(old)]
        return isinstance(new, sql.DoubleType) and not isinstance(old, sql.LongType)
    if isinstance(old, sql.DecimalType) and isinstance(new, sql.DecimalType):
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if isinstance(old, sql.FloatType):
        return isinstance(new, sql.DoubleType)
    return isinstance(old, sql.DateType) and isinstance(new, sql.TimestampNTZType)


def family(kind: sql.DataType) -> str:
    """What a type is to keys, times and windows, which keep the same of all types of a family."""
    if isinstance(kind, sql.IntegralType):
        return "whole number"
    if isinstance(kind, (sql.FloatType, sql.DoubleType)):
        return "real number"
    if isinstance(kind, sql.StringType):
        return "string"
    if isinstance(kind, sql.DecimalType):
        return "decimal"
    if isinstance(kind, sql.StructType):
        return f"struct<{', '.join(f'{each.name}: {family(each.dataType)}' for each in kind.fields)}>"
    if isinstance(kind, sql.ArrayType):
        return f"array<{family(kind.elementType)}>"
    if isinstance(kind, sql.MapType):
        return f"map<{family(kind.keyType)}, {family(kind.valueType)}>"
    return kind.simpleString()
