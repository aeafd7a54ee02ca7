"""Rows of Arrow through the windows of a bucket's keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mta.keyed.block import digest_at
from mta.keyed.group import Rows
from mta.keyed.long import LongKey
from mta.keyed.windows import KeyWindows
from mta.monoids.base import Array
from spark_integration.partition.chunks import Chunk, chunks
from spark_integration.partition.emitter import Emitter
from spark_integration.running.metering import Meter
from spark_integration.running.storage import spool_file
from spark_integration.streaming.bucket.arrivals import Arrivals
from spark_integration.streaming.plan import Tools, peers_of


class RowWindows:
    """Sorted rows go in; all rows of a key and time come together."""

    def __init__(self, tools: Tools, windows: KeyWindows, meter: Meter) -> None:
        self._tools, self._windows, self._meter = tools, windows, meter

    def slide(self, arrivals: Arrivals, seen: int, *, last: bool) -> Iterator[pa.RecordBatch]:
        """The rows with their aggregates; no more rows come after the `last` ones."""
        long = self._windows.are_long(arrivals.digests, arrivals.lengths)
        short = np.flatnonzero(~long)
        if len(short):
            yield from self._slide_short(arrivals.take(short), seen, last)
        for key in np.flatnonzero(long).tolist():
            batch, digest = arrivals.rows_of(key), digest_at(arrivals.digests, key)
            yield from self._slide_long(self._windows.long(digest), self._tools.rows(batch))
            youngest = self._tools.order.times(batch.slice(batch.num_rows - 1))[0]
            self._windows.put_long(digest, youngest, seen, last=last)
        self._windows.put_done()

    # -- short windows ----------------------------------------------------------------------------------

    def _slide_short(self, arrivals: Arrivals, seen: int, last: bool) -> Iterator[pa.RecordBatch]:
        tools, chunk = self._tools, self._tools.chunk(arrivals.batch)
        times = tools.order.times(arrivals.batch)
        values = [tools.values(chunk, program) for program in tools.programs]
        windows = self._windows.short(arrivals.digests, arrivals.lengths, times, values)
        keys = np.repeat(np.arange(len(arrivals.digests)), arrivals.lengths)
        for start, stop in windows.parts():
            results: dict[str, Any] = {}
            for number in range(len(tools.programs)):
                work = partial(windows.results, number)
                results.update(tools.blame.attempt(chunk, start, stop, work))
            spread = self._of_peers(keys[start:stop], times[start:stop], results)
            yield from tools.appender.appended(chunk, start, stop, spread)
        block, left = windows.after(seen)
        self._meter.add("evictions", left * len(tools.programs))
        self._windows.put_short(block, last=last)

    def _of_peers(self, keys: Array, times: Array, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """The results of the last row of each key and time, for all rows of that key and time."""
        if not self._tools.plan.frame.peers:
            return results
        last = peers_of(keys, times)
        if bool((last == np.arange(len(last))).all()):
            return results
        return {name: part.take(last) for name, part in results.items()}

    # -- long windows -----------------------------------------------------------------------------------

    def _slide_long(self, window: LongKey, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        plan, tools = self._tools.plan, self._tools
        emitter = Emitter(tools.appender, spool_file if plan.frame.peers else None)
        try:
            for chunk, last in chunks(iter([rows]), tools.wanted):
                times = tools.order.times_of(chunk.columns[plan.order[0].index])
                results = self._results(window, chunk, times if tools.timed else None)
                changed = np.zeros(chunk.rows, dtype=bool)
                yield from emitter.emitted(chunk, changed, times, results, last)
        finally:
            emitter.close()

    def _results(self, window: LongKey, chunk: Chunk, times: Array | None) -> dict[str, Any]:
        tools = self._tools
        results: dict[str, Any] = {}
        for number, (program, group) in enumerate(zip(tools.programs, window.groups, strict=True)):
            before, values = len(group), tools.values(chunk, program)

            def slide(
                start: int, stop: int, program: Any = program, group: Any = group, values: Any = values
            ) -> Any:
                stamps = None if times is None else times[start:stop]
                return group.slide(program.cut(values, start, stop), stamps, stop - start)

            repeatable = not tools.keyed.limits.predicates
            results.update(tools.blame.attempt(chunk, 0, chunk.rows, slide, repeatable=repeatable))
            self._meter.add("evictions", before + chunk.rows - len(group))
            window.note(number, Rows(values, times, chunk.rows))
        return results
