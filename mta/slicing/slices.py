"""Slices: parts of a stream that do not overlap, each with one partial aggregate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

from mta.monoids.base import Monoid
from mta.slicing.windows import Time

#: (time, arrival, state, mark): one tuple, where a slice has to keep them. Marks are what queries of windows
#: by content have seen in it, by the name of the query.
Row: TypeAlias = tuple[Time, int, Any, Any]


#: The state of a slice that has to be folded anew from its tuples.
STALE: Final = object()


class Slice:
    """The aggregate of all tuples from `first` to `last`; further tuples join it before `high` only."""

    __slots__ = ("count", "first", "high", "last", "rows", "state")

    def __init__(
        self, first: Time, last: Time, high: Time, count: int, state: Any, rows: list[Row] | None
    ) -> None:
        self.first, self.last, self.high = first, last, high
        self.count, self.state, self.rows = count, state, rows

    def total(self, monoid: Monoid) -> Any:
        """Its aggregate, folded where that is due."""
        if self.state is STALE:
            self.state = folded(monoid, [row[2] for row in self.rows or ()])
        return self.state

    def __repr__(self) -> str:
        return f"<slice [{self.first}, {self.last}] of {self.count}, before {self.high}: {self.state!r}>"


def states_of(monoid: Monoid, slices: Sequence[Slice]) -> list[Any]:
    """The aggregates of some slices."""
    if monoid.commutes:  # then none of them is stale
        return [each.state for each in slices]
    return [each.total(monoid) for each in slices]


def folded(monoid: Monoid, states: Sequence[Any]) -> Any:
    """The aggregate of states, of which there is one at least."""
    if monoid.grows:  # one by one, every state would be copied again for each that follows
        while len(states) > 1:
            pairs = [monoid.combine(states[i], states[i + 1]) for i in range(0, len(states) - 1, 2)]
            states = [*pairs, states[-1]] if len(states) % 2 else pairs
        return states[0]
    return reduce(monoid.combine, states)


def _one(monoid: Monoid, run: Sequence[Slice]) -> Slice:
    """One slice in the place of some that follow each other."""
    first, last = run[0], run[-1]
    rows = None if first.rows is None else [row for each in run for row in each.rows or ()]
    state = folded(monoid, states_of(monoid, run))
    return Slice(first.first, last.last, last.high, sum(each.count for each in run), state, rows)


class Slices:
    """The slices of a stream that are in the process, the oldest first."""

    __slots__ = ("dropped", "firsts", "fresh", "last_dropped", "lineage", "lost", "origin", "slices")

    def __init__(self, slices: list[Slice]) -> None:
        self.slices = slices
        #: the times of their first tuples, to be searched
        self.firsts = [each.first for each in slices]
        #: so many of the first ones are as they were when the aggregate store last looked at the lineage
        self.fresh = 0
        self.lineage: Any = object()
        #: the lineage that this was copied from
        self.origin: Any = None
        #: how many were dropped in front of them, and the last time of a tuple in these
        self.dropped = 0
        self.last_dropped: Time = -math.inf
        #: the same of those that are in no store either
        self.lost: Time = -math.inf

    def copy(self) -> Slices:
        """Another one, to be changed without changing this."""
        copied = self._from(0)
        copied.fresh, copied.origin = self.fresh, self.lineage
        return copied

    def follows(self, lineage: Any) -> bool:
        """Whether a store that has looked at a lineage knows what `fresh` is about."""
        return lineage is not None and (self.lineage is lineage or self.origin is lineage)

    def without(self, count: int, stored: bool = False) -> Slices:
        """The same without the oldest `count`, which a store may have, in the place of this."""
        rest = self._from(count)
        if not stored:
            rest.lost = max(rest.lost, rest.last_dropped)
        rest.fresh, rest.lineage, rest.origin = max(self.fresh - count, 0), self.lineage, self.origin
        return rest

    def joined(self, monoid: Monoid, ends: list[int]) -> Slices:
        """The same with one slice in the place of each run of the first, which end before these places."""
        fewer, start = [], 0
        for end in ends:
            run = self.slices[start:end]
            fewer.append(run[0] if len(run) == 1 else _one(monoid, run))
            start = end
        joined = Slices([*fewer, *self.slices[start:]])
        joined.dropped, joined.last_dropped, joined.lost = self.dropped, self.last_dropped, self.lost
        return joined

    def _from(self, start: int) -> Slices:
        part = Slices([])
        part.slices, part.firsts = self.slices[start:], self.firsts[start:]
        part.dropped, part.last_dropped = self.dropped + start, self.last_dropped
        part.lost = self.lost
        if start:
            part.last_dropped = max(self.last_dropped, self.slices[start - 1].last)
        return part
