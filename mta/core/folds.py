"""Folds of windows that lie wholly in one run of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.core.states import NOTHING, Layout, Run
from mta.monoids.base import Array

#: Windows shorter than this on average are cheaper in plain Python than in NumPy calls.
SHORT_WINDOW = 24


def window_folds(layout: Layout, states: Run, firsts: Array, start: int) -> Run:
    """For each row from `start` on, the fold of rows firsts[row - start] to row; firsts never decrease."""
    stop = layout.length(states)
    rows = np.arange(start, stop)
    if (rows - firsts).mean() < SHORT_WINDOW:
        return short_folds(layout, states, firsts.tolist(), start)
    parts = []
    row = start
    while row < stop:
        # two stacks: suffixes of the rows that the row sees before it, prefixes from the row on
        first = int(firsts[row - start])
        end = start + int(firsts.searchsorted(row, "right"))
        both = start + int(firsts.searchsorted(row, "left"))
        prefixes = layout.prefixes(layout.cut(states, row, end))
        if both > row:
            suffixes = layout.suffixes(layout.cut(states, first, row))
            suffixes = take(layout, suffixes, firsts[row - start : both - start] - first)
            parts.append(layout.combine(suffixes, layout.cut(prefixes, 0, both - row)))
        if end > both:
            parts.append(layout.cut(prefixes, max(both, row) - row, end - row))
        row = end
    return layout.concat(parts)


def short_folds(layout: Layout, states: Run, firsts: list[int], start: int) -> Run:
    """The same by Two-Stacks over plain states, for short windows or few rows."""
    items = layout.state_list(states)
    combine = layout.monoid.combine
    oldest, flip = firsts[0], start
    front = _suffixes_reversed(combine, items[oldest:start])
    back = NOTHING
    folds = []
    for row, first in enumerate(firsts, start):
        if first >= flip > oldest or first > oldest >= flip:
            front, flip, back = _suffixes_reversed(combine, items[first:row]), row, NOTHING
        elif first > oldest:
            del front[oldest - first :]
        oldest = first
        back = items[row] if back is NOTHING else combine(back, items[row])
        folds.append(combine(front[-1], back) if front else back)
    return layout.gather(folds)


def _suffixes_reversed(combine: Any, items: list[Any]) -> list[Any]:
    out: list[Any] = []
    for item in reversed(items):
        out.append(combine(item, out[-1]) if out else item)
    return out


def take(layout: Layout, run: Run, indices: Array | range, start: int = 0) -> Run:
    """Entries at ascending indices, which count from `start`; a view where the indices follow each other."""
    first, count = int(indices[0]) - start, len(indices)
    if isinstance(indices, range):
        return layout.cut(run, first, first + count)
    if int(indices[-1]) - start - first == count - 1 and bool((indices[1:] > indices[:-1]).all()):
        return layout.cut(run, first, first + count)
    return layout.take(run, indices - start if start else indices)
