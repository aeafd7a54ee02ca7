"""The plan of a stream, and the objects that all buckets of a process share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mta import AmortizedMTA, LogMTA
from mta.checks import COLUMN_PAGE, OBJECT_PAGE
from mta.keyed.block import Shape
from mta.keyed.group import KeyedPlan
from spark_integration.aggregates.programs import Program
from spark_integration.aggregates.results import Results
from spark_integration.call.frames import Clock
from spark_integration.call.plan import Plan
from spark_integration.partition.blame import Blame
from spark_integration.partition.chunks import CHUNK_ROWS, Chunk
from spark_integration.partition.emitter import Appender
from spark_integration.streaming.identity import Identity
from spark_integration.streaming.schema import RowSchema
from spark_integration.streaming.sorting import Order


@dataclass
class StreamPlan:
    """A plan, and the settings of a stream."""

    plan: Plan
    operator: str
    identity: Identity
    rows: RowSchema
    #: how the first column of the order becomes times, whether windows need them or not
    clock: Clock
    #: whether rows wait until the watermark has passed them
    waits: bool
    #: a key is forgotten after this time without a row, in microseconds or the unit of the order column
    forget_after: float | None
    buckets: int
    #: rows that Spark gathers before it hands them on
    gathered: int = 0
    #: whether all rows come out of outer joins of streams, which have dropped the late rows. Rows without a
    #: partner come when the watermark has passed them; they are late if later rows have come out already
    after_outer_joins: bool = False

    @cached_property
    def span(self) -> float | None:
        """The longest time that a row is in the window of its key; None if the frame has no limit on time."""
        limits = self.plan.frame.policy.limits()
        return min((span for span, _ in limits.spans()), default=None)

    @cached_property
    def by_clock(self) -> bool:
        """Whether keys are forgotten by the time on the clock."""
        return not self.waits and self.forget_after is not None

    @cached_property
    def least(self) -> float | None:
        """The time after its last row at which a key is over; None for never."""
        if not self.waits:
            return self.forget_after
        return min((each for each in (self.span, self.forget_after) if each is not None), default=None)

    @cached_property
    def forgets_rows(self) -> bool:
        """Whether a forgotten key may have rows that would be in the window of a later row."""
        return self.forget_after is not None and (not self.waits or self.span is None)


class Tools:
    """The objects that all buckets of a process share."""

    def __init__(self, stream: StreamPlan) -> None:
        plan = stream.plan
        self.stream, self.plan = stream, plan
        self.programs = plan.programs()
        self.blame = Blame(plan.keys, plan.order)
        self.appender = Appender(Results(plan.aggregates, plan.zone), self.blame)
        self.order = Order(plan.order, stream.clock)
        wanted = {source.index for program in self.programs for source in program.inputs}
        self.wanted = sorted(wanted | {plan.order[0].index})
        self.timed = plan.frame.clock is not None
        self.keyed = KeyedPlan(
            shape=Shape(stream.clock == "whole", self.timed, tuple(map(_fields, self.programs))),
            programs=self.programs,
            policies=[plan.frame.policy] * len(self.programs),
            page_sizes=[
                plan.page_size or (COLUMN_PAGE if program.columnar else OBJECT_PAGE)
                for program in self.programs
            ],
            algorithm=LogMTA if plan.algorithm == "lmta" else AmortizedMTA,
        )

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without the key that stands behind them."""
        return pa.RecordBatch.from_arrays(batch.columns[:-1], schema=self.stream.rows.arrow)

    def chunk(self, batch: pa.RecordBatch) -> Chunk:
        """Rows with their key behind them as a chunk without it, in parts that go out one by one."""
        rows = self.rows(batch)
        parts = [rows.slice(start, CHUNK_ROWS) for start in range(0, rows.num_rows, CHUNK_ROWS)]
        return Chunk(parts, self.wanted)


def _fields(program: Program) -> tuple[tuple[str, np.dtype[Any]], ...]:
    kinds = {"whole": np.dtype(np.int64), "real": np.dtype(np.float64)}
    return tuple(
        (source.key, kinds[source.encoding] if program.columnar else np.dtype(object))  # type: ignore[index]
        for source in program.inputs
    )
