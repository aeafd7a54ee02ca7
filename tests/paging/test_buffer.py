"""The buffer alone: bounded, oldest first, with pages that are taken back, errors that are heard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from paging.parts import SIZE, OneWriter, Recorder, lane_of, page, same, writer_of

from mta.paging.buffer import BUFFERED, KEPT_BACK, Buffer, worth_a_call
from stores import StoreUnavailable, WrapperStore, open_store, pages_of, parse_page_key
from stores.testing import CountingStore, FaultyStore


@pytest.fixture
def store() -> Iterator[CountingStore]:
    with CountingStore(open_store("memory:")) as store:
        yield store


class Case:
    def __init__(self, store: Any, keys: OneWriter | None = None, together: int = 1) -> None:
        self.store = store
        self.keys = keys or OneWriter()
        self.writer = writer_of(store, self.keys)
        self.cache, self.reaper, self.lane = Recorder(), Recorder(), lane_of(store)
        self.first: dict[int, int] = {}
        self.buffer = Buffer(self.writer, self.cache, self.reaper, self.lane, self.first, together=together)

    def put(self, numbers: range, mark: int = 0, *, settled: bool = True) -> None:
        for number in numbers:
            self.buffer.put(0, number, page(0, number, mark))
        if settled:
            self.buffer.settle(numbers.stop * SIZE)

    def stored(self) -> list[int]:
        return sorted(parse_page_key(key).number for key in self.store.list_keys(pages_of("w")))


def test_the_youngest_pages_are_kept_back(store: CountingStore) -> None:
    case = Case(store)
    case.put(range(KEPT_BACK))
    case.buffer.make_room()
    case.lane.finish()
    assert case.stored() == []
    assert case.keys.claims == 0
    case.put(range(KEPT_BACK, 5))
    case.lane.finish()
    assert case.stored() == list(range(5 - KEPT_BACK))
    assert len(case.buffer) == KEPT_BACK
    assert same(case.buffer.pages.get((0, 4)), page(0, 4))
    assert case.buffer.pages.get((0, 0)) is None
    assert case.cache.of("offer") == [(0, 0), (0, 1), (0, 2)]
    case.buffer.keep_none_back()
    case.buffer.flush()
    assert case.stored() == list(range(5))
    assert len(case.buffer) == 0


def test_small_pages_wait_for_each_other(store: CountingStore) -> None:
    assert [worth_a_call(shift) for shift in (1, 10, 11, 12, 14, 20)] == [4, 4, 2, 1, 1, 1]
    case = Case(store, together=4)
    for number in range(30):
        case.put(range(number, number + 1))
        case.buffer.make_room()
        case.lane.finish()
        assert len(case.buffer) < KEPT_BACK + 4 <= BUFFERED
        assert len(case.buffer) + len(case.stored()) == number + 1
    assert store.calls["put_many"] == (30 - KEPT_BACK) // 4
    case.buffer.keep_none_back()
    case.buffer.flush()
    assert case.stored() == list(range(30))


def test_pages_go_oldest_first_and_several_a_call(store: CountingStore) -> None:
    case = Case(store)
    case.put(range(100), settled=False)
    case.buffer.settle(100 * SIZE)
    case.buffer.flush()
    assert case.reaper.of("expect") == [(0, number) for number in range(100)]
    assert store.calls["put_many"] <= 1 + -(-100 // BUFFERED)
    found = case.writer.read([(0, 17), (0, 99)])
    assert same(found[0, 17], page(0, 17))
    assert same(found[0, 99], page(0, 99))


def test_what_is_not_in_is_not_written(store: CountingStore) -> None:
    case = Case(store)
    case.put(range(20), settled=False)
    case.buffer.flush()
    assert case.stored() == []
    assert case.reaper.noted == []
    case.buffer.take_back(5 * SIZE)
    assert len(case.buffer) == 5
    case.buffer.flush()
    assert case.stored() == list(range(5))
    assert case.keys.ends == [(1, None)]  # nothing was sent, so the keys stay


def test_early_pages_that_do_not_come_in_change_keys(store: CountingStore) -> None:
    case = Case(store)
    case.put(range(4))
    case.buffer.flush()
    early = [((0, number), page(0, number, 1)) for number in range(4, 8)]
    case.buffer.put_early(early)
    case.put(range(4, 8), 2, settled=False)  # the same elements again, when the batch is added
    case.lane.finish()
    sent = [number for number in case.stored() if number >= 4]
    assert sent
    keys = [case.writer.key((0, number)) for number in sent]
    case.buffer.take_back(4 * SIZE)
    assert case.reaper.of("give up") == [keys]
    assert set(case.cache.of("forget")[-1]) >= {(0, number) for number in sent}
    assert not set(keys) & {case.writer.key((0, number)) for number in sent}
    case.put(range(4, 8), 3)
    case.buffer.flush()
    for number in range(4):
        assert same(case.writer.read([(0, number)])[0, number], page(0, number))
    for number in range(4, 8):
        assert same(case.writer.read([(0, number)])[0, number], page(0, number, 3))


def test_a_page_that_comes_while_its_forerunner_is_written_is_not_taken_for_it() -> None:
    class Meanwhile(WrapperStore):
        act: Any = None

        def _around(self, call: str, action: Any) -> Any:
            done = action()
            if call == "put_many" and self.act is not None:
                act, self.act = self.act, None
                act()
            return done

    with Meanwhile(open_store("memory:")) as store:
        case = Case(store)
        case.put(range(4))
        case.buffer.flush()
        case.lane.finish()
        case.buffer.put_early([((0, number), page(0, number, 1)) for number in range(4, 4 + KEPT_BACK + 1)])

        def another() -> None:
            case.buffer.take_back(4 * SIZE)
            case.put(range(4, 5 + KEPT_BACK), 2)

        store.act = another
        case.lane.finish()  # does what no thread did yet
        if store.act is not None:  # the early pages were written before
            another()
        assert case.buffer.pages.get((0, 4)) is None or same(case.buffer.pages.get((0, 4)), page(0, 4, 2))
        case.buffer.flush()
        assert same(case.writer.read([(0, 4)])[0, 4], page(0, 4, 2))


def test_an_early_page_is_written_once(store: CountingStore) -> None:
    case = Case(store)
    case.buffer.keep_none_back()
    case.buffer.put_early([((0, number), page(0, number)) for number in range(6)])
    case.lane.finish()
    assert store.keys_written == 6
    case.put(range(6))
    assert len(case.buffer) == 0
    case.buffer.flush()
    assert store.keys_written == 6


def test_without_epochs_left_nothing_is_early(store: CountingStore) -> None:
    case = Case(store, OneWriter(epochs=0))
    case.buffer.put_early([((0, 0), page(0, 0))])
    assert len(case.buffer) == 0


def test_an_interrupted_call_is_mended(store: CountingStore) -> None:
    case = Case(store)
    case.put(range(4))
    case.buffer.put_early([((0, 4), page(0, 4))])
    case.buffer.mend(4 * SIZE)
    assert (0, 4) not in case.buffer
    assert not case.buffer.early
    case.put(range(4, 6), settled=False)
    case.buffer.mend(6 * SIZE)  # they came in, and it was not said
    case.buffer.flush()
    assert [number for number in case.stored() if number < 6] == list(range(6))


def test_pages_behind_the_head_are_not_written(store: CountingStore) -> None:
    case = Case(store)
    case.put(range(4), settled=False)
    case.buffer.put(1, 0, page(1, 0))
    case.buffer.drop_below(0, 4)
    case.buffer.settle(4 * SIZE)
    case.buffer.flush()
    assert [parse_page_key(key).tier for key in store.list_keys(pages_of("w"))] == [1]


def test_the_caller_hears_why_there_is_no_room() -> None:
    down = True
    with FaultyStore(open_store("memory:"), lambda call, _: down and call == "put_many") as store:
        case = Case(store)
        case.put(range(BUFFERED + 2))
        case.lane.finish()
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="put_many"):
                case.buffer.make_room()
        assert len(case.buffer) == BUFFERED + 2  # nothing was lost
        down = False
        case.buffer.make_room()
        assert len(case.buffer) == KEPT_BACK
        case.buffer.flush()
        assert case.stored() == list(range(BUFFERED + 2))


def test_a_full_buffer_without_a_store_that_answers_stays_bounded() -> None:
    with FaultyStore(open_store("memory:"), 1.0) as store:
        case = Case(store)
        for number in range(BUFFERED + 1):
            case.buffer.make_room()
            case.put(range(number, number + 1))
        with pytest.raises(StoreUnavailable):
            case.buffer.make_room()
        assert len(case.buffer) == BUFFERED + 1
