"""Rows with the same time see each other, so none of them has a result before the last of them is there.

A chunk's last rows of one time are held back until a later time comes. Few of them stay in memory; from
`IN_MEMORY` bytes on they wait in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mta.monoids.base import Array
from spark_integration.partition.chunks import Chunk

#: Bytes of rows that wait in memory.
IN_MEMORY = 8 << 20


class Peers:
    def __init__(self, spool: Callable[[], Path]) -> None:
        self._spool = spool
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._path: Path | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None
        #: the time of the rows that are held, and the result of the last of them
        self._time: Any = None
        self._result: dict[str, Any] = {}

    def settle(
        self, chunk: Chunk, changed: Array, times: Array, results: Mapping[str, Any], last: bool
    ) -> tuple[dict[str, Any] | None, int, dict[str, Any]]:
        """What is known now: the result of the rows held so far, if it is, and those of rows up to `stop`.

        `changed` marks the first rows of groups. The others are to be held.
        """
        rows = chunk.rows
        begins = changed.copy()
        begins[1:] |= times[1:] != times[:-1]
        begins[0] = bool(changed[0]) or not self.holding or times[0] != self._time
        places = np.flatnonzero(begins)
        # the last row of each run of peers, and of the run that the held rows go on with
        ends = np.append(places[1:] if begins[0] else places, rows) - 1
        stop = rows if last else int(places[-1]) if len(places) else 0
        if len(ends) == rows:
            spread = dict(results)
        else:
            lengths = np.diff(ends, prepend=-1)
            spread = {name: np.repeat(part.take(ends), lengths) for name, part in results.items()}
        released = None
        if self.holding:
            if begins[0]:
                released = self._result
            elif stop:
                released = {name: part[:1] for name, part in spread.items()}
        self._time = times[-1]
        self._result = {name: part[-1:].copy() for name, part in spread.items()}
        return released, stop, spread

    @property
    def holding(self) -> bool:
        return bool(self._held) or self._path is not None

    def hold(self, chunk: Chunk, start: int) -> None:
        """Holds the rows of a chunk from `start` on."""
        for batch, _ in chunk.slices(start, chunk.rows):
            if self._writer is not None:
                self._writer.write_batch(batch)
                continue
            self._held.append(batch)
            self._bytes += batch.nbytes
        if self._bytes > IN_MEMORY and self._writer is None:
            self._path = self._spool()
            self._writer = pa.ipc.new_stream(str(self._path), self._held[0].schema)
            for batch in self._held:
                self._writer.write_batch(batch)
            self._held = []

    def release(self) -> Iterator[pa.RecordBatch]:
        """The rows held so far, which are then held no longer."""
        held, self._held, self._bytes = self._held, [], 0
        yield from held
        if self._path is not None:
            assert self._writer is not None
            self._writer.close()
            self._writer = None
            with pa.OSFile(str(self._path)) as file, pa.ipc.open_stream(file) as stream:
                yield from stream
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
