"""Folds of windows that lie wholly in one run of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mta.core.states import Layout, Run
from mta.monoids.base import Array

#: Windows shorter than this on average are cheaper in plain Python than in NumPy calls.
SHORT_WINDOW = 24


def window_folds(layout: Layout, states: Run, firsts: Array, lasts: Array | range) -> Run:
    """For each window, the fold of rows `first` to `last`; neither ever decreases, and none is empty.

    A range of `lasts` is for windows each of which ends with the next row.
    """
    mean = (lasts.start + lasts.stop - 1) / 2 if isinstance(lasts, range) else lasts.mean()
    if mean - firsts.mean() < SHORT_WINDOW:
        ends = lasts if isinstance(lasts, range) else lasts.tolist()
        return short_folds(layout, states, firsts.tolist(), ends)
    parts, row = [], 0
    while row < len(firsts):
        # two stacks: suffixes of the rows before the window's last one, prefixes from that on
        first, flip = int(firsts[row]), int(lasts[row])
        both = row + int(firsts[row:].searchsorted(flip, "left"))
        stop = row + int(firsts[row:].searchsorted(flip, "right"))
        prefixes = layout.prefixes(layout.cut(states, flip, int(lasts[stop - 1]) + 1))
        prefixes = take(layout, prefixes, lasts[row:stop], flip)
        if both > row:
            suffixes = layout.suffixes(layout.cut(states, first, flip))
            suffixes = take(layout, suffixes, firsts[row:both], first)
            parts.append(layout.combine(suffixes, layout.cut(prefixes, 0, both - row)))
        if stop > both:
            parts.append(layout.cut(prefixes, both - row, stop - row))
        row = stop
    return layout.concat(parts)


def short_folds(layout: Layout, states: Run, firsts: Sequence[int], lasts: Sequence[int]) -> Run:
    """The same over plain states, for short windows or few rows."""
    items, combine = layout.state_list(states), layout.monoid.combine
    oldest, flip = firsts[0], lasts[0]
    front, back, young = _suffixes_reversed(combine, items[oldest:flip]), items[flip], flip
    folds = []
    for first, last in zip(firsts, lasts, strict=True):
        if first > flip:
            front, back, young = _suffixes_reversed(combine, items[first:last]), items[last], last
            flip = last
        elif first > oldest:
            del front[oldest - first :]
        oldest = first
        while young < last:
            young += 1
            back = combine(back, items[young])
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
