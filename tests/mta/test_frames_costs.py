"""What several windows over one log cost: counted combines, pages and bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from chance import fresh
from test_combines import CONSTANT, Counter

from mta import AmortizedMTA, LogMTA, WindowExists, WindowNotFound, monoids
from mta.policies import CountWindow, Policy, TimeWindow
from stores import CountingStore, open_store, pages_of
from stores.names import parse_page_key

LENGTHS = [100, 1_000, 10_000, 50_000, 200_000]
N = 1 << 18


def windows(frames: list[Policy], monoid: Any) -> dict[str, Any]:
    return {f"f{at}": monoid().over(frame) for at, frame in enumerate(frames)}


def stored_bytes(features: Any) -> tuple[int, int, int]:
    """Bytes and pages in the store behind a window, and pages written."""
    with open_store("memory:") as inner, CountingStore(inner) as store:
        name = fresh("bytes")
        with AmortizedMTA(features, store=store, name=name) as window:
            rng = np.random.default_rng(1)
            for start in range(0, N, 1 << 16):
                window.slide({"x": rng.integers(0, 10**6, 1 << 16)}, np.arange(start, start + (1 << 16)))
            window._log.pages.flush(window._log.tail)
            keys = list(store.list_keys(pages_of(name)))
            return sum(map(len, store.get_many(keys))), len(keys), store.keys_written


def test_five_lengths_are_stored_once() -> None:
    """For the longest, and nothing for the others but their aggregates of pages."""
    one = stored_bytes(windows([TimeWindow(LENGTHS[-1])], lambda: monoids.Max("x")))
    five = stored_bytes(windows([TimeWindow(d) for d in LENGTHS], lambda: monoids.Max("x")))
    assert five[0] <= 1.01 * one[0]
    assert five[1:] == one[1:]


def combines_a_row(frames: list[Policy], kind: Any, page_size: int | None, rows: int, how: str) -> float:
    counter = Counter()
    window = kind(windows(frames, lambda: counter.monoid), page_size=page_size)
    n = 4096
    window.extend([1] * n, range(n))
    before = counter.calls
    if how == "push":
        for time in range(n, n + rows):
            window.push(1, time)
    else:
        window.slide([1] * rows, range(n, n + rows))
    return (counter.calls - before) / rows


@pytest.mark.parametrize("how", ["push", "slide"])
@pytest.mark.parametrize("page_size", [2, 4, 64])
def test_combines_grow_with_the_number_of_frames_and_not_with_their_lengths(page_size: int, how: str) -> None:
    def cost(*frames: Policy) -> float:
        return combines_a_row(list(frames), AmortizedMTA, page_size, 1024, how)

    # each field has its own aggregates of pages: a combine an element, or less with larger pages
    most = CONSTANT + (how == "slide")
    several = cost(*[TimeWindow(150 * each) for each in range(1, 5)])
    longer = cost(*[TimeWindow(600 * each) for each in range(1, 5)])
    assert several <= 4 * most
    assert longer <= 4 * most
    assert cost(TimeWindow(50), TimeWindow(1000, delay=500), CountWindow(700)) <= 3 * most + 1


class Growing(monoids.Concat):
    """Counts its combines, and fails at the one after `left` more."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.left = 0, math.inf

    def combine(self, a: str, b: str) -> str:
        if self.calls >= self.left:
            raise ArithmeticError
        self.calls += 1
        return super().combine(a, b)


LATE = [TimeWindow(20, "left"), TimeWindow(20, delay=30)]


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("page_size", [4, 64, None])
def test_growing_states_of_late_windows_cost_as_those_of_others(kind: Any, page_size: int | None) -> None:
    """Row by row: the nodes over the tail grow with the log, and are not built anew in each call."""

    def combines(frame: Policy) -> int:
        monoid = Growing()
        window = kind({"f": monoid.over(frame)}, page_size=page_size)
        window.extend(["a"] * 1000, range(1000))
        window.slide(["b"], [1000])
        before = monoid.calls
        for time in range(1001, 1257):
            window.slide(["b"], [time])
        return monoid.calls - before

    plain = combines(TimeWindow(20))
    for frame in LATE:
        assert combines(frame) <= plain


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("page_size", [2, 4, None])
def test_nodes_of_a_call_that_fails_do_not_count(kind: Any, page_size: int | None) -> None:
    monoid, values, times = Growing(), [chr(97 + at % 26) for at in range(200)], range(200)
    window = kind({"left": monoid.over(LATE[0]), "late": monoid.over(LATE[1])}, page_size=page_size)
    window.slide(values[:150], times[:150])
    for row in range(150, 200):
        monoid.left = monoid.calls + 3 * (row - 150)
        with pytest.raises(ArithmeticError):
            window.slide(["X", "Y", "Z"] * 8, [row] * 24)
        monoid.left = math.inf
        found = window.slide([values[row]], [row])
        (left,), (late,) = found["left"], found["late"]
        assert left == "".join(values[row - 20 : row])
        assert late == "".join(values[row - 49 : row - 29])


def test_fields_with_the_same_frame_share_a_view() -> None:
    same = windows([TimeWindow(7), TimeWindow(7.0), TimeWindow(7, min_count=3), CountWindow(5)], monoids.Sum)
    window = AmortizedMTA(same)
    assert len(window._framed._frames) == 2
    window.extend([1] * 3, [0, 1, 2])
    assert window.query() == {"f0": 3, "f1": 3, "f2": 3, "f3": 3}
    assert window.at(8) == {"f0": 1, "f1": 1, "f2": None, "f3": 3}


@pytest.mark.parametrize("page_size", [64, 256])
def test_each_frame_reads_each_page_about_once(page_size: int) -> None:
    n = 1 << 13
    frames = [TimeWindow(n // 2), TimeWindow(n - 100), TimeWindow(n // 4, delay=n // 4)]
    with open_store("memory:") as inner, CountingStore(inner) as store:
        window = AmortizedMTA(
            windows(frames, monoids.Max), store=store, page_size=page_size, name=fresh("read")
        )
        window.extend(list(range(n)), range(n))
        window._log.pages.flush(window._log.tail)
        window._log.pages._cache.clear()
        store.reset()
        for start in range(n, 2 * n, 512):
            window.slide(list(range(512)), range(start, start + 512))
        window.close()
        # three heads, and the end of the late window
        assert store.keys_read <= 4 * 1.5 * n / page_size + 40


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("page_size", [4, 64])
def test_pushes_within_a_page_read_nothing(kind: Any, page_size: int) -> None:
    """Also where nothing is read ahead, and ends lag: the pages of the heads and of the ends are kept."""
    n, cells = 1 << 12, [(500, 500), (500, 900), (100, 1500), (700, 0)]
    frames = [TimeWindow(d, delay=delay) if delay else TimeWindow(d, "left") for d, delay in cells]
    with open_store("memory:") as inner, CountingStore(inner) as store:
        window = kind(
            windows(frames, monoids.Max), store=store, page_size=page_size, name=fresh("ends"), cached=0
        )
        window.extend(range(n), range(n))
        window._log.pages.flush(window._log.tail)
        window._log.pages._cache.clear()
        window.push(n, n)
        store.reset()
        within = 0
        for time in range(n + 1, n + 1025):
            views = window._framed.views
            pages = [each // page_size for view in views for each in (view.head, view.end)]
            before = store.keys_read
            window.push(time, time)
            if pages == [each // page_size for view in views for each in (view.head, view.end)]:
                within += store.keys_read - before
        # where a head reaches the boundary of its stack within a page, that page is read again
        assert within <= 20
        # three ends and four heads, of which the heads need pages of upper tiers too
        assert store.keys_read <= (3 + 4 * page_size / (page_size - 1)) * 1024 / page_size + 40
        window.close()


def test_a_log_keeps_elements_for_the_longest_frame_and_no_longer() -> None:
    with open_store("memory:") as store:
        name = fresh("kept")
        window = LogMTA(
            windows([CountWindow(10), TimeWindow(100), TimeWindow(20, delay=150)], monoids.Sum),
            store=store, name=name, page_size=4, retain=1, keep=50,
        )  # fmt: skip
        for start in range(0, 3000, 100):
            window.slide([1] * 100, range(start, start + 100))
        window.checkpoint()
        window._log.pages.delete_behind()
        pages = [key.number for key in map(parse_page_key, store.list_keys(pages_of(name))) if not key.tier]
        # as of 50 before the last element, the late frame begins 170 before that
        assert 2999 - 50 - 170 + 1 - 2 * 4 <= 4 * min(pages) <= 2999 - 50 - 170 + 1
        window.close()


def test_open_begins_and_goes_on() -> None:
    with open_store("memory:") as store:
        features, name = {"a": monoids.Sum().over(5), "b": monoids.Max().over(rows=2)}, fresh("open")
        window = AmortizedMTA.open(store, name, features, page_size=2, keep=3)
        window.extend([1, 2, 3], [0, 1, 2])
        window.checkpoint(offset=3)
        again = AmortizedMTA.open(store, name, features, keep=3)
        assert (again.offset, again.query(), again.page_size) == (3, {"a": 6, "b": 3}, 2)
        again.close()
        with pytest.raises(WindowNotFound, match="no version 7"):
            AmortizedMTA.open(store, name, features, keep=3, version=7)
        with pytest.raises(WindowExists):
            AmortizedMTA(features, store=store, name=name).checkpoint()
