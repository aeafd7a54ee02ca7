"""What a job did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from stores import Store


class Metrics:
    """What a job did, once an action on its DataFrame has run."""


class Meter:
    """Counts what one task does."""

    def __init__(self, on: bool) -> None:
        self._on = on
        self.rows = 0
        self.windows = 0

    def metered(self, store: Store) -> Store:
        return store

    def attach(
        self,
        batches: Iterator[pa.RecordBatch],
        done: Callable[[], Any],  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        yield from batches
