"""Sorted rows in files, where a micro-batch brings more rows than memory should hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from spark_integration.streaming.sorting import Order, SortedBatch, SortedPart

#: Rows that are read back together.
PIECE = 1 << 14


class Spills:
    """The files of one bucket; its end removes them."""

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path
        self._files: list[Path] = []

    def write(self, batch: pa.RecordBatch) -> Path:
        path = self._path()
        self._files.append(path)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            for start in range(0, batch.num_rows, PIECE):
                writer.write_batch(batch.slice(start, PIECE))
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self._files:
            path.unlink(missing_ok=True)


class _Piece(SortedPart):
    def __init__(self, path: Path, number: int, first: object, rows: int) -> None:
        super().__init__(first, rows)
        self._path, self._number = path, number

    def load(self) -> pa.RecordBatch:
        with pa.memory_map(str(self._path)) as file:
            return pa.ipc.open_file(file).get_batch(self._number)


def spilled(batch: pa.RecordBatch, order: Order, spills: Spills) -> Iterator[SortedPart]:
    """Sorted rows in a file, as parts that are read back one by one."""
    path = spills.write(batch)
    for number, start in enumerate(range(0, batch.num_rows, PIECE)):
        piece = SortedBatch(batch.slice(start, PIECE), order)
        yield _Piece(path, number, piece.first, piece.rows)
