"""Pages, and the binary trees inside them."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import matrices

from mta import monoids
from mta.core.page import Nodes, Page, Pyramid
from mta.core.states import NOTHING, layout_of

CONCAT = layout_of(monoids.Concat())


def grown(sizes: list[int]) -> tuple[Pyramid, list[str]]:
    """A pyramid that grew by runs of these sizes; by `push` where the size is 0."""
    pyramid, items = Pyramid(CONCAT), []
    for size in sizes:
        new = [f"{len(items) + i}." for i in range(max(1, size))]
        if size:
            pyramid.add(new)
        else:
            pyramid.push(new[0])
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
    pyramid, items = grown([size])[0] if size else Pyramid(CONCAT), [f"{i}." for i in range(size)]
    whole, _ = grown([size, more] if size else [more])
    pyramid.levels += [[] for _ in whole.levels[len(pyramid.levels) :]]
    for level in range(max(1, len(whole.levels) - levels), len(whole.levels)):
        pyramid.levels[level] = whole.levels[level]
    new = [f"{size + i}." for i in range(max(1, more))]
    if more:
        pyramid.add(new)
    else:
        pyramid.push(new[0])
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
    pyramid = Pyramid(layout)
    for _ in range(1000):
        pyramid.push("x")
    assert calls <= 1000
    calls = 0
    Pyramid(layout).add(["x"] * 1000)
    assert calls <= 1000


class Affine(monoids.ColumnarMonoid):
    """Compositions of x -> a x + b modulo a prime: in columns, and they do not commute."""

    identity, width, prime = (1, 0), 2, 1_000_003

    def lift_row(self, row: Any) -> Any:
        return (row % self.prime, row % 7)

    def combine(self, older: Any, younger: Any) -> Any:
        (a, b), (c, d) = older, younger
        return (a * c % self.prime, (b * c + d) % self.prime)

    def lift_columns(self, inputs: Any) -> Any:
        return (inputs[0] % self.prime, inputs[0] % 7)

    def combine_columns(self, older: Any, younger: Any) -> Any:
        return self.combine(older, younger)


COLUMNS = monoids.Fields(maps=Affine(), sums=monoids.Sum(), first=monoids.First())
STEP = 2**61


class Grown:
    """A pyramid over columns, of sums in one word and in two, and what it was made of."""

    def __init__(self) -> None:
        self.layout = layout_of(COLUMNS)
        self.pyramid = Pyramid(self.layout)
        self.states: list[Any] = []

    def grow(self, count: int) -> None:
        """By a run, or by `push` where the count is 0."""
        rows = [STEP + len(self.states) + i for i in range(max(1, count))]
        states = [COLUMNS.lift_row(row) for row in rows]
        if count:
            self.pyramid.add(self.layout.lift(self.layout.gather_rows(rows)))
        else:
            self.pyramid.push(states[0])
        self.states += states

    def check(self, start: int, stop: int) -> None:
        nodes = self.pyramid.cover(start, stop)
        assert len(nodes) <= 2 * max(1, (stop - start).bit_length())
        assert reduce(COLUMNS.combine, nodes) == reduce(COLUMNS.combine, self.states[start:stop])


@given(st.lists(st.sampled_from([0, 1, 5, 31, 32, 33, 70, 300]), min_size=1, max_size=12), st.data())
def test_nodes_of_columns(sizes: list[int], data: st.DataObject) -> None:
    it = Grown()
    for size in sizes:
        it.grow(size)
        start = data.draw(st.integers(0, len(it.states) - 1))
        for first in range(start, min(start + 3, len(it.states))):
            it.check(first, len(it.states))
    assert len(it.pyramid) == len(it.states)
    stop = data.draw(st.integers(1, len(it.states)))
    it.check(data.draw(st.integers(0, stop - 1)), stop)


def test_a_walk_over_nodes_of_columns() -> None:
    it = Grown()
    it.grow(1000)
    for start in range(700):
        it.check(start, 1000)
    for start in range(700, 1000):
        it.grow(0)
        it.check(start, len(it.states))


@given(
    st.lists(st.sampled_from([0, 1, 5, 33, 100]), min_size=1, max_size=6),
    st.booleans(),
    st.data(),
)
def test_the_last_entry_with_which_it_is_enough(sizes: list[int], ended: bool, data: st.DataObject) -> None:
    it = Grown()
    for size in sizes:
        it.grow(size)
    stop = data.draw(st.integers(1, len(it.states)))
    start = data.draw(st.integers(0, stop))
    end = COLUMNS.lift_row(STEP) if ended else NOTHING
    least, asked = data.draw(st.integers(1, stop - start + 2)) * STEP, 0

    def enough(state: Any) -> bool:
        nonlocal asked
        asked += 1
        return bool(state["sums"] >= least)

    found, after = stop, end
    behind = end
    for found in range(stop - 1, start - 2, -1):
        after = behind
        if found >= start:
            behind = it.layout.join(it.states[found], after)
            if enough(behind):
                break
    asked = 0
    assert it.pyramid.last_with(start, stop, end, enough) == (found, after)
    assert asked <= 2 * (stop - start).bit_length()


def test_a_search_ends_in_the_node_that_was_enough() -> None:
    """Whatever rounding makes of its parts."""
    layout = layout_of(monoids.Sum())
    pyramid = Pyramid(layout)
    pyramid.add(layout.gather([0.1] * 8))
    whole = pyramid.levels[3][0]
    assert pyramid.last_with(0, 8, NOTHING, lambda state: state == whole) == (0, pytest.approx(0.7))


@pytest.mark.parametrize("size", [0, 1, 40, 100, 127])
@pytest.mark.parametrize("more", [0, 1, 33, 100])
@pytest.mark.parametrize("level", range(3))
@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_between_two_levels_of_columns(size: int, more: int, level: int, late: bool) -> None:
    """Other elements come in than those that were on their way: those are in no node."""
    it = Grown()
    if size:
        it.grow(size)
    put, calls = Nodes.put, 0

    def stopping(self: Nodes, count: int, nodes: Any) -> None:
        nonlocal calls
        calls += 1
        if calls <= level or late:
            put(self, count, nodes)
        if calls > level:
            raise KeyboardInterrupt

    states = it.states
    it.states = [*states, None]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Nodes, "put", stopping)
        with pytest.raises(KeyboardInterrupt):
            it.grow(200)
    it.states = states
    assert len(it.pyramid) == size
    for count in (more, 0, 50):
        it.grow(count)
        for start in range(0, len(it.states), 7):
            it.check(start, len(it.states))


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
