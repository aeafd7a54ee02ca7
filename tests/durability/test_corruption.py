"""Damage of every kind to every byte: it is found, and the error says where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from mta import AmortizedMTA, ManifestCorrupt, PageCorrupt, PagesLost, monoids, policies
from mta.core.page import Page
from mta.core.states import layout_of
from mta.durability.coding import decode_root
from mta.durability.manifest import PART
from mta.durability.operations import verify
from mta.monoids.base import Monoid
from mta.paging.codec import decode_page, encode_page
from mta.window import MonoidTreeAggregator
from stores.base import PageKey, parse_page_key
from stores.memory import MemoryStore

KINDS: dict[str, Callable[[], Monoid]] = {"columns": monoids.Max, "objects": monoids.Collect}
POLICY = policies.CountWindow(90)


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Callable[[], Monoid]:
    return KINDS[request.param]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as store:
        yield store


def saved(store: MemoryStore, kind: Callable[[], Monoid], name: str = "w", page_size: int = 4) -> None:
    with AmortizedMTA(kind(), POLICY, store=store, name=name, page_size=page_size) as window:
        window.extend([number + 0.25 for number in range(98)])
        window.checkpoint(offset={"line": 98})


def restored(store: MemoryStore, kind: Callable[[], Monoid]) -> MonoidTreeAggregator:
    return AmortizedMTA.restore(store, "w", kind(), POLICY)


def read_all(store: MemoryStore, kind: Callable[[], Monoid]) -> None:
    with restored(store, kind) as window:
        for tier in range(len(window._log.tails)):
            pages = [
                (tier, number)
                for each, start, stop in decode_root("w", store._contents.roots["w"][0]).versions[-1].pages()
                if each == tier
                for number in range(start, stop)
            ]
            window._log.pages.fetch(pages)


def damaged(data: bytes) -> Iterator[bytes]:
    for place in range(len(data)):
        for flip in (1 << place % 8, 0xFF):
            yield data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]
    for length in range(len(data)):
        yield data[:length]
    yield data + b"\0"
    yield data * 2
    yield b""


@pytest.mark.parametrize("tier", [0, 1, 2])
def test_every_damage_to_a_page_is_found(store: MemoryStore, kind: Callable[[], Monoid], tier: int) -> None:
    saved(store, kind)
    read_all(store, kind)
    pages = store._contents.pages
    key = next(key for key in sorted(pages) if parse_page_key(key).tier == tier)
    number, whole = parse_page_key(key).number, pages[key]
    for data in damaged(whole):
        pages[key] = data
        with (
            restored(store, kind) as window,
            pytest.raises(PageCorrupt, match=f"page {number} of tier {tier} of window 'w'"),
        ):
            window._log.pages.fetch([(tier, number)])
        pages[key] = data  # a close must not have touched it
    report = verify(store, "w", kind())
    assert any(f"page {number} of tier {tier}" in problem for problem in report.problems)
    pages[key] = whole
    assert verify(store, "w", kind()).problems == []


def test_every_damage_to_a_part_is_found(store: MemoryStore, kind: Callable[[], Monoid]) -> None:
    saved(store, kind, page_size=1024)
    pages = store._contents.pages
    (key,) = pages
    assert parse_page_key(key).tier == PART
    whole = pages[key]
    for data in damaged(whole):
        pages[key] = data
        with pytest.raises(PageCorrupt, match="part 0 of tier 0 of window 'w'"):
            restored(store, kind)
    assert not verify(store, "w", kind()).ok
    del pages[key]
    with pytest.raises(PagesLost, match="part 0 of tier 0 of window 'w'"):
        restored(store, kind)


def test_every_damage_to_a_manifest_is_found(store: MemoryStore, kind: Callable[[], Monoid]) -> None:
    saved(store, kind)
    whole, token = store._contents.roots["w"]
    for data in damaged(whole):
        store._contents.roots["w"] = data, token
        with pytest.raises(ManifestCorrupt, match="window 'w'"):
            restored(store, kind)
    report = verify(store, "w", kind())
    assert len(report.problems) == 1
    store._contents.roots["w"] = whole, token
    read_all(store, kind)


def test_pages_that_were_swapped_are_found(store: MemoryStore, kind: Callable[[], Monoid]) -> None:
    saved(store, kind)
    saved(store, kind, "v")
    pages = store._contents.pages
    mine = [key for key in sorted(pages) if parse_page_key(key).name == "w"]
    key = mine[-1]
    place = parse_page_key(key)
    whole = pages[key]
    for other in sorted(pages):
        if other == key:
            continue
        pages[key] = pages[other]
        with (
            restored(store, kind) as window,
            pytest.raises(PageCorrupt, match=f"page {place.number} of tier {place.tier} of window 'w'"),
        ):
            window._log.pages.fetch([(place.tier, place.number)])
    pages[key] = whole


def test_a_manifest_of_another_window_is_found(store: MemoryStore, kind: Callable[[], Monoid]) -> None:
    saved(store, kind)
    saved(store, kind, "v")
    store._contents.roots["w"] = store._contents.roots["v"]
    with pytest.raises(ManifestCorrupt, match="window 'w' is that of 'v'"):
        restored(store, kind)


@pytest.mark.parametrize("lost", range(3))
def test_a_page_that_is_gone_is_named(store: MemoryStore, kind: Callable[[], Monoid], lost: int) -> None:
    saved(store, kind)
    pages = store._contents.pages
    key = next(key for key in sorted(pages) if parse_page_key(key).tier == lost)
    del pages[key]
    number = parse_page_key(key).number
    with pytest.raises(PagesLost, match=f"page {number} of tier {lost} of window 'w'"):
        read_all(store, kind)
    report = verify(store, "w")
    assert report.problems == [
        f"version 1: page {number} of tier {lost} is not in the store (key {key!r})",
    ]


def test_a_window_with_a_lost_page_never_answers_wrongly(store: MemoryStore) -> None:
    """Whichever page is gone: every result is right, or an error."""
    saved(store, monoids.Sum)
    pages = store._contents.pages
    wrong = found = 0
    for key in sorted(pages):
        whole = pages.pop(key)
        window = restored(store, monoids.Sum)
        values = [number + 0.25 for number in range(98)]
        with suppress(PagesLost):
            for number in range(98, 200):
                values.append(number + 0.25)
                wrong += window.push(number + 0.25) != sum(values[-90:])
            found -= 1
        found += 1
        window._log.pages.close()
        store._contents.pages = pages = {**pages, key: whole}
    assert wrong == 0
    assert found > 0


def resealed(data: bytes, place: PageKey, change: Callable[[Any, Any], None]) -> bytes:
    """The page with other numbers in it, and a checksum that fits. `change` gets its times and values."""
    layout = layout_of(monoids.Max())
    page = decode_page(layout, data, place.name, place.tier, place.number)
    times, values = page.times.copy(), page.run[0].copy()
    change(times, values)
    return encode_page(layout, place.name, place.number, Page(place.tier, times, (values,)))


@pytest.mark.parametrize("tier", [0, 1])
def test_verify_computes_aggregates_again(store: MemoryStore, tier: int) -> None:
    saved(store, monoids.Max)
    pages = store._contents.pages
    key = next(key for key in sorted(pages) if parse_page_key(key).tier == tier)
    place = parse_page_key(key)

    def change(_: Any, values: Any) -> None:
        values[-1] += 1000

    pages[key] = resealed(pages[key], place, change)
    report = verify(store, "w")
    assert report.monoid == "Max()"
    assert any(f"page {place.number} of tier {tier}: its aggregate is" in each for each in report.problems)


def test_verify_sees_times_that_go_backwards(store: MemoryStore) -> None:
    saved(store, monoids.Max)
    pages = store._contents.pages
    key = sorted(key for key in pages if parse_page_key(key).tier == 0)[3]
    place = parse_page_key(key)

    def change(times: Any, _: Any) -> None:
        times[1] = 2

    pages[key] = resealed(pages[key], place, change)
    (problem,) = verify(store, "w").problems
    assert f"page {place.number} of tier 0: its times go backwards at entry 1: 2 after" in problem


def test_verify_without_the_monoid_says_so(store: MemoryStore) -> None:
    longest = monoids.from_function(max, 0.0)
    with AmortizedMTA(longest, POLICY, store=store, name="w", page_size=4) as window:
        window.extend([0.5] * 98)
        window.checkpoint()
    report = verify(store, "w")
    assert report.ok
    assert report.recomputed == 0
    assert "elements and aggregates, since the monoid is not known" in report.unchecked[0]
    assert verify(store, "w", monoids.from_function(max, 0.0)).recomputed > 0
