"""A task of a batch job: takes a partition, sorted by key and order, and appends the aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from mta import AmortizedMTA, LogMTA
from mta.baselines import DABA
from mta.core.states import join_results, layout_of
from mta.keyed.folds import first_rows, folds
from mta.keyed.group import SHORT_WINDOW, Group
from mta.monoids.base import Array
from mta.policies import Policy
from spark_integration.aggregates.programs import Program
from spark_integration.aggregates.results import Results
from spark_integration.call.plan import Plan
from spark_integration.partition.blame import Blame
from spark_integration.partition.chunks import Chunk, chunks
from spark_integration.partition.emitter import Appender, Emitter
from spark_integration.partition.key_changes import KeyChanges
from spark_integration.partition.times import Times
from spark_integration.running.hang_up import HangUp
from spark_integration.running.messages import said_in_one_line
from spark_integration.running.metering import Meter
from spark_integration.running.storage import LEASE, TaskStorage


def roll_partition(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition with their aggregates; `mapInArrow` calls it."""
    meter = Meter(plan.metered)
    hang_up = HangUp()
    with (
        hang_up.awaited() if TaskContext.get() is not None else nullcontext(),
        said_in_one_line(plan.store),
        TaskStorage(plan.store, plan.store_options) as storage,
    ):
        task = _Task(plan, storage, meter)
        try:
            yield from meter.attach(task.rows(batches), task.close)
        except MemoryError as error:
            if plan.algorithm != "daba":
                raise
            raise MemoryError(
                'the window no longer fits in the memory of a Python worker: algorithm="daba" keeps all of '
                'it there. Use algorithm="amta" with store="rocksdb" or the URL of a store, whose memory '
                "does not grow with the window"
            ) from error
        finally:
            hang_up.cleaning = True
            task.close()


class _Work(NamedTuple):
    """The work of one program in a chunk: the elements, and the results so far."""

    program: Program
    policy: Policy
    values: Any
    results: list[Any]


class _Task:
    def __init__(self, plan: Plan, storage: TaskStorage, meter: Meter) -> None:
        self._plan, self._storage, self._meter = plan, storage, meter
        self._programs = plan.programs()
        self._blame = Blame(plan.keys, plan.order)
        self._key_changes = KeyChanges(plan.keys)
        self._clock = plan.frame.clock
        appender = Appender(Results(plan.aggregates, plan.zone), self._blame)
        self._emitter = Emitter(appender, storage.spool if plan.frame.peers else None)
        wanted = {source.index for program in self._programs for source in program.inputs}
        wanted |= {key.index for key in plan.keys}
        if self._clock is not None:
            wanted.add(plan.order[0].index)
        self._wanted = sorted(wanted)
        #: the policy of each program's windows
        self._policies = [plan.frame.policy] * len(self._programs)
        #: the windows of the group that continues in the next chunk
        self._open: list[Any] = []
        #: the number of rows that they took in
        self._taken = 0
        self._kind: int | None = None
        self._first = True

    def close(self) -> None:
        """Closes the windows, which deletes their pages."""
        self._close_windows()
        self._emitter.close()

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk, last in chunks(batches, self._wanted):
            yield from self._chunk(chunk, last)

    def _chunk(self, chunk: Chunk, last: bool) -> Iterator[pa.RecordBatch]:
        times = self._times(chunk)
        changed = self._key_changes.changes(chunk)
        if not self._plan.keys:
            changed[0] = self._first
        if times is not None:
            changed[1:] |= times.kind_changes()
            changed[0] |= times.kind_at(0) != self._kind
            self._kind = times.kind_at(chunk.rows - 1)
        changed[0] |= self._first
        self._first = False
        stamps = None if times is None else times.values
        results = self._slide(chunk, changed, stamps, last)
        self._meter.add("rows", chunk.rows)
        yield from self._emitter.emitted(chunk, changed, stamps, results, last)

    def _times(self, chunk: Chunk) -> Times | None:
        clock = self._clock
        if clock is None:
            return None
        column = chunk.columns[self._plan.order[0].index]
        return self._blame.attempt(
            chunk, 0, chunk.rows, lambda start, stop: Times(column.slice(start, stop - start), clock)
        )

    def _slide(self, chunk: Chunk, changed: Array, times: Array | None, last: bool) -> dict[str, Any]:
        """A result for each row of a chunk; the last group stays open unless it is the last chunk."""
        starts = np.flatnonzero(changed)
        going = int(starts[0]) if len(starts) else chunk.rows  # rows of the group that was open
        # where the group starts that stays open
        opened = chunk.rows if last or not len(starts) else int(starts[-1])
        pairs = zip(self._programs, self._policies, strict=True)
        work = [_Work(program, policy, self._blame.values(chunk, program), []) for program, policy in pairs]
        if going:
            self._advance(chunk, work, times, 0, going)
        if going < chunk.rows or last:
            self._close_windows()
        whole = starts[starts < opened]
        if len(whole):
            self._whole(chunk, work, times, whole, opened)
        if opened < chunk.rows:
            self._open = [self._group(each.program, each.policy) for each in work]
            self._advance(chunk, work, times, opened, chunk.rows)
        results: dict[str, Any] = {}
        for each in work:
            results.update(join_results(each.results))
        return results

    def _close_windows(self) -> None:
        for window in self._open:
            self._meter.add("evictions", self._taken - len(window))
            if isinstance(window, Group):
                if window.window is not None:
                    asked, hits = window.window.pages_read
                    self._meter.add("cache_hits", hits)
                    self._meter.add("cache_misses", asked - hits)
                window.close()
        self._open = []
        self._taken = 0

    def _group(self, program: Program, policy: Policy) -> Any:
        if self._plan.algorithm == "daba":
            return DABA(program.monoid, policy)
        most = min(SHORT_WINDOW, self._plan.page_size or SHORT_WINDOW)
        return Group(program, policy, lambda: self._window(program, policy), most)

    def _in_memory(self, program: Program, policy: Policy) -> Any:
        """A window for a group that is whole."""
        if self._plan.algorithm != "daba" and policy.limits().of_rest:
            # DABA would ask the predicate by a subtraction
            return AmortizedMTA(program.monoid, policy, page_size=self._plan.page_size)
        return DABA(program.monoid, policy)

    def _window(self, program: Program, policy: Policy) -> Any:
        kind = LogMTA if self._plan.algorithm == "lmta" else AmortizedMTA
        self._meter.add("windows", 1)
        return kind(
            program.monoid,
            policy,
            store=self._meter.metered(self._storage.store),
            name=self._storage.next_name(),
            page_size=self._plan.page_size,
            lease=LEASE,
        )

    def _advance(self, chunk: Chunk, work: list[_Work], times: Array | None, start: int, stop: int) -> None:
        """The open windows take rows start to stop."""
        self._taken += stop - start
        for each, window in zip(work, self._open, strict=True):

            def slide(first: int, last: int, each: _Work = each, window: Any = window) -> Any:
                stamps = None if times is None else times[first:last]
                rows = each.program.cut(each.values, first, last)
                if isinstance(window, Group):
                    return window.slide(rows, stamps, last - first)
                return window.slide(rows, stamps)

            repeatable = not self._plan.row_by_row
            each.results.append(self._blame.attempt(chunk, start, stop, slide, repeatable=repeatable))

    def _whole(self, chunk: Chunk, work: list[_Work], times: Array | None, starts: Array, stop: int) -> None:
        """Groups that begin and end in the chunk, from the first of `starts` to `stop`."""
        for each in work:

            def results(first: int, last: int, each: _Work = each) -> list[Any]:
                # of the groups that rows first to last are in, up to the last one
                inside = starts[(starts < last) & (np.append(starts[1:], stop) > first)]
                return self._results_of(each, times, inside, last)

            each.results.extend(self._blame.attempt(chunk, int(starts[0]), stop, results))

    def _results_of(self, work: _Work, times: Array | None, starts: Array, stop: int) -> list[Any]:
        program, policy, values, _ = work
        if self._plan.row_by_row:
            ends = [*starts[1:].tolist(), stop]
            return [
                self._in_memory(program, policy).slide(
                    program.cut(values, start, end), None if times is None else times[start:end]
                )
                for start, end in zip(starts.tolist(), ends, strict=True)
            ]
        begin = int(starts[0])
        layout = layout_of(program.monoid)
        states = layout.lift(layout.elements(program.cut(values, begin, stop)))
        stamps = None if times is None else times[begin:stop]
        firsts = first_rows(starts - begin, stop - begin, stamps, policy.limits())
        return [layout.lower(folds(layout, states, starts - begin, firsts))]
