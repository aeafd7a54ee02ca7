"""B-Int: Arasu and Widom, Resource Sharing in Continuous Sliding-Window Aggregates (VLDB 2004)."""

from __future__ import annotations

from mta.baselines.base import Baseline
from mta.kinds import Result, State
from mta.monoids.base import Monoid
from mta.monoids.nulls import Nulls
from mta.options import whole_number
from mta.policies import Policy


class BaseIntervals(Baseline):
    """Stores the aggregates of base intervals: level l has one for the positions i·2^l to (i+1)·2^l - 1.

    An interval is created with its last element and dropped with its first one. Any interval of the window
    consists of at most 2·log2(n) base intervals (1 for n = 1), so a query or a lookup takes fewer combines
    than that. An insertion makes a combine for each live interval that it completes: at most log2(n), less
    than one on average. An eviction makes none.

    >>> from mta import monoids
    >>> from mta.baselines import BaseIntervals
    >>> window = BaseIntervals(monoids.Concat())
    >>> window.extend(list("windows"))
    >>> window.evict(2)
    >>> window.query(), window.lookup(1, 4)
    ('ndows', 'dow')
    """

    __slots__ = ("_first", "_levels", "_next")

    def __init__(self, monoid: Monoid, policy: Policy | None = None, *, nulls: Nulls = "refuse") -> None:
        super().__init__(monoid, policy, nulls=nulls)
        #: _levels[l][i] is the aggregate of interval i of level l, if it is live
        self._levels: list[dict[int, State]] = [{}]
        #: the positions of the oldest element and of the next one
        self._first = 0
        self._next = 0

    def lookup(self, start: int, stop: int) -> Result:
        """The result of the elements `start` to `stop` - 1 of the window, counted from the oldest.

        Raises TypeError unless both are whole numbers, and IndexError unless the window holds all elements.
        """
        start, stop = (whole_number(each, "lookup takes whole numbers") for each in (start, stop))
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"elements {start} to {stop} are not all in a window that holds {len(self)}")
        return self.monoid.lower(self._lookup(self._first + start, self._first + stop))

    def intervals(self) -> list[int]:
        """The number of live base intervals of each level."""
        return [len(level) for level in self._levels]

    def _aggregate(self) -> State:
        return self._lookup(self._first, self._next)

    def _lookup(self, start: int, stop: int) -> State:
        """The aggregate of the positions `start` to `stop` - 1."""
        if start == stop:
            return self._identity
        combine = self._combine
        older: list[State] = []
        younger: list[State] = []
        for level in self._levels:
            # At either end, an interval whose sibling is outside cannot be part of one of the next level.
            if start & 1:
                older.append(level[start])
                start += 1
            if stop & 1:
                stop -= 1
                younger.append(level[stop])
            start >>= 1
            stop >>= 1
            if start >= stop:
                break
        older += reversed(younger)
        agg = older[0]
        for state in older[1:]:
            agg = combine(agg, state)
        return agg

    def _insert(self, state: State) -> None:
        levels, combine = self._levels, self._combine
        made = [state]
        number = self._next
        for level in levels:
            # The second of two siblings completes their parent; if the first has left, no ancestor is live.
            if not number & 1 or number - 1 not in level:
                break
            state = combine(level[number - 1], state)
            made.append(state)
            number >>= 1
        if len(made) > len(levels):
            levels.append({})
        number = self._next
        for level, state in zip(levels, made, strict=False):
            level[number] = state
            number >>= 1
        self._next += 1

    def _evict(self) -> None:
        number = self._first
        for level in self._levels:
            # The intervals that begin here. Other intervals with this element were dropped before.
            level.pop(number, None)
            if number & 1:
                break
            number >>= 1
        self._first += 1
        while len(self._levels) > 1 and not self._levels[-1]:
            self._levels.pop()

    def _head(self) -> State:
        return self._levels[0][self._first]
