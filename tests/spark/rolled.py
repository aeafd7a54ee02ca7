"""`rolling` on an Arrow table, without Spark: the plan, and the task on one sorted partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.pandas.types import from_arrow_schema

from spark_integration.call.planning import make_plan, with_results
from spark_integration.partition import chunks
from spark_integration.partition.task import roll_partition


def schema_of(table: pa.Table) -> sql.StructType:
    found: sql.StructType = from_arrow_schema(table.schema)
    return found


@contextmanager
def chunks_of(rows: int) -> Iterator[None]:
    with mock.patch.object(chunks, "CHUNK_ROWS", rows):
        yield


def roll(table: pa.Table, *, batch: int = 7, chunk: int = 1 << 16, **arguments: Any) -> pa.Table:
    """The table, which is sorted already, with aggregates; in batches and chunks of so many rows."""
    arguments.setdefault("partition_by", "k")
    arguments.setdefault("order_by", "o")
    schema = schema_of(table)
    plan = make_plan(schema, **arguments)
    with chunks_of(chunk):
        out = list(roll_partition(plan, table.to_batches(max_chunksize=batch)))
    assert sum(each.num_rows for each in out) == table.num_rows
    wanted = with_results(schema, plan).names
    assert all(each.schema.names == wanted for each in out)
    return pa.Table.from_batches(out)


def column(table: pa.Table, name: str) -> list[Any]:
    values: list[Any] = table.column(name).to_pylist()
    return values
