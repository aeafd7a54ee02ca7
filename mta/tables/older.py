"""Folds of older rows, with the help of folds that are kept.

Most windows of new rows hold all rows of an older part from their head on. Such a range is the rest of a
block, and then the rest of the key, whose fold is kept for the start of each block. So only the blocks where
windows begin are lifted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mta.core.blocks import BLOCK, Blocks, block_entries
from mta.core.states import ColumnLayout, Layout, Run
from mta.kinds import Array

#: About how many rows are lifted together.
PART_ROWS = 1 << 17


class BlockFolds(NamedTuple):
    """What is kept of the folds of sorted rows."""

    #: of each block, but for the last one if it is shorter
    whole: Run
    #: of the rows from the start of each block to the last row of the key there
    rests: Run


def block_folds(layout: ColumnLayout, elements: Run, lengths: Array) -> BlockFolds | None:
    """The folds of rows of which `lengths` belong to each key; None if there are no rows."""
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return None
    ends = np.cumsum(lengths)
    count, whole, at_ends = int(ends[-1]), [], []
    for start in range(0, count, PART_ROWS):
        stop = min(count, start + PART_ROWS)
        blocks = Blocks(layout, layout.lift(layout.cut(elements, start, stop)))
        whole.append(blocks.whole())
        last = ends[(ends > start) & (ends <= stop)] - 1 - start
        if len(last):
            at_ends.append(layout.take(blocks.prefixes(), last))
    wholes, prefixes = layout.concat(whole), layout.concat(at_ends)
    numbers = np.arange(-(-count // BLOCK))
    keys = ends.searchsorted(numbers * BLOCK, "right")
    rests = layout.take(prefixes, keys)
    last_blocks = (ends - 1)[keys] // BLOCK
    longer = np.flatnonzero(last_blocks > numbers)
    if len(longer):
        before = Blocks(layout, wholes).folds(layout, longer, last_blocks[longer])
        rests = layout.put(rests, longer, layout.combine(before, layout.take(rests, longer)))
    return BlockFolds(wholes, rests)


class Rests:
    """Folds of ranges that end with the last row of a key, from the rows of the blocks where they begin."""

    def __init__(
        self, layout: ColumnLayout, elements: Run, lengths: Array, folds: BlockFolds, used: Array
    ) -> None:
        """`used` says for each block whether it is one where a range begins."""
        self._folds = folds
        self._places = np.cumsum(used) - 1
        entries = block_entries(np.flatnonzero(used), layout.length(elements))
        # where the key of each entry ends, or else its block
        ends = np.cumsum(lengths)
        stops = np.minimum(ends[ends.searchsorted(entries, "right")], (entries // BLOCK + 1) * BLOCK)
        states = layout.lift(layout.take(elements, entries))
        count, left = len(entries), stops - entries
        step = 1
        while step < BLOCK and step < count:
            # each entry has the fold of `step` entries, or of all that are left
            older, younger = layout.cut(states, 0, count - step), layout.cut(states, step, count)
            longer = left[: count - step] > step
            both = layout.choose(longer, layout.combine(older, younger), older)
            states = layout.concat([both, layout.cut(states, count - step, count)])
            step *= 2
        self._states = states

    def folds(self, layout: Layout, starts: Array, ends: Array) -> Run:
        """For each range, none of which is empty, the fold of its rows, as states of `layout`."""
        blocks = starts // BLOCK
        found = layout.take(layout.picked(self._states), starts + (self._places[blocks] - blocks) * BLOCK)
        more = np.flatnonzero(ends > (blocks + 1) * BLOCK)
        if not len(more):
            return found
        rests = layout.take(layout.picked(self._folds.rests), blocks[more] + 1)
        both = layout.combine(layout.take(found, more), rests)
        return both if len(more) == len(found[0]) else layout.put(found, more, both)
