"""`rolling` on a streaming DataFrame: rows are packed, go through a stateful function, and are unpacked."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as sql

from spark_integration.aggregates.inputs import Input
from spark_integration.call.columns import check_sorted
from spark_integration.call.frames import clock_of, span_of
from spark_integration.call.naming import numbered
from spark_integration.call.plan import Plan
from spark_integration.call.planning import with_results
from spark_integration.call.workers import for_workers
from spark_integration.errors import RollingError, StoreNotUsable
from spark_integration.metrics import Metrics
from spark_integration.running.metering import STREAM_SUMS
from spark_integration.running.storage import embedded_in
from spark_integration.streaming.function import StreamFunction
from spark_integration.streaming.identity import identity_of
from spark_integration.streaming.packing import COUNTS, KEY, ROWS, pack, packed_schema, unpack
from spark_integration.streaming.plan import StreamPlan
from spark_integration.streaming.schema import RowSchema, arrow_schema, column_name
from spark_integration.streaming.storage import operator_name
from stores import store_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The number of buckets, into which keys are put by their hashes. Each bucket is one call and one state.
BUCKETS, MOST_BUCKETS = 64, 1 << 16

#: Where Spark marks the column that a watermark is on.
_DELAY = "spark.watermarkDelayMs"


def rolling_stream(
    df: DataFrame,
    plan: Plan,
    *,
    forget_after: Any,
    buckets: int | None,
    metrics: Metrics | None,
    several_processes: bool,
    case_sensitive: bool,
    gathered: int,
    after_outer_joins: bool = False,
) -> DataFrame:
    from pyspark.sql import functions as fn
    from pyspark.sql.streaming.state import GroupStateTimeout

    marked = _event_time(df.schema, plan)
    schema = RowSchema(df.schema, plan.zone, sensitive=case_sensitive)
    stream = stream_plan(
        plan,
        schema,
        marked is not None,
        forget_after,
        several_processes,
        case_sensitive=case_sensitive,
        buckets=buckets,
        gathered=gathered,
        after_outer_joins=after_outer_joins,
    )
    timeout = GroupStateTimeout.NoTimeout
    if marked is not None:
        timeout = GroupStateTimeout.EventTimeTimeout
    elif forget_after is not None:
        timeout = GroupStateTimeout.ProcessingTimeTimeout
    # columns are null in the row that carries the counts
    fields = with_results(df.schema, plan).fields
    out = sql.StructType([sql.StructField(each.name, each.dataType, True) for each in fields])
    # tasks find columns by their positions
    packing = for_workers(
        "pack_rows", pack, plan.keys, schema, stream.buckets, marked is not None, stream.gathered
    )
    packed = numbered(df).mapInArrow(packing, packed_schema(marked))
    answered = packed.groupBy(packed[KEY]).applyInPandasWithState(
        StreamFunction(stream),
        sql.StructType([sql.StructField(ROWS, sql.BinaryType())]),
        sql.StructType([sql.StructField("window", sql.BinaryType())]),
        "append",
        timeout,
    )
    counted = COUNTS
    while column_name(counted, case_sensitive) in {column_name(each, case_sensitive) for each in out.names}:
        counted = f"_{counted}"
    counts = sql.StructField(counted, sql.ArrayType(sql.DoubleType(), containsNull=False))
    unpacking = for_workers("unpack_rows", unpack, arrow_schema(out, plan.zone), [*out.names, counted])
    rows = answered.mapInArrow(unpacking, sql.StructType([*out.fields, counts]))
    column = rows[counted]
    sums = []
    for number, name in enumerate(STREAM_SUMS):
        kind = "double" if name.startswith("seconds") else "bigint"
        sums.append(fn.coalesce(fn.sum(column[number]), fn.lit(0.0)).cast(kind).alias(name))
    names = "_".join(each.name for each in plan.aggregates)
    named = (metrics.name if metrics is not None else None) or f"rolling_{names}"[:60]
    return rows.observe(named, *sums).where(column.isNull()).drop(counted)


def stream_plan(
    plan: Plan,
    schema: RowSchema,
    waits: bool,
    forget_after: Any,
    several_processes: bool,
    *,
    case_sensitive: bool = False,
    buckets: int | None = None,
    gathered: int = 0,
    after_outer_joins: bool = False,
) -> StreamPlan:
    if plan.algorithm == "daba":
        raise RollingError(
            'algorithm="daba" keeps windows in the memory of one process, and those of a stream must outlive '
            'it: use "amta" or "lmta"'
        )
    _check_durable(plan.store, several_processes)
    buckets = _checked_buckets(buckets)
    check_sorted(plan, map_keys=True)
    order = plan.order[0]
    clock = clock_of(order.name, order.type, "a stream, which tells by it what is late,")
    for other in plan.order[1:]:
        if isinstance(other.type, (sql.StructType, sql.ArrayType)):
            raise RollingError(
                f"order_by: column {other.name!r} is of type {other.type.simpleString()}, by which the rows "
                "of a stream cannot be sorted"
            )
    forgets = None
    if forget_after is not None:
        name, kind = (order.name, order.type) if waits else ("the clock", sql.TimestampType())
        forgets = span_of(forget_after, "both", name, kind, "forget_after")
    kept = _as_kept(plan, case_sensitive)
    stream = StreamPlan(
        plan=kept,
        operator=operator_name(each.name for each in plan.aggregates),
        identity=identity_of(kept, schema, waits, buckets),
        rows=schema,
        clock=clock,
        waits=waits,
        forget_after=forgets,
        buckets=buckets,
        gathered=gathered,
        after_outer_joins=after_outer_joins,
    )
    if waits and forgets is not None and stream.span is not None and forgets < stream.span:
        raise RollingError(
            f"forget_after={forget_after!r} is shorter than the window: rows would be missing from it"
        )
    return stream


def of_outer_joins(df: DataFrame, column: int) -> bool:
    """Whether a column comes from the side of a join of streams that an outer join keeps whole."""
    return _of_outer_joins(df._jdf.queryExecution().analyzed(), column)


def _of_outer_joins(node: Any, column: int) -> bool:
    """The same of a node of Spark's plan."""
    children = [node.children().apply(number) for number in range(node.children().size())]
    if node.nodeName() == "Union":
        return all(_of_outer_joins(child, column) for child in children)
    attribute = node.output().apply(column)
    if node.nodeName() == "Project":
        attribute = node.projectList().apply(column)
        if attribute.getClass().getSimpleName() == "Alias":
            attribute = attribute.child()
        if attribute.getClass().getSimpleName() != "AttributeReference":
            return False
    found = [(side, _position_in(child, attribute)) for side, child in enumerate(children)]
    positions = [(side, position) for side, position in found if position is not None]
    if len(positions) != 1:
        return False
    ((side, position),) = positions
    if node.nodeName() == "Join" and all(child.isStreaming() for child in children):
        return node.joinType().toString() in (("LeftOuter", "RightOuter")[side], "FullOuter")
    return _of_outer_joins(children[side], position)


def _position_in(node: Any, attribute: Any) -> int | None:
    """The position of an attribute in the output of a node of Spark's plan."""
    output = node.output()
    positions = (n for n in range(output.size()) if output.apply(n).exprId().id() == attribute.exprId().id())
    return next(positions, None)


def _checked_buckets(buckets: Any) -> int:
    if buckets is None:
        return BUCKETS
    if isinstance(buckets, bool) or not isinstance(buckets, Integral):
        raise RollingError(f"buckets= is a whole number of groups that keys are put into, got {buckets!r}")
    number = int(buckets)
    if not 1 <= number <= MOST_BUCKETS:
        raise RollingError(f"buckets= is from 1 to {MOST_BUCKETS}, got {number}")
    return number


def _as_kept(plan: Plan, case_sensitive: bool) -> Plan:
    """The plan with columns as the state has them: by one name, and null in rows older than the column.

    A stream observes its metrics without a column for them, so the plan is not metered.
    """

    def kept(columns: tuple[Input, ...]) -> tuple[Input, ...]:
        return tuple(
            replace(each, name=column_name(each.name, case_sensitive), nullable=True) for each in columns
        )

    aggregates = tuple(
        replace(each, parts=tuple(replace(part, inputs=kept(part.inputs)) for part in each.parts))
        for each in plan.aggregates
    )
    return replace(plan, keys=kept(plan.keys), order=kept(plan.order), aggregates=aggregates, metered=False)


def _event_time(schema: sql.StructType, plan: Plan) -> sql.StructField | None:
    """The order column, if there is a watermark on it."""
    marked = [field for field in schema.fields if _DELAY in (field.metadata or {})]
    if not marked:
        return None
    order = schema.fields[plan.order[0].index]
    if order not in marked:
        raise RollingError(
            f"the watermark is on column {marked[0].name!r}, and rows are ordered by {order.name!r}: put "
            "withWatermark on the column that order_by= names first, or on none"
        )
    return order


def _check_durable(store: str, several_processes: bool) -> None:
    directory = embedded_in(store)
    if directory is not None and not directory.parts:
        raise StoreNotUsable(
            'store="rocksdb" is a directory of one task, and the windows of a stream must stay: give a '
            "directory, as in rocksdb:///var/lib/windows, or the URL of a server"
        )
    kind = store_class(store)
    if kind.local:
        raise StoreNotUsable(
            f"store={store!r} is gone with its process, and the windows of a stream must stay"
        )
    if several_processes and not kind.shared_across_hosts:
        raise StoreNotUsable(
            f"store={store!r} is on one host, and this query's tasks may run on any executor: "
            "give the URL of a server, as in redis://host:6379/0"
        )
