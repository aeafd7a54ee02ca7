"""A call of a window of several frames has happened or it has not, whatever raises inside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from test_interrupts import LETTERS, fails, places

from mta import AmortizedMTA, LogMTA, monoids
from mta.policies import CountWindow, TimeWindow
from stores import Store, open_store


def window_of(kind: Any, store: Store | None, page_size: int) -> Any:
    """A window with elements at every second time."""
    text = monoids.Concat
    frames = {
        "short": text().over(TimeWindow(9)),
        "long": text().over(TimeWindow(40, closed="both")),
        "before": text().over(TimeWindow(12, closed="left")),
        "late": text().over(TimeWindow(10, delay=7, min_count=2)),
        "last": text().over(CountWindow(5)),
    }
    window = kind(monoids.Fields(**frames), store=store, name="w", page_size=page_size, keep=6)
    window.slide([LETTERS[i % 26] for i in range(29)], [2 * i for i in range(29)])
    if store is not None:
        window.checkpoint()
    for i in range(29, 33):
        window.push(LETTERS[i % 26], 2 * i)
    return window


def seen(window: Any) -> Any:
    asked = [as_of(window, window.youngest + after) for after in (-6, 0, 3, 30)] if len(window) else []
    return window.query(), len(window), window.oldest, window.youngest, asked


def as_of(window: Any, moment: int) -> Any:
    try:
        return window.at(moment)
    except ValueError as error:  # after an eviction by hand there is no past
        assert "gone" in str(error)  # noqa: PT017
        return "gone"


CALLS: dict[str, Callable[[Any], object]] = {
    "push": lambda w: w.push("X", 66),
    "push far": lambda w: w.push("X", 200),
    "insert": lambda w: w.insert("X", 66),
    "extend": lambda w: w.extend(list("UVWXY"), [66, 66, 67, 70, 71]),
    "slide": lambda w: w.slide(list("UVWXY"), [66, 66, 67, 70, 71]),
    "slide by many": lambda w: w.slide(list(LETTERS), range(66, 92)),
    "slide at": lambda w: w.slide(list(LETTERS), range(66, 92), at=[60, 66, 66, 80, 99]),
    "at": lambda w: w.at(70),
    "evict": lambda w: w.evict(),
    "evict many": lambda w: w.evict(7),
    "evict all": lambda w: w.evict(len(w)),
    "evict_until": lambda w: w.evict_until(50),
    "query": lambda w: w.query(),
    "enforce": lambda w: w.enforce(),
}


def goes_on(window: Any, twin: Any) -> None:
    """The window is right from here on."""
    for at in range(12):
        assert window.push(str(at), 210 + 3 * at) == twin.push(str(at), 210 + 3 * at)
    rows = list("+-*/") * 5, range(250, 270)
    for each in (window, twin):
        each.evict(2)
    expected = twin.slide(*rows)
    for name, column in window.slide(*rows).items():
        assert column.tolist() == expected[name].tolist()
    assert seen(window) == seen(twin)


TRIED = [
    *((name, AmortizedMTA, 2) for name in CALLS),
    *((name, LogMTA, 4) for name in ("push", "slide at", "extend", "evict many")),
]


@pytest.mark.parametrize(("name", "kind", "page_size"), TRIED)
def test_a_fault_at_every_call(name: str, kind: Any, page_size: int) -> None:
    call = CALLS[name]
    twins = [window_of(kind, None, page_size) for _ in range(2)]
    call(twins[1])
    states = [seen(twin) for twin in twins]
    for number in places():
        with open_store("memory:") as store:
            window = window_of(kind, store, page_size)
            failed = fails(lambda: call(window), number)  # noqa: B023
            found = seen(window)
            assert found in states, number
            done = found == states[1]
            twin = window_of(kind, None, page_size)
            if done:
                call(twin)
            goes_on(window, twin)
            window.close()
        if not failed:
            assert done
            return
