"""A key whose window is long: it has windows of its own, whose pages are in the store.

A window that has got short again is not asked for its rows: they are noted as they come, until those that
were noted are all it holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from mta import AmortizedMTA, LogMTA
from mta.durability.attempts import AttemptHold
from mta.durability.coding import pack_version, unpack_version
from mta.durability.manifest import Version
from mta.encoding import packing
from mta.encoding.untrusted import Malformed, fields, text, whole
from mta.keyed.group import SHORT_WINDOW, Group
from mta.monoids.base import Array
from mta.versioned import open_version, save_version
from spark_integration.aggregates.programs import Program
from spark_integration.partition.chunks import Chunk, chunks
from spark_integration.partition.emitter import Emitter
from spark_integration.running.metering import Meter
from spark_integration.running.storage import spool_file
from spark_integration.streaming.plan import Tools
from spark_integration.streaming.state import (
    INLINE_ROWS,
    INLINE_TAILS,
    pack_rows,
    size_of,
    unpack_rows,
)
from spark_integration.streaming.storage import LEASE, Place
from stores import Store, StoreError

#: Rows from which a window is short again.
SHORT_AGAIN = 256

#: The values, times and number of some rows.
Rows = tuple[Any, Array | None, int]


class LongKey:
    """`saved` is what `save` gave in the micro-batch before, or the rows of a window that was short.

    `name` is that of windows which begin now.
    """

    def __init__(
        self,
        tools: Tools,
        name: str,
        store: Store,
        place: Place,
        meter: Meter,
        saved: bytes | list[Rows] | None,
    ) -> None:
        self._tools, self._name, self._store, self._place = tools, name, store, place
        self._meter = meter
        self._holds: dict[str, AttemptHold] = {}
        #: names of what is in the store
        self.stored: list[str] = []
        #: of each program the youngest rows, noted since its window is short; None while it is not
        self._noted: list[Rows | None] = [None] * len(tools.programs)
        windows: list[Any] = [None] * len(tools.programs)
        if isinstance(saved, bytes):
            self._name, windows, self.stored, noted = decode_long(saved, len(tools.programs))
            self._noted = [None if each is None else unpack_rows(each) for each in noted]
        self._groups = [self._group(number, window) for number, window in enumerate(windows)]
        if isinstance(saved, list):
            for group, rows in zip(self._groups, saved, strict=True):
                group.restore(*rows)

    # -- rows -------------------------------------------------------------------------------------------

    def slide(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Sorted rows with the aggregates of their windows; all rows of a time come together."""
        plan, appender = self._tools.plan, self._tools.appender
        emitter = Emitter(appender, spool_file if plan.frame.peers else None)
        try:
            for chunk, last in chunks(iter([batch]), self._tools.wanted):
                times = self._tools.order.times_of(chunk.columns[plan.order[0].index])
                results = self._slide(chunk, times if self._tools.timed else None)
                changed = np.zeros(chunk.rows, dtype=bool)
                yield from emitter.emitted(chunk, changed, times, results, last)
        finally:
            emitter.close()

    def _slide(self, chunk: Chunk, times: Array | None) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for number, (program, group) in enumerate(zip(self._tools.programs, self._groups, strict=True)):
            before = len(group)
            values = self._tools.values(chunk, program)
            results.update(self._slide_one(chunk, values, times, program, group))
            self._meter.add("evictions", before + chunk.rows - len(group))
            self._note(number, (values, times, chunk.rows))
        return results

    def _slide_one(
        self, chunk: Chunk, values: Any, times: Array | None, program: Program, group: Group
    ) -> Any:
        def slide(start: int, stop: int) -> Any:
            stamps = None if times is None else times[start:stop]
            return group.slide(program.cut(values, start, stop), stamps, stop - start)

        repeatable = not self._tools.plan.frame.by_predicate
        return self._tools.blame.attempt(chunk, 0, chunk.rows, slide, repeatable=repeatable)

    def _note(self, number: int, new: Rows) -> None:
        """Notes the rows that came, as far as a short window holds them."""
        group, program, before = self._groups[number], self._tools.programs[number], self._noted[number]
        held = len(group)
        if group.window is None or held > SHORT_AGAIN or self._tools.plan.frame.by_predicate:
            self._noted[number] = None
            return
        values, times, count = new
        if before is not None and count < held:
            values = program.joined(before[0], values)
            times = None if times is None else np.concatenate([before[1], times])
            count += before[2]
        kept = min(held, count)
        values = program.kept(values, count - kept, count)
        self._noted[number] = values, None if times is None else times[count - kept :].copy(), kept

    # -- windows ----------------------------------------------------------------------------------------

    def _group(self, number: int, saved: Any) -> Group:
        program, policy = self._tools.programs[number], self._tools.policies[number]
        page_size = self._tools.page_size(program)

        def opened(base: Version | None, size: int) -> Any:
            name = f"{self._name}/{number}"
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
                inline=_inline(size),
            )

        group = Group(program, policy, lambda: opened(None, page_size), min(SHORT_WINDOW, page_size))
        if saved is not None and saved[0] == "rows":
            group.restore(*unpack_rows(saved))
        elif saved is not None:
            _, size, packed = saved
            group.adopt(opened(unpack_version(size.bit_length() - 1, packed), size))
        return group

    def _hold(self, name: str, page_size: int, base: Version | None) -> AttemptHold:
        place = self._place
        hold = AttemptHold(self._store, name, page_size, base, batch=place.batch, run=place.run, lease=LEASE)
        self._holds[name] = hold
        return hold

    # -- out --------------------------------------------------------------------------------------------

    def short(self) -> list[Rows] | None:
        """The rows of the windows, if all of them are short; these windows are then used no more."""
        found = []
        for group, noted in zip(self._groups, self._noted, strict=True):
            rows = noted if group.window is not None else group.rows
            if rows is None or rows[2] < len(group) or rows[2] > self._tools.most_rows:
                return None
            if size_of(pack_rows(*rows)) > INLINE_ROWS:
                return None
            found.append(rows)
        if self._tools.plan.frame.by_predicate:
            return None
        for group in self._groups:
            group.close()
        return found

    def save(self) -> bytes:
        """The windows after this micro-batch; what they name is in the store."""
        windows = [self._saved(group, f"{self._name}/{number}") for number, group in enumerate(self._groups)]
        noted = [None if rows is None else pack_rows(*rows) for rows in self._noted]
        self._clear_up_after_others()
        return bytes(msgpack.packb([self._name, windows, self.stored, noted]))

    def _clear_up_after_others(self) -> None:
        """Removes what attempts at the windows of this key have left that are surely gone."""
        for name, hold in self._holds.items():
            clear_up_after_others(self._store, name, hold)

    def _saved(self, group: Group, name: str) -> list[Any]:
        if group.window is None:
            values, times, count = group.rows
            packed = pack_rows(values, times, count)
            if size_of(packed) <= INLINE_ROWS and count <= self._tools.most_rows:
                return packed
            group.move()
        hold, window = self._holds[name], group.window
        asked, hits = window.pages_read
        self._meter.add("cache_hits", hits)
        self._meter.add("cache_misses", asked - hits)
        version = save_version(window, self._place.batch)
        if hold.claimed and name not in self.stored:
            self.stored.append(name)
        return ["window", window.page_size, pack_version(version)]

    def give_up(self) -> None:
        """Removes what was written, where that is possible; the rest is left for `mta gc`."""
        for group in self._groups:
            with suppress(Exception):
                group.close()


def decode_long(data: bytes, programs: int) -> tuple[str, list[Any], list[str], list[Any]]:
    """The name of a key's windows, those, the names of what is in the store, and the rows that were noted."""
    name, windows, stored, noted = fields(packing.unpack(data), "the windows of a key", 4)
    for window in fields(windows, "the windows of a key", programs):
        kind, size, *_ = fields(window, "a window")[:2] or [None, None]
        if kind == "window":
            fields(window, "a window", 3)
            if whole(size, "the size of pages", 2, 1 << 24).bit_count() != 1:
                raise Malformed(f"the size of pages is {size}, which is no power of two")
        elif kind != "rows":
            raise Malformed("a window is neither rows nor a version")
    names = [text(each, "the name of a window") for each in fields(stored, "the windows of a key")]
    return (
        text(name, "the name of windows"),
        windows,
        names,
        fields(noted, "the rows that were noted", programs),
    )


def clear_up_after_others(store: Store, name: str, hold: AttemptHold) -> None:
    """Removes what attempts at a window have left that are surely gone."""
    if hold.beside_gone:
        from mta.durability.operations import collect_window  # which few tasks need

        with suppress(StoreError):
            collect_window(store, name)


def _inline(page_size: int) -> int:
    """Bytes of each tail that may stand in the state: all tails together are small at any page size."""
    tiers = math.ceil(40 / (page_size.bit_length() - 1))
    return INLINE_TAILS // tiers
