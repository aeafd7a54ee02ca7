"""A plain reference for windows over a stream: sort by event time, compute each window from scratch.

Calls nothing of the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tumbling:
    length: Any
    offset: Any = 0


@dataclass(frozen=True)
class Sliding:
    length: Any
    slide: Any


@dataclass(frozen=True)
class Session:
    gap: Any


@dataclass(frozen=True)
class CountSliding:
    length: int
    slide: int


@dataclass(frozen=True)
class Cut:
    """Windows that a tuple opens, by the first tuple of the window before: Delta and Punctuation."""

    opens: Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Spans:
    """Windows of a user: all that hold a time."""

    holding: Callable[[Any], list[tuple[Any, Any]]]


#: (time, arrival, value)
Tuple = tuple[Any, int, Any]
#: (start, end, when complete, tuples)
Window = tuple[Any, Any, Any, list[Tuple]]


def spans_of(kind: Any) -> Callable[[Any], list[tuple[Any, Any]]]:
    """The windows with known edges that hold a time."""
    if isinstance(kind, Tumbling):
        return lambda time: [_holding(time, kind.length, kind.offset)]
    if isinstance(kind, Sliding):
        return lambda time: _sliding(time, kind)
    return kind.holding


def windows(kind: Any, tuples: list[Tuple], ended: bool = False) -> list[Window]:
    """All windows that have a tuple. `tuples` are in the order of their times."""
    if isinstance(kind, (Tumbling, Sliding, Spans)):
        spans = sorted({span for time, _, _ in tuples for span in spans_of(kind)(time)})
        return [(s, e, e, [each for each in tuples if s <= each[0] < e]) for s, e in spans]
    if isinstance(kind, CountSliding):
        starts = range(0, len(tuples) - kind.length + 1, kind.slide)
        each = ((s, s + kind.length, tuples[s : s + kind.length]) for s in starts)
        return [(s, e, part[-1][0], part) for s, e, part in each]
    runs: list[list[Tuple]] = []
    for one in tuples:
        if isinstance(kind, Session):
            new = not runs or one[0] > runs[-1][-1][0] + kind.gap
        else:
            new = not runs or kind.opens(runs[-1][0][2], one[2])
        runs.append([one]) if new else runs[-1].append(one)
    if isinstance(kind, Session):
        return [(run[0][0], run[-1][0] + kind.gap, run[-1][0] + kind.gap, run) for run in runs]
    ends = [run[0][0] for run in runs[1:]] + [math.inf] * ended
    return [(run[0][0], end, end, run) for run, end in zip(runs, ends, strict=False)]


def _holding(time: Any, length: Any, offset: Any) -> tuple[Any, Any]:
    start = (time - offset) // length * length + offset
    return start, start + length


def _sliding(time: Any, kind: Sliding) -> list[tuple[Any, Any]]:
    start = time // kind.slide * kind.slide
    spans = []
    while start + kind.length > time:
        spans.append((start, start + kind.length))
        start -= kind.slide
    return spans


class EdgeQuery:
    """Windows with known edges. Those that are over are never looked at again."""

    def __init__(self, kind: Any, since: Any, kept: list[Tuple], horizon: Any) -> None:  # noqa: ARG002
        self.kind, self.since = kind, since
        self.tuples = [each for each in kept if each[0] >= since]
        self.over = -math.inf
        self.given: dict[Any, list[int]] = {}

    def is_late(self, time: Any, horizon: Any) -> bool:
        if time >= horizon:
            return False
        return time < self.since or all(end <= horizon for _, end in spans_of(self.kind)(time))

    def keep(self, one: Tuple, late: bool) -> None:  # noqa: ARG002
        """All tuples count, since late tuples are in no window that is emitted again."""
        if one[0] >= self.since:
            self.tuples.append(one)

    def due(self, watermark: Any, horizon: Any) -> list[tuple[Any, ...]]:
        found = []
        for start, end, at, part in windows(self.kind, sorted(self.tuples)):
            arrivals = [arrival for _, arrival, _ in part]
            if self.over < end <= watermark and self.given.get((start, end)) != arrivals:
                found.append((at, start, end, part, (start, end) in self.given))
                self.given[start, end] = arrivals
        self.over = horizon
        return found


class SessionQuery:
    """Sessions, merged as tuples come. A session that is over stays closed."""

    def __init__(self, kind: Session, since: Any, kept: list[Tuple], horizon: Any) -> None:
        self.gap, self.since = kind.gap, since
        runs = windows(kind, sorted(each for each in kept if each[0] >= since))
        self.open: list[list[Tuple]] = [part for _, _, _, part in runs]
        self.closed: list[list[Tuple]] = []
        self.shut = -math.inf
        self.given: dict[tuple[int, ...], bool] = {}
        self.seen: set[int] = set()
        self._close(horizon)

    def _close(self, horizon: Any) -> None:
        while self.open and self.open[0][-1][0] + self.gap < horizon:
            self.shut = self.open[0][-1][0]
            self.closed.append(self.open.pop(0))

    def _near(self, time: Any) -> list[list[Tuple]]:
        return [one for one in self.open if one[0][0] <= time + self.gap and time <= one[-1][0] + self.gap]

    def is_late(self, time: Any, horizon: Any) -> bool:
        if time >= horizon:
            return False
        if time < self.since or time <= self.shut:
            return True
        return time + self.gap < horizon and not self._near(time)

    def keep(self, one: Tuple, late: bool) -> None:
        if late:
            self.shut = max(self.shut, one[0])
            # windows that were over before a query with history came are not emitted yet
            for session in self.closed:
                if session[0][0] <= one[0] <= session[-1][0]:
                    session.append(one)
                    session.sort()
        elif one[0] >= self.since:
            near = self._near(one[0])
            merged = sorted([one, *(each for session in near for each in session)])
            self.open = sorted([*(each for each in self.open if each not in near), merged])

    def now(self) -> list[Window]:
        ends = [part[-1][0] + self.gap for part in self.open]
        return [(part[0][0], end, end, part) for part, end in zip(self.open, ends, strict=True)]

    def due(self, watermark: Any, horizon: Any) -> list[tuple[Any, ...]]:
        found = []
        for part in [*self.closed, *self.open]:
            arrivals = tuple(arrival for _, arrival, _ in part)
            start, end = part[0][0], part[-1][0] + self.gap
            if end < watermark and arrivals not in self.given:
                found.append((end, start, end, part, not self.seen.isdisjoint(arrivals)))
                self.given[arrivals] = True
        self.seen.update(arrival for _, _, _, part, _ in found for _, arrival, _ in part)
        self.closed = []
        self._close(horizon)
        self.closed = []
        return found


class CountQuery:
    """Windows by count. Tuples in windows that are over keep their numbers."""

    def __init__(self, kind: CountSliding, since: Any, kept: list[Tuple], horizon: Any) -> None:  # noqa: ARG002
        self.kind, self.since = kind, since
        self.tuples = [each for each in kept if each[0] >= since]
        #: windows that end by this number are over
        self.over = 0
        self.given: dict[int, list[int]] = {}

    def is_late(self, time: Any, horizon: Any) -> bool:
        if time >= horizon:
            return False
        first = next(s for s in itertools.count(0, self.kind.slide) if s + self.kind.length > self.over)
        return time < self.since or sum(at <= time for at, _, _ in self.tuples) < first

    def keep(self, one: Tuple, late: bool) -> None:
        if not late and one[0] >= self.since:
            self.tuples.append(one)

    def due(self, watermark: Any, horizon: Any) -> list[tuple[Any, ...]]:
        found = []
        for start, end, at, part in windows(self.kind, sorted(self.tuples)):
            arrivals = [arrival for _, arrival, _ in part]
            if end > self.over and at <= watermark and self.given.get(start) != arrivals:
                found.append((at, start, end, part, start in self.given))
                self.given[start] = arrivals
        self.over = sum(at <= horizon for at, _, _ in self.tuples)
        return found


class CutQuery:
    """Windows that tuples open. One is over once the tuple that opens the next one is."""

    def __init__(self, kind: Cut, since: Any, kept: list[Tuple], horizon: Any) -> None:  # noqa: ARG002
        self.kind, self.since = kind, since
        self.tuples = [each for each in kept if each[0] >= since]
        self.any_over = False
        self.given: dict[int, list[int]] = {}
        self.seen: set[int] = set()

    def is_late(self, time: Any, horizon: Any) -> bool:
        if time >= horizon:
            return False
        return time < self.since or (self.any_over and time < min(self.tuples)[0])

    def keep(self, one: Tuple, late: bool) -> None:
        if not late and one[0] >= self.since:
            self.tuples.append(one)

    def due(self, watermark: Any, horizon: Any) -> list[tuple[Any, ...]]:
        found, present = [], {}
        ordered = sorted(self.tuples)
        for start, end, at, part in windows(self.kind, ordered, watermark == math.inf):
            arrivals = [arrival for _, arrival, _ in part]
            if at <= watermark:
                present[arrivals[0]] = arrivals
                if self.given.get(arrivals[0]) != arrivals:
                    found.append((at, start, end, part, not self.seen.isdisjoint(arrivals)))
            if at <= horizon:
                self.any_over = True
                self.tuples = [each for each in self.tuples if each[1] not in arrivals]
        # a window that was part of another one, and is there again, is emitted again
        self.given = present
        self.seen.update(arrival for arrivals in present.values() for arrival in arrivals)
        return found


QUERIES: dict[type, Any] = {
    Tumbling: EdgeQuery,
    Sliding: EdgeQuery,
    Spans: EdgeQuery,
    Session: SessionQuery,
    CountSliding: CountQuery,
    Cut: CutQuery,
}


@dataclass
class Plain:
    """A slicer that keeps every tuple for ever and computes all anew at each watermark."""

    queries: dict[str, Any]
    result: Callable[[list[Any]], Any]
    lateness: Any
    #: whether slices go to a store, which takes nothing that is further behind than the lateness
    stored: bool = False
    #: the lateness of queries that have their own
    own: dict[str, Any] = field(default_factory=dict)
    #: all tuples that are kept, and the late tuples with the queries for which they are late
    tuples: list[Tuple] = field(default_factory=list)
    late: list[tuple[Any, Any, tuple[str, ...]]] = field(default_factory=list)
    late_dropped: int = 0
    time: Any = -math.inf
    floor: Any = -math.inf
    #: the name of a query to the time from which it sees tuples
    since: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)

    def horizon(self, name: str) -> Any:
        return self.time - self.own.get(name, self.lateness)

    def _least(self) -> Any:
        """The time before which slices may be in a store, where they do not change."""
        self.floor = max(self.floor, min(map(self.horizon, self.queries), default=self.time - self.lateness))
        return self.floor

    def without(self, name: str) -> None:
        for told in (self.queries, self.states, self.since, self.own):
            told.pop(name, None)
        if self.stored:
            self._least()

    def _begin(self) -> None:
        for name, kind in self.queries.items():
            if name not in self.states:
                since = self.since.get(name, -math.inf)
                self.states[name] = QUERIES[type(kind)](kind, since, self.tuples, self.horizon(name))

    def insert(self, value: Any, time: Any) -> bool:
        """Whether a query takes the tuple."""
        self._begin()
        least = min(map(self.horizon, self.queries), default=self.time - self.lateness)
        least = self._least() if self.stored else least
        late = [name for name, state in self.states.items() if state.is_late(time, self.horizon(name))]
        if (self.stored or not self.queries or self.time == math.inf) and time < least:
            late = list(self.queries)
        names = tuple(name for name in self.queries if name in late)
        if names:
            self.late.append((value, time, names))
        if len(names) == len(self.queries) and (names or time < least):
            self.late_dropped += 1
            return False
        one = (time, len(self.tuples), value)
        self.tuples.append(one)
        for name, state in self.states.items():
            state.keep(one, name in late)
        return True

    def watermark(self, time: Any) -> list[tuple[Any, ...]]:
        self._begin()
        self.time = time
        self._least()
        found = []
        for place, name in enumerate(self.queries):
            for at, start, end, part, is_update in self.states[name].due(time, self.horizon(name)):
                value = self.result([value for _, _, value in part])
                found.append(((at, place, start), (name, start, end, value, is_update)))
        return [result for _, result in sorted(found, key=lambda each: each[0])]
