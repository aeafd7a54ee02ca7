"""For which queries a tuple is late: those for which all windows that the tuple belongs to are over.

A window is over once the watermark is `lateness` behind its end: it is neither emitted again nor changed. A
tuple that is late for all queries is left out. A tuple that is late for some queries counts for the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from mta.kinds import Time
from mta.slicing.progress.content import ContentProgress
from mta.slicing.progress.counts import CountProgress
from mta.slicing.progress.sessions import SessionProgress
from mta.slicing.sliced_stream import SlicedStream
from mta.slicing.stream_slicer import Query
from mta.slicing.windows import EdgeWindow, Session, has_edges


class Late(NamedTuple):
    """A tuple that is late for some queries."""

    value: Any
    time: Any
    #: the names of the queries for which it is late; the others count it
    queries: tuple[str, ...]
    #: the key of the tuple; None without keys
    key: Any = None


class Refusal(NamedTuple):
    """A tuple that is late for one query and that other queries take: its row in the batch, and its time."""

    row: int
    query: str
    time: Time


class Verdict(NamedTuple):
    """What is decided about some tuples."""

    #: for each tuple, whether some query takes it
    kept: list[bool]
    #: in the order of the tuples
    refused: list[Refusal]
    #: for each tuple, the queries for which it is late; empty where the names were not asked for
    queries: list[tuple[str, ...]]


class Gate:
    """Decides for which queries a tuple is late, at one watermark."""

    def __init__(
        self, queries: Mapping[str, Query], watermark: Time, lateness: Time, stored: Time | None = None
    ) -> None:
        """`stored` is the time before which a store may have slices already; None without a store."""
        self._queries, self._watermark = queries, watermark
        allowed = [query.lateness for query in queries.values()] or [lateness]
        #: tuples before this time are late for all queries: slices in a store do not change
        self.floor: Time = -math.inf
        if stored is not None or watermark == math.inf or not queries:
            self.floor = max(watermark - max(allowed), -math.inf if stored is None else stored)
        #: tuples from this time on are late for no query
        self.open_from: Time = max(watermark - min(allowed), self.floor)

    def judge(self, stream: SlicedStream | None, times: list[Time], named: bool = False) -> Verdict:
        """The verdict on tuples of one stream, at the times in the order in which they come."""
        everyone = tuple(self._queries)
        # a verdict on one tuple of several is not cached as a rule for later calls: this call may still fail
        alone = len(times) == 1
        if stream is not None and alone:
            (time,) = times
            late_until, taken_from = stream.known_verdicts
            if time <= late_until and time < self._edges_from:
                return Verdict([False], [], [everyone if named else ()])
            if time >= taken_from and time >= self.floor:
                stream.known_verdicts = -math.inf, taken_from
                return Verdict([True], [], [self._late_for(time, []) if named else ()])
        gates = self._query_gates(stream)
        verdict = Verdict([], [], [])
        for row, time in enumerate(times):
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
                        verdict.refused.append(Refusal(row, gate.name, time))
            verdict.kept.append(kept)
            verdict.queries.append(self._late_for(time, refusing) if named else ())
            if stream is not None and gates:
                # earlier tuples may join the session of a tuple that is kept
                late_until, taken_from = stream.known_verdicts
                late_until = -math.inf if kept else max(late_until, time) if alone else late_until
                if alone and not refusing:
                    taken_from = min(taken_from, time)
                stream.known_verdicts = late_until, taken_from
        return verdict

    @cached_property
    def _edges(self) -> dict[str, Time]:
        """For each query of windows with known edges, the start of the oldest window that is not over.

        A query is left out where its windows cannot be told apart at so great a horizon.
        """
        found = {}
        for name, (kind, since, lateness) in self._queries.items():
            if has_edges(kind):
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

    def _query_gates(self, stream: SlicedStream | None) -> list[_QueryGate]:
        gates: list[_QueryGate] = []
        for name, (kind, since, lateness) in self._others.items():
            horizon = self._watermark - lateness
            if isinstance(kind, Session):
                gates.append(_SessionGate(name, kind, since, horizon, stream))
            elif has_edges(kind):
                gates.append(_EdgeGate(name, kind, since, horizon))
            else:
                gates.append(_QueryGate(name, _open_from(name, min(since, horizon), horizon, stream)))
        return gates

    def _late_for(self, time: Time, refusing: list[_QueryGate]) -> tuple[str, ...]:
        late = {gate.name for gate in refusing}
        late.update(name for name, start in self._edges.items() if time < start)
        return tuple(name for name in self._queries if name in late)


class _QueryGate:
    """Which tuples one query takes: those from `_open_from` on, if no subclass says otherwise."""

    def __init__(self, name: str, open_from: Time) -> None:
        self.name, self._open_from = name, open_from

    def is_late(self, time: Time) -> bool:
        return bool(time < self._open_from)

    def take(self, time: Time) -> None:
        """Notes that the query takes a tuple at a time."""

    def refuse(self, time: Time) -> None:
        """Notes that a tuple at a time is late for the query, and that other queries take it."""


class _EdgeGate(_QueryGate):
    """A query of windows with known edges, whose oldest window that is not over is not known."""

    def __init__(self, name: str, kind: EdgeWindow, since: Time, horizon: Time) -> None:
        self.name, self._kind, self._since, self._horizon = name, kind, since, horizon

    def is_late(self, time: Time) -> bool:
        if time >= self._horizon:
            return False
        return bool(time < self._since or self._kind.last_end(time) <= self._horizon)


class _SessionGate(_QueryGate):
    """A query of sessions takes tuples whose session alone is not over, and tuples that join an open session.

    All tuples behind the sessions that are over are in open sessions; the first of them is at `_oldest`.
    """

    def __init__(
        self, name: str, kind: Session, since: Time, horizon: Time, stream: SlicedStream | None
    ) -> None:
        self.name, self._gap, self._since, self._horizon = name, kind.gap, since, horizon
        self._over: Time = -math.inf
        self._oldest: Time = math.inf
        if stream is not None:
            progress = stream.progress[name]
            assert isinstance(progress, SessionProgress)
            self._over, self._oldest = progress.final_until, progress.oldest(stream)

    def is_late(self, time: Time) -> bool:
        if time <= self._over or time < min(self._since, self._horizon):
            return True
        return bool(time + self._gap < min(self._horizon, self._oldest))

    def take(self, time: Time) -> None:
        if time >= self._since:
            self._oldest = min(self._oldest, time)

    def refuse(self, time: Time) -> None:
        self._over = max(self._over, time)


def _open_from(name: str, least: Time, horizon: Time, stream: SlicedStream | None) -> Time:
    """A query of windows by count or by content takes tuples behind the windows that are over."""
    if stream is None:
        return least
    if name not in stream.open_from:
        progress = stream.progress[name]
        assert isinstance(progress, (ContentProgress, CountProgress))
        stream.open_from[name] = max(least, min(progress.open_from(stream), horizon))
    return stream.open_from[name]
