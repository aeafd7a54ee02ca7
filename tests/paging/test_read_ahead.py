"""Pages are read ahead while the head walks: few crossings from page to page wait for the store."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from mta import AmortizedMTA, LogMTA, monoids
from mta.paging.read_ahead import FURTHER, LEAST, MOST_SMALL, ReadAhead
from mta.paging.stored import Follower
from mta.policies import CountWindow
from stores import Store, WrapperStore, open_store


class DistantStore(WrapperStore):
    """What is read comes when the head has crossed so many pages more, or when somebody waits for it.

    Counts the crossings in which the window's own thread waited for a read, or read itself.
    """

    def __init__(self, inner: Store, latency: int) -> None:
        super().__init__(inner)
        self.latency = latency
        self.page = 0
        self.crossings = 0
        self.waited: set[int] = set()
        self._user = threading.get_ident()

    def crossed(self, page: int) -> None:
        if page > self.page:
            self.crossings += page - self.page
            self.page = page

    def _around(self, call: str, action: Callable[[], Any]) -> Any:
        if call == "get_many":
            if threading.get_ident() == self._user:
                self.waited.add(self.crossings)
            due = self.crossings + self.latency
            while threading.get_ident() != self._user and self.crossings < due:
                if self._user_waits():
                    self.waited.add(self.crossings)
                    break
                time.sleep(0.0002)
        return action()

    def _user_waits(self) -> bool:
        frame = sys._current_frames()[self._user]
        return frame.f_code.co_name == "finish" and frame.f_code.co_filename.endswith("background.py")


def walk(window: Any, how: str, rows: int, size: int) -> None:
    start = window.youngest + 1
    if how == "push":
        for i in range(start, start + rows):
            window.push(i % 1000)
    elif how == "evict":
        for _ in range(rows):
            window.evict()
    elif how == "evict_until":
        for t in range(window.oldest, window.oldest + rows, max(1, size // 3)):
            window.evict_until(t)
    else:
        batch = max(1, int(how.partition(" ")[2]) * size // 10)
        for i in range(start, start + rows, batch):
            window.slide([j % 1000 for j in range(i, i + batch)])


@pytest.mark.parametrize("how", ["push", "evict", "evict_until", "slide 3", "slide 25", "slide 300"])
@pytest.mark.parametrize("kind", [LogMTA, AmortizedMTA])
@pytest.mark.parametrize(
    ("size", "latency"), [(2, 12), (2, 60), (4, 12), (4, 60), (16, 30), (512, 2), (512, 8), (512, 40)]
)
def test_few_crossings_wait(
    kind: Any, how: str, size: int, latency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DistantStore(open_store("memory:"), latency)
    head_at = Follower.head_at

    def counted(follower: Follower, page: int) -> None:
        store.crossed(page)
        head_at(follower, page)

    monkeypatch.setattr(Follower, "head_at", counted)
    pages = 500 if size < 64 else 200
    rows = (pages - 40) * size
    policy = None if how.startswith("evict") else CountWindow(pages * size)
    with store, kind(monoids.Max(), policy, store=store, page_size=size) as window:
        window.extend([i % 1000 for i in range(pages * size)])
        window.checkpoint()
        walk(window, how, rows, size)
        assert store.crossings >= pages - 42
        assert len(store.waited) < store.crossings / 10, (len(store.waited), store.crossings)
        assert window.query() == max(t % 1000 for t in range(window.oldest, window.youngest + 1))


def test_it_looks_further_where_the_head_had_to_wait() -> None:
    ahead = ReadAhead(14)
    assert ahead.depth == LEAST
    ahead.waited()
    assert ahead.depth == FURTHER
    huge = ReadAhead(20)
    huge.waited()
    assert huge.depth == LEAST  # 32 pages of a million entries each would be most of the memory
    small = ReadAhead(2)
    small.waited()
    assert small.depth == MOST_SMALL


def test_a_head_that_leaps_or_goes_back_does_not_walk() -> None:
    ahead = ReadAhead(3)
    assert list(ahead.head_at(5)) == []  # nothing is known of where it came from
    assert list(ahead.head_at(6)) == [5]
    assert list(ahead.head_at(6)) == []
    assert list(ahead.head_at(9)) == [6, 7, 8]
    assert list(ahead.head_at(20)) == []
    assert list(ahead.head_at(19)) == []
    assert list(ahead.head_at(20)) == [19]


def test_a_head_that_leaps_as_far_each_time_walks() -> None:
    ahead = ReadAhead(9)
    ahead.head_at(500)
    assert list(ahead.head_at(510)) == []
    assert list(ahead.head_at(520)) == list(range(510, 520))
    assert ahead.coming(1 << 60) == [(0, n) for n in range(530, 601, 10)]
    assert ahead.coming(550 << 9) == [(0, 530), (0, 540)]
    assert list(ahead.head_at(531)) == []  # it has lost its pace
    assert ahead.coming(1 << 60) == [(0, n) for n in range(532, 540)]
    for page in (980, 1000):
        ahead.head_at(page)
    assert list(ahead.head_at(1020)) == list(range(1000, 1020))
    assert ahead.coming(1 << 60) == [(0, n) for n in range(1040, 1181, 20)] + [(1, 2)]
    far = ReadAhead(4)
    for page in (100, 105, 110):  # most pages of the next tier too would come with these
        assert list(far.head_at(page)) == []


class ReadKeys(WrapperStore):
    """Knows which keys were read. Two threads may both read a page."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.read: set[str] = set()

    def _get_many(self, keys: list[str]) -> list[bytes | None]:
        self.read.update(keys)
        return super()._get_many(keys)


def test_pages_that_a_batch_leaps_over_are_not_read() -> None:
    with (
        ReadKeys(open_store("memory:")) as store,
        AmortizedMTA(monoids.Max(), CountWindow(200 * 256), store=store, page_size=256) as window,
    ):
        batch = list(range(4 * 256))
        for _ in range(50):
            window.extend(batch)
        window.checkpoint()
        before = set(store.read)
        for _ in range(40):
            window.extend(batch)
            assert window.query() == 1023
        # of 160 pages that came to the head: those that it was in, and what was read ahead at first and at
        # last, which is further where the head had to wait for a page
        assert len(store.read - before) <= 40 + ReadAhead(8).depth + FURTHER


@pytest.mark.parametrize(("shift", "pages"), [(1, 4), (6, 4), (9, 1), (14, 1)])
def test_it_does_not_look_at_every_small_page(shift: int, pages: int) -> None:
    ahead = ReadAhead(shift)
    assert not ahead.is_due()
    looks = []
    for page in range(100, 140):
        ahead.head_at(page)
        if ahead.is_due():
            looks.append(page)
    assert looks == list(range(100, 140, pages))
    ahead.head_at(20)  # from another place on at once
    assert ahead.is_due()


@pytest.mark.parametrize("shift", [1, 2, 3, 9, 14])
def test_what_comes_next_is_of_all_tiers_and_full(shift: int) -> None:
    ahead = ReadAhead(shift)
    assert ahead.coming(1 << 60) == []
    for page in (0, 1, 5, (1 << shift) - 1, 77):
        ahead.head_at(page)
        coming = ahead.coming(1 << 60)
        assert len(set(coming)) == len(coming) <= ahead.depth + 2
        leaves = [number for tier, number in coming if tier == 0]
        assert leaves == list(range(page + 1, page + 1 + len(leaves)))
        assert len(leaves) >= ahead.depth / 2
        # above those leaves, all but what the head is under already
        above = {(tier, number >> shift * tier) for tier in range(1, 9) for number in leaves}
        under = {(tier, page >> shift * tier) for tier in range(1, 9)}
        assert {name for name in coming if name[0]} == above - under
        # near the end of the window
        tail = (page + 3 << shift) + 1
        assert [name for name in ahead.coming(tail) if name[0] == 0] == [(0, page + 1), (0, page + 2)]
        assert all((number + 1) << shift * (tier + 1) <= tail for tier, number in ahead.coming(tail))
