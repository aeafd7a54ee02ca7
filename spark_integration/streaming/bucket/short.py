"""Keys whose windows are short: the results of all their rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mta.core.states import layout_of
from mta.keyed.block import Block, end_to_end, ranges, taken
from mta.keyed.folds import first_rows, folds
from mta.monoids.base import Array
from spark_integration.aggregates.programs import Program
from spark_integration.partition.chunks import Chunk
from spark_integration.streaming.bucket.arrivals import Arrivals
from spark_integration.streaming.plan import Tools, elements, peers_of

#: Rows of windows whose results are computed together, unless one key has more.
PART_ROWS = 1 << 15


class ShortWindows:
    """The rows that keys had, `before`, and behind them those that came, key by key."""

    def __init__(self, tools: Tools, before: Block, arrivals: Arrivals) -> None:
        self._tools, self._arrivals = tools, arrivals
        self._chunk = tools.chunk(arrivals.batch)
        keys = len(arrivals.digests)
        known = arrivals_places(arrivals.digests, before)
        had = np.zeros(keys, dtype=np.int64)
        had[known] = before.rows
        #: where each key begins, and how many rows it has
        self._lengths = had + arrivals.lengths
        self._starts = np.cumsum(self._lengths) - self._lengths
        #: where the rows stand that came
        self._places = ranges(self._starts + had, arrivals.lengths)
        #: the order of all rows, of which those before come first
        order = np.empty(int(self._lengths.sum()), dtype=np.int64)
        order[ranges(self._starts[known], before.rows)] = np.arange(len(order) - len(self._places))
        order[self._places] = np.arange(len(order) - len(self._places), len(order))
        self._order = order
        self._before = before
        self._keys = np.repeat(np.arange(keys), arrivals.lengths)
        self._times = tools.order.times(arrivals.batch)
        self._stamps: Array | None = None
        if tools.timed:
            assert before.times is not None
            self._stamps = np.concatenate([before.times, self._times])[order]
        limits = tools.plan.frame.policy.limits()
        self._firsts = first_rows(self._starts, len(order), self._stamps, limits)
        self._values = [self._elements(number) for number in range(len(tools.programs))]

    def _elements(self, number: int) -> dict[str, Any]:
        """The rows of a program, by key."""
        program, before = self._tools.programs[number], self._before.values[number]
        if not program.inputs:
            return {}
        came = self._tools.values(self._chunk, program)
        return {name: taken(end_to_end([before[name], came[name]]), self._order) for name in before}

    # -- results ----------------------------------------------------------------------------------------

    def results(self) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
        """Those of the rows that came, part by part: of the rows from here to there."""
        values = [elements(each, len(self._order)) for each in self._values]
        for start, stop in self._parts():
            found: dict[str, Any] = {}
            for program, each in zip(self._tools.programs, values, strict=True):
                found.update(self._results_of(program, each, start, stop))
            yield start, stop, self._of_peers(found, start, stop)

    def _parts(self) -> Iterator[tuple[int, int]]:
        """From which to which of the rows that came: those of some keys."""
        ends, arrived = np.cumsum(self._lengths), np.cumsum(self._arrivals.lengths)
        first = 0
        while first < len(ends):
            before = int(self._starts[first])
            last = max(first, int(np.searchsorted(ends, before + PART_ROWS, "right")) - 1)
            yield int(arrived[first] - self._arrivals.lengths[first]), int(arrived[last])
            first = last + 1

    def _of_peers(self, found: Mapping[str, Any], start: int, stop: int) -> Mapping[str, Any]:
        """All rows of a key and time have the results of the last of them."""
        if not self._tools.plan.frame.peers:
            return found
        last = peers_of(self._keys[start:stop], self._times[start:stop])
        if bool((last == np.arange(len(last))).all()):
            return found
        return {name: part.take(last) for name, part in found.items()}

    def _results_of(self, program: Program, values: Any, start: int, stop: int) -> Any:
        layout = layout_of(program.monoid)

        def results(start: int, stop: int) -> Any:
            """Of some of the rows that came, from all that their windows hold."""
            places = self._places[start:stop]
            first, last = int(self._firsts[places[0]]), int(places[-1]) + 1
            states = layout.lift(layout.elements(program.cut(values, first, last)))
            inner = self._starts[(self._starts > first) & (self._starts < last)] - first
            firsts = np.maximum(self._firsts[first:last] - first, 0)
            found = folds(layout, states, np.concatenate([[0], inner]), firsts)
            return layout.lower(layout.take(found, places - first))

        return self._tools.blame.attempt(self._chunk, start, stop, results)

    @property
    def chunk(self) -> Chunk:
        """The rows that came, key by key."""
        return self._chunk

    # -- what stays -------------------------------------------------------------------------------------

    def after(self, seen: int) -> tuple[Block, int]:
        """The keys with the rows that are in their windows now, and how many rows have left."""
        arrivals = self._arrivals
        last = self._starts + self._lengths - 1
        first = self._firsts[last]
        counts = last + 1 - first
        rows = ranges(first, counts)
        youngest = self._times[np.cumsum(arrivals.lengths) - 1]
        known = arrivals_places(arrivals.digests, self._before)
        # of which some rows may be still to come
        youngest[known] = np.maximum(youngest[known], self._before.youngest)
        block = Block(
            arrivals.digests,
            youngest,
            np.full(len(counts), seen, dtype=np.int64),
            counts,
            None if self._stamps is None else self._stamps[rows],
            [{name: taken(column, rows) for name, column in each.items()} for each in self._values],
            np.full(len(counts), None, dtype=object),
        )
        return block, len(self._order) - len(rows)


def arrivals_places(digests: Array, block: Block) -> Array:
    """The places of the block's keys among digests, which hold them all."""
    found: Array = np.searchsorted(digests, block.digests)
    return found
