"""The function that Spark calls for each bucket of keys with rows in a micro-batch, or with a timeout."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from spark_integration.running.hang_up import HangUp
from spark_integration.running.messages import said_in_one_line
from spark_integration.running.metering import STREAM_SUMS, Meter
from spark_integration.streaming.backlog import HELD_ROWS
from spark_integration.streaming.bucket.task import BucketTask
from spark_integration.streaming.identity import decode_identity
from spark_integration.streaming.packing import POSITION, QUERY_KEY, ROWS, Filling, packed_counts
from spark_integration.streaming.plan import StreamPlan, Tools
from spark_integration.streaming.schema import concatenated, deserialized, serialized
from spark_integration.streaming.state import BucketState, decode_state
from spark_integration.streaming.storage import OPEN_STORES, TaskAttempt, partition_url

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState


class StreamFunction:
    __name__ = "rolling"

    def __init__(self, stream: StreamPlan) -> None:
        self._stream = stream
        self._tools: Tools | None = None
        self._filling = Filling(stream.gathered)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_tools": None}

    def __call__(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        hang_up = HangUp()
        with (
            hang_up.awaited() if TaskContext.get() is not None else nullcontext(),
            said_in_one_line(self._stream.plan.store),
        ):
            if bytes(key[0]) == QUERY_KEY:
                self._compare(frames, state)
            else:
                yield from self._rows(key, frames, state, hang_up)

    def _rows(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState, hang_up: HangUp
    ) -> Iterator[pd.DataFrame]:
        if self._tools is None:
            self._tools = Tools(self._stream)
        attempt = TaskAttempt.current()
        plan = self._stream.plan
        meter = Meter(on=True, sums=STREAM_SUMS)
        with OPEN_STORES.store(partition_url(plan.store, attempt), plan.store_options) as store:
            identity = self._stream.identity
            if state.exists:
                before = decode_state(bytes(state.get[0]), identity.fingerprint, identity.text)
            else:
                name = f"stream/{attempt.query}/{self._stream.operator}"
                before = BucketState(identity.fingerprint, name, int.from_bytes(key[0], "big"))
            clock = self._clock(state)
            task = BucketTask(self._tools, before, meter.metered(store), attempt, meter, clock)
            rows = task.rows(self._batches(frames))
            last: bytes | None = None
            try:
                for batch in rows:
                    if last is not None:
                        yield self._frame(last)
                    last = serialized(batch)
                after = task.save()
                if after is not None:
                    state.update((after.encode(),))
                    self._set_timeout(task.due, clock, state)
                elif state.exists:
                    state.remove()
            except BaseException:
                hang_up.cleaning = True
                task.give_up()
                raise
        # both in one frame, since a frame takes as long as a few short windows
        yield self._frame(*([] if last is None else [last]), packed_counts(meter))

    def _frame(self, *cells: bytes) -> pd.DataFrame:
        """A frame of one column, with empty rows behind the cells."""
        import pandas as pd

        count = len(cells) + self._filling.behind(sum(map(len, cells)))
        # from an array and an index that is there already: a fifth of the time of a dict
        array = np.full((count, 1), None, dtype=object)
        array[: len(cells), 0] = cells
        return pd.DataFrame(array, columns=_columns(), copy=False)

    def _compare(self, frames: Iterator[pd.DataFrame], state: GroupState) -> None:
        """Refuses to go on with the windows of another query."""
        for _ in frames:
            pass
        found = self._stream.identity
        before = bytes(state.get[0]) if state.exists else None
        if before is not None:
            found = found.after(decode_identity(before))
        if found.encode() != before:
            state.update((found.encode(),))

    def _batches(self, frames: Iterator[pd.DataFrame]) -> Iterator[pa.RecordBatch]:
        """Few and large batches, with rows in the order of the input, so that replays agree."""
        came: list[tuple[int, pa.RecordBatch]] = []
        count = 0
        for frame in frames:
            # its columns one by one cost more than a short window
            columns = list(frame.columns)
            position, packed = columns.index(POSITION), columns.index(ROWS)
            for row in frame.to_numpy().tolist():
                if row[packed] is not None:
                    batch = deserialized(row[packed], self._stream.rows.keyed)
                    came.append((row[position], batch))
                    count += batch.num_rows
                if count >= HELD_ROWS:
                    yield _in_order(came)
                    count = 0
        if came:
            yield _in_order(came)

    def _clock(self, state: GroupState) -> int | None:
        """In microseconds: the watermark, or the time of the micro-batch; None before there is one."""
        if self._stream.waits:
            watermark = state.getCurrentWatermarkMs()
            return watermark * 1000 if watermark > 0 else None
        return state.getCurrentProcessingTimeMs() * 1000 if self._stream.by_clock else None

    def _set_timeout(self, due: float | None, clock: int | None, state: GroupState) -> None:
        if due is None or not math.isfinite(due):
            return
        if self._stream.waits:
            # calls come when the watermark is beyond the timeout
            state.setTimeoutTimestamp(max(math.ceil(due / 1000) - 1, (clock or 0) // 1000, 1))
        elif clock is not None:
            state.setTimeoutDuration(max(1, math.ceil((due - clock) / 1000)))


def _in_order(came: list[tuple[int, pa.RecordBatch]]) -> pa.RecordBatch:
    """All batches as one, in the order of their positions; empties the list."""
    batches = [batch for _, batch in sorted(came, key=itemgetter(0))]
    came.clear()
    return concatenated(batches)


@cache
def _columns() -> pd.Index:
    import pandas as pd

    return pd.Index([ROWS])
