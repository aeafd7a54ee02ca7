"""What windows over a stream come to, told plainly: sort by event time, compute each window from scratch.

Calls nothing of the package.
"""

from __future__ import annotations

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
    """Windows that a tuple opens, in view of the first of the window before: Delta and Punctuation."""

    opens: Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Spans:
    """Windows of a user: all that hold a time."""

    holding: Callable[[Any], list[tuple[Any, Any]]]


#: (time, arrival, value)
Tuple = tuple[Any, int, Any]
#: (start, end, when complete, tuples)
Window = tuple[Any, Any, Any, list[Tuple]]


def windows(kind: Any, tuples: list[Tuple]) -> list[Window]:
    """All windows that have a tuple. `tuples` are in the order of their times."""
    if isinstance(kind, Tumbling):
        kind = Spans(lambda time, k=kind: [_holding(time, k.length, k.offset)])
    if isinstance(kind, Sliding):
        kind = Spans(lambda time, k=kind: _sliding(time, k))
    if isinstance(kind, Spans):
        spans = sorted({span for time, _, _ in tuples for span in kind.holding(time)})
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
    ends = [run[0][0] for run in runs[1:]]
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


@dataclass
class Plain:
    """A slicer that keeps every tuple for ever and computes all anew at each watermark."""

    queries: dict[str, Any]
    result: Callable[[list[Any]], Any]
    lateness: Any
    tuples: list[Tuple] = field(default_factory=list)
    late_dropped: int = 0
    arrivals: int = 0
    time: Any = -math.inf
    #: of each query, window -> arrivals, and all arrivals that were given
    given: dict[str, dict[Any, list[int]]] = field(default_factory=dict)
    seen: dict[str, set[int]] = field(default_factory=dict)
    #: of each query, the time from which on it sees tuples
    since: dict[str, Any] = field(default_factory=dict)

    def insert(self, value: Any, time: Any) -> None:
        if time < self.time - self.lateness:
            self.late_dropped += 1
            return
        self.tuples.append((time, self.arrivals, value))
        self.arrivals += 1

    def watermark(self, time: Any) -> list[tuple[Any, ...]]:
        self.time = time
        ordered = sorted(self.tuples, key=lambda each: each[:2])
        found = []
        for place, (name, kind) in enumerate(self.queries.items()):
            given, seen = self.given.setdefault(name, {}), self.seen.setdefault(name, set())
            mine = [each for each in ordered if each[0] >= self.since.get(name, -math.inf)]
            news, present = [], set()
            for start, end, at, part in windows(kind, mine):
                arrivals = [arrival for _, arrival, _ in part]
                which = start if isinstance(kind, CountSliding) else (start, end)
                if isinstance(kind, Cut):
                    which = arrivals[0]
                if at > time:
                    continue
                present.add(which)
                if given.get(which) == arrivals:
                    continue
                moving = isinstance(kind, (Session, Cut))
                is_update = not seen.isdisjoint(arrivals) if moving else which in given
                value = self.result([value for _, _, value in part])
                found.append(((at, place, start), (name, start, end, value, is_update)))
                news.append((which, arrivals))
            if isinstance(kind, Cut):  # what became part of another window, and comes again, is given again
                for which in given.keys() - present:
                    del given[which]
            for which, arrivals in news:
                given[which] = arrivals
                seen.update(arrivals)
        return [result for _, result in sorted(found, key=lambda each: each[0])]
