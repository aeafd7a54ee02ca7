"""What Spark calls for each key of a micro-batch, and for keys whose time has come."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from mta.durability.attempts import retire
from spark_integration.running.hang_up import HangUp
from spark_integration.running.messages import said_in_one_line
from spark_integration.running.metering import STREAM_SUMS, Meter
from spark_integration.streaming.backlog import has_rows
from spark_integration.streaming.identity import decode_identity
from spark_integration.streaming.packing import PLACE, QUERY_KEY, ROWS, packed_counts
from spark_integration.streaming.schema import deserialized, serialized
from spark_integration.streaming.state import KeyState, decode_state
from spark_integration.streaming.storage import SHELF, Place, partition_url
from spark_integration.streaming.task import KeyTask, StreamPlan, Tools
from stores import Store

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState


class StreamFunction:
    __name__ = "rolling"

    def __init__(self, stream: StreamPlan) -> None:
        self._stream = stream
        self._tools: Tools | None = None

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
        place = Place.here()
        plan = self._stream.plan
        meter = Meter(on=True, sums=STREAM_SUMS)
        with SHELF.store(partition_url(plan.store, place), plan.store_options) as store:
            key_state = self._loaded(key[0], state, place)
            watermark = self._watermark(state)
            if state.hasTimedOut and self._is_over(key_state, watermark):
                self._forget(key_state, state, store, place, watermark)
                return
            task = KeyTask(self._tools, key_state, meter.metered(store), place, meter, watermark)
            rows = task.rows(self._batches(frames))
            last: bytes | None = None
            try:
                for batch in rows:
                    if last is not None:
                        yield _frame(last)
                    last = serialized(batch)
                if not task.empty or state.exists:
                    state.update((task.save().encode(),))
                    self._set_timeout(key_state, task.waiting, state, watermark)
            except BaseException:
                hang_up.cleaning = True
                task.give_up()
                raise
        # together, since a frame takes as long as a short window
        yield _frame(*([] if last is None else [last]), packed_counts(meter))

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

    def _loaded(self, digest: bytes, state: GroupState, place: Place) -> KeyState:
        if state.exists:
            identity = self._stream.identity
            return decode_state(bytes(state.get[0]), identity.fingerprint, identity.text)
        name = f"stream/{place.query}/{self._stream.operator}/{bytes(digest).hex()}"
        return KeyState(self._stream.identity.fingerprint, name)

    def _batches(self, frames: Iterator[pd.DataFrame]) -> Iterator[pa.RecordBatch]:
        for frame in frames:
            # its columns one by one cost more than a short window
            columns = list(frame.columns)
            place, rows = columns.index(PLACE), columns.index(ROWS)
            # as they came, whichever part of the shuffle was fetched first, so that a replay gives the same
            for _, packed in sorted((row[place], row[rows]) for row in frame.to_numpy().tolist()):
                yield deserialized(packed, self._stream.rows.arrow)

    # -- time -------------------------------------------------------------------------------------------

    def _watermark(self, state: GroupState) -> int | None:
        """In microseconds; None before there is one."""
        if not self._stream.waits:
            return None
        watermark = state.getCurrentWatermarkMs()
        return watermark * 1000 if watermark > 0 else None

    def _over_at(self, state: KeyState) -> float | None:
        """The time at which nothing of the key can be in a window any more, or when it is to be forgotten."""
        if state.youngest is None or not self._stream.waits:
            return None
        limits = self._stream.plan.frame.policy.limits()
        spans = [limits.open_span, limits.closed_span, self._stream.forget_after]
        least = min((span for span in spans if span is not None), default=None)
        return None if least is None else state.youngest + least

    def _is_over(self, state: KeyState, watermark: int | None) -> bool:
        if not self._stream.waits:
            return True  # it timed out by the clock
        if has_rows(state.backlog):
            return False
        over = self._over_at(state)
        return not state.windows or (over is not None and watermark is not None and watermark >= over)

    def _forget(
        self, key_state: KeyState, state: GroupState, store: Store, place: Place, watermark: int | None
    ) -> None:
        """Removes the state, at once if the store has nothing of the key, and else with the next call.

        A replay of this micro-batch needs the pages again; one of the next one does not.
        """
        for name in key_state.retired:
            retire(store, name, place.batch)
        if not key_state.stored:
            state.remove()
            return
        gone = KeyState(key_state.plan, key_state.name, retired=key_state.stored)
        state.update((gone.encode(),))
        if self._stream.waits:
            state.setTimeoutTimestamp(max(1, (watermark or 0) // 1000))
        else:
            state.setTimeoutDuration(1)

    def _set_timeout(
        self, key_state: KeyState, waiting: Any, state: GroupState, watermark: int | None
    ) -> None:
        if not self._stream.waits:
            if self._stream.forget_after is not None:
                state.setTimeoutDuration(max(1, math.ceil(self._stream.forget_after / 1000)))
            return
        due = waiting if waiting is not None else self._over_at(key_state)
        if due is not None:
            # calls come when the watermark is beyond the timeout
            at = math.ceil(due / 1000) - 1
            state.setTimeoutTimestamp(max(at, (watermark or 0) // 1000, 1))


@cache
def _columns() -> pd.Index:
    import pandas as pd

    return pd.Index([ROWS])


def _frame(*cells: bytes) -> pd.DataFrame:
    import pandas as pd

    # from an array and an index that is there already: a fifth of the time of a dict
    array = np.empty((len(cells), 1), dtype=object)
    array[:, 0] = cells
    return pd.DataFrame(array, columns=_columns(), copy=False)
