"""The columns that a call names, found as Spark finds them, and whether they are of a type that goes."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as sql

from spark_integration.aggregates.inputs import Input
from spark_integration.call.plan import Plan
from spark_integration.errors import RollingError, UnsupportedColumn


class Columns:
    """The columns of a DataFrame, found by name as Spark would."""

    def __init__(self, schema: sql.StructType, sensitive: bool) -> None:
        self._fields, self._sensitive = schema.fields, sensitive
        self.names = schema.names

    def find(self, name: str, where: str) -> Input:
        exact = [index for index, each in enumerate(self.names) if each == name]
        alike = [index for index, each in enumerate(self.names) if self.same(each, name)]
        found = exact if len(exact) == 1 and len(alike) == 1 else alike
        if not found:
            raise RollingError(f"{where}: no column {name!r}, the DataFrame has {', '.join(self.names)}")
        if len(found) > 1:
            raise RollingError(f"{where}: {len(found)} columns are named {name!r}; rename all but one")
        field = self._fields[found[0]]
        for kind in _types_in(field.dataType):
            if isinstance(kind, sql.StringType) and kind.collation != "UTF8_BINARY":
                raise UnsupportedColumn(
                    f"{where}: column {field.name!r} has the collation {kind.collation}, which windows do "
                    "not know: cast it to a string of collation UTF8_BINARY"
                )
        return Input(field.name, found[0], field.dataType, field.nullable)

    def same(self, a: str, b: str) -> bool:
        return a == b or (not self._sensitive and a.lower() == b.lower())

    def taken(self, name: str) -> bool:
        return any(self.same(each, name) for each in self.names)


def check_sorted(plan: Plan, *, map_keys: bool = False) -> None:
    """Refuses keys and order that Spark cannot sort by. Of a stream, where it need not, keys may be maps."""
    for where, columns in (("partition_by", plan.keys), ("order_by", plan.order)):
        unsorted = _UNSORTED - {"MapType"} if map_keys and where == "partition_by" else _UNSORTED
        for each in columns:
            if any(type(kind).__name__ in unsorted for kind in _types_in(each.type)):
                raise UnsupportedColumn(
                    f"{where}: column {each.name!r} is of type {each.type.simpleString()}, which Spark "
                    "cannot sort: take a part of it, or its text by to_json"
                )


#: Names of types, since not every version of Spark has all of them.
_UNSORTED = frozenset({"MapType", "VariantType", "GeographyType", "GeometryType"})


def _types_in(kind: sql.DataType) -> Iterator[sql.DataType]:
    """A type, and the types of the values inside its values."""
    yield kind
    if isinstance(kind, sql.StructType):
        inner = [each.dataType for each in kind.fields]
    elif isinstance(kind, sql.ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, sql.MapType):
        inner = [kind.keyType, kind.valueType]
    else:
        inner = []
    for each in inner:
        yield from _types_in(each)
