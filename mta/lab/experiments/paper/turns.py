"""Pushing into several windows in turn, so that a slow spell of the machine meets them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mta.lab.bench.measure import timed, turn_by_turn, uncollected


class Turn(NamedTuple):
    """What one window gets: how many pushes a turn, and its next elements, each with its time."""

    window: Any
    pushes: int
    #: the elements and times of so many pushes
    coming: Callable[[int], tuple[Sequence[Any], Sequence[int]]]


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


def take_turns(windows: Mapping[str, Turn], turns: int) -> dict[str, Spent]:
    """Lets each window have so many turns; who is first changes from round to round."""
    spent = {name: [0.0, 0.0] for name in windows}
    with uncollected():
        for name in turn_by_turn(windows, turns):
            turn = windows[name]
            elements, times = turn.coming(turn.pushes)
            wall, cpu = timed(lambda: _push_all(turn.window.push, elements, times))  # noqa: B023
            spent[name][0] += wall
            spent[name][1] += cpu
    return {
        name: Spent(wall / pushes, cpu / pushes, pushes)
        for name, (wall, cpu) in spent.items()
        for pushes in (turns * windows[name].pushes,)
    }


def _push_all(push: Callable[[Any, int], Any], elements: Sequence[Any], times: Sequence[int]) -> None:
    for element, time in zip(elements, times, strict=True):
        push(element, time)


class Stream:
    """The elements of a stream, one after the other, for a window of its own."""

    def __init__(self, values: Sequence[Any], start: int = 0) -> None:
        self._values, self._at = values, start

    def __call__(self, count: int) -> tuple[Sequence[Any], Sequence[int]]:
        start, self._at = self._at, self._at + count
        found = self._values[start : self._at]
        if len(found) < count:
            raise IndexError(f"the stream has {len(self._values)} elements, and {self._at} are asked for")
        return found, range(start, self._at)


class Same:
    """The same element again and again, a time later each."""

    def __init__(self, element: Any, start: int) -> None:
        self._element, self._at = element, start

    def __call__(self, count: int) -> tuple[Sequence[Any], Sequence[int]]:
        start, self._at = self._at, self._at + count
        return [self._element] * count, range(start, self._at)
