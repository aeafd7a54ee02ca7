"""One task: a partition sorted by key and order comes in batch by batch, and goes out with its aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from mta import AmortizedMTA, LogMTA
from mta.baselines import DABA
from mta.batch import join_results
from mta.monoids.base import Array
from mta.policies import Policy
from mta.states import layout_of
from spark_integration.chunks import Chunk, Keys, Times, chunks
from spark_integration.failures import Blame, said_in_one_line
from spark_integration.folds import first_rows, folds
from spark_integration.group import SHORT_WINDOW, Group
from spark_integration.metrics import Meter
from spark_integration.peers import Peers
from spark_integration.program import Plan, Program, Results, programs, without_nulls
from spark_integration.signals import HangUp
from spark_integration.storage import LEASE, TaskStorage


def run(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What `mapInArrow` calls for a partition."""
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


class Appender:
    """Puts the columns of results behind those of the rows."""

    def __init__(self, results: Results, blame: Blame | None = None) -> None:
        self._results, self._blame = results, blame or Blame((), ())

    def appended(
        self, chunk: Chunk, start: int, stop: int, results: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Rows start to stop of a chunk."""
        if start == stop:
            return

        def columns_of(first: int, last: int) -> list[pa.Array]:
            return self._results.columns({name: part[first:last] for name, part in results.items()})

        columns = self._blame.attempt(chunk, start, stop, columns_of)
        for batch, first in chunk.slices(start, stop):
            yield self._joined(batch, [column.slice(first - start, batch.num_rows) for column in columns])

    def repeated(
        self, batches: Iterable[pa.RecordBatch], result: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        """Batches whose rows all have one result."""
        columns = self._results.columns(result)
        for batch in batches:
            yield self._joined(batch, [_repeated(column, batch.num_rows) for column in columns])

    def _joined(self, batch: pa.RecordBatch, columns: list[pa.Array]) -> pa.RecordBatch:
        schema = pa.schema([*batch.schema, *self._results.fields])
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)


class _Task:
    def __init__(self, plan: Plan, storage: TaskStorage, meter: Meter) -> None:
        self._plan, self._storage, self._meter = plan, storage, meter
        self._programs = programs(plan)
        self._blame = Blame(plan.keys, plan.order)
        self._appender = Appender(Results(plan), self._blame)
        self._keys = Keys(plan.keys)
        self._clock = plan.frame.clock
        self._peers = Peers(storage.spool) if plan.frame.peers else None
        wanted = {source.index for program in self._programs for source in program.inputs}
        wanted |= {key.index for key in plan.keys}
        if self._clock is not None:
            wanted.add(plan.order[0].index)
        self._wanted = sorted(wanted)
        #: the policy of each program's windows
        self._policies = [without_nulls(plan.frame.policy, program.monoid) for program in self._programs]
        #: the windows of the group that goes on in the next chunk
        self._open: list[Any] = []
        #: rows that they took in
        self._taken = 0
        self._kind: int | None = None
        self._first = True

    def close(self) -> None:
        """Closes the windows, which deletes their pages."""
        self._close_windows()
        if self._peers is not None:
            self._peers.close()

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk, last in chunks(batches, self._wanted):
            yield from self._chunk(chunk, last)

    def _chunk(self, chunk: Chunk, last: bool) -> Iterator[pa.RecordBatch]:
        times = self._times(chunk)
        changed = self._keys.changes(chunk)
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
        if self._peers is None:
            yield from self._appender.appended(chunk, 0, chunk.rows, results)
            return
        assert stamps is not None
        released, start, stop, results = self._peers.settle(chunk, changed, stamps, results, last)
        if released is not None:
            yield from self._appender.repeated(self._peers.release(), released)
        yield from self._appender.appended(chunk, start, stop, results)
        self._peers.hold(chunk, stop)

    def _times(self, chunk: Chunk) -> Times | None:
        clock = self._clock
        if clock is None:
            return None
        column = chunk.columns[self._plan.order[0].index]
        return self._blame.attempt(
            chunk, 0, chunk.rows, lambda start, stop: Times(column.slice(start, stop - start), clock)
        )

    def _values(self, chunk: Chunk, program: Program) -> Any:
        def values_of(start: int, stop: int) -> Any:
            count = stop - start
            return program.values({i: each.slice(start, count) for i, each in chunk.columns.items()}, count)

        return self._blame.attempt(chunk, 0, chunk.rows, values_of)

    # -- windows ----------------------------------------------------------------------------------------

    def _slide(self, chunk: Chunk, changed: Array, times: Array | None, last: bool) -> dict[str, Any]:
        """A result for each row of a chunk; the last group stays open unless it is the last chunk."""
        starts = np.flatnonzero(changed)
        going = int(starts[0]) if len(starts) else chunk.rows  # rows of the group that was open
        # where the group starts that stays open
        opened = chunk.rows if last or not len(starts) else int(starts[-1])
        parts: list[list[Any]] = [[] for _ in self._programs]
        values = [self._values(chunk, program) for program in self._programs]
        if going:
            self._advance(chunk, parts, values, times, 0, going)
        if going < chunk.rows or last:
            self._close_windows()
        whole = starts[starts < opened]
        if len(whole):
            self._whole(chunk, parts, values, times, whole, opened)
        if opened < chunk.rows:
            self._open = [self._group(*pair) for pair in zip(self._programs, self._policies, strict=True)]
            self._advance(chunk, parts, values, times, opened, chunk.rows)
        results: dict[str, Any] = {}
        for found in parts:
            results.update(join_results(found))
        return results

    def _close_windows(self) -> None:
        for window in self._open:
            self._meter.add("evictions", self._taken - len(window))
            if isinstance(window, Group):
                if window.window is not None:
                    self._meter.add("cache_hits", window.window._pages.hits)
                    self._meter.add("cache_misses", window.window._pages.asked - window.window._pages.hits)
                window.close()
        self._open = []
        self._taken = 0

    def _group(self, program: Program, policy: Policy) -> Any:
        if self._plan.algorithm == "daba":
            return DABA(program.monoid, policy)
        most = min(SHORT_WINDOW, self._plan.page_size or SHORT_WINDOW)
        return Group(program, policy, lambda: self._window(program, policy), most)

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

    def _advance(
        self,
        chunk: Chunk,
        parts: list[list[Any]],
        values: list[Any],
        times: Array | None,
        start: int,
        stop: int,
    ) -> None:
        """The open windows take rows start to stop."""
        self._taken += stop - start
        for program, window, found, given in zip(self._programs, self._open, parts, values, strict=True):

            def slide(
                first: int, last: int, program: Any = program, window: Any = window, given: Any = given
            ) -> Any:
                stamps = None if times is None else times[first:last]
                rows = program.cut(given, first, last)
                if isinstance(window, Group):
                    return window.slide(rows, stamps, last - first)
                return window.slide(rows, stamps)

            found.append(self._blame.attempt(chunk, start, stop, slide, repeatable=not self._row_by_row))

    @property
    def _row_by_row(self) -> bool:
        """Whether windows take rows one by one, so that those before a row which fails are in."""
        return self._plan.algorithm == "daba" or self._plan.frame.by_predicate

    def _whole(
        self,
        chunk: Chunk,
        parts: list[list[Any]],
        values: list[Any],
        times: Array | None,
        starts: Array,
        stop: int,
    ) -> None:
        """Groups that begin and end in the chunk, from the first of `starts` to `stop`."""
        for program, policy, found, given in zip(self._programs, self._policies, parts, values, strict=True):

            def results(
                first: int, last: int, program: Any = program, policy: Any = policy, given: Any = given
            ) -> list[Any]:
                # of the groups that rows first to last are in, up to the last one
                inside = starts[(starts < last) & (np.append(starts[1:], stop) > first)]
                return self._results_of(program, policy, given, times, inside, last)

            begin = int(starts[0])
            found += self._blame.attempt(chunk, begin, stop, results)

    def _results_of(
        self, program: Program, policy: Policy, given: Any, times: Array | None, starts: Array, stop: int
    ) -> list[Any]:
        if self._row_by_row:
            ends = [*starts[1:].tolist(), stop]
            return [
                DABA(program.monoid, policy).slide(
                    program.cut(given, start, end), None if times is None else times[start:end]
                )
                for start, end in zip(starts.tolist(), ends, strict=True)
            ]
        begin = int(starts[0])
        layout = layout_of(program.monoid)
        states = layout.lift(layout.elements(program.cut(given, begin, stop)))
        stamps = None if times is None else times[begin:stop]
        firsts = first_rows(starts - begin, stop - begin, stamps, policy.limits())
        return [layout.lower(folds(layout, states, starts - begin, firsts))]


def _repeated(column: pa.Array, count: int) -> pa.Array:
    return column if count == 1 else pa.repeat(column[0], count)
