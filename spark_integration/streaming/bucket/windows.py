"""Rows of Arrow, sorted by key, through the windows of a bucket's keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mta.keyed.block import digest_at, digests_of, ranges
from mta.keyed.group import Rows
from mta.keyed.long import LongKey
from mta.keyed.windows import KeyWindows
from mta.monoids.base import Array
from spark_integration.partition.chunks import Chunk, chunks
from spark_integration.partition.emitter import Emitter
from spark_integration.partition.times import Times
from spark_integration.running.metering import Meter
from spark_integration.running.storage import spool_file
from spark_integration.streaming.plan import Tools


@dataclass(frozen=True)
class Arrivals:
    """Rows sorted by the digests of their keys; the rows of a key keep their order."""

    digests: Array
    #: the number of rows of each key
    lengths: Array
    batch: pa.RecordBatch

    def take(self, keys: Array) -> Arrivals:
        """Some keys, by ascending indices."""
        if len(keys) == len(self.digests):
            return self
        lengths = self.lengths[keys]
        rows = ranges(np.cumsum(self.lengths)[keys] - lengths, lengths)
        return Arrivals(self.digests[keys], lengths, self.batch.take(pa.array(rows)))


def by_key(batch: pa.RecordBatch) -> Arrivals:
    """The rows of a batch whose last column has the digests of their keys."""
    digests, keys = keys_of(batch)
    lengths = np.bincount(keys, minlength=len(digests))
    if len(digests) > 1:
        # small numbers are sorted by their digits
        small = keys.astype(np.uint16) if len(digests) < 1 << 16 else keys
        batch = batch.take(pa.array(np.argsort(small, kind="stable")))
    return Arrivals(digests, lengths, batch)


def keys_of(batch: pa.RecordBatch) -> tuple[Array, Array]:
    """The digests of a batch in their order, and for each row the index of its digest."""
    encoded = batch.column(batch.num_columns - 1).dictionary_encode()
    _, data = encoded.dictionary.buffers()
    found = digests_of(data)[: len(encoded.dictionary)]
    order = np.argsort(found)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return found[order], ranks[encoded.indices.to_numpy(zero_copy_only=False)]


def last_times(batch: pa.RecordBatch, times: Array) -> tuple[Array, Array]:
    """The digests of a batch in their order, and for each the greatest of its rows' times."""
    digests, keys = keys_of(batch)
    found = np.full(len(digests), times.min())
    np.maximum.at(found, keys, times)
    return digests, found


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
        ends, lengths = np.cumsum(arrivals.lengths).tolist(), arrivals.lengths.tolist()
        for key in np.flatnonzero(long).tolist():
            batch = arrivals.batch.slice(ends[key] - lengths[key], lengths[key])
            digest = digest_at(arrivals.digests, key)
            yield from self._slide_long(self._windows.long(digest), self._tools.rows(batch))
            youngest = self._tools.order.times(batch.slice(batch.num_rows - 1))[0]
            self._windows.put_long(digest, youngest, seen, last=last)
        self._windows.put_done()

    def _slide_short(self, arrivals: Arrivals, seen: int, last: bool) -> Iterator[pa.RecordBatch]:
        tools, chunk = self._tools, self._tools.chunk(arrivals.batch)
        times = tools.order.times(arrivals.batch)
        values = [tools.blame.values(chunk, program) for program in tools.programs]
        windows = self._windows.short(arrivals.digests, arrivals.lengths, times, values)
        keys = np.repeat(np.arange(len(arrivals.digests)), arrivals.lengths)
        for start, stop in windows.parts():
            results: dict[str, Any] = {}
            for number in range(len(tools.programs)):
                work = partial(windows.results, number)
                results.update(tools.blame.attempt(chunk, start, stop, work))
            if tools.plan.frame.peers:
                results = _of_peers(keys[start:stop], times[start:stop], results)
            yield from tools.appender.appended(chunk, start, stop, results)
        block, left = windows.after(seen)
        self._meter.add("evictions", left * len(tools.programs))
        self._windows.put_short(block, last=last)

    def _slide_long(self, window: LongKey, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        plan, tools = self._tools.plan, self._tools
        emitter = Emitter(tools.appender, spool_file if plan.frame.peers else None)
        try:
            for chunk, last in chunks(iter([rows]), tools.wanted):
                times = Times(chunk.columns[plan.order[0].index], tools.stream.clock).values
                results = self._results(window, chunk, times if tools.timed else None)
                changed = np.zeros(chunk.rows, dtype=bool)
                yield from emitter.emitted(chunk, changed, times, results, last)
        finally:
            emitter.close()

    def _results(self, window: LongKey, chunk: Chunk, times: Array | None) -> dict[str, Any]:
        tools = self._tools
        results: dict[str, Any] = {}
        for number, (program, group) in enumerate(zip(tools.programs, window.groups, strict=True)):
            before, values = len(group), tools.blame.values(chunk, program)

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


def _of_peers(keys: Array, times: Array, results: dict[str, Any]) -> dict[str, Any]:
    """The results of the last row of each key and time, for all rows of that key and time."""
    count = len(times)
    begins = np.ones(count, dtype=bool)
    begins[1:] = (times[1:] != times[:-1]) | (keys[1:] != keys[:-1])
    if begins.all():
        return results
    firsts = np.flatnonzero(begins)
    last = np.repeat(np.append(firsts[1:], count) - 1, np.diff(firsts, append=count))
    return {name: part.take(last) for name, part in results.items()}
