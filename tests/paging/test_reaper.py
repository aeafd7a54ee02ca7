"""The reaper alone: what it deletes, what it spares, and what it does about a store that refuses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from paging.parts import OneWriter, lane_of, page, writer_of

from mta.paging.page_writer import Sending
from mta.paging.reaper import DELETE_AT_LEAST, Reaper
from stores import StoreUnavailable, open_store, pages_of, parse_page_key
from stores.testing import CountingStore, FaultyStore

PAGES = 100


class Case:
    def __init__(self, store: Any) -> None:
        self.store, self.keys = store, OneWriter()
        self.first: dict[int, int] = {}
        self.writer, self.lane = writer_of(store, self.keys), lane_of(store)
        self.reaper = Reaper(self.writer, self.first, self.lane)
        self.write(range(PAGES))

    def write(self, numbers: range) -> None:
        names = [(0, number) for number in numbers]
        for name in names:
            self.reaper.expect(name)
        self.writer.write([Sending(name, self.writer.key(name), page(*name)) for name in names])

    def move(self, number: int) -> None:
        before, self.first[0] = self.first.get(0, 0), number
        self.reaper.dropped(0, number - before)
        self.lane.finish()

    def left(self) -> list[int]:
        return sorted(parse_page_key(key).number for key in self.store.list_keys(pages_of("w")))


@pytest.fixture
def store() -> Iterator[CountingStore]:
    with CountingStore(open_store("memory:")) as store:
        yield store


def test_pages_behind_the_head_go_a_range_at_a_time(store: CountingStore) -> None:
    case = Case(store)
    case.move(DELETE_AT_LEAST - 1)
    assert case.left() == list(range(PAGES))
    assert not store.calls["delete_range"]
    case.move(DELETE_AT_LEAST)
    assert case.left() == list(range(DELETE_AT_LEAST, PAGES))
    case.move(90)
    assert case.left() == list(range(90, PAGES))
    assert store.calls["delete_range"] == 2
    case.reaper.start()
    case.lane.finish()
    assert store.calls["delete_range"] == 2


def test_what_a_version_names_stays_until_it_is_given_up(store: CountingStore) -> None:
    case = Case(store)
    case.keys.named[0] = range(20, 40)
    case.move(60)
    assert case.left() == [*range(20, 40), *range(60, PAGES)]
    case.keys.named[0] = range(60, 80)
    case.reaper.start()
    case.lane.finish()
    assert case.left() == list(range(60, PAGES))


def test_pages_of_an_earlier_session_go_too(store: CountingStore) -> None:
    Case(store)
    keys = OneWriter()
    lane = lane_of(store)
    reaper = Reaper(writer_of(store, keys), {0: 50}, lane)
    reaper.resume(0, range(PAGES))
    reaper.dropped(0, 50)
    lane.finish()
    left = sorted(parse_page_key(key).number for key in store.list_keys(pages_of("w")))
    assert left == list(range(50, PAGES))


def test_keys_that_were_given_up_go_at_the_next_occasion(store: CountingStore) -> None:
    case = Case(store)
    case.reaper.give_up([case.writer.key((0, 70))])
    case.reaper.start()
    case.lane.finish()
    assert case.left() == [number for number in range(PAGES) if number != 70]
    case.reaper.start()
    case.move(50)
    assert store.calls["delete_many"] == 1


def test_a_store_that_refuses_is_heard_and_nothing_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    refuses = True
    with FaultyStore(open_store("memory:"), lambda call, _: refuses and "delete" in call) as store:
        case = Case(store)
        case.reaper.give_up([case.writer.key((0, 70))])
        with caplog.at_level(logging.WARNING, logger="stores"):
            case.move(30)
        assert "'w'" in caplog.text
        assert isinstance(case.reaper.failure, StoreUnavailable)
        with pytest.raises(StoreUnavailable):
            case.reaper.check()
        case.reaper.finish()  # does not raise: what is left is for `mta gc`
        assert case.left() == list(range(PAGES))
        refuses = False
        case.reaper.check()
        assert case.reaper.failure is None
        assert case.left() == [number for number in range(30, PAGES) if number != 70]


def test_at_the_end_all_goes_that_no_version_names(store: CountingStore) -> None:
    case = Case(store)
    case.keys.named[0] = range(50, 60)
    case.first[0] = 10
    case.keys.is_known = False
    case.reaper.clear_away()
    assert case.left() == list(range(PAGES))
    case.keys.is_known = True
    case.reaper.clear_away()
    assert case.left() == list(range(50, 60))
