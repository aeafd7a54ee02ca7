"""Pages as bytes: round trips, and every damage found out."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import SUBJECTS

from mta import AmortizedMTA, PageCorrupt, monoids
from mta.core.page import Page
from mta.core.states import layout_of
from mta.monoids import Monoid
from mta.paging.codec import decode_page, encode_page
from stores import open_store

COUNT = 8


def page_of(monoid: Monoid, values: list[Any], times: list[Any], tier: int = 0) -> Page:
    layout = layout_of(monoid)
    rows = layout.gather_rows([monoid.row(value) for value in values])
    return Page(tier, np.array(times), rows if tier == 0 else layout.lift(rows))


def assert_equal(layout: Any, a: Page, b: Page) -> None:
    assert a.tier == b.tier
    assert a.times.dtype == b.times.dtype
    assert a.times.tolist() == b.times.tolist()
    if isinstance(a.run, tuple):
        assert [column.dtype for column in a.run] == [column.dtype for column in b.run]
        assert [column.tolist() for column in a.run] == [column.tolist() for column in b.run]
    else:
        assert a.run == b.run
        assert list(map(type, a.run)) == list(map(type, b.run))
    assert layout.state_list(a.states(layout)) == layout.state_list(b.states(layout))


@pytest.mark.parametrize("tier", [0, 1, 5])
@pytest.mark.parametrize("name", SUBJECTS)
def test_round_trip(name: str, tier: int) -> None:
    subject = SUBJECTS[name]
    monoid = subject.make()
    layout = layout_of(monoid)
    for times in (list(range(COUNT)), [i * 0.5 for i in range(COUNT)], [-(2**63) + 1] * COUNT):
        page = page_of(monoid, [subject.element(i, i) for i in range(COUNT)], times, tier)
        data = encode_page(layout, "window", 3, page)
        assert isinstance(data, bytes)
        assert_equal(layout, decode_page(layout, data, "window", tier, 3), page)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)),
            st.one_of(
                st.text(st.characters(exclude_categories=["Cs"])),
                st.integers(),
                st.tuples(st.integers()),
                st.floats(allow_nan=False),
            ),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_any_columns(rows: list[Any]) -> None:
    monoid = monoids.ArgMax()
    layout = layout_of(monoid)
    page = page_of(monoid, rows, list(range(len(rows))))
    assert_equal(layout, decode_page(layout, encode_page(layout, "w", 0, page), "w", 0, 0), page)


@pytest.mark.parametrize(
    "values", [[(1, 2), (3, 4)], [[1, 2], [3, 4]], [(1,), (2, 3)], [(), ()], ["", "ü"], [2**70, 1]], ids=repr
)
def test_object_columns_keep_what_they_hold(values: list[Any]) -> None:
    monoid = monoids.First()
    layout = layout_of(monoid)
    page = page_of(monoid, values, [0, 1])
    back = decode_page(layout, encode_page(layout, "w", 0, page), "w", 0, 0)
    assert back.run[0].tolist() == values
    assert list(map(type, back.run[0].tolist())) == list(map(type, values))


def test_states_that_are_arrays() -> None:
    monoid = monoids.from_function(np.matmul, np.eye(2), lift=lambda x: np.array([[1.0, x], [0.0, 1.0]]))
    layout = layout_of(monoid)
    page = page_of(monoid, [1, 2, 3], [0, 1, 2], tier=1)
    back = decode_page(layout, encode_page(layout, "w", 0, page), "w", 1, 0)
    assert len(back.run) == 3
    for found, wanted in zip(back.run, page.run, strict=True):
        np.testing.assert_array_equal(found, wanted)


ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.binary(max_size=3),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)
PARTS = st.one_of(ATOMS, st.tuples(ATOMS, ATOMS), st.lists(ATOMS, max_size=3))


@given(
    st.one_of(
        st.integers(0, 12).flatmap(lambda width: st.lists(st.tuples(*[PARTS] * width), max_size=9)),
        st.lists(st.one_of(st.tuples(PARTS), st.tuples(PARTS, PARTS), PARTS), max_size=9),
    )
)
@pytest.mark.parametrize("tier", [0, 1])
def test_tuples_of_one_length_and_of_several(tier: int, values: list[Any]) -> None:
    layout = layout_of(monoids.from_function(lambda older, _: older, None, name="first"))
    page = Page(tier, np.arange(len(values)), values)
    back = decode_page(layout, encode_page(layout, "w", 0, page), "w", tier, 0, len(values))
    assert repr(back.run) == repr(values)  # which tells 1 from 1.0 and True


def test_pairs_are_packed_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one by one, neither when they come nor when their page is full."""
    counted = 0
    packb = msgpack.packb

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal counted
        counted += 1
        return packb(*args, **kwargs)

    monkeypatch.setattr(msgpack, "packb", counting)
    with (
        open_store("memory:") as store,
        AmortizedMTA(monoids.LongestIncreasingRun(), store=store, page_size=256) as window,
    ):
        for number in range(2048):
            window.push((number, -1.5 * number))
        window.checkpoint()
        assert window.query().count == 1
    assert counted < 100


PAGES = {
    "tuples": (monoids.LongestIncreasingRun, [(1, 2.5), (2, 3.5), (3, 1.5)]),
    "columns": (monoids.Max, [1.5, 2.5, 3.5]),
    "objects": (monoids.Concat, ["a", "bc", ""]),
    "object columns": (monoids.ArgMax, [(1, "a"), (2, None.__class__.__name__), (3, "c")]),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_flipped_byte_is_found_out(name: str) -> None:
    make, values = PAGES[name]
    monoid = make()
    layout = layout_of(monoid)
    data = encode_page(layout, "window", 7, page_of(monoid, values, [1, 2, 3]))
    for place in range(len(data)):
        for mask in (1, 0x80, 0xFF):
            damaged = data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]
            with pytest.raises(PageCorrupt, match="page 7 of tier 0 of window 'window'"):
                decode_page(layout, damaged, "window", 0, 7)


@pytest.mark.parametrize("name", PAGES)
def test_every_truncation_is_found_out(name: str) -> None:
    make, values = PAGES[name]
    monoid = make()
    layout = layout_of(monoid)
    data = encode_page(layout, "window", 7, page_of(monoid, values, [1, 2, 3]))
    for damaged in [
        *(data[:stop] for stop in range(len(data))),
        *(data[start:] for start in range(1, len(data))),
    ]:
        with pytest.raises(PageCorrupt, match="page 7 of tier 0 of window 'window'"):
            decode_page(layout, damaged, "window", 0, 7)
    for more in (b"\0", data, bytes(8)):
        with pytest.raises(PageCorrupt):
            decode_page(layout, data + more, "window", 0, 7)


@pytest.mark.parametrize(
    ("window", "tier", "number"), [("other", 0, 7), ("window", 1, 7), ("window", 0, 8), ("windo", 0, 7)]
)
def test_another_page_is_found_out(window: str, tier: int, number: int) -> None:
    monoid = monoids.Max()
    layout = layout_of(monoid)
    data = encode_page(layout, "window", 7, page_of(monoid, [1, 2], [1, 2]))
    with pytest.raises(
        PageCorrupt, match=rf"page {number} of tier {tier} of window '{window}'.*\['window', 0, 7\]"
    ):
        decode_page(layout, data, window, tier, number)


def test_columns_take_their_own_bytes_and_little_more() -> None:
    monoid = monoids.Max()
    layout = layout_of(monoid)
    page = page_of(monoid, list(range(1 << 12)), list(range(1 << 12)))
    assert len(encode_page(layout, "window" * 30, 1 << 50, page)) <= 16 * (1 << 12) + 400


def test_odd_window_names() -> None:
    monoid = monoids.Max()
    layout = layout_of(monoid)
    page = page_of(monoid, [1], [1])
    for name in ("nul\0", "Zürich 東京 🚲", "x" * 200):
        assert decode_page(layout, encode_page(layout, name, 1, page), name, 0, 1).times.tolist() == [1]
