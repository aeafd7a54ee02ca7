"""Rounds of evict, insert and query over windows that keep their size, timed in turn."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

from mta.tools.bench.measure import turn_by_turn, uncollected

#: Turns that each window has, and rounds from which its time is guessed before them.
TURNS, FIRST = 5, 4

#: Nanoseconds that a round takes, by contender and size of the window.
Times = Mapping[tuple[str, int], float]


class Anew:
    """A window whose result is a function of all its elements, as where no operator has to be called."""

    def __init__(self, result: Callable[[deque[Any]], Any]) -> None:
        self._result = result
        self._held: deque[Any] = deque()

    def extend(self, values: Iterable[Any]) -> None:
        self._held.extend(values)

    def insert(self, value: Any) -> None:
        self._held.append(value)

    def evict(self, k: int = 1) -> None:
        for _ in range(k):
            self._held.popleft()

    def query(self) -> Any:
        return self._result(self._held)

    def __len__(self) -> int:
        return len(self._held)


class Rounds:
    """A window that is full, and what comes into it: `batch` elements leave and come in before each query."""

    def __init__(self, window: Any, elements: Sequence[Any], size: int, batch: int = 1) -> None:
        self.window, self.batch = window, batch
        self._coming = cycle(elements)
        window.extend(list(islice(self._coming, size)))
        window.query()

    def run(self, count: int) -> float:
        """Nanoseconds of processor time that so many rounds took."""
        coming = list(islice(self._coming, count * self.batch))
        start = time.process_time_ns()
        if self.batch == 1:
            _one_by_one(self.window, coming)
        else:
            _in_batches(self.window, coming, self.batch)
        return time.process_time_ns() - start


def _one_by_one(window: Any, coming: Sequence[Any]) -> None:
    evict, insert, query = window.evict, window.insert, window.query
    for element in coming:
        evict()
        insert(element)
        query()


def _in_batches(window: Any, coming: Sequence[Any], batch: int) -> None:
    evict, insert, query = window.evict, window.insert, window.query
    for start in range(0, len(coming), batch):
        evict(batch)
        for element in coming[start : start + batch]:
            insert(element)
        query()


def take_turns(windows: Mapping[str, Rounds], seconds: float) -> dict[str, float]:
    """Nanoseconds of processor time a round: the median of some turns, which all windows have in turn.

    Each has about so many seconds in all, and a round a turn at least.
    """
    counts = {}
    found: dict[str, list[float]] = {name: [] for name in windows}
    with uncollected():
        for name, rounds in windows.items():
            guess = rounds.run(FIRST) / FIRST
            counts[name] = max(1, int(seconds * 1e9 / TURNS / max(guess, 1.0)))
        for name in turn_by_turn(windows, TURNS):
            found[name].append(windows[name].run(counts[name]) / counts[name])
    return {name: statistics.median(each) for name, each in found.items()}


def break_even(times: Times, who: str, base: str, factor: float = 1.0) -> float | None:
    """The size from which on a contender takes at most 1/factor of what the base takes; None if never.

    Between two sizes that were measured it is where straight lines on logarithmic scales cross.
    """
    sizes = sorted(size for name, size in times if name == who and (base, size) in times)
    ratio = {size: times[base, size] / times[who, size] / factor for size in sizes}
    last = None
    for size in reversed(sizes):
        if ratio[size] < 1:
            if last is None:
                return None
            share = -math.log(ratio[size]) / (math.log(ratio[last]) - math.log(ratio[size]))
            return float(size * (last / size) ** share)
        last = size
    return None if last is None else float(last)
