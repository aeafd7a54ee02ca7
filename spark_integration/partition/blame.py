"""Finds the row of a chunk that an error comes from."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

import mta
import spark_integration
from mta.errors import WindowError
from spark_integration.aggregates.inputs import Input
from spark_integration.aggregates.programs import Program
from spark_integration.errors import DataError
from spark_integration.partition.chunks import Chunk
from spark_integration.partition.plain import shown
from stores import StoreError

T = TypeVar("T")

_OURS = tuple(str(Path(module.__file__ or "").parent) for module in (mta, spark_integration))


class Blame:
    """Names the row of a chunk that an error comes from, by its key and its order."""

    def __init__(self, keys: Sequence[Input], order: Sequence[Input]) -> None:
        self._shown = [*keys, *(each for each in order if each not in keys)]

    def attempt(
        self, chunk: Chunk, start: int, stop: int, work: Callable[[int, int], T], *, repeatable: bool = True
    ) -> T:
        """The result of `work(start, stop)`. If it fails, it is called for ever fewer rows, to find the row.

        Repeatable work that fails has changed nothing.
        """
        try:
            return work(start, stop)
        except Exception as error:
            if not _is_of_data(error):
                raise
            if not repeatable and stop - start > 1:
                rows = f"one of the rows from {self._row(chunk, start)} to {self._row(chunk, stop - 1)}"
                raise DataError(f"{rows}: {_message(error)}") from error
            row, cause = _culprit(work, start, stop, error)
            raise DataError(f"the row {self._row(chunk, row)}: {_message(cause)}") from cause

    def values(self, chunk: Chunk, program: Program) -> Any:
        """The elements of a chunk, as the program's windows see them."""

        def values_of(start: int, stop: int) -> Any:
            count = stop - start
            columns = {index: each.slice(start, count) for index, each in chunk.columns.items()}
            return program.values(columns, count)

        return self.attempt(chunk, 0, chunk.rows, values_of)

    def _row(self, chunk: Chunk, row: int) -> str:
        shown = (f"{each.name}={_shown(chunk.value(each.index, row))}" for each in self._shown)
        return ", ".join(shown) or f"number {row}"


def _culprit(
    work: Callable[[int, int], Any], start: int, stop: int, error: Exception
) -> tuple[int, Exception]:
    """The first of the rows that the work fails with, and how it does."""
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            work(start, middle)
        except Exception as found:
            stop, error = middle, found
        else:
            start = middle
    try:
        work(start, stop)
    except Exception as found:
        error = found
    return start, error


def _is_of_data(error: Exception) -> bool:
    """Whether the data caused an error: not a store, not a window, and not a mistake of this package."""
    if isinstance(error, (StoreError, WindowError, OSError, MemoryError, DataError)):
        return False
    return isinstance(error, (ValueError, ArithmeticError, TypeError)) or _foreign(error) is not None


def _foreign(error: Exception) -> traceback.FrameSummary | None:
    """Where a function that is not ours raised the error."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1] if frames and not frames[-1].filename.startswith(_OURS) else None


def _message(error: Exception) -> str:
    # the number of the row counts from some inner start; its key and time say more
    text = re.sub(r" in row \d+|^row \d+: ", "", str(error))
    frame = _foreign(error)
    if frame is None:
        return text
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}:{frame.lineno}, in {frame.name})"


def _shown(value: pa.Scalar) -> str:
    text = shown(value)
    return text if len(text) <= 80 else text[:80] + "…"
