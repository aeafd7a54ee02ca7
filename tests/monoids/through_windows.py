"""Windows of a monoid, driven in every way that they can be, against plain recomputation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any

from mta import AmortizedMTA, LogMTA
from mta.monoids import Monoid
from mta.policies import CountWindow, TimeWindow
from stores import open_store

#: what the elements of a window come to, oldest first
Expected = Callable[[Sequence[Any]], Any]

KINDS = (LogMTA, AmortizedMTA)
PAGES = (2, 4, None)


def results_of(results: Any) -> list[Any]:
    """What `slide` returned, one result a row."""
    if isinstance(results, dict):
        columns = [results_of(column) for column in results.values()]
        return [dict(zip(results, row, strict=True)) for row in zip(*columns, strict=True)]
    listed: list[Any] = results.tolist()
    return listed


def check_everywhere(
    make: Callable[[], Monoid],
    elements: Sequence[Any],
    expected: Expected,
    same: Callable[[Any, Any], bool],
    *,
    width: int,
    batches: Sequence[int] = (3, 1, 7, 40),
) -> None:
    """Windows of both kinds, at several page sizes, with a store and without, give the expected results."""
    for kind in KINDS:
        for page_size in PAGES:
            for policy in (CountWindow(width), TimeWindow(width)):
                # times are counted, so that both policies hold the last `width` elements
                check_without_store(
                    kind(make(), policy, page_size=page_size), elements, expected, same, width, batches
                )
    for page_size in PAGES:
        check_with_store(make, elements, expected, same, width, batches, page_size)


def parts(elements: Sequence[Any], batches: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Batches of the elements, and in which way each comes in."""
    start = 0
    for size, how in zip(cycle(batches), cycle(("push", "slide", "extend", "slide")), strict=False):
        stop = min(start + size, len(elements))
        yield start, stop, how
        start = stop
        if start == len(elements):
            return


def take_in(
    window: Any, elements: Sequence[Any], start: int, stop: int, how: str, answer: Callable[[int], Any]
) -> Iterator[tuple[Any, Any]]:
    """Puts elements in; gives pairs of what the window answers and what is right."""
    some = list(islice(elements, start, stop))
    times = list(range(start, stop))
    if how == "push":
        for row, (value, time) in enumerate(zip(some, times, strict=True), start):
            yield window.push(value, time=time), answer(row)
    elif how == "slide":
        found = results_of(window.slide(some, times))
        yield from zip(found, map(answer, range(start, stop)), strict=True)
    else:
        window.extend(some, times)
    yield window.query(), answer(stop - 1)


def check_without_store(
    window: Any, elements: Sequence[Any], expected: Expected, same: Any, width: int, batches: Sequence[int]
) -> None:
    def answer(row: int) -> Any:
        return expected(elements[max(0, row + 1 - width) : row + 1])

    for start, stop, how in parts(elements, batches):
        for found, wanted in take_in(window, elements, start, stop, how, answer):
            assert same(found, wanted), (window, start, stop, how, found, wanted)
    held = elements[max(0, len(elements) - width) :]
    for cut in range(0, len(held), max(1, len(held) // 5)):
        first = len(elements) - len(held) + cut
        found = window.range_query(first, len(elements))
        assert same(found, expected(held[cut:])), (window, cut, found)
    while len(window) > 3:
        window.evict(3)
        assert same(window.query(), expected(elements[len(elements) - len(window) :]))


def check_with_store(
    make: Callable[[], Monoid],
    elements: Sequence[Any],
    expected: Expected,
    same: Any,
    width: int,
    batches: Sequence[int],
    page_size: int | None,
) -> None:
    def answer(row: int) -> Any:
        return expected(elements[max(0, row + 1 - width) : row + 1])

    with open_store("memory://") as store:
        window: Any = AmortizedMTA(make(), CountWindow(width), store=store, name="w", page_size=page_size)
        for start, stop, how in parts(elements, batches):
            for found, wanted in take_in(window, elements, start, stop, how, answer):
                assert same(found, wanted), (window, start, stop, how, found, wanted)
            window.checkpoint(stop)
            if how != "push":
                window.close()
                window = AmortizedMTA.restore(store, "w", make(), CountWindow(width))
                assert same(window.query(), answer(stop - 1))
        window.close()
