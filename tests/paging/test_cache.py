"""The cache alone: bounded, with pages on their way, and reading ahead that may fail."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from paging.parts import SHIFT, lane_of, page, same, writer_of

from mta.errors import PagesLost
from mta.paging.background import Lane, Pool
from mta.paging.cache import CACHED, Cache
from mta.paging.page_writer import Sending
from mta.paging.read_ahead import MOST_SMALL, ReadAhead
from stores import StoreUnavailable, WrapperStore, open_store
from stores.testing import CountingStore, FaultyStore


class Case:
    def __init__(self, store: CountingStore | FaultyStore | WrapperStore, pages: int = 100) -> None:
        self.store = store
        self.first: dict[int, int] = {}
        self.writer, self.ahead = writer_of(store), ReadAhead(SHIFT)
        self.lane = lane_of(store)
        self.cache = Cache(self.writer, self.first, self.lane)
        self.cache.follow(self.ahead)
        names = [(0, number) for number in range(pages)]
        self.writer.write([Sending(name, self.writer.key(name), page(*name)) for name in names])
        self.most = CACHED + self.ahead.depth


@pytest.fixture
def store() -> Iterator[CountingStore]:
    with CountingStore(open_store("memory:")) as store:
        yield store


def names(*numbers: int) -> list[tuple[int, int]]:
    return [(0, number) for number in numbers]


def test_what_was_read_is_kept_and_bounded(store: CountingStore) -> None:
    case = Case(store, 300)
    found = case.cache.read(names(*range(10)))
    assert store.calls["get_many"] == 1
    assert all(same(found[0, number], page(0, number)) for number in range(10))
    assert case.cache.get((0, 3)) is found[0, 3]
    for number in range(10, 300):
        case.cache.read(names(number))
        case.cache.get((0, 3))
        assert len(case.cache) <= case.most
    assert case.cache.get((0, 3)) is found[0, 3]  # used all the time
    assert case.cache.get((0, 4)) is None
    case.cache.reserve(case.most + 100)
    case.cache.read(names(*range(5, 90)))
    assert len(case.cache) > case.most


def test_pages_that_were_walked_over_go_first(store: CountingStore) -> None:
    case = Case(store, 200)
    case.cache.read(names(0, 1, 2))
    case.cache.get((0, 0))
    case.ahead.head_at(1)
    case.cache.walked_over(names(0))
    case.cache.read(names(*range(3, case.most + 1)))
    assert case.cache.get((0, 0)) is None
    assert case.cache.get((0, 1)) is not None


def test_what_is_read_ahead_takes_one_call_and_comes_once(store: CountingStore) -> None:
    case = Case(store)
    case.cache.read_ahead(names(*range(1, 20)), case.ahead)
    assert (0, 5) in case.cache
    case.cache.read_ahead(names(*range(1, 20)), case.ahead)
    assert same(case.cache.get((0, 5)), page(0, 5))
    assert all(same(case.cache.get((0, number)), page(0, number)) for number in range(1, 20))
    assert store.calls["get_many"] == 1
    case.cache.read_ahead(names(*range(10, 25)), case.ahead)  # fewer than half of them are missing
    case.cache.finish()
    assert store.calls["get_many"] == 1
    case.cache.read_ahead(names(*range(15, 27)), case.ahead)
    case.cache.finish()
    assert store.calls["get_many"] == 2


def test_who_needs_a_page_that_is_on_its_way_waits_for_it() -> None:
    class Gate(WrapperStore):
        opened = threading.Event()

        def _around(self, call, action):  # type: ignore[no-untyped-def]
            if call == "get_many" and threading.current_thread() is not threading.main_thread():
                assert self.opened.wait(300)
            return action()

    with Gate(open_store("memory:")) as store:
        case = Case(store)
        depth = case.ahead.depth = 8
        case.cache.read_ahead(names(1, 2, 3), case.ahead)
        threading.Timer(0.05, store.opened.set).start()
        assert same(case.cache.get((0, 2)), page(0, 2))
        # whether the lane's thread or this one did it
        assert case.ahead.depth in (depth, MOST_SMALL)
        assert case.cache.get((0, 9)) is None


def test_who_waits_for_one_page_does_not_wait_for_those_asked_for_after_it(store: CountingStore) -> None:
    case = Case(store)
    no_threads = Lane(Pool(most=0))  # who waits does the work himself
    cache = Cache(case.writer, case.first, no_threads)
    cache.read_ahead(names(1, 2), case.ahead)
    cache.read_ahead(names(3, 4), case.ahead)
    assert store.calls["get_many"] == 0
    assert same(cache.get((0, 2)), page(0, 2))
    assert store.calls["get_many"] == 1
    assert same(cache.get((0, 4)), page(0, 4))
    assert store.calls["get_many"] == 2
    cache.read_ahead(names(5, 6), case.ahead)
    cache.finish()
    assert store.calls["get_many"] == 3


def test_reading_ahead_that_fails_is_no_error_of_anybody() -> None:
    down = True
    with FaultyStore(open_store("memory:"), lambda call, _: down and call == "get_many") as store:
        case = Case(store)
        case.cache.read_ahead(names(1, 2, 3), case.ahead)
        assert case.cache.get((0, 2)) is None
        with pytest.raises(StoreUnavailable):
            case.cache.read(names(2))
        down = False
        assert same(case.cache.read(names(2))[0, 2], page(0, 2))
    with CountingStore(open_store("memory:")) as other:
        case = Case(other)
        case.cache.read_ahead(names(1, 1000), case.ahead)
        assert case.cache.get((0, 1)) is None
        with pytest.raises(PagesLost, match="page 1000 of tier 0"):
            case.cache.read(names(1000))


def test_pages_behind_the_head_go_and_are_not_kept(store: CountingStore) -> None:
    case = Case(store)
    case.cache.read(names(1, 2, 3))
    case.cache.read_ahead(names(4, 5), case.ahead)
    case.first[0] = 3
    case.cache.drop_below(0, 3)
    assert case.cache.get((0, 2)) is None
    assert case.cache.get((0, 3)) is not None
    case.first[0] = 5
    case.cache.drop_below(0, 5)
    assert case.cache.get((0, 4)) is None
    assert case.cache.get((0, 5)) is not None
    assert case.cache.read(names(1))[0, 1].times.tolist() == page(0, 1).times.tolist()
    assert case.cache.get((0, 1)) is None


def test_written_pages_are_kept_if_the_head_comes_to_them_soon(store: CountingStore) -> None:
    case = Case(store)
    depth = case.ahead.depth
    for number in (0, depth - 1, depth, depth + 50):
        case.cache.offer((0, number), page(0, number))
    assert [number for number in (0, depth - 1, depth, depth + 50) if (0, number) in case.cache] == [
        0,
        depth - 1,
    ]
    case.ahead.head_at(60)
    case.cache.offer((0, depth + 50), page(0, depth + 50))
    assert (0, depth + 50) in case.cache
    case.cache.forget(names(depth + 50, 7))
    assert (0, depth + 50) not in case.cache


def test_after_the_end_nothing_is_read_ahead(store: CountingStore) -> None:
    case = Case(store)
    case.cache.stop()
    case.cache.read_ahead(names(1, 2, 3), case.ahead)
    case.cache.close()
    assert store.calls["get_many"] == 0
    assert len(case.cache) == 0
