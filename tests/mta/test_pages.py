"""Pages, and the binary trees inside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import matrices

from mta import monoids
from mta.core.page import Page, Pyramid
from mta.core.states import layout_of

CONCAT = layout_of(monoids.Concat())


def grown(sizes: list[int]) -> tuple[Pyramid, list[str]]:
    """A pyramid that grew by runs of these sizes; by `push` where the size is 0."""
    pyramid, items = Pyramid(), []
    for size in sizes:
        new = [f"{len(items) + i}." for i in range(max(1, size))]
        if size:
            pyramid.add(CONCAT, new)
        else:
            pyramid.push(CONCAT, new[0])
        items += new
    return pyramid, items


@given(st.lists(st.integers(0, 9), max_size=20), st.data())
def test_cover_is_the_run_in_few_nodes(sizes: list[int], data: st.DataObject) -> None:
    pyramid, items = grown(sizes)
    assert len(pyramid) == len(items)
    start = data.draw(st.integers(0, len(items)))
    stop = data.draw(st.integers(start, len(items)))
    nodes = pyramid.cover(start, stop)
    assert "".join(nodes) == "".join(items[start:stop])
    assert len(nodes) <= 2 * max(1, (stop - start).bit_length())


@given(st.lists(st.integers(0, 9), max_size=20))
def test_levels_hold_each_complete_node(sizes: list[int]) -> None:
    pyramid, items = grown(sizes)
    for level, nodes in enumerate(pyramid.levels):
        width = 1 << level
        assert nodes == ["".join(items[i * width : (i + 1) * width]) for i in range(len(items) // width)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 33])
def test_every_cover(size: int) -> None:
    pyramid, items = grown([size])
    for start in range(size + 1):
        for stop in range(start, size + 1):
            assert "".join(pyramid.cover(start, stop)) == "".join(items[start:stop])


@pytest.mark.parametrize("size", range(9))
@pytest.mark.parametrize("more", [0, 1, 2, 5])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_what_an_interrupt_left_above_is_no_node(size: int, more: int, levels: int) -> None:
    """Nodes are added from the highest level down, and an interrupt may come between two levels."""
    pyramid, items = grown([size])[0] if size else Pyramid(), [f"{i}." for i in range(size)]
    whole, _ = grown([size, more] if size else [more])
    pyramid.levels += [[] for _ in whole.levels[len(pyramid.levels) :]]
    for level in range(max(1, len(whole.levels) - levels), len(whole.levels)):
        pyramid.levels[level] = whole.levels[level]
    new = [f"{size + i}." for i in range(max(1, more))]
    if more:
        pyramid.add(CONCAT, new)
    else:
        pyramid.push(CONCAT, new[0])
    items += new
    for start in range(len(items)):
        assert "".join(pyramid.cover(start, len(items))) == "".join(items[start:])


def test_a_state_costs_one_combine() -> None:
    calls = 0

    def join(older: str, younger: str) -> str:
        nonlocal calls
        calls += 1
        return older + younger

    layout = layout_of(monoids.from_function(join, ""))
    pyramid = Pyramid()
    for _ in range(1000):
        pyramid.push(layout, "x")
    assert calls <= 1000
    calls = 0
    Pyramid().add(layout, ["x"] * 1000)
    assert calls <= 1000


@pytest.mark.parametrize("make", [monoids.Max, monoids.SampleStdDev, matrices])
def test_pages_are_cut_without_a_change(make: type) -> None:
    monoid = make()
    layout = layout_of(monoid)
    rows = [(1, i, i, 1) for i in range(8)] if make is matrices else [float(i) for i in range(8)]
    page = Page(0, np.arange(8), layout.gather_rows(rows))
    part = page.cut(layout, 2, 5)
    assert part.times.tolist() == [2, 3, 4]
    assert layout.row_list(part.run) == rows[2:5]
    assert page.cut(layout, 0, 8) is page
    assert layout.row_list(page.run) == rows
    assert layout.state_list(part.states(layout)) == [monoid.lift(row) for row in rows[2:5]]
    higher = Page(1, part.times, part.states(layout))
    assert layout.state_list(higher.states(layout)) == [monoid.lift(row) for row in rows[2:5]]
    assert len(page.pyramid(layout)) == 8
    assert page.pyramid(layout) is page.pyramid(layout)
