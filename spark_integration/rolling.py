"""`rolling`: sliding windows over a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as sql

from mta.monoids.base import Monoid
from mta.policies import Policy
from spark_integration.call.columns import check_sorted
from spark_integration.call.frames import Closed
from spark_integration.call.naming import Named, numbered, numbered_schema, position_name
from spark_integration.call.plan import Plan
from spark_integration.call.planning import make_plan, with_results
from spark_integration.call.workers import check_local_workers, for_workers
from spark_integration.errors import RollingError
from spark_integration.metrics import Metrics, with_metrics
from spark_integration.partition.task import roll_partition

Columns: TypeAlias = str | Column | Sequence[str | Column]
Algorithm = Literal["amta", "lmta", "daba"]


def rolling(
    df: DataFrame,
    *,
    partition_by: Columns | None = None,
    order_by: Columns,
    window: str | timedelta | float | None = None,
    rows: int | None = None,
    policy: Policy | None = None,
    aggregates: Mapping[str, Monoid],
    store: str = "rocksdb",
    algorithm: Algorithm = "amta",
    page_size: int | None = None,
    store_options: Mapping[str, Any] | None = None,
    closed: Closed = "both",
    types: Mapping[str, sql.DataType | str] | None = None,
    metrics: Metrics | None = None,
    forget_after: str | timedelta | None = None,
    buckets: int | None = None,
) -> DataFrame:
    """The rows of a DataFrame with a column for each aggregate of the row's window.

        from mta import monoids
        from spark_integration import rolling

        out = rolling(
            df,
            partition_by="user",
            order_by="ts",
            window="90 days",
            aggregates={"peak": monoids.Max("amount"), "n": monoids.Count()},
        )

    has the columns of `df`, and behind them `peak` and `n` over the user's rows of the last 90 days.

    Others:

        peaks = {"peak": monoids.Max("amount")}
        rolling(df, partition_by=["user", F.year("ts")], order_by="ts", window="7d", aggregates=peaks)
        rolling(df, order_by=["ts", "user"], rows=1_000_000, aggregates=peaks)
        either = policies.TimeWindow("90 days") | policies.CountWindow(1000)
        rolling(df, partition_by="user", order_by="ts", policy=either, aggregates=peaks)
        stream = events.withWatermark("ts", "10 minutes")
        rolling(stream, order_by="ts", window="1 hour", aggregates=peaks, store="redis://host:6379/0")

    where F is pyspark.sql.functions.

    df: a DataFrame, or a streaming one, of which a streaming one is made.
    partition_by: what each window is of: a column or several, by name ("k", "st.k" for a field of a struct)
        or as a Column; none for one window over all rows.
    order_by: a column or several. The first is the time, which `window` is measured in; others break ties.
        Ascending, null first.

    Exactly one of these says which rows a window holds:

    window: a length of time such as "90 days", "7d" or "1 hour 30 minutes", a timedelta, or a number in the
        unit of the order column (microseconds for timestamps, days for dates). Rows from that long before
        the row's time up to it, and all rows of the same time: SQL's RANGE. A day is 24 hours.
    rows: the last so many rows, the current one among them: SQL's ROWS.
    policy: one of `mta.policies`, asked row by row. Its durations have a unit, or are numbers in the unit of
        the order column.

    aggregates: names of new columns, and the monoids that read columns by name, such as Max("amount"). Nulls
        are skipped; Count() counts rows, Count("x") those where x is not null, and CountDistinct("x") the
        different values of x.
    closed: of `window`: "both", as in SQL, or "right", which leaves the older end out.
    types: the types of results that cannot be known, those of monoids made of your own functions:
        {"total": "double"}. A monoid may say its own, and more, by `SqlTraits`.
    store: where the rows of a window are, of which a task holds a few pages. "rocksdb" is a directory of the
        task, gone with it; "rocksdb:///mnt/disk" has it on that disk; redis://host:6379/0 or
        couchbase://host/bucket is a server that all executors reach.
    store_options: passed to `open_store` in each task; no passwords, which the executors' environment has.
    algorithm: "amta"; "lmta", which needs less memory and more time; "daba", in memory, to compare.
    page_size: rows a page, a power of two; 16,384 for columns and 1,024 for Python objects by default.
    metrics: a `Metrics()`, whose `summary` tells after an action what the job did.
    forget_after: of streams: how long a key is kept that has no more rows, such as "30 days". With a
        watermark on the time, rows come out when it has passed them, and late rows are dropped; without one,
        a micro-batch's rows come out with it.
    buckets: of streams: how many groups keys are put into by their hashes, 64 if it is not given. Each is
        one call and one state, so that many keys cost little; the checkpoint keeps the number.

    Raises RollingError, a ValueError, for what is wrong with the call. What only the data shows ends the job
    with a PythonException that names the row.
    """
    _check_kinds(df, metrics)
    for option, value in (("forget_after", forget_after), ("buckets", buckets)):
        if value is not None and not df.isStreaming:
            raise RollingError(f"{option}= is for streams, and this is a batch DataFrame")
    sensitive = _conf(df, "spark.sql.caseSensitive") == "true"
    named = Named(df, case_sensitive=sensitive)
    keys, order = named.names(partition_by, "partition_by"), named.names(order_by, "order_by")
    named.names(_inputs(aggregates), "aggregates")
    plan = make_plan(
        named.df.schema,
        partition_by=keys,
        order_by=order,
        window=window,
        rows=rows,
        policy=policy,
        aggregates=aggregates,
        store=store,
        algorithm=algorithm,
        page_size=page_size,
        store_options=store_options,
        closed=closed,
        types=types,
        case_sensitive=sensitive,
        zone=_conf(df, "spark.sql.session.timeZone") or "UTC",
        several_processes=_several_executors(df),
        reachable=not _remote(df),
        metered=metrics is not None,
    )
    if not _remote(df) and not _several_executors(df):
        check_local_workers(df.sparkSession)
    if df.isStreaming:
        from spark_integration.streaming import of_outer_joins, rolling_stream

        out = rolling_stream(
            named.df,
            plan,
            forget_after=forget_after,
            buckets=buckets,
            metrics=metrics,
            several_processes=_several_executors(df),
            case_sensitive=sensitive,
            gathered=int(_conf(df, "spark.sql.execution.arrow.maxRecordsPerBatch") or 0),
            after_outer_joins=not _remote(df) and of_outer_joins(named.df, plan.order[0].index),
        )
        return out.drop(*named.added) if named.added else out
    return _rolling_batch(named, plan, metrics)


def _check_kinds(df: Any, metrics: Any) -> None:
    if not isinstance(df, DataFrame):
        hint = (
            "df.to_spark() makes one of it" if hasattr(df, "to_spark") else "spark.createDataFrame makes one"
        )
        raise RollingError(f"rolling takes a DataFrame of Spark, got {type(df).__qualname__}: {hint}")
    if metrics is not None and not isinstance(metrics, Metrics):
        raise RollingError(f"metrics= is a Metrics(), got {metrics!r}")


def _inputs(aggregates: Any) -> list[str]:
    """The names of columns that aggregates read; whether they are aggregates at all is seen later."""
    monoids = aggregates.values() if isinstance(aggregates, Mapping) else ()
    return [field for each in monoids if isinstance(each, Monoid) for field in each.fields]


def _rolling_batch(named: Named, plan: Plan, metrics: Metrics | None) -> DataFrame:
    check_sorted(plan)
    df = numbered(named.df)
    keys = [position_name(key.index) for key in plan.keys]
    order = [position_name(each.index) for each in plan.order]
    spread = df.repartition(*keys) if keys else df.repartition(1)
    ordered = spread.sortWithinPartitions(*keys, *order)
    result = with_results(named.df.schema, plan)
    schema = numbered_schema(result)
    function = for_workers("rolling", roll_partition, plan)
    if metrics is None:
        out = ordered.mapInArrow(function, schema)
    else:
        out = metrics.observe(ordered.mapInArrow(function, with_metrics(schema)))
    return named.restored(out, result)


def _conf(df: DataFrame, name: str) -> str | None:
    try:
        return df.sparkSession.conf.get(name)
    except Exception:  # not set, or hidden from this kind of session
        return None


def _remote(df: DataFrame) -> bool:
    """Whether this is a client of Spark Connect, which need not reach the stores that executors reach."""
    return type(df).__module__.startswith("pyspark.sql.connect")


def _several_executors(df: DataFrame) -> bool:
    master = _conf(df, "spark.master") or ""
    return not master.startswith("local") or master.startswith("local-cluster")
