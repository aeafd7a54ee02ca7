"""For which queries a tuple is late: those of which all windows that it belongs to are over.

A window is over once the watermark is `lateness` behind its end: it is neither given again nor changed.
A tuple that is late for all queries is left out. One that is late for some only counts for the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from mta.slicing.progress.content import ContentProgress
from mta.slicing.progress.counts import CountProgress
from mta.slicing.progress.sessions import SessionProgress
from mta.slicing.sliced_stream import Stream
from mta.slicing.stream_slicer import Query
from mta.slicing.windows import EdgeWindow, Session, Time, is_counted


class Late(NamedTuple):
    """A tuple that is late for some queries."""

    value: Any
    time: Any
    #: the names of the queries for which it does not count: of all, or others have taken it
    queries: tuple[str, ...]
    #: of which key it is, where the stream is taken apart by one
    key: Any = None


class Refusal(NamedTuple):
    """A tuple that is late for one query, and is kept for others: which it is of some, and when it was."""

    place: int
    query: str
    time: Time


class Verdict(NamedTuple):
    """What becomes of some tuples."""

    kept: list[bool]
    #: in the order in which the tuples come
    refused: list[Refusal]
    #: for which queries each is late, where that is asked for
    queries: list[tuple[str, ...]]


class Gate:
    """Tells for which queries a tuple is late, at one watermark."""

    def __init__(
        self, queries: Mapping[str, Query], watermark: Time, lateness: Time, stored: Time | None = None
    ) -> None:
        """`stored` is the time before which slices may be in a store, as of before; None without one."""
        self._queries, self._watermark = queries, watermark
        allowed = [query.lateness for query in queries.values()] or [lateness]
        #: tuples before this time are late, whatever windows hold them: slices in a store do not change
        self.floor: Time = -math.inf
        if stored is not None or watermark == math.inf or not queries:
            self.floor = max(watermark - max(allowed), -math.inf if stored is None else stored)
        #: tuples from this time on are late for no query
        self.open_from: Time = max(watermark - min(allowed), self.floor)

    def judge(self, stream: Stream | None, times: list[Time], named: bool = False) -> Verdict:
        """What becomes of tuples of one stream, in the order in which they come."""
        everyone = tuple(self._queries)
        # what is judged behind others is no rule for what comes later, as the call may fail yet
        alone = len(times) == 1
        if stream is not None and alone:
            (time,) = times
            late_upto, taken_from = stream.judged
            if time <= late_upto and time < self._edges_from:
                return Verdict([False], [], [everyone if named else ()])
            if time >= taken_from and time >= self.floor:
                stream.judged = -math.inf, taken_from
                return Verdict([True], [], [self._late_for(time, []) if named else ()])
        gates = self._gates(stream)
        verdict = Verdict([], [], [])
        for place, time in enumerate(times):
            if time < self.floor:
                verdict.kept.append(False)
                verdict.queries.append(everyone)
                continue
            refusing = [gate for gate in gates if gate.is_late(time)]
            kept = bool(time >= self._edges_from) or len(refusing) < len(gates)
            if kept:
                for gate in gates:
                    if gate not in refusing:
                        gate.take(time)
                    else:
                        gate.refuse(time)
                        verdict.refused.append(Refusal(place, gate.name, time))
            verdict.kept.append(kept)
            verdict.queries.append(self._late_for(time, refusing) if named else ())
            if stream is not None and gates:
                # a tuple that is kept may have earlier ones join its session
                late_upto, taken_from = stream.judged
                late_upto = -math.inf if kept else max(late_upto, time) if alone else late_upto
                if alone and not refusing:
                    taken_from = min(taken_from, time)
                stream.judged = late_upto, taken_from
        return verdict

    @cached_property
    def _edges(self) -> dict[str, Time]:
        """Of each query of windows with known edges the start of the oldest that is not over.

        One is left out where numbers do not tell its windows apart at so great a horizon.
        """
        found = {}
        for name, (kind, since, lateness) in self._queries.items():
            if isinstance(kind, EdgeWindow) and not is_counted(kind):
                horizon = self._watermark - lateness
                try:
                    start = horizon if abs(horizon) == math.inf else kind.reach(horizon)
                except ValueError:
                    continue
                found[name] = max(start, min(since, horizon))
        return found

    @cached_property
    def _edges_from(self) -> Time:
        return min(self._edges.values(), default=math.inf)

    @cached_property
    def _others(self) -> dict[str, Query]:
        return {name: query for name, query in self._queries.items() if name not in self._edges}

    def _gates(self, stream: Stream | None) -> list[_One]:
        gates: list[_One] = []
        for name, (kind, since, lateness) in self._others.items():
            horizon = self._watermark - lateness
            if isinstance(kind, Session):
                gates.append(_Sessions(name, kind, since, horizon, stream))
            elif isinstance(kind, EdgeWindow) and not is_counted(kind):
                gates.append(_Edges(name, kind, since, horizon))
            else:
                gates.append(_Tuples(name, since, horizon, stream))
        return gates

    def _late_for(self, time: Time, refusing: list[_One]) -> tuple[str, ...]:
        late = {gate.name for gate in refusing}
        late.update(name for name, start in self._edges.items() if time < start)
        return tuple(name for name in self._queries if name in late)


class _One:
    """What one query takes, tuple by tuple."""

    name: str

    def is_late(self, time: Time) -> bool:
        raise NotImplementedError

    def take(self, time: Time) -> None:
        """Tells that the tuple of a time counts for it."""

    def refuse(self, time: Time) -> None:
        """Tells that the tuple of a time came too late for it, and counts for others."""


class _Edges(_One):
    """What a query of windows with known edges takes, where it is not known which is the oldest."""

    def __init__(self, name: str, kind: EdgeWindow, since: Time, horizon: Time) -> None:
        self.name, self._kind, self._since, self._horizon = name, kind, since, horizon

    def is_late(self, time: Time) -> bool:
        if time >= self._horizon:
            return False
        return bool(time < self._since or self._kind.last_end(time) <= self._horizon)


class _Sessions(_One):
    """What a query of sessions takes: a session of one tuple that is not over, and what joins an open one.

    All tuples after those that are over are in open sessions, of which the oldest one begins at `_oldest`.
    """

    def __init__(self, name: str, kind: Session, since: Time, horizon: Time, stream: Stream | None) -> None:
        self.name, self._gap, self._since, self._horizon = name, kind.gap, since, horizon
        self._over, self._oldest = -math.inf, math.inf
        if stream is not None:
            progress = stream.progress[name]
            assert isinstance(progress, SessionProgress)
            self._over, self._oldest = progress.final, progress.oldest(stream)

    def is_late(self, time: Time) -> bool:
        if time <= self._over or time < min(self._since, self._horizon):
            return True
        return bool(time + self._gap < min(self._horizon, self._oldest))

    def take(self, time: Time) -> None:
        if time >= self._since:
            self._oldest = min(self._oldest, time)

    def refuse(self, time: Time) -> None:
        self._over = max(self._over, time)


class _Tuples(_One):
    """What a query of windows of so many tuples, or by content, takes: what is behind those that are over."""

    def __init__(self, name: str, since: Time, horizon: Time, stream: Stream | None) -> None:
        self.name, self._open_from = name, min(since, horizon)
        if stream is None:
            return
        known = stream.open_from
        if name not in known:
            progress = stream.progress[name]
            assert isinstance(progress, (ContentProgress, CountProgress))
            known[name] = max(self._open_from, min(progress.open_from(stream), horizon))
        self._open_from = known[name]

    def is_late(self, time: Time) -> bool:
        return bool(time < self._open_from)
