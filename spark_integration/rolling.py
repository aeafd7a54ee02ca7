"""`rolling`: sliding windows over a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import types as sql

from mta.monoids.base import Monoid
from mta.policies import Policy
from spark_integration.columns import Input
from spark_integration.errors import RollingError
from spark_integration.frames import Closed
from spark_integration.metrics import Metrics, with_metrics
from spark_integration.planning import make_plan, with_results
from spark_integration.program import Plan
from spark_integration.task import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Algorithm = Literal["amta", "lmta", "daba"]


def rolling(
    df: DataFrame,
    *,
    partition_by: str | Sequence[str] | None = None,
    order_by: str | Sequence[str],
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
) -> DataFrame:
    """The rows of a DataFrame with a column for each aggregate of the row's window.

    `window="90 days"` is SQL's RANGE BETWEEN INTERVAL 90 DAYS PRECEDING AND CURRENT ROW, `closed="right"`
    leaves the older end out; `rows=n` is ROWS BETWEEN n - 1 PRECEDING AND CURRENT ROW; `policy=` is one of
    `mta.policies`, asked row by row. The first column of `order_by` is the time, others break ties. `types`
    gives the result types of aggregates where they cannot be known: monoids made of your own functions.
    `metrics` is a `Metrics()` that tells, after an action, what the job did.

    A window lives in `store`, and a task holds a few pages of it: "rocksdb" is a directory of the executor
    that is gone after the task, a URL is a server that all executors reach.

    Of a streaming DataFrame it makes a streaming DataFrame. With a watermark on the time column, rows come
    out when the watermark has passed them, and are late when they come after it; without one, a micro-batch's
    rows come out with it. `forget_after="30 days"` is how long a key is kept that has no more rows.
    """
    if forget_after is not None and not df.isStreaming:
        raise RollingError("forget_after= is for streams, and this is a batch DataFrame")
    plan = make_plan(
        df.schema,
        partition_by=partition_by,
        order_by=order_by,
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
        case_sensitive=_conf(df, "spark.sql.caseSensitive") == "true",
        zone=_conf(df, "spark.sql.session.timeZone") or "UTC",
        several_processes=_several_executors(df),
        reachable=not _remote(df),
        metered=metrics is not None,
    )
    if df.isStreaming:
        from spark_integration.streaming import rolling_stream

        return rolling_stream(
            df, plan, forget_after=forget_after, metrics=metrics, several_processes=_several_executors(df)
        )
    by = [_column(df, key) for key in plan.keys]
    spread = df.repartition(*by) if by else df.repartition(1)
    ordered = spread.sortWithinPartitions(*by, *(_column(df, each) for each in plan.order))
    if any("." in name or "`" in name for name in df.columns):
        # mapInArrow looks its columns up by names that it does not quote; tasks go by their places
        ordered = ordered.toDF(*(f"column_{number}" for number in range(len(df.columns))))
    schema = with_results(df.schema, plan)
    if metrics is None:
        return ordered.mapInArrow(_Function(plan), schema)
    return metrics.observe(ordered.mapInArrow(_Function(plan), with_metrics(schema)))


def _column(df: DataFrame, source: Input) -> Any:
    quoted = source.name.replace("`", "``")
    return df[f"`{quoted}`"]


class _Function:
    """What Spark calls in a worker, with a name for its plans."""

    __name__ = "rolling"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run(self._plan, batches)


# -- where it runs ----------------------------------------------------------------------------------------


def _conf(df: DataFrame, name: str) -> str | None:
    try:
        return df.sparkSession.conf.get(name)
    except Exception:  # not set, or hidden from this kind of session
        return None


def _remote(df: DataFrame) -> bool:
    """Whether this is a client of Spark Connect, which need not reach what executors reach."""
    return type(df).__module__.startswith("pyspark.sql.connect")


def _several_executors(df: DataFrame) -> bool:
    master = _conf(df, "spark.master") or ""
    return not master.startswith("local") or master.startswith("local-cluster")
