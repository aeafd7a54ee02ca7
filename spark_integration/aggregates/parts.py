"""The aggregates of a call: each is a column of the result, of one part, or a struct of several."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as sql

from mta import monoids
from mta.monoids.base import ColumnarMonoid, Monoid
from spark_integration.aggregates.catalogue import traits_of
from spark_integration.aggregates.inputs import Input
from spark_integration.aggregates.traits import SqlTraits


@dataclass(frozen=True)
class Part:
    """One aggregate over its input columns; a `Fields` is several of them."""

    name: str
    monoid: Monoid
    inputs: tuple[Input, ...]
    type: sql.DataType

    @property
    def traits(self) -> SqlTraits:
        return traits_of(self.monoid)

    @property
    def columnar(self) -> bool:
        encodings = {source.encoding for source in self.inputs}
        return isinstance(self.monoid, ColumnarMonoid) and encodings <= {"whole", "real"}


@dataclass(frozen=True)
class Aggregate:
    """A column of the result: one part, or a struct of parts."""

    name: str
    parts: tuple[Part, ...]
    #: the names of the struct's fields, None where the column is no struct
    fields: tuple[str, ...] | None

    @property
    def type(self) -> sql.DataType:
        if self.fields is None:
            return self.parts[0].type
        named = zip(self.fields, self.parts, strict=True)
        return sql.StructType([sql.StructField(name, part.type) for name, part in named])

    @property
    def nullable(self) -> bool:
        return self.fields is None and self.parts[0].traits.nullable


def aggregate_of(name: str, monoid: Monoid) -> tuple[list[tuple[str, Monoid]], tuple[str, ...] | None]:
    """The parts of an aggregate with their names, and the fields of its struct."""
    if not isinstance(monoid, monoids.Fields):
        return [(name, monoid)], None
    return [(f"{name}.{each}", part) for each, part in monoid.monoids.items()], tuple(monoid.monoids)
