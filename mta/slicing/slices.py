"""Slices: parts of a stream that do not overlap, each with one partial aggregate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from mta.core.states import fold_states
from mta.kinds import State, Time
from mta.monoids.base import Monoid

#: One tuple in a slice that has to keep its tuples: (time, arrival, state, marks). Arrivals are numbers that
#: go up. Marks are what the queries of windows by content look at: the name of the query to its mark.
KeptTuple: TypeAlias = tuple[Time, int, State, Any]


#: The state of a slice that has to be folded again from its tuples.
STALE: Final = object()


class Slice:
    """The aggregate of all tuples with times from `first` to `last`. Further tuples join before `edge` only.

    `tuples` has the tuples themselves, in order; it is None where their aggregate is enough.
    """

    __slots__ = ("count", "edge", "first", "last", "state", "tuples")

    def __init__(
        self, first: Time, last: Time, edge: Time, count: int, state: State, tuples: list[KeptTuple] | None
    ) -> None:
        self.first, self.last, self.edge = first, last, edge
        self.count, self.state, self.tuples = count, state, tuples

    def aggregate(self, monoid: Monoid) -> State:
        """The state; it is folded from the tuples if it is stale."""
        if self.state is STALE:
            self.state = fold_states(monoid, [each[2] for each in self.tuples or ()])
        return self.state

    def __repr__(self) -> str:
        return f"<slice [{self.first}, {self.last}] of {self.count}, before {self.edge}: {self.state!r}>"


def states_of(monoid: Monoid, slices: Sequence[Slice]) -> list[State]:
    """The aggregates of some slices."""
    if monoid.commutes:  # then no slice is stale
        return [each.state for each in slices]
    return [each.aggregate(monoid) for each in slices]


def _merged(monoid: Monoid, slices: Sequence[Slice]) -> Slice:
    """One slice that replaces some neighbours."""
    first, last = slices[0], slices[-1]
    tuples = None if first.tuples is None else [row for each in slices for row in each.tuples or ()]
    state = fold_states(monoid, states_of(monoid, slices))
    count = sum(each.count for each in slices)
    return Slice(first.first, last.last, last.edge, count, state, tuples)


class SliceList:
    """The slices of a stream that are in the process, the oldest first.

    An aggregate store keeps aggregates of several slices. `lineage` and `unchanged` tell it which of these
    are still right: the first `unchanged` slices are as they were when the store last saw the lineage.
    """

    __slots__ = (
        "dropped",
        "first_times",
        "items",
        "last_dropped",
        "last_lost",
        "lineage",
        "parent_lineage",
        "unchanged",
    )

    def __init__(self, items: list[Slice]) -> None:
        self.items = items
        #: the times of the slices' first tuples, for binary search
        self.first_times = [each.first for each in items]
        self.unchanged = 0
        self.lineage: Any = object()
        #: the lineage of the list that this one is a copy of
        self.parent_lineage: Any = None
        #: the number of slices that were dropped in front of these, and the time of their last tuple
        self.dropped = 0
        self.last_dropped: Time = -math.inf
        #: the time of the last tuple that was dropped and is in no store either
        self.last_lost: Time = -math.inf

    def copy(self) -> SliceList:
        """A list that can be changed without changing this one, as long as no slice changes."""
        copied = self._from(0)
        copied.unchanged, copied.parent_lineage = self.unchanged, self.lineage
        return copied

    def is_known(self, lineage: Any) -> bool:
        """Whether `unchanged` tells the truth to an aggregate store that has last seen a lineage."""
        return lineage is not None and (self.lineage is lineage or self.parent_lineage is lineage)

    def without_oldest(self, count: int, stored: bool = False) -> SliceList:
        """A list that replaces this one, without its oldest slices; `stored` if a store has these."""
        rest = self._from(count)
        if not stored:
            rest.last_lost = max(rest.last_lost, rest.last_dropped)
        rest.unchanged = max(self.unchanged - count, 0)
        rest.lineage, rest.parent_lineage = self.lineage, self.parent_lineage
        return rest

    def merged(self, monoid: Monoid, ends: list[int]) -> SliceList:
        """A list with its first slices merged: the slices before each of these indices become one."""
        fewer, start = [], 0
        for end in ends:
            part = self.items[start:end]
            fewer.append(part[0] if len(part) == 1 else _merged(monoid, part))
            start = end
        merged = SliceList([*fewer, *self.items[start:]])
        merged.dropped, merged.last_dropped = self.dropped, self.last_dropped
        merged.last_lost = self.last_lost
        return merged

    def _from(self, start: int) -> SliceList:
        part = SliceList([])
        part.items, part.first_times = self.items[start:], self.first_times[start:]
        part.dropped, part.last_dropped = self.dropped + start, self.last_dropped
        part.last_lost = self.last_lost
        if start:
            part.last_dropped = max(self.last_dropped, self.items[start - 1].last)
        return part
