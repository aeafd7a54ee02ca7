"""The numbers that all contenders get, and what their last result has to be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mta.monoids.base import Array

#: Rows that come at a time, where they come in batches.
BATCH = 1 << 16


def values_of(rows: int) -> Iterator[Array]:
    """The numbers, a batch at a time: always the same, and none twice."""
    rng = np.random.default_rng(9)
    for start in range(0, rows, BATCH):
        yield rng.random(min(BATCH, rows - start))


def last_of(rows: int, window: int) -> float:
    """What the last row's result has to be."""
    batches, start, found = values_of(rows), 0, -np.inf
    for batch in batches:
        inside = batch[max(0, rows - window - start) :]
        found = max(found, float(inside.max(initial=-np.inf)))
        start += len(batch)
    return found
