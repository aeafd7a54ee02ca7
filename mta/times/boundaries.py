"""The positions of sorted cuts among sorted times: `cuts.before` for columns, faster for many cuts.

`searchsorted` takes some 20 ns a cut, and a page is searched for as many cuts as it has times. One pass over
both takes 5 ns a cut, if the times are equidistant, or whole numbers that are close together.
"""

from __future__ import annotations

import numpy as np

from mta.kinds import Array
from mta.times.cuts import Side, comparable_column

#: Fewer cuts than this are searched by `searchsorted`.
FEW_CUTS = 256


def boundaries(times: Array, cuts: Array, side: Side) -> Array:
    """For each cut, the number of times before it (left), or before or equal to it (right)."""
    count, cuts = len(cuts), comparable_column(times, cuts, side)
    if count < FEW_CUTS or 4 * count < len(times):
        return times.searchsorted(cuts, side)
    found = _steady(times, cuts, side)
    if found is not None:
        return np.arange(found.start, found.stop)
    if times.dtype.kind == cuts.dtype.kind == "i" and 0 < int(times[-1]) - int(times[0]) <= 4 * len(times):
        return _counted(times, cuts, side)
    return times.searchsorted(cuts, side)


def steady(times: Array, cuts: Array, side: Side) -> range | None:
    """The `boundaries` of many cuts as a range; None if they are no range or that takes long to find out."""
    if len(cuts) < FEW_CUTS or times.dtype.kind + cuts.dtype.kind not in ("ii", "ff"):
        return None
    return _steady(times, cuts, side)


def _steady(times: Array, cuts: Array, side: Side) -> range | None:
    """The boundaries as a range if each cut is one time further than the cut before it."""
    count = len(cuts)
    first = int(times.searchsorted(cuts[0], side))
    if first + count > len(times):
        return None
    kept, gone, later = times[first : first + count], times[first : first + count - 1], cuts[1:]
    for some in (slice(-1, None), slice(None)):  # the last one first, which mostly suffices to say no
        if side == "right":
            steady = (gone[some] <= later[some]).all() and (kept[some] > cuts[some]).all()
        else:
            steady = (gone[some] < later[some]).all() and (kept[some] >= cuts[some]).all()
        if not steady:
            return None
    return range(first, first + count)


def _counted(times: Array, cuts: Array, side: Side) -> Array:
    """The boundaries among whole times that are close together, from a table of counts for each moment."""
    low, extent = int(times[0]), int(times[-1] - times[0])
    # table[i] is the number of times before low + i
    table = np.bincount(times - (low - 1))
    np.cumsum(table, out=table)
    first = low - (side == "right")
    if cuts[0] < first or cuts[-1] > first + extent + 1:
        cuts = np.clip(cuts, first, min(first + extent + 1, 2**63 - 1))
    found: Array = table.take(cuts - first)
    return found
