"""Slices: parts of a stream that do not overlap, each with one partial aggregate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

from mta.core.states import fold_states
from mta.kinds import State, Time
from mta.monoids.base import Monoid

#: One tuple in a slice that has to keep its tuples: (time, arrival, state, marks). Arrivals are numbers that
#: go up. Marks are what the queries of windows by content look at: the name of the query to its mark.
KeptTuple: TypeAlias = tuple[Time, int, State, Any]


#: The state of a slice that has to be folded again from its tuples.
STALE: Final = object()


@dataclass(slots=True, eq=False)
class Slice:
    """The aggregate of all tuples with times from `first` to `last`. Further tuples join before `edge` only.

    `tuples` has the tuples themselves, in order; it is None where their aggregate is enough.
    """

    first: Time
    last: Time
    edge: Time
    count: int
    state: State
    tuples: list[KeptTuple] | None

    def aggregate(self, monoid: Monoid) -> State:
        """The state; it is folded from the tuples if it is stale."""
        if self.state is STALE:
            self.state = fold_states(monoid, [each[2] for each in self.tuples or ()])
        return self.state


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


@dataclass(slots=True, eq=False)
class SliceList:
    """The slices of a stream that are in the process, the oldest first.

    An aggregate store keeps aggregates of several slices. `lineage` and `unchanged` tell it which of these
    are still right: the first `unchanged` slices are as they were when the store last saw the lineage.
    """

    items: list[Slice] = field(default_factory=list)
    #: the times of the slices' first tuples, for binary search
    first_times: list[Time] = field(default_factory=list)
    unchanged: int = 0
    lineage: Any = field(default_factory=object)
    #: the lineage of the list that this one is a copy of
    parent_lineage: Any = None
    #: the number of slices that were dropped in front of these, and the time of their last tuple
    dropped: int = 0
    last_dropped: Time = -math.inf
    #: the time of the last tuple that was dropped and is in no store either
    last_lost: Time = -math.inf

    def copy(self) -> SliceList:
        """A list that can be changed without changing this one, as long as no slice changes."""
        items, firsts = self.items.copy(), self.first_times.copy()
        return replace(self, items=items, first_times=firsts, lineage=object(), parent_lineage=self.lineage)

    def is_known(self, lineage: Any) -> bool:
        """Whether `unchanged` tells the truth to an aggregate store that has last seen a lineage."""
        return lineage is not None and (self.lineage is lineage or self.parent_lineage is lineage)

    def without_oldest(self, count: int, stored: bool = False) -> SliceList:
        """A list that replaces this one, without its oldest slices; `stored` if a store has these."""
        last_dropped = max(self.last_dropped, self.items[count - 1].last)
        return replace(
            self,
            items=self.items[count:],
            first_times=self.first_times[count:],
            unchanged=max(self.unchanged - count, 0),
            dropped=self.dropped + count,
            last_dropped=last_dropped,
            last_lost=self.last_lost if stored else max(self.last_lost, last_dropped),
        )

    def merged(self, monoid: Monoid, ends: list[int]) -> SliceList:
        """A list with its first slices merged: the slices before each of these indices become one."""
        parts = [self.items[start:end] for start, end in pairwise([0, *ends])]
        fewer = [part[0] if len(part) == 1 else _merged(monoid, part) for part in parts]
        fewer += self.items[ends[-1] :]
        merged = replace(self, unchanged=0, lineage=object(), parent_lineage=None)
        merged.items, merged.first_times = fewer, [each.first for each in fewer]
        return merged
