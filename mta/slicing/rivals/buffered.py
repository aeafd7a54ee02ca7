"""A buffer holds tuples back until none can be late; behind it is any algorithm for streams in order."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

from mta.baselines import DABA, BaseIntervals
from mta.kinds import State, Time
from mta.monoids.base import Monoid
from mta.slicing.rivals.base import Rival
from mta.slicing.window_manager import Result, TimedResult
from mta.slicing.windows import EdgeWindow, Session, Sliding, Window


class Buffered(Rival):
    """A buffer before an algorithm: results come when they are final, `lateness` later than a Slicer's."""

    takes, takes_only = (Sliding, Session), "; this takes Tumbling, Sliding and Session"

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        self._buffer: list[tuple[Time, int, Any]] = []
        #: the time up to which the windows of each query were looked at
        self._seen_until: dict[str, Time] = dict.fromkeys(self.kinds, -math.inf)

    def _take(self, time: Time, arrival: int, state: State) -> bool:
        # the algorithm cannot insert a tuple before those that it has
        if time < self._time - self.lateness:
            return False
        heappush(self._buffer, (time, arrival, state))
        return True

    def _due(self, time: Time) -> list[TimedResult]:
        horizon = time - self.lateness
        ready = []
        while self._buffer and self._buffer[0][0] < horizon:
            ready.append(heappop(self._buffer))
        found: list[TimedResult] = []
        for index, (name, kind) in enumerate(self.kinds.items()):
            for start, end, state in self._finished(name, kind, ready, horizon):
                found.append(TimedResult(end, index, Result(name, start, end, self.monoid.lower(state))))
        self._evict(horizon)
        return found

    @abstractmethod
    def _finished(self, name: str, kind: Window, ready: list[Any], horizon: Time) -> Iterator[Any]:
        """Start, end and state of the windows that end by the horizon; `ready` has the new tuples."""

    def _evict(self, horizon: Time) -> None:
        """Drops what no query needs."""


class HeldDABA(Buffered):
    """A DABA for each query."""

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        self._windows = {name: DABA(_Unlowered(monoid)) for name in self.kinds}

    def _finished(self, name: str, kind: Window, ready: list[Any], horizon: Time) -> Iterator[Any]:
        window = self._windows[name]
        if isinstance(kind, Session):
            for time, _, state in ready:
                if window.youngest is not None and time > window.youngest + kind.gap:
                    yield window.oldest, window.youngest + kind.gap, window.query()
                    window.evict(len(window))
                window.insert(state, time)
            if window.youngest is not None and window.youngest + kind.gap < horizon:
                yield window.oldest, window.youngest + kind.gap, window.query()
                window.evict(len(window))
            return
        assert isinstance(kind, EdgeWindow)
        for time, _, state in ready:
            yield from self._ended(name, kind, window, time)
            window.insert(state, time)
        yield from self._ended(name, kind, window, horizon)

    def _ended(self, name: str, kind: EdgeWindow, window: DABA, until: Time) -> Iterator[Any]:
        """The windows that end by a time; all their tuples have come."""
        while window.oldest is not None:
            at = max(self._seen_until[name], window.oldest)
            edge = kind.edge_after(at)
            if edge is None or edge > until:
                return
            for start, end in kind.ending(at, edge):
                while window.oldest is not None and window.oldest < start:
                    window.evict()
                if len(window):
                    yield start, end, window.query()
            self._seen_until[name] = edge


class HeldIntervals(Buffered):
    """One B-Int for all queries: it holds the tuples of the longest window and looks up the others."""

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        self._intervals = BaseIntervals(_Unlowered(monoid))
        self._times: list[Time] = []
        #: the tuples that the last query brought in
        self._inserted: list[Any] = []
        #: the time from which the sessions of each query were not emitted
        self._open: dict[str, Time] = dict.fromkeys(self.kinds, -math.inf)

    def _finished(self, name: str, kind: Window, ready: list[Any], horizon: Time) -> Iterator[Any]:
        if self._inserted is not ready:
            for time, _, state in ready:
                self._intervals.insert(state, time)
                self._times.append(time)
            self._inserted = ready
        if isinstance(kind, Session):
            yield from self._sessions(name, kind.gap, horizon)
            return
        assert isinstance(kind, EdgeWindow)
        times = self._times
        at = self._seen_until[name]
        if at == -math.inf and times:
            at = kind.reach(times[0])
        while times and at < horizon:
            edge = kind.edge_after(at)
            if edge is None or edge > horizon:
                break
            for start, end in kind.ending(at, edge):
                first, last = bisect_left(times, start), bisect_left(times, end)
                if first < last:
                    yield start, end, self._intervals.lookup(first, last)
            index = bisect_left(times, kind.reach(edge))
            # skip to the windows of the next tuple if those that hold the edge have no tuple before it
            at = edge if index < len(times) and times[index] < edge else self._skip(kind, edge)
        self._seen_until[name] = at

    def _skip(self, kind: EdgeWindow, edge: Time) -> Time:
        index = bisect_left(self._times, edge)
        return max(edge, kind.reach(self._times[index])) if index < len(self._times) else edge

    def _sessions(self, name: str, gap: Time, horizon: Time) -> Iterator[Any]:
        times = self._times
        first = bisect_left(times, self._open[name])
        for index in range(first, len(times)):
            ended = times[index] + gap
            if ended < horizon if index + 1 == len(times) else times[index + 1] > ended:
                yield times[first], ended, self._intervals.lookup(first, index + 1)
                first = index + 1
        self._open[name] = times[first] if first < len(times) else horizon

    def _evict(self, horizon: Time) -> None:
        needed = horizon
        for name, kind in self.kinds.items():
            reach = self._open[name] if isinstance(kind, Session) else kind.reach(horizon)  # type: ignore[attr-defined]
            needed = min(needed, reach)
        count = bisect_left(self._times, needed)
        self._intervals.evict(count)
        del self._times[:count]


class _Unlowered(Monoid):
    """A monoid of states: rivals insert states that are lifted, and get states that are not lowered."""

    def __init__(self, inner: Monoid) -> None:
        self.identity = inner.identity
        self.combine = inner.combine  # type: ignore[method-assign]

    def lift(self, value: Any) -> Any:
        return value

    def combine(self, older: State, younger: State) -> State:
        raise NotImplementedError
