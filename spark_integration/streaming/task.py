"""One key in one micro-batch: its rows come in, in no order, and go out with their aggregates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mta import AmortizedMTA, LogMTA
from mta.checks import COLUMN_PAGE, OBJECT_PAGE
from mta.durability.attempts import AttemptHold, retire
from mta.durability.coding import pack_version, unpack_version
from mta.durability.manifest import Version
from mta.monoids.base import Array
from mta.versioned import open_version, save_version
from spark_integration.aggregates.predicates import without_nulls
from spark_integration.aggregates.programs import Program
from spark_integration.aggregates.results import Results
from spark_integration.call.frames import Clock
from spark_integration.call.plan import Plan
from spark_integration.partition.blame import Blame
from spark_integration.partition.chunks import Chunk, chunks
from spark_integration.partition.emitter import Appender, Emitter
from spark_integration.partition.group import SHORT_WINDOW, Group
from spark_integration.partition.task import run
from spark_integration.partition.times import Times
from spark_integration.running.metering import Meter
from spark_integration.running.storage import spool_file
from spark_integration.streaming.backlog import HELD_ROWS, Backlog, Held
from spark_integration.streaming.identity import Identity
from spark_integration.streaming.schema import RowSchema, concatenated
from spark_integration.streaming.sorting import MemoryRun, Order, Run, merged
from spark_integration.streaming.spill import Spills, spilled
from spark_integration.streaming.state import (
    INLINE_ROWS,
    INLINE_TAILS,
    KeyState,
    pack_rows,
    size_of,
    unpack_rows,
)
from spark_integration.streaming.storage import LEASE, Place
from stores import Store, StoreError


@dataclass
class StreamPlan:
    """What a stream adds to a plan."""

    plan: Plan
    operator: str
    identity: Identity
    rows: RowSchema
    #: how the time column, the first of the order, becomes times; its windows may not need them
    clock: Clock
    #: whether rows wait until the watermark has passed them
    waits: bool
    #: microseconds (or the order column's unit) without a row after which a key is forgotten
    forget_after: float | None


class Tools:
    """What all keys of a process share."""

    def __init__(self, stream: StreamPlan) -> None:
        plan = stream.plan
        self.stream, self.plan = stream, plan
        self.programs = plan.programs()
        self.policies = [without_nulls(plan.frame.policy, program.monoid) for program in self.programs]
        self.blame = Blame(plan.keys, plan.order)
        self.appender = Appender(Results(plan.aggregates, plan.zone), self.blame)
        self.order = Order(plan.order, stream.clock)
        wanted = {source.index for program in self.programs for source in program.inputs}
        self.wanted = sorted(wanted | {plan.order[0].index})


class KeyTask:
    def __init__(
        self, tools: Tools, state: KeyState, store: Store, place: Place, meter: Meter, watermark: int | None
    ) -> None:
        self._tools, self._state, self._store, self._place = tools, state, store, place
        self._meter = meter
        #: rows with times up to it are complete; None where there is no watermark (yet)
        self._watermark = watermark
        self._holds: dict[str, AttemptHold] = {}
        for name in state.retired:
            retire(store, name, place.batch)
        state.retired = []
        self._groups = [self._group(number) for number in range(len(tools.programs))]
        self._backlog: Backlog | None = None
        if tools.stream.waits:
            self._backlog = Backlog(
                state.backlog,
                f"{state.name}/rows",
                store=store,
                make_hold=self._hold,
                schema=tools.stream.rows,
                order=tools.order,
            )

    # -- rows -------------------------------------------------------------------------------------------

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Takes in the rows of the key, and gives those that are complete with their aggregates."""
        untimed: list[pa.RecordBatch] = []
        with Spills(spool_file) as spills:
            runs = self._taken_in(batches, untimed, spills)
            if self._backlog is None:
                ready = merged(runs, self._tools.order)
            elif self._watermark is not None:
                ready = self._backlog.take(self._watermark)
            else:
                ready = iter(())
            for batch in self._slid(ready):
                self._meter.add("rows", batch.num_rows)
                yield batch
        if untimed:
            whole = self._tools.order.untimed_sorted(concatenated(untimed))
            self._meter.add("rows", whole.num_rows)
            yield from run(self._tools.plan, [whole])

    def _taken_in(
        self, batches: Iterable[pa.RecordBatch], untimed: list[pa.RecordBatch], spills: Spills
    ) -> list[Run]:
        """The rows that are not late, sorted: in the backlog, or as runs."""
        order = self._tools.order
        runs: list[Run] = []
        held = Held()
        for batch in batches:
            batch, without = self._timed(batch)
            if without is not None:
                untimed.append(without)
            batch = self._not_late(batch)
            if not batch.num_rows:
                continue
            if self._backlog is not None:
                self._backlog.add(batch)
                continue
            held.add(batch)
            if held.rows >= HELD_ROWS:
                runs.extend(spilled(order.sorted(concatenated(held.released())), order, spills))
        if held.rows:
            runs.append(MemoryRun(order.sorted(concatenated(held.released())), order))
        return runs

    def _timed(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        def timed(start: int, stop: int) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
            return self._tools.order.timed(batch.slice(start, stop - start))

        return self._tools.blame.attempt(Chunk([batch], []), 0, batch.num_rows, timed)

    def _not_late(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        times = self._tools.order.times(batch)
        if self._backlog is not None:
            on_time = None if self._watermark is None else times > self._watermark
        else:
            on_time = None if self._state.youngest is None else times >= self._state.youngest
        if on_time is None or bool(on_time.all()):
            return batch
        self._meter.add("late", int(batch.num_rows - np.count_nonzero(on_time)))
        return batch.take(pa.array(np.flatnonzero(on_time)))

    def _slid(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sorted rows, with the aggregates of their windows."""
        plan, appender = self._tools.plan, self._tools.appender
        emitter = Emitter(appender, spool_file if plan.frame.peers else None)
        try:
            for chunk, last in chunks(batches, self._tools.wanted):
                times = Times(chunk.columns[plan.order[0].index], self._tools.stream.clock).values
                results = self._slide(chunk, times if plan.frame.clock is not None else None)
                self._state.youngest = times[-1].item()
                changed = np.zeros(chunk.rows, dtype=bool)
                yield from emitter.emitted(chunk, changed, times, results, last)
        finally:
            emitter.close()

    def _slide(self, chunk: Chunk, times: Array | None) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for program, group in zip(self._tools.programs, self._groups, strict=True):
            before = len(group)
            results.update(self._slide_one(chunk, times, program, group))
            self._meter.add("evictions", before + chunk.rows - len(group))
        return results

    def _slide_one(self, chunk: Chunk, times: Array | None, program: Program, group: Group) -> Any:
        def values_of(start: int, stop: int) -> Any:
            count = stop - start
            columns = {index: each.slice(start, count) for index, each in chunk.columns.items()}
            return program.values(columns, count)

        def slide(start: int, stop: int) -> Any:
            stamps = None if times is None else times[start:stop]
            return group.slide(program.cut(values, start, stop), stamps, stop - start)

        blame, repeatable = self._tools.blame, not self._tools.plan.frame.by_predicate
        values = blame.attempt(chunk, 0, chunk.rows, values_of)
        return blame.attempt(chunk, 0, chunk.rows, slide, repeatable=repeatable)

    # -- windows ----------------------------------------------------------------------------------------

    def _group(self, number: int) -> Group:
        program, policy = self._tools.programs[number], self._tools.policies[number]
        saved = self._state.windows[number] if self._state.windows else None
        page_size = self._tools.plan.page_size or (COLUMN_PAGE if program.columnar else OBJECT_PAGE)

        def opened(base: Version | None, size: int) -> Any:
            name = f"{self._state.name}/{number}"
            kind = LogMTA if self._tools.plan.algorithm == "lmta" else AmortizedMTA
            return open_version(
                kind,
                program.monoid,
                policy,
                self._hold(name, size, base),
                store=self._store,
                name=name,
                page_size=size,
                base=base,
                inline=self._inline(size),
            )

        group = Group(program, policy, lambda: opened(None, page_size), min(SHORT_WINDOW, page_size))
        if saved is not None and saved[0] == "rows":
            group.restore(*unpack_rows(saved))
        elif saved is not None:
            _, size, packed = saved
            group.adopt(opened(unpack_version(size.bit_length() - 1, packed), size))
        return group

    def _inline(self, page_size: int) -> int:
        """Bytes of each tail that may stand in the blob: all tails together are small at any page size."""
        tiers = math.ceil(40 / (page_size.bit_length() - 1))
        return INLINE_TAILS // tiers

    def _hold(self, name: str, page_size: int, base: Version | None) -> AttemptHold:
        place = self._place
        hold = AttemptHold(self._store, name, page_size, base, batch=place.batch, run=place.run, lease=LEASE)
        self._holds[name] = hold
        return hold

    # -- out --------------------------------------------------------------------------------------------

    def save(self) -> KeyState:
        """The state of the key after this micro-batch; what it names is in the store."""
        state = self._state
        state.windows = [
            self._saved(group, f"{state.name}/{number}") for number, group in enumerate(self._groups)
        ]
        self._groups = []
        if self._backlog is not None:
            state.backlog, version = self._backlog.save(self._place.batch)
            if version is not None:
                self._is_stored(f"{state.name}/rows")
        self._clear_up_after_others()
        return state

    def _clear_up_after_others(self) -> None:
        """Removes what attempts at the windows of this key have left that are surely gone."""
        for name, hold in self._holds.items():
            if hold.beside_gone:
                from mta.durability.operations import collect_window  # which few tasks need

                with suppress(StoreError):
                    collect_window(self._store, name)

    def _saved(self, group: Group, name: str) -> list[Any]:
        if group.window is None:
            values, times, count = group.rows
            packed = pack_rows(values, times, count)
            if size_of(packed) <= INLINE_ROWS:
                return packed
            group.move()
        hold, window = self._holds[name], group.window
        asked, hits = window.pages_read
        self._meter.add("cache_hits", hits)
        self._meter.add("cache_misses", asked - hits)
        version = save_version(window, self._place.batch)
        if hold.claimed:
            self._is_stored(name)
        return ["window", window.page_size, pack_version(version)]

    def _is_stored(self, name: str) -> None:
        if name not in self._state.stored:
            self._state.stored.append(name)

    def give_up(self) -> None:
        """Removes what was written, where that is possible; the rest is left for `mta gc`."""
        with suppress(Exception):
            for group in self._groups:
                group.close()
            if self._backlog is not None:
                self._backlog.give_up()

    @property
    def waiting(self) -> Any:
        """The least time of a row that waits for the watermark; None if there is none."""
        return self._backlog.first if self._backlog else None

    @property
    def empty(self) -> bool:
        """Whether the key has had no row with a result yet, and none waits."""
        return self._state.youngest is None and not self._backlog
