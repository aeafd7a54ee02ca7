"""Spans of time in their order, of which a call changes a few."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Self

#: A run of spans gets no longer than twice this.
RUN = 128

#: The first span to be replaced, the first one behind that stays, and what takes their place.
Edit = tuple[Any, Any, list[Any]]


class Spans:
    """Pairs in their order. Is never changed: it gives its successor, which shares all runs that stay."""

    __slots__ = ("_runs",)

    def __init__(self, spans: Sequence[Any] = ()) -> None:
        self._runs: list[list[Any]] = []
        if spans:
            _cut(list(spans), self._runs)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._runs)

    def __bool__(self) -> bool:
        return bool(self._runs)

    def __contains__(self, span: Any) -> bool:
        runs = self._runs
        run = runs[0] if len(runs) == 1 else runs[self._place(span)[0]] if runs and span <= self.last else ()
        place = bisect_left(run, span)
        return place < len(run) and bool(run[place] == span)

    @property
    def first(self) -> Any:
        return self._runs[0][0]

    @property
    def last(self) -> Any:
        return self._runs[-1][-1]

    def at_least(self, bound: Any, key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
        """The spans from the first one on that is not less than a bound, by what goes up with them."""
        run, place = self._place(bound, key)
        if run < len(self._runs):
            yield from islice(self._runs[run], place, None)
            for number in range(run + 1, len(self._runs)):
                yield from self._runs[number]

    def edited(self, edits: Iterable[Edit]) -> Self:
        """With others in the place of some. Edits go up, and do not overlap."""
        old = self._runs
        successor = type(self)()
        runs = successor._runs
        if len(old) < 2:  # the usual few
            spans, start = old[0] if old else [], 0
            part: list[Any] = []
            for low, high, others in edits:
                stop = bisect_left(spans, low)
                part += spans[start:stop]
                part += others
                start = stop if high is low else bisect_left(spans, high)
            part += spans[start:]
            _cut(part, runs)
            return successor
        run = place = 0
        part = []
        for low, high, spans in edits:
            run_to, place_to = self._place(low)
            if run < run_to:
                run, part = self._closed(run, place, part, run_to, runs)
                runs += old[run:run_to]
                run, place = run_to, 0
            if place < place_to:
                part += old[run][place:place_to]
            part += spans
            run, place = (run_to, place_to) if high is low else self._place(high)
        if run < len(old):
            run, part = self._closed(run, place, part, len(old), runs)
        _cut(part, runs)
        runs += old[run:]
        return successor

    def _closed(
        self, run: int, place: int, part: list[Any], stop: int, runs: list[list[Any]]
    ) -> tuple[int, list[Any]]:
        """Adds a part and the rest of a run to runs; the next run, and what is too little for a run yet."""
        if place or part:
            part += self._runs[run][place:]
            run += 1
            while len(part) < RUN // 4 and run < stop:  # or short runs would become many
                part += self._runs[run]
                run += 1
        if len(part) < RUN // 4:
            return run, part
        _cut(part, runs)
        return run, []

    def _place(self, bound: Any, key: Callable[[Any], Any] | None = None) -> tuple[int, int]:
        """The run and the place in it of the first span that is not less than a bound."""
        runs = self._runs
        run = bisect_left(runs, bound, key=_last if key is None else lambda each: key(each[-1]))
        return run, bisect_left(runs[run], bound, key=key) if run < len(runs) else 0


def _cut(spans: list[Any], runs: list[list[Any]]) -> None:
    """Adds spans to runs, in parts that are short enough."""
    if len(spans) <= 2 * RUN:
        runs += [spans] if spans else []
    else:
        runs += [spans[start : start + RUN] for start in range(0, len(spans), RUN)]


def _last(run: list[Any]) -> Any:
    return run[-1]


NONE = Spans()
