"""Buckets: an aggregate for each window, as stream processors keep them."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from heapq import heappop, heappush
from operator import attrgetter, itemgetter
from typing import Any

from mta.core.states import fold_states
from mta.kinds import State, Time
from mta.monoids.base import Monoid
from mta.slicing.rivals.base import Rival
from mta.slicing.window_manager import Result, TimedResult
from mta.slicing.windows import EdgeWindow, Session, Span

_ORDER, _START = itemgetter(0, 1), attrgetter("start")


@dataclass(slots=True, eq=False)
class Bucket:
    """The aggregate of a window; its tuples where their order matters."""

    start: Time
    last: Time
    state: State = None
    #: (time, arrival, state) of each tuple, in order
    tuples: list[tuple[Time, int, State]] = field(default_factory=list)
    #: whether a result was emitted, and whether the bucket has changed since then
    emitted: bool = False
    changed: bool = True

    def add(self, monoid: Monoid, time: Time, arrival: int, state: State) -> None:
        if not monoid.commutes:
            insort(self.tuples, (time, arrival, state), key=_ORDER)
        else:
            self.state = state if self.state is None else monoid.combine(self.state, state)
        self.changed = True

    def absorb(self, monoid: Monoid, other: Bucket) -> None:
        """Merges the bucket of a later session into this one."""
        self.start, self.last = min(self.start, other.start), max(self.last, other.last)
        self.emitted = self.emitted or other.emitted
        if monoid.commutes:
            self.state = monoid.combine(self.state, other.state)
        else:
            self.tuples = sorted(self.tuples + other.tuples, key=_ORDER)

    def aggregate(self, monoid: Monoid) -> Any:
        return self.state if monoid.commutes else fold_states(monoid, [each[2] for each in self.tuples])


class Buckets(Rival):
    """A bucket for each window by time and each session; a tuple is added to all windows that hold it."""

    takes, takes_only = (EdgeWindow, Session), ", and a tuple does not leave its bucket"

    def __init__(self, monoid: Monoid, queries: Any, *, lateness: float = 0) -> None:
        super().__init__(monoid, queries, lateness=lateness)
        self._fixed: list[tuple[int, str, EdgeWindow, dict[Span, Bucket], list[Any]]] = []
        self._sessions: list[tuple[int, str, Time, list[Bucket], list[Time]]] = []
        for index, (name, kind) in enumerate(self.kinds.items()):
            if isinstance(kind, EdgeWindow):
                self._fixed.append((index, name, kind, {}, []))
            elif isinstance(kind, Session):
                self._sessions.append((index, name, kind.gap, [], [-math.inf]))
        self._late: list[tuple[int, str, Span, Bucket]] = []

    def _take(self, time: Time, arrival: int, state: State) -> bool:
        monoid, horizon = self.monoid, self._time - self.lateness
        taken = bool(time >= horizon)
        for index, name, kind, buckets, ends in self._fixed:
            for span in kind.holding(time):
                if span[1] <= horizon:
                    continue
                taken = True
                bucket = buckets.get(span)
                if bucket is None:
                    bucket = buckets[span] = Bucket(span[0], span[0])
                    heappush(ends, (span[1], span[0]))
                if span[1] <= self._time and not (bucket.emitted and bucket.changed):
                    self._late.append((index, name, span, bucket))
                bucket.add(monoid, time, arrival, state)
        refusing = []
        for query in self._sessions:
            _, _, gap, sessions, over = query
            oldest = sessions[0].start if sessions else horizon
            if time > over[0] and time + gap >= min(horizon, oldest):
                self._join(sessions, gap, time, arrival, state)
                taken = True
            else:
                refusing.append(over)
        if taken:
            for over in refusing:
                over[0] = max(over[0], time)
        return taken

    def _join(self, sessions: list[Bucket], gap: Time, time: Time, arrival: int, state: State) -> None:
        at = bisect_right(sessions, time, key=_START)
        if at and time <= sessions[at - 1].last + gap:
            bucket = sessions[at - 1]
            bucket.last = max(bucket.last, time)
        else:
            bucket = Bucket(time, time)
            sessions.insert(at, bucket)
            at += 1
        bucket.add(self.monoid, time, arrival, state)
        if at < len(sessions) and sessions[at].start <= sessions[at - 1].last + gap:
            sessions[at - 1].absorb(self.monoid, sessions.pop(at))

    def _due(self, time: Time) -> list[TimedResult]:
        horizon = time - self.lateness
        found = [self._result(*each) for each in self._late if each[3].changed]
        self._late = []
        for index, name, _, buckets, ends in self._fixed:
            while ends and ends[0][0] <= time:
                end, start = heappop(ends)
                bucket = buckets[start, end]
                if bucket.changed:
                    found.append(self._result(index, name, (start, end), bucket))
            for span in [span for span in buckets if span[1] <= horizon]:
                del buckets[span]
        for index, name, gap, sessions, over in self._sessions:
            found += [
                self._result(index, name, (bucket.start, bucket.last + gap), bucket)
                for bucket in sessions
                if bucket.changed and bucket.last + gap < time
            ]
            over[0] = max([over[0], *(one.last for one in sessions if one.last + gap < horizon)])
            sessions[:] = [bucket for bucket in sessions if bucket.last + gap >= horizon]
        return found

    def _result(self, index: int, name: str, span: Span, bucket: Bucket) -> TimedResult:
        value = self.monoid.lower(bucket.aggregate(self.monoid))
        result = Result(name, *span, value, bucket.emitted)
        bucket.emitted, bucket.changed = True, False
        return TimedResult(span[1], index, result)
