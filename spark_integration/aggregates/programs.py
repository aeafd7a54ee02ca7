"""Programs: aggregates that share a window, as one monoid over the columns that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mta import monoids
from mta.monoids.base import ColumnarMonoid, Monoid
from spark_integration.aggregates.inputs import Input, encoded, listed
from spark_integration.aggregates.null_columns import Columnar, Nullable
from spark_integration.aggregates.null_objects import NullableObjects
from spark_integration.aggregates.parts import Part


@dataclass
class Program:
    """Aggregates that share a window: all those over NumPy columns, or all those over Python objects."""

    parts: list[Part]
    columnar: bool
    monoid: Monoid
    inputs: list[Input] = field(default_factory=list)

    def values(self, columns: Mapping[int, pa.Array], count: int) -> Any:
        """A batch of elements out of the DataFrame's columns, by their index."""
        if not self.inputs:
            return np.ones(count, dtype=np.int64)
        convert = encoded if self.columnar else listed
        return {source.key: convert(columns[source.index], source) for source in self.inputs}

    def cut(self, values: Any, start: int, stop: int) -> Any:
        if isinstance(values, dict):
            return {key: column[start:stop] for key, column in values.items()}
        return values[start:stop]

    def joined(self, before: Any, values: Any) -> Any:
        """Two batches of elements as one."""
        if isinstance(values, dict):
            return {key: _end_to_end(before[key], column) for key, column in values.items()}
        return _end_to_end(before, values)

    def kept(self, values: Any, start: int, stop: int) -> Any:
        """A copy of a part of a batch, so that the rest of the batch is not held in memory."""
        part = self.cut(values, start, stop)
        if isinstance(part, dict):
            return {key: column.copy() for key, column in part.items()}
        return part.copy()


def _end_to_end(before: Any, values: Any) -> Any:
    return before + values if isinstance(values, list) else np.concatenate([before, values])


def programs(parts: Sequence[Part], *, plain: bool, checked: bool) -> list[Program]:
    """One or two programs. With `plain` all is over objects; with `checked` predicates may see states."""
    columnar = [part for part in parts if part.columnar and not plain]
    objects = [part for part in parts if not part.columnar or plain]
    found = []
    if columnar:
        found.append(Program(columnar, True, Columnar(**{part.name: _columnar(part) for part in columnar})))
    if objects:
        fields = {part.name: _objects(part, checked) for part in objects}
        found.append(Program(objects, False, monoids.Fields(**fields)))
    for program in found:
        sources = {source.key: source for part in program.parts for source in part.inputs}
        program.inputs = [sources[key] for key in program.monoid.fields]
    return found


def _columnar(part: Part) -> Monoid:
    if not part.inputs:
        return part.monoid
    traits = part.traits
    inner = part.monoid if traits.ordered is None else traits.ordered(part.monoid)
    assert isinstance(inner, ColumnarMonoid)
    skips = [index for index, source in enumerate(part.inputs[: traits.needs]) if source.nullable]
    return Nullable(inner, [source.key for source in part.inputs], traits, skips=skips)


def _objects(part: Part, checked: bool) -> Monoid:
    if not part.inputs:
        return part.monoid
    traits = part.traits
    if checked and traits.coded:
        traits = replace(traits, ordered=None, takes_nan=False)
    inner = part.monoid if traits.ordered is None else traits.ordered(part.monoid)
    return NullableObjects(inner, [source.key for source in part.inputs], traits)
