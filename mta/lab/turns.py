"""Measures windows in turn, so that a slow moment of the machine does not hit one of them alone.

The windows that are compared do the same work in small parts. They take turns, and the order of the turns
changes. `interleaved` and `side_by_side` time any work, `push_in_turns` times pushes under a policy, and
`rounds_in_turns` times rounds of evict, insert and query.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, NamedTuple

#: Turns that each window has in `rounds_in_turns`.
TURNS = 5

#: Nanoseconds that a round takes, by contender and size of the window.
Times = Mapping[tuple[str, int], float]

#: What is done with a window and some elements.
Work = Callable[[Any, Sequence[Any]], None]

#: Gives the next elements of a stream and their times, as many as are asked for.
Source = Callable[[int], tuple[Sequence[Any], Sequence[int]]]


# -- taking turns -----------------------------------------------------------------------------------------


def rotated(names: Iterable[str], turn: int) -> list[str]:
    """The names in the order of a turn: each turn begins with the next name."""
    names = list(names)
    first = turn % len(names)
    return names[first:] + names[:first]


def back_and_forth(names: Iterable[str], turn: int) -> list[str]:
    """The names in the order of a turn: every other turn goes backwards."""
    names = list(names)
    return names[::-1] if turn % 2 else names


def turn_by_turn(names: Iterable[str], turns: int) -> Iterator[str]:
    """Each name once a turn; who is first changes from turn to turn."""
    names = list(names)
    for turn in range(turns):
        yield from rotated(names, turn)


@contextmanager
def uncollected() -> Iterator[None]:
    """What there is by now is not looked at by the garbage collector.

    Else whoever allocates pays for looking at what all contenders hold.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


# -- any work ---------------------------------------------------------------------------------------------


@dataclass
class Timings:
    """Seconds of one contender, an entry a repetition, and how many steps a repetition has."""

    steps: int
    wall: list[float] = field(default_factory=list)
    #: processor time of all threads of this process; that of a server is not in it
    cpu: list[float] = field(default_factory=list)

    def add(self, wall: float, cpu: float) -> None:
        self.wall.append(wall)
        self.cpu.append(cpu)

    @property
    def ns(self) -> float:
        """Median nanoseconds a step."""
        return statistics.median(self.wall) / self.steps * 1e9

    @property
    def cpu_ns(self) -> float:
        return statistics.median(self.cpu) / self.steps * 1e9

    def ratio(self, other: Timings) -> float:
        """Median over repetitions of this one's time a step by the other's in the same repetition."""
        pairs = zip(self.wall, other.wall, strict=False)
        return statistics.median(a / self.steps / (b / other.steps) for a, b in pairs)

    def record(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "wall_seconds": self.wall,
            "cpu_seconds": self.cpu,
            "ns_per_step": self.ns,
            "cpu_ns_per_step": self.cpu_ns,
        }


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds on the clock and of processor time that some work takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    wall = time.perf_counter() - wall
    return wall, time.process_time() - cpu


def interleaved(
    contenders: Mapping[str, Callable[[int], Callable[[], Any]]],
    timings: Mapping[str, Timings],
    repetitions: int,
) -> Iterable[int]:
    """Times every contender in turn, `repetitions` times; each makes its work ready before it is timed."""
    for repetition in range(repetitions):
        for name in back_and_forth(contenders, repetition):
            work = contenders[name](repetition)
            timings[name].add(*timed(work))
        yield repetition


def side_by_side(
    windows: Mapping[str, Any],
    work: Work,
    element: Callable[[int], Any],
    start: int,
    chunk: int,
    repetitions: int,
) -> dict[str, Timings]:
    """The times of some work on chunks of a stream, from an element on."""
    timings = {name: Timings(chunk) for name in windows}
    streams = {name: _chunks_of(window, work, element, start, chunk) for name, window in windows.items()}
    with uncollected():
        for _ in interleaved(streams, timings, repetitions):
            pass
    results = {name: (len(window), window.query()) for name, window in windows.items()}
    if len(set(map(repr, results.values()))) > 1:
        raise AssertionError(f"the windows do not agree: {results}")
    return timings


def _chunks_of(
    window: Any, work: Work, element: Callable[[int], Any], start: int, chunk: int
) -> Callable[[int], Callable[[], None]]:
    def ready(repetition: int) -> Callable[[], None]:
        first = start + repetition * chunk
        values = [element(number) for number in range(first, first + chunk)]
        return lambda: work(window, values)

    return ready


# -- pushes -----------------------------------------------------------------------------------------------


class Turn(NamedTuple):
    """A window, its pushes in each turn, and the source of the elements."""

    window: Any
    pushes: int
    source: Source


class Spent(NamedTuple):
    """Seconds a push, on the clock and of this process's processor time, and what was pushed."""

    seconds: float
    cpu: float
    pushes: int

    def row(self) -> dict[str, float | int]:
        return {"pushes": self.pushes, "ns": self.seconds * 1e9, "cpu_ns": self.cpu * 1e9}


def pushes_of(window: Any, size: int, least: int, most: int | None) -> int:
    """Pushes in which all that a window holds goes at least once, in whole pages, and at least so many.

    No more than `most` where it is given: of windows in which every push costs about the same.
    """
    page = getattr(window, "page_size", 1)
    wanted = -(-max(size, least) // page) * page
    return wanted if most is None else min(wanted, most)


def push_in_turns(windows: Mapping[str, Turn], turns: int) -> dict[str, Spent]:
    """Lets each window have so many turns; who is first changes from round to round."""
    spent = {name: [0.0, 0.0] for name in windows}
    with uncollected():
        for name in turn_by_turn(windows, turns):
            turn = windows[name]
            elements, times = turn.source(turn.pushes)
            wall, cpu = timed(lambda: push_all(turn.window.push, elements, times))  # noqa: B023
            spent[name][0] += wall
            spent[name][1] += cpu
    return {
        name: Spent(wall / pushes, cpu / pushes, pushes)
        for name, (wall, cpu) in spent.items()
        for pushes in (turns * windows[name].pushes,)
    }


def push_all(push: Callable[[Any, int], Any], elements: Sequence[Any], times: Sequence[int]) -> None:
    for element, at in zip(elements, times, strict=True):
        push(element, at)


class ElementSource:
    """Gives the elements of a sequence, one after the other; the times are the positions."""

    def __init__(self, values: Sequence[Any], start: int = 0) -> None:
        self._values, self._at = values, start

    def __call__(self, count: int) -> tuple[Sequence[Any], Sequence[int]]:
        start, self._at = self._at, self._at + count
        found = self._values[start : self._at]
        if len(found) < count:
            raise IndexError(f"the stream has {len(self._values)} elements, and {self._at} are asked for")
        return found, range(start, self._at)


class SameElement:
    """Gives the same element again and again, each a time later."""

    def __init__(self, element: Any, start: int) -> None:
        self._element, self._at = element, start

    def __call__(self, count: int) -> tuple[Sequence[Any], Sequence[int]]:
        start, self._at = self._at, self._at + count
        return [self._element] * count, range(start, self._at)


# -- rounds of evict, insert and query --------------------------------------------------------------------


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


def rounds_in_turns(windows: Mapping[str, Rounds], seconds: float) -> dict[str, float]:
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


class RecomputedWindow:
    """A window whose result is a function of all its elements: no operator is called."""

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
