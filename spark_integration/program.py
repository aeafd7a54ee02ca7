"""What a job computes: aggregates as windows see them, and windows' results as columns of the DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as sql

from mta import monoids
from mta.monoids.base import ColumnarMonoid, Monoid
from mta.policies import Limits, Policy, Predicate
from spark_integration.columns import Input, encoded, listed
from spark_integration.frames import Frame
from spark_integration.nulls import PRESENT, Columnar, Nullable, NullableObjects, with_nan
from spark_integration.results import arrow_type, of_nothing, to_arrow


@dataclass(frozen=True)
class Part:
    """One aggregate over its input columns; a `Fields` is several of them."""

    name: str
    monoid: Monoid
    inputs: tuple[Input, ...]
    type: sql.DataType

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
        return self.fields is None and of_nothing(self.parts[0].monoid) is None


@dataclass(frozen=True)
class Plan:
    """All that a task has to know. It travels with the job, so it holds no credentials."""

    keys: tuple[Input, ...]
    #: the first one is the time
    order: tuple[Input, ...]
    frame: Frame
    aggregates: tuple[Aggregate, ...]
    store: str
    store_options: Mapping[str, Any]
    algorithm: str
    page_size: int | None
    zone: str
    metered: bool = False

    @property
    def parts(self) -> list[Part]:
        return [part for aggregate in self.aggregates for part in aggregate.parts]


@dataclass
class Program:
    """Aggregates that share a window: those over NumPy columns, or those over Python objects."""

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
        """`cut`, of which nothing else is held in memory."""
        part = self.cut(values, start, stop)
        if isinstance(part, dict):
            return {key: column.copy() for key, column in part.items()}
        return part.copy()


def _end_to_end(before: Any, values: Any) -> Any:
    return before + values if isinstance(values, list) else np.concatenate([before, values])


def programs(plan: Plan) -> list[Program]:
    plain = plan.algorithm == "daba" or plan.frame.by_predicate
    columnar = [part for part in plan.parts if part.columnar and not plain]
    objects = [part for part in plan.parts if not part.columnar or plain]
    found = []
    if columnar:
        found.append(Program(columnar, True, Columnar(**{part.name: _columnar(part) for part in columnar})))
    if objects:
        checked = plan.frame.by_predicate
        found.append(
            Program(
                objects, False, monoids.Fields(**{part.name: _objects(part, checked) for part in objects})
            )
        )
    for program in found:
        sources = {source.key: source for part in program.parts for source in part.inputs}
        program.inputs = [sources[key] for key in program.monoid.fields]
    return found


def _columnar(part: Part) -> Monoid:
    if not part.inputs:
        return part.monoid
    inner = with_nan(part.monoid)
    assert isinstance(inner, ColumnarMonoid)
    needed = part.inputs[: _needed(part)]
    skips = [index for index, source in enumerate(needed) if source.nullable]
    return Nullable(inner, [source.key for source in part.inputs], skips=skips)


def _objects(part: Part, checked: bool) -> Monoid:
    if not part.inputs:
        return part.monoid
    ordered = isinstance(part.monoid, (monoids.MaxCount, monoids.ArgMax))
    inner = part.monoid if checked and ordered else with_nan(part.monoid)
    fields = [source.key for source in part.inputs]
    return NullableObjects(inner, fields, skips=_needed(part), checked=checked and ordered)


def _needed(part: Part) -> int:
    """How many of the inputs, from the first on, must not be null for an element to count."""
    return 1 if isinstance(part.monoid, monoids.ArgMax) else len(part.inputs)


# -- results ----------------------------------------------------------------------------------------------


class Results:
    """Arrow columns out of what windows return."""

    def __init__(self, plan: Plan) -> None:
        self._aggregates = plan.aggregates
        self._types = {part.name: arrow_type(part.type, plan.zone) for part in plan.parts}
        self._nothing = {part.name: of_nothing(part.monoid) for part in plan.parts}
        self.fields = [
            pa.field(aggregate.name, arrow_type(aggregate.type, plan.zone)) for aggregate in plan.aggregates
        ]

    def columns(self, results: Mapping[str, Any]) -> list[pa.Array]:
        out = []
        for aggregate, target in zip(self._aggregates, self.fields, strict=True):
            parts = [self._column(part.name, results) for part in aggregate.parts]
            if aggregate.fields is None:
                out.append(parts[0])
            else:
                out.append(pa.StructArray.from_arrays(parts, fields=list(target.type)))
        return out

    def _column(self, name: str, results: Mapping[str, Any]) -> pa.Array:
        present = results.get(name + PRESENT)
        return to_arrow(results[name], present, self._types[name], self._nothing[name])


# -- policies ---------------------------------------------------------------------------------------------


class Lowest:
    """Less than anything: the maximum of nothing, for predicates that compare maxima."""

    def __lt__(self, other: object) -> bool:
        return not isinstance(other, Lowest)

    def __gt__(self, other: object) -> bool:
        return False


LOWEST = Lowest()


def without_nulls(policy: Policy, monoid: Monoid) -> Policy:
    """The policy with predicates that see the identity where an aggregate has met nothing but nulls."""
    limits = policy.limits()
    if not limits.predicates or not isinstance(monoid, monoids.Fields):
        return policy
    identities = {name: _identity(each) for name, each in monoid.monoids.items()}

    def seeing(predicate: Predicate) -> Predicate:
        def rejects(total: Any, old: Any) -> bool:
            return bool(predicate(_filled(total, identities), _filled(old, identities)))

        return rejects

    return _Given(
        policy,
        Limits(limits.count, limits.open_span, limits.closed_span, tuple(map(seeing, limits.predicates))),
    )


class _Given(Policy):
    def __init__(self, policy: Policy, limits: Limits) -> None:
        self._policy, self._limits = policy, limits

    def limits(self) -> Limits:
        return self._limits

    def fingerprint(self) -> str:
        return self._policy.fingerprint()


def _filled(states: Mapping[str, Any], identities: Mapping[str, Any]) -> dict[str, Any]:
    return {name: identities[name] if state is None else state for name, state in states.items()}


def _identity(monoid: Monoid) -> Any:
    inner = monoid.inner if isinstance(monoid, NullableObjects) else monoid
    if isinstance(inner, monoids.Max):
        return LOWEST
    if isinstance(inner, (monoids.MaxCount, monoids.ArgMax)):
        return (LOWEST, inner.identity[1])
    return inner.identity


def aggregate_of(name: str, monoid: Monoid) -> tuple[list[tuple[str, Monoid]], tuple[str, ...] | None]:
    """The parts of an aggregate with their names, and the fields of its struct."""
    if not isinstance(monoid, monoids.Fields):
        return [(name, monoid)], None
    return [(f"{name}.{each}", part) for each, part in monoid.monoids.items()], tuple(monoid.monoids)


def unread(parts: Sequence[Part]) -> list[str]:
    """Names that two parts share."""
    names = [part.name for part in parts]
    return sorted({name for name in names if names.count(name) > 1})
