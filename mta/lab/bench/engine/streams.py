"""Windows that are given the same stream, chunk by chunk in turn, and must agree at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mta.lab.bench.measure import Timings, interleaved, uncollected

#: What is done with a window and some elements of the stream.
Work = Callable[[Any, Sequence[Any]], None]


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
    streams = {name: _stream(window, work, element, start, chunk) for name, window in windows.items()}
    with uncollected():
        for _ in interleaved(streams, timings, repetitions):
            pass
    results = {name: (len(window), window.query()) for name, window in windows.items()}
    if len(set(map(repr, results.values()))) > 1:
        raise AssertionError(f"the windows do not agree: {results}")
    return timings


def _stream(
    window: Any, work: Work, element: Callable[[int], Any], start: int, chunk: int
) -> Callable[[int], Callable[[], None]]:
    def ready(repetition: int) -> Callable[[], None]:
        first = start + repetition * chunk
        values = [element(number) for number in range(first, first + chunk)]
        return lambda: work(window, values)

    return ready
