"""Rows with the same time, called peers: they see each other, so all have the result of the last of them.

A chunk's last peers are held back until a later time comes: in memory, or in a file if they have more than
`IN_MEMORY` bytes.
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
        """The result of the held rows, None if it is not known yet, and the results of rows up to `stop`.

        `changed` marks the first rows of groups. The others are to be held.
        """
        rows = chunk.rows
        begins = changed.copy()
        begins[1:] |= times[1:] != times[:-1]
        begins[0] = bool(changed[0]) or not self.holding or times[0] != self._time
        firsts = np.flatnonzero(begins)
        # the last row of each group of peers, the held rows' group among them
        ends = np.append(firsts[1:] if begins[0] else firsts, rows) - 1
        stop = rows if last else int(firsts[-1]) if len(firsts) else 0
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
        """Gives the held rows away."""
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
