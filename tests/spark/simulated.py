"""Micro-batches of a query in the process of a test."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any
from unittest import mock

import pandas as pd
import pyarrow as pa
from rolled import schema_of
from streams import NUMBER, START, Row

from spark_integration.call.planning import make_plan, with_results
from spark_integration.partition.plain import values_of
from spark_integration.running.metering import STREAM_SUMS
from spark_integration.streaming import function, packing
from spark_integration.streaming.function import StreamFunction
from spark_integration.streaming.packing import COUNTS, QUERY_KEY, pack, unpack
from spark_integration.streaming.query import stream_plan
from spark_integration.streaming.schema import RowSchema, arrow_schema
from spark_integration.streaming.storage import TaskAttempt
from stores import Store

#: Rows whose keys are numbers, and a watermark after all of them.
SCHEMA = pa.schema(
    [
        (NUMBER, pa.int64()),
        ("k", pa.int64()),
        ("o", pa.timestamp("us", "UTC")),
        ("x", pa.float64()),
        ("i", pa.int64()),
        ("s", pa.string()),
    ]
)
END = (START + 36_000) * 1000

#: What Spark calls a query.
QUERY = "a6ff5ad3-1f95-4be5-b5ef-0d0f9f0e4a11"

#: Rows and bytes that Spark gathers, so few that rows of nothing are among the others.
GATHERED, BYTES = 10, 4_000


class StateOfSpark:
    """What Spark gives to the function for a bucket: its state, the watermark and a timeout."""

    def __init__(self, blob: bytes | None, watermark: int, timed_out: bool) -> None:
        self.blob, self._watermark, self.hasTimedOut = blob, watermark, timed_out
        self.timeout: int | None = None

    @property
    def exists(self) -> bool:
        return self.blob is not None

    @property
    def get(self) -> tuple[bytes]:
        assert self.blob is not None
        return (self.blob,)

    def update(self, value: tuple[bytes]) -> None:
        (self.blob,) = value

    def remove(self) -> None:
        self.blob = None

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self._watermark

    def getCurrentProcessingTimeMs(self) -> int:  # noqa: N802
        return self._watermark

    def setTimeoutDuration(self, milliseconds: int) -> None:  # noqa: N802
        assert milliseconds > 0
        self.timeout = self._watermark + milliseconds

    def setTimeoutTimestamp(self, milliseconds: int) -> None:  # noqa: N802
        assert milliseconds > 0
        assert milliseconds >= self._watermark
        self.timeout = milliseconds


class Simulated:
    """Micro-batches of a query, in this process and without Spark.

    Without a watermark, what is given as one is the time on the clock.

    A task may run twice, and chance says which attempt's rows and state count; or a run of the query ends
    after some keys of a micro-batch, which is then played again.
    """

    def __init__(
        self,
        schema: pa.Schema,
        store: Store,
        seed: int,
        *,
        forget_after: str | None = None,
        buckets: int | None = None,
        waits: bool = True,
        after_outer_joins: bool = False,
        **how: Any,
    ) -> None:
        self._random, self._store = random.Random(seed), store
        self._how, self._forget_after, self._buckets = how, forget_after, buckets
        self._waits, self._after_outer_joins = waits, after_outer_joins
        self.start(schema)
        self.states: dict[bytes, tuple[bytes, int | None]] = {}
        self.late: list[int] = []
        self.rows: dict[int, Row] = {}
        self.batch = self.run = 0

    def start(self, schema: pa.Schema, **changed: Any) -> None:
        """The query as it is from now on."""
        spark_schema = schema_of(schema.empty_table())
        how = {"partition_by": None} | self._how | changed
        plan = make_plan(spark_schema, **how, store="rocksdb:///unused")
        schema_of_rows = RowSchema(spark_schema, "UTC")
        self._plan, self._schema = plan, schema_of_rows
        self._stream = stream_plan(
            plan,
            schema_of_rows,
            self._waits,
            self._forget_after,
            False,
            buckets=self._buckets,
            gathered=GATHERED,
            after_outer_joins=self._after_outer_joins,
        )
        out = with_results(spark_schema, plan)
        self._out, self._names = arrow_schema(out, "UTC"), [*out.names, COUNTS]

    def play(self, file: pa.Table | None, watermark: int) -> None:
        """One micro-batch."""
        arrived: dict[bytes, list[tuple[int, bytes]]] = {}
        batches = file.to_batches() if file else []
        stream = self._stream
        with mock.patch.object(packing, "GATHERED_BYTES", BYTES):
            call = StreamFunction(self._stream)
            for packed in pack(self._plan.keys, self._schema, stream.buckets, self._waits, GATHERED, batches):
                for row in packed.to_pylist():
                    arrived.setdefault(row["key"], []).append((row["position"], row["packed"]))
        timed_out = [
            key
            for key, (_, timeout) in self.states.items()
            if key not in arrived and timeout is not None and timeout < watermark
        ]
        if self._chance(0.2):
            # the run ends after some of the keys
            for key in [*arrived, *timed_out][:2]:
                self._attempt(call, key, arrived.get(key), watermark)
            self.run += 1
        states, late, rows = dict(self.states), 0.0, []
        for key in [*arrived, *timed_out]:
            answers = [self._attempt(call, key, arrived.get(key), watermark)]
            if self._chance(0.2):
                answers.append(self._attempt(call, key, arrived.get(key), watermark))
            state, own_rows, own_late = answers[self._chance(0.5) * (len(answers) - 1)]
            late += own_late
            rows += own_rows
            states.pop(key, None)
            if state.blob is not None:
                assert len(state.blob) < 64 << 10
                states[key] = (state.blob, state.timeout)
        self.states = states
        self.late.append(int(late))
        for row in rows:
            assert row[NUMBER] not in self.rows, f"row {row[NUMBER]} came out twice"
            self.rows[row[NUMBER]] = row
        self.batch += 1

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _attempt(
        self, call: StreamFunction, key: bytes, arrived: list[tuple[int, bytes]] | None, watermark: int
    ) -> tuple[StateOfSpark, list[Row], float]:
        blob, _ = self.states.get(key, (None, None))
        state = StateOfSpark(blob, watermark, arrived is None)
        frames = [
            pd.DataFrame(part, columns=["position", "packed"]) for part in self._in_parts(arrived or [])
        ]
        attempt = TaskAttempt(QUERY, str(self.run), self.batch, 0)
        stores = mock.Mock(store=lambda *_: nullcontext(self._store))
        with (
            mock.patch.object(TaskAttempt, "current", return_value=attempt),
            mock.patch.object(function, "OPEN_STORES", stores),
        ):
            answers = list(call((key,), iter(frames), state))  # type: ignore[arg-type]
        packed = [
            pa.RecordBatch.from_arrays([pa.array(each["packed"], pa.binary())], ["packed"])
            for each in answers
        ]
        rows, late = [], 0.0
        for batch in unpack(self._out, self._names, packed):
            columns = [values_of(column) for column in batch.columns]
            for values in zip(*columns, strict=True):
                row = dict(zip(batch.schema.names, values, strict=True))
                counts = row.pop(COUNTS)
                if counts is None:
                    rows.append(row)
                else:
                    late += counts[STREAM_SUMS.index("late")]
        return state, rows, late

    def _in_parts(self, arrived: list[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
        """As Spark hands them on: in any order, and so many that some parts have nothing but filling."""
        arrived = self._random.sample(arrived, len(arrived))
        size = self._random.randint(1, 8)
        return [arrived[start : start + size] for start in range(0, max(1, len(arrived)), size)]

    def blobs(self) -> list[bytes]:
        return [blob for key, (blob, _) in self.states.items() if key != QUERY_KEY]
