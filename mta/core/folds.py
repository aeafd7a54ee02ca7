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


def range_folds(layout: Layout, states: Run, firsts: Array, ends: Array) -> Run:
    """For each window, the fold of entries `first` to `end`; neither ever decreases, and none is empty."""
    if (ends - firsts).mean() < SHORT_WINDOW:
        return _short_range_folds(layout, states, firsts.tolist(), ends.tolist())
    parts, row = [], 0
    while row < len(firsts):
        # two stacks, as above: suffixes up to the end of the window, prefixes behind it
        first, flip = int(firsts[row]), int(ends[row])
        stop = row + int(firsts[row:].searchsorted(flip, "left"))
        same = row + int(ends[row:stop].searchsorted(flip, "right"))
        suffixes = layout.suffixes(layout.cut(states, first, flip))
        suffixes = take(layout, suffixes, firsts[row:stop] - first)
        parts.append(layout.cut(suffixes, 0, same - row))
        if stop > same:
            prefixes = layout.prefixes(layout.cut(states, flip, int(ends[stop - 1])))
            older = layout.cut(suffixes, same - row, stop - row)
            parts.append(layout.combine(older, take(layout, prefixes, ends[same:stop] - 1, flip)))
        row = stop
    return layout.concat(parts)


def _short_range_folds(layout: Layout, states: Run, firsts: list[int], ends: list[int]) -> Run:
    items, combine = layout.state_list(states), layout.monoid.combine
    oldest = flip = young = firsts[0]
    front: list[Any] = []
    back = NOTHING
    folds = []
    for first, end in zip(firsts, ends, strict=True):
        if first >= flip:
            front, flip, young, back = _suffixes_reversed(combine, items[first:end]), end, end, NOTHING
        elif first > oldest:
            del front[oldest - first :]
        for item in items[young:end]:
            back = item if back is NOTHING else combine(back, item)
        oldest, young = first, end
        folds.append(front[-1] if back is NOTHING else combine(front[-1], back))
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
