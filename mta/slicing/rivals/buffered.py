"""Tuples held back until none can be late any more, and then any algorithm for streams in order."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from mta.baselines import DABA, BaseIntervals
from mta.monoids.base import Monoid
from mta.slicing.rivals.base import Rival
from mta.slicing.window_manager import Result, Timed
from mta.slicing.windows import EdgeWindow, Session, Sliding, Time, Window, is_counted


class Held(Rival):
    """A buffer before an algorithm: results come when they are final, `lateness` after a Slicer's."""

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        for name, kind in self.kinds.items():
            if is_counted(kind) or not isinstance(kind, (Sliding, Session)):
                raise ValueError(f"the query {name!r} is {kind!r}; this takes Tumbling, Sliding and Session")
        self._held: list[tuple[Time, int, Any]] = []
        #: how far each query is: where its next window may begin or end
        self._at: dict[str, Time] = dict.fromkeys(self.kinds, -math.inf)

    def _take(self, time: Time, arrival: int, state: Any) -> bool:
        # what the algorithm has taken in can have none before it
        if time < self._time - self.lateness:
            return False
        heappush(self._held, (time, arrival, state))
        return True

    def _due(self, time: Time) -> list[Timed]:
        horizon = time - self.lateness
        ready = []
        while self._held and self._held[0][0] < horizon:
            ready.append(heappop(self._held))
        found: list[Timed] = []
        for place, (name, kind) in enumerate(self.kinds.items()):
            for start, end, state in self._finished(name, kind, ready, horizon):
                found.append(Timed(end, place, Result(name, start, end, self.monoid.lower(state))))
        self._forget(horizon)
        return found

    @abstractmethod
    def _finished(self, name: str, kind: Window, ready: list[Any], horizon: Time) -> Iterator[Any]:
        """The windows of a query that end by the horizon, after tuples that are ready have come."""

    def _forget(self, horizon: Time) -> None:
        """Lets go of what no query needs."""


class HeldDABA(Held):
    """A DABA of its own for each query."""

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        self._windows = {name: DABA(_Unlowered(monoid)) for name in self.kinds}

    def _finished(self, name: str, kind: Window, ready: list[Any], horizon: Time) -> Iterator[Any]:
        window = self._windows[name]
        if isinstance(kind, Session):
            for time, _, state in ready:
                if len(window) and time > window.youngest + kind.gap:
                    yield window.oldest, window.youngest + kind.gap, window.query()
                    window.evict(len(window))
                window.insert(state, time)
            if len(window) and window.youngest + kind.gap < horizon:
                yield window.oldest, window.youngest + kind.gap, window.query()
                window.evict(len(window))
            return
        assert isinstance(kind, EdgeWindow)
        for time, _, state in ready:
            yield from self._ended(name, kind, window, time)
            window.insert(state, time)
        yield from self._ended(name, kind, window, horizon)

    def _ended(self, name: str, kind: EdgeWindow, window: DABA, until: Time) -> Iterator[Any]:
        """The windows that end by a time, of which all tuples are in."""
        while len(window):
            at = max(self._at[name], window.oldest)
            edge = kind.edge_after(at)
            if edge is None or edge > until:
                return
            for start, end in kind.ending(at, edge):
                while len(window) and window.oldest < start:
                    window.evict()
                if len(window):
                    yield start, end, window.query()
            self._at[name] = edge


class HeldIntervals(Held):
    """One B-Int for all queries, which registers the longest and looks up the others in it."""

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        self._intervals = BaseIntervals(_Unlowered(monoid))
        self._times: list[Time] = []
        self._taken: list[Any] = []
        #: of each query of sessions, the time from which on they are not given
        self._open: dict[str, Time] = dict.fromkeys(self.kinds, -math.inf)

    def _finished(self, name: str, kind: Window, ready: list[Any], horizon: Time) -> Iterator[Any]:
        if self._taken is not ready:
            for time, _, state in ready:
                self._intervals.insert(state, time)
                self._times.append(time)
            self._taken = ready
        if isinstance(kind, Session):
            yield from self._sessions(name, kind.gap, horizon)
            return
        assert isinstance(kind, EdgeWindow)
        times = self._times
        at = self._at[name]
        if at == -math.inf and times:
            at = kind.reach(times[0])
        while times and at < horizon:
            edge = kind.edge_after(at)
            if edge is None or edge > horizon:
                break
            for start, end in kind.ending(at, edge):
                yield from self._lookup(start, end, end)
            place = bisect_left(times, kind.reach(edge))
            # where the windows that hold the edge have no tuple before it, the next tuple's begin
            at = edge if place < len(times) and times[place] < edge else self._skip(kind, edge)
        self._at[name] = at

    def _skip(self, kind: EdgeWindow, edge: Time) -> Time:
        place = bisect_left(self._times, edge)
        return max(edge, kind.reach(self._times[place])) if place < len(self._times) else edge

    def _lookup(self, start: Time, stop: Time, end: Time) -> Iterator[Any]:
        first, last = bisect_left(self._times, start), bisect_left(self._times, stop)
        if first < last:
            yield start, end, self._intervals.lookup(first, last)

    def _sessions(self, name: str, gap: Time, horizon: Time) -> Iterator[Any]:
        times = self._times
        first = bisect_left(times, self._open[name])
        for place in range(first, len(times)):
            ended = times[place] + gap
            if ended < horizon if place + 1 == len(times) else times[place + 1] > ended:
                yield times[first], ended, self._intervals.lookup(first, place + 1)
                first = place + 1
        self._open[name] = times[first] if first < len(times) else horizon

    def _forget(self, horizon: Time) -> None:
        needed = horizon
        for name, kind in self.kinds.items():
            reach = self._open[name] if isinstance(kind, Session) else kind.reach(horizon)  # type: ignore[attr-defined]
            needed = min(needed, reach)
        count = bisect_left(self._times, needed)
        self._intervals.evict(count)
        del self._times[:count]


class _Unlowered(Monoid):
    """A monoid of states: what a rival inserts is lifted, and what it asks for is not lowered."""

    def __init__(self, inner: Monoid) -> None:
        self.identity = inner.identity
        self.combine = inner.combine  # type: ignore[method-assign]

    def lift(self, value: Any) -> Any:
        return value

    def combine(self, older: Any, younger: Any) -> Any:
        raise NotImplementedError
