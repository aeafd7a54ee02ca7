"""Makes the plan of a call of `rolling`, and checks the call before a job starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import types as sql

from mta import AmortizedMTA
from mta.core.frame import check_one_window
from mta.monoids.base import Monoid
from spark_integration.aggregates.catalogue import traits_of
from spark_integration.aggregates.parts import Aggregate, Part, aggregate_of
from spark_integration.aggregates.types import data_type, result_type
from spark_integration.call.columns import Columns
from spark_integration.call.frames import frame_of
from spark_integration.call.naming import check_carried, why_not
from spark_integration.call.plan import Plan
from spark_integration.call.stores import check_store
from spark_integration.errors import RollingError

ALGORITHMS = ("amta", "lmta", "daba")


def make_plan(
    schema: sql.StructType,
    *,
    partition_by: Any,
    order_by: Any,
    window: Any = None,
    rows: Any = None,
    policy: Any = None,
    aggregates: Any,
    store: Any = "rocksdb",
    algorithm: Any = "amta",
    page_size: Any = None,
    store_options: Any = None,
    closed: Any = "both",
    types: Any = None,
    case_sensitive: bool = False,
    zone: str = "UTC",
    several_processes: bool = False,
    reachable: bool = True,
    metered: bool = False,
) -> Plan:
    """What tasks have to do; RollingError where the call makes no sense."""
    check_carried(schema)
    columns = Columns(schema, case_sensitive)
    keys = tuple(columns.find(name, "partition_by") for name in _names(partition_by, "partition_by"))
    order = tuple(columns.find(name, "order_by") for name in _names(order_by, "order_by"))
    if not order:
        raise RollingError("order_by= names no column; the first one is the time")
    frame = frame_of(window, rows, policy, closed, order[0].name, order[0].type)
    found = _aggregates(aggregates, columns, _by_name(types, "types", '{"total": "double"}'))
    if algorithm not in ALGORITHMS:
        raise RollingError(f'algorithm= is "amta", "lmta" or "daba", got {algorithm!r}')
    options = _by_name(store_options, "store_options", '{"max_tries": 3}')
    plan = Plan(
        keys=keys,
        order=order,
        frame=frame,
        aggregates=found,
        store=check_store(store, options, several_processes=several_processes, reachable=reachable),
        store_options=options,
        algorithm=algorithm,
        page_size=int(page_size) if isinstance(page_size, Integral) else page_size,
        zone=zone,
        metered=metered,
    )
    _check_windows(plan)
    _check_pickles(plan, aggregates)
    return plan


def with_results(schema: sql.StructType, plan: Plan) -> sql.StructType:
    added = (sql.StructField(each.name, each.type, each.nullable) for each in plan.aggregates)
    return sql.StructType([*schema.fields, *added])


def _by_name(given: Any, where: str, example: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise RollingError(f"{where}= maps names to values, as in {example}, got {given!r}")
    return dict(given)


def _names(given: Any, where: str) -> list[str]:
    if given is None:
        return []
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise RollingError(f"{where}= takes columns or names of columns, got {name!r}")
    return names


def _aggregates(
    aggregates: Any, columns: Columns, types: dict[str, sql.DataType | str]
) -> tuple[Aggregate, ...]:
    if not isinstance(aggregates, Mapping) or not aggregates:
        raise RollingError(
            'aggregates= maps names of new columns to monoids, as in {"peak": monoids.Max("amount")}, '
            f"got {aggregates!r}"
        )
    found: list[Aggregate] = []
    for name, monoid in aggregates.items():
        if not isinstance(name, str) or not isinstance(monoid, Monoid):
            raise RollingError(
                f'aggregates= maps names to monoids such as monoids.Max("amount"), got {name!r}: {monoid!r}'
            )
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise RollingError(f"aggregate {name!r}: the name is no valid Unicode")
        if "\0" in name:
            raise RollingError(f"aggregate {name!r}: a name cannot hold the character NUL")
        if columns.taken(name):
            raise RollingError(f"aggregate {name!r}: the DataFrame has a column of this name already")
        for other in found:
            if columns.same(other.name, name):
                raise RollingError(f"aggregates {other.name!r} and {name!r} are one name to Spark")
        try:
            check_one_window("rolling", monoid)
        except ValueError as error:
            raise RollingError(f"aggregate {name!r}: {error}") from None
        parts, fields = aggregate_of(name, monoid)
        found.append(Aggregate(name, tuple(_part(*each, columns, types) for each in parts), fields))
    names = Counter(part.name for aggregate in found for part in aggregate.parts)
    unknown = types.keys() - names.keys()
    if unknown:
        raise RollingError(f"types= names no aggregate: {sorted(unknown)}")
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise RollingError(f"aggregates: {twice} name both a field of Fields and an aggregate; rename one")
    return tuple(found)


def _part(name: str, monoid: Monoid, columns: Columns, types: dict[str, sql.DataType | str]) -> Part:
    traits = traits_of(monoid)
    if not monoid.fields and not traits.of_rows:
        raise RollingError(
            f"aggregate {name!r}: {monoid!r} names no column: write for example Max('amount'), "
            "or from_function(..., field='amount')"
        )
    inputs = tuple(columns.find(field, f"aggregate {name!r}") for field in monoid.fields)
    for each in inputs:
        if "\0" in each.name:
            raise RollingError(
                f"aggregate {name!r}: column {each.name!r} has the character NUL in its name: rename it"
            )
    if traits.presence:
        inputs = tuple(replace(each, presence=True) for each in inputs)
    known = result_type(name, monoid, inputs)
    if name in types:
        argument = f"types={{{name!r}: ...}}"
        known = data_type(types[name], argument)
        if why := why_not(known):
            raise RollingError(f"{argument} is {known.simpleString()}, {why}: give another type")
    if known is None:
        raise RollingError(
            f"aggregate {name!r}: the type of the results of {monoid!r} cannot be known: "
            f"give it, as in types={{{name!r}: 'double'}}"
        )
    return Part(name, monoid, inputs, known)


def _check_windows(plan: Plan) -> None:
    """Makes each window once, so that it refuses wrong options."""
    for program in plan.programs():
        try:
            window = AmortizedMTA(program.monoid, plan.frame.policy, page_size=plan.page_size)
        except (TypeError, ValueError) as error:
            raise RollingError(str(error)) from error
        window.close()


def _check_pickles(plan: Plan, aggregates: Mapping[str, Monoid]) -> None:
    try:
        cloudpickle.dumps(plan)  # type: ignore[no-untyped-call]
    except Exception as error:
        for name, monoid in aggregates.items():
            try:
                cloudpickle.dumps(monoid)  # type: ignore[no-untyped-call]
            except Exception as cause:
                raise RollingError(
                    f"aggregate {name!r}: {monoid!r} cannot be sent to the executors: {cause}"
                ) from cause
        raise RollingError(
            f"policy={plan.frame.policy!r} cannot be sent to the executors: {error}"
        ) from error
