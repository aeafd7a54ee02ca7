"""Rounds of evict, insert and query over windows that keep their size, timed in turn."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

from mta.lab.bench.measure import turn_by_turn, uncollected

#: Turns that each window has.
TURNS = 5

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
    """A window that is full, and what comes into it: `batch` elements leave and come in before each query.

    Most algorithms have a few rounds that are dear among many that are cheap: two stacks are flipped once for
    all that the window holds, and pages are folded one by one. Only whole periods of those are measured. In a
    `steady` window every round costs about the same.
    """

    def __init__(
        self, window: Any, elements: Sequence[Any], size: int, batch: int = 1, *, steady: bool = False
    ) -> None:
        self.window, self.batch = window, batch
        #: rounds in which all that is held has gone, and as many whole pages as hold that
        self.period = 1 if steady else _whole(_whole(size, getattr(window, "page_size", 1)), batch) // batch
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


def _whole(number: int, part: int) -> int:
    """The least multiple of a part that is no less than a number."""
    return -(-number // part) * part


def take_turns(windows: Mapping[str, Rounds], seconds: float) -> dict[str, float]:
    """Nanoseconds of processor time a round: the median of some turns, which all windows have in turn.

    Each has about so many seconds in all, and a whole period a turn at least.
    """
    found: dict[str, list[float]] = {name: [] for name in windows}
    with uncollected():
        counts = {name: rounds_within(rounds, seconds / TURNS) for name, rounds in windows.items()}
        for name in turn_by_turn(windows, TURNS):
            found[name].append(windows[name].run(counts[name]) / counts[name])
    return {name: statistics.median(each) for name, each in found.items()}


def rounds_within(rounds: Rounds, seconds: float) -> int:
    """As many whole periods as take about so long, and one at least: found out by running them."""
    nanoseconds, count = seconds * 1e9, rounds.period
    while (spent := rounds.run(count)) * 2 < nanoseconds:
        count *= 2
    return max(1, int(count / rounds.period * nanoseconds / max(spent, 1.0))) * rounds.period


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
