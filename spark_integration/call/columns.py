"""The columns that a call names, found as Spark finds them, and whether they are of a type that goes."""

from __future__ import annotations

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
        if isinstance(field.dataType, sql.StringType) and field.dataType.collation != "UTF8_BINARY":
            raise UnsupportedColumn(
                f"{where}: column {field.name!r} has the collation {field.dataType.collation}, which windows "
                "do not know: cast it to a string of collation UTF8_BINARY"
            )
        return Input(field.name, found[0], field.dataType, field.nullable)

    def same(self, a: str, b: str) -> bool:
        return a == b or (not self._sensitive and a.lower() == b.lower())

    def taken(self, name: str) -> bool:
        return any(self.same(each, name) for each in self.names)


def check_sorted(plan: Plan) -> None:
    """Refuses keys and order that Spark cannot sort by, as a batch job does."""
    for where, columns in (("partition_by", plan.keys), ("order_by", plan.order)):
        for each in columns:
            if _holds(each.type, (sql.MapType, sql.VariantType)):
                raise UnsupportedColumn(
                    f"{where}: column {each.name!r} is of type {each.type.simpleString()}, which Spark "
                    "cannot sort: take a part of it, or its text by to_json"
                )


def _holds(kind: sql.DataType, kinds: tuple[type, ...]) -> bool:
    """Whether a type is one of some, or has one inside."""
    if isinstance(kind, kinds):
        return True
    if isinstance(kind, sql.StructType):
        return any(_holds(each.dataType, kinds) for each in kind.fields)
    return isinstance(kind, sql.ArrayType) and _holds(kind.elementType, kinds)
