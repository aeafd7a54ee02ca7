"""Folds of many groups at once: a group whose rows are all in memory needs no window.

Rows of a group stand together, and its windows hold no row of another group.
"""

from __future__ import annotations

import math

import numpy as np

from mta.core.blocks import Blocks
from mta.core.folds import short_folds, window_folds
from mta.core.states import ColumnLayout, Layout, Run
from mta.frames.limits import Limits
from mta.monoids.base import Array
from mta.times.cuts import Side, boundaries, comparable_column, cuts

#: Windows up to this length are folded for all rows at once.
SHORT = 256

#: Groups that are smaller than this on average are searched all together.
SMALL = 256

#: Up to this number of rows plain Python is faster than the fixed cost of NumPy's calls.
FEW = 24


def first_rows(starts: Array, count: int, times: Array | None, limits: Limits) -> Array:
    """The first row of each row's window. Groups begin at `starts`; times never decrease within a group."""
    lengths = np.diff(starts, append=count)
    firsts = np.repeat(starts, lengths)
    if limits.count is not None:
        np.maximum(firsts, np.arange(count) - (min(limits.count, count) - 1), out=firsts)
    for span, side in limits.spans():
        assert times is not None
        np.maximum(firsts, since(starts, lengths, times, span, side), out=firsts)
    return firsts


def since(starts: Array, lengths: Array, times: Array, span: float, side: Side) -> Array:
    """The first row of each row's window in time, which may be in an earlier group."""
    if len(starts) > 1 and times.dtype.kind == "i":
        together = _one_after_another(starts, lengths, times, span, side)
        if together is not None:
            return boundaries(together[0], together[1], side)
    if len(starts) > 1 and len(times) < SMALL * len(starts):
        return _side_by_side(lengths, times, span, side)
    found = np.empty(len(times), dtype=np.int64)
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        group = times[start : start + length]
        found[start : start + length] = start + boundaries(group, cuts(group, span, side), side)
    return found


def _side_by_side(lengths: Array, times: Array, span: float, side: Side) -> Array:
    """`since` for any times: a group and the number of all times before a time make one whole number."""
    groups = np.repeat(np.arange(len(lengths)), lengths) * (len(times) + 1)
    order = times.argsort(kind="stable")
    sorted_times = times[order]
    moments = comparable_column(sorted_times, cuts(sorted_times, span, side), side)
    numbers, wanted = groups.copy(), groups
    numbers[order] += sorted_times.searchsorted(sorted_times, "left")
    wanted[order] += sorted_times.searchsorted(moments, side)
    return numbers.searchsorted(wanted, "left")


def _one_after_another(
    starts: Array, lengths: Array, times: Array, span: float, side: Side
) -> tuple[Array, Array] | None:
    """Times moved so that groups are more than a window apart, and the moved starts of the windows.

    None if these do not fit in 64 bits.
    """
    ends = starts + lengths - 1
    reals = times[ends].astype(float) - times[starts].astype(float)
    if reals.sum() >= 2.0**60:
        return None
    extents = times[ends] - times[starts]
    # a window that is a little longer than the longest group holds all that a still longer one holds
    span = min(span, int(extents.max()) + 1)
    # the same window in whole numbers
    whole = math.ceil(span) if side == "right" else math.floor(span)
    gap = whole + 1
    if float(gap) * len(starts) + reals.sum() >= 2.0**62:
        return None
    extents += gap
    moves = np.cumsum(extents) - extents
    moved = times - np.repeat(times[starts] - moves, lengths)
    return moved, moved - whole


def folds(layout: Layout, states: Run, starts: Array, firsts: Array) -> Run:
    """For each row, the fold of rows firsts[row] to row."""
    count = len(firsts)
    if not isinstance(layout, ColumnLayout):
        return window_folds(layout, states, firsts, range(count))
    if count <= FEW:
        return short_folds(layout, states, firsts.tolist(), range(count))
    ends = np.arange(1, count + 1)
    short = np.maximum.reduceat(ends - firsts, starts) <= SHORT
    if short.all():
        return Blocks(layout, states).folds(layout, firsts, ends)
    parts = []
    # short groups that follow each other are folded together, each long one by itself
    edges = np.flatnonzero(np.concatenate([[True], (short[1:] != short[:-1]) | ~short[1:]]))
    bounds = [*starts[edges].tolist(), count]
    for start, stop, few in zip(bounds, bounds[1:], short[edges].tolist(), strict=False):
        part, first = layout.cut(states, start, stop), firsts[start:stop] - start
        if few:
            parts.append(Blocks(layout, part).folds(layout, first, ends[: stop - start]))
        else:
            parts.append(window_folds(layout, part, first, range(stop - start)))
    return layout.concat(parts)
