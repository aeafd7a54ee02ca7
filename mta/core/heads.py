"""The heads of the windows of a batch's rows: the positions where the windows start.

Row i has position base + i. From row to row a head stays or moves on, and never goes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from mta.core.log import Log
from mta.core.predicates import Read, answers
from mta.core.stack import HeadPage
from mta.core.states import NOTHING, ColumnLayout, Run
from mta.core.view import View
from mta.frames.limits import Limits, OfRest
from mta.kinds import State, Time
from mta.monoids.base import Array
from mta.monoids.ufuncs import quiet
from mta.numbers.wide import Words, is_wide
from mta.times.cuts import Side, before, boundaries, steady

#: The heads of some rows' windows; a range where they follow each other.
Firsts: TypeAlias = Array | range


class Heads(ABC):
    """Finds the heads of rows. The first rows see elements older than the batch, the later rows none."""

    @abstractmethod
    def seeing(self, view: View) -> int:
        """How many rows see the youngest element that is older than the batch."""

    @abstractmethod
    def idle(self, view: View, stop: int) -> int:
        """How many of the first rows see the oldest element, and so the whole window before the batch."""

    def stays(self, page: HeadPage, between: State, row: int) -> bool:  # noqa: ARG002
        """Whether a row's head is surely in this page, if the head of the row before is."""
        return False

    @abstractmethod
    def enter(self, log: Log, head: int, row: int) -> int:
        """A row's head, which is before the batch and not before `head`."""

    @abstractmethod
    def within(self, page: HeadPage, between: State, head: int, row: int, stop: int) -> Firsts:
        """The heads of rows from `row` on, as long as they are in this page; `head` at least.

        `between` is the aggregate from the stack's boundary to the batch.
        """

    @abstractmethod
    def in_batch(self, start: int) -> Array:
        """The first row of the window of each row from `start` on; these windows lie in the batch."""


class LimitHeads(Heads):
    """Under limits on count and time."""

    def __init__(self, limits: Limits, times: Array, base: int) -> None:
        self._count = None if limits.count is None else min(limits.count, 2**62)
        self._times, self._base = times, base
        #: for each row, the time that an element's time must exceed (right) or reach (left) to stay
        self._cuts = limits.cut_columns(times)

    def seeing(self, view: View) -> int:
        return self._rows_that_keep(view.end - 1, view.log.youngest, 0, len(self._times))

    def idle(self, view: View, stop: int) -> int:
        return self._rows_that_keep(view.head, view.oldest, 0, stop)

    def enter(self, log: Log, head: int, row: int) -> int:
        if self._count is not None:
            head = max(head, self._base + row + 1 - self._count)
        return max([head, *(log.first_position(head, cut, side) for cut, side in self._cuts_of(row))])

    def within(self, page: HeadPage, between: State, head: int, row: int, stop: int) -> Firsts:  # noqa: ARG002
        end = self._rows_that_keep(page.stop - 1, page.entries.times[-1], row, stop)
        firsts = self._among(page.entries.times, page.start, row, end)
        return firsts if firsts[0] >= head else np.maximum(as_column(firsts), head)

    def in_batch(self, start: int) -> Array:
        return as_column(self._among(self._times, self._base, start, len(self._times))) - self._base

    def _rows_that_keep(self, position: int, time: Time, start: int, stop: int) -> int:
        """The end of the rows, from `start` on, whose windows hold the element at a position with a time."""
        for cuts, side in self._cuts:
            other: Side = "left" if side == "right" else "right"
            stop = start + before(cuts[start:stop], time, other)
        if self._count is not None:
            stop = max(start, min(stop, position + self._count - self._base))
        return stop

    def _among(self, times: Array, first: int, start: int, stop: int) -> Firsts:
        """The heads of some rows, all of which are among the elements from position `first` on."""
        following = self._following(times, first, start, stop)
        if following is not None:
            return following
        found = [first + boundaries(times, cuts[start:stop], side) for cuts, side in self._cuts]
        if self._count is not None:
            counted = self._base + 1 - self._count
            found.append(np.maximum(np.arange(start + counted, stop + counted), first))
        return reduce(np.maximum, found) if found else np.full(stop - start, first)

    def _following(self, times: Array, first: int, start: int, stop: int) -> range | None:
        """The same heads as a range, where there is one limit and the heads follow each other."""
        if self._count is not None:
            counted = self._base + 1 - self._count
            alone = not self._cuts and start + counted >= first
            return range(start + counted, stop + counted) if alone else None
        if len(self._cuts) != 1:
            return None
        cuts, side = self._cuts[0]
        found = steady(times, cuts[start:stop], side)
        return None if found is None else range(first + found.start, first + found.stop)

    def _cuts_of(self, row: int) -> list[tuple[Any, Side]]:
        return [(cuts[row : row + 1].tolist()[0], side) for cuts, side in self._cuts]


def as_column(firsts: Firsts) -> Array:
    return np.arange(firsts.start, firsts.stop) if isinstance(firsts, range) else firsts


class KnownHeads(Heads):
    """Heads that are known already."""

    def __init__(self, firsts: Array, base: int) -> None:
        self._firsts, self._base = firsts, base

    def seeing(self, view: View) -> int:
        return int(self._firsts.searchsorted(view.end))

    def idle(self, view: View, stop: int) -> int:
        return min(stop, int(self._firsts.searchsorted(view.head, "right")))

    def enter(self, log: Log, head: int, row: int) -> int:  # noqa: ARG002
        return int(self._firsts[row])

    def within(self, page: HeadPage, between: State, head: int, row: int, stop: int) -> Array:  # noqa: ARG002
        firsts = self._firsts[row:stop]
        return firsts[: firsts.searchsorted(page.stop)]

    def in_batch(self, start: int) -> Array:
        return self._firsts[start:] - self._base


class RestHeads(Heads):
    """Heads under a predicate over the rest: each row adds up only elements that stay.

    The rest of a row that sees elements older than the batch is a suffix of a page, the aggregate between the
    page and the batch, and the rows so far. The rest of a later row is put together of blocks of 2^k rows,
    greedily.
    """

    def __init__(self, layout: ColumnLayout, predicate: OfRest, states: Run) -> None:
        self._whole, self._predicate, self._count = layout, predicate, layout.length(states)
        #: the aggregate of the batch's rows up to each row
        self._so_far = layout.prefixes(states)
        #: the columns that the predicate reads, which are those of one field, and their layout
        self._part = self._read(layout.cut(states, 0, 1))
        self._layout = layout.of_part(self._part)
        self._states = states[self._part]

    def _read(self, states: Run) -> slice:
        asked = Read(self._whole.monoid.width, lambda part: states[part])
        self._predicate.enough(self._whole.shaped(asked))
        (part,) = asked.parts
        return part

    def seeing(self, view: View) -> int:  # noqa: ARG002
        return _first_true(self._enough(self._so_far[self._part]), self._count)

    def idle(self, view: View, stop: int) -> int:
        rest = view.log.fold_nodes(view.head + 1, view.end)
        return _first_true(self._enough(self._followed(rest, 0, stop)), stop)

    def stays(self, page: HeadPage, between: State, row: int) -> bool:
        younger = self._followed(self._whole.join(page.rest, between), row, row + 1)
        return not self._enough(younger)[0]

    def enter(self, log: Log, head: int, row: int) -> int:
        so_far = self._whole.at(self._so_far, row)
        return min(log.shortest_suffix(head, so_far, self._predicate.enough), log.tail - 1)

    def within(self, page: HeadPage, between: State, head: int, row: int, stop: int) -> Firsts:
        layout, whole = self._layout, self._whole
        younger = self._followed(whole.join(page.rest, between), row, stop)
        rows = max(1, _first_true(self._enough(younger), stop - row))
        behind = self._followed(between, row, row + rows)
        suffixes = page.suffixes(whole)[self._part]
        suffixes = layout.cut(suffixes, head - page.start, page.stop - page.start)
        low = np.zeros(rows, dtype=np.int64)
        high = np.full(rows, layout.length(suffixes) - 1)
        while (low < high).any():
            middle = (low + high + 1) >> 1
            gone = self._enough(layout.combine(layout.take(suffixes, middle), behind))
            low, high = np.where(gone, middle, low), np.where(gone | (low == high), high, middle - 1)
        return np.maximum.accumulate(low) + head

    def in_batch(self, start: int) -> Array:
        layout, count = self._layout, self._count
        blocks = [self._states]
        while 1 << len(blocks) <= count and not self._enough(blocks[-1]).all():
            half, length = 1 << (len(blocks) - 1), layout.length(blocks[-1])
            blocks.append(
                layout.combine(layout.cut(blocks[-1], 0, length - half), layout.cut(blocks[-1], half, length))
            )
        # the row where the rest of each row begins so far, and the rest, which is not enough
        first, rest = np.arange(start, count), layout.cut(self._states, start, count)
        alone = self._enough(rest)
        for level in reversed(range(len(blocks))):
            older = first - (1 << level)
            wider = layout.combine(layout.take(blocks[level], np.maximum(older, 0)), rest)
            wanted = ~alone & (older >= 0) & ~self._enough(wider)
            first, rest = np.where(wanted, older, first), layout.choose(wanted, wider, rest)
        return np.maximum.accumulate(np.maximum(np.where(alone, first, first - 1), 0))

    def _followed(self, older: State, start: int, stop: int) -> Run:
        """An aggregate followed by the batch's rows up to each of some rows."""
        rows = self._layout.cut(self._so_far[self._part], start, stop)
        if older is NOTHING:
            return rows
        return self._layout.combine(self._whole.gather([older])[self._part], rows)

    def _enough(self, rests: Run) -> Array:
        shown = tuple(Words(column) if is_wide(column) else column for column in rests)
        asked = Read(self._whole.monoid.width, lambda _: shown)
        with quiet():
            return answers(self._predicate.enough(self._whole.shaped(asked)), self._layout.length(rests))


def _first_true(answers: Array, stop: int) -> int:
    return int(answers.argmax()) if answers.any() else stop
