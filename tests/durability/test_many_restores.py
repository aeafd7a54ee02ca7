"""A window that was restored often costs in proportion to how often: each restore has an epoch of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mta import AmortizedMTA, monoids
from mta.durability.manifest import Extents
from mta.policies import CountWindow
from stores import open_store


class Lines:
    """Counts the lines that run in `mta`, in all threads that start meanwhile, and in this one."""

    def __init__(self) -> None:
        self.count = 0

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if "/mta/" not in frame.f_code.co_filename or "/tests/" in frame.f_code.co_filename:
            return None
        self.count += event == "line"
        return self._trace

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)  # type: ignore[arg-type]


def restored(store: Any, times: int) -> AmortizedMTA:
    """A window with a page of each of so many writers, and one that goes on with it."""
    policy = CountWindow(2 * times)
    window = AmortizedMTA(monoids.Sum(), policy, store=store, name="often", page_size=2)
    for number in range(times):
        window.extend([number, 1])
        window.checkpoint()
        window.close()
        window = AmortizedMTA.restore(store, "often", monoids.Sum(), policy)
    return window


CALLS: dict[str, Callable[[AmortizedMTA], Any]] = {
    "checkpoint": lambda window: window.checkpoint(),
    "pages come and go, and a checkpoint": lambda window: (window.slide([1] * 40), window.checkpoint()),
    "close": lambda window: window.close(),
    "close after pages that do not count": lambda window: (window.extend([1] * 40), window.close()),
}


@pytest.mark.parametrize("label", CALLS)
def test_calls_of_a_window_that_was_restored_often(label: str) -> None:
    lines = {}
    for times in (60, 240):
        with open_store("memory:") as store:
            window = restored(store, times)
            counter = Lines()
            with counter.counted():
                CALLS[label](window)
            lines[times] = counter.count
            window.close()
            with AmortizedMTA.restore(store, "often", monoids.Sum(), CountWindow(2 * times)) as window:
                assert len(window) == 2 * times
    assert lines[240] <= 4.5 * lines[60], lines


def test_a_page_of_many_writers_is_found_without_asking_all() -> None:
    lines = {}
    for times in (60, 600):
        extents = Extents((*((epoch, 8 * epoch) for epoch in range(1, times)), (times, None)), 2)
        assert extents.epoch_of(0, 0) == 1
        counter = Lines()
        with counter.counted():
            found = [extents.epoch_of(0, 2 * each) for each in range(50)]
            assert extents.epoch_of(0, 10**9) == times
            assert list(extents.ranges(1, 0, 3)) == [(2, 0, 1), (4, 1, 2), (6, 2, 3)]
        assert found == list(range(1, 51))
        lines[times] = counter.count
    assert lines[600] == lines[60]
