"""Folds of any ranges of a run against folds of each range by itself."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from chance import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import monoids
from mta.core import blocks
from mta.core.blocks import Blocks, block_entries
from mta.core.parts import part_of
from mta.core.states import layout_of


class Affine(monoids.ColumnarMonoid):
    """Compositions of x -> a x + b modulo a prime: they do not commute."""

    identity, width, prime = (1, 0), 2, 10_007

    def lift_row(self, row: Any) -> Any:
        return (row % 97, row % 89)

    def combine(self, older: Any, younger: Any) -> Any:
        (a, b), (c, d) = older, younger
        return (a * c % self.prime, (b * c + d) % self.prime)

    def lift_columns(self, inputs: Any) -> Any:
        return (inputs[0] % 97, inputs[0] % 89)

    def combine_columns(self, older: Any, younger: Any) -> Any:
        return self.combine(older, younger)


RANGES = st.lists(st.tuples(st.integers(0, 499), st.integers(1, 500)), min_size=1, max_size=40)


@pytest.mark.parametrize("few", [0, 1 << 15], ids=["by entries", "by doubling"])
@pytest.mark.parametrize("size", [2, 4, 32])
def test_ranges_are_folded_as_one_by_one(size: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", size)
    monkeypatch.setattr(blocks, "FEW_ENTRIES", few)
    fields = monoids.Fields(affine=Affine(), total=monoids.Sum())
    layout = layout_of(fields)

    @settings(max_examples=examples(60), deadline=None, derandomize=True)
    @given(st.integers(1, 500), RANGES, st.booleans())
    def check(count: int, drawn: list[tuple[int, int]], wide: bool) -> None:
        numbers = np.arange(count) * 7919 % 10_007
        if wide:  # sums leave 64 bits
            numbers = numbers + 2**61
        states = layout.lift(layout.elements(numbers))
        starts = np.array([start % count for start, _ in drawn])
        stops = np.array(
            [min(count, start + length) for start, (_, length) in zip(starts, drawn, strict=True)]
        )
        single = layout.state_list(states)
        expected = [
            reduce(fields.combine, single[start:stop]) for start, stop in zip(starts, stops, strict=True)
        ]
        whole = Blocks(layout, states)
        assert layout.state_list(whole.folds(layout, starts, stops)) == expected
        part = part_of(layout, ["affine"])
        assert part.state_list(whole.folds(part, starts, stops)) == [
            {"affine": each["affine"]} for each in expected
        ]
        # the same with the blocks alone where ranges begin and end
        used = np.zeros(-(-count // size), bool)
        used[starts // size] = used[(stops - 1) // size] = True
        some = layout.take(states, block_entries(np.flatnonzero(used), count))
        assert (
            layout.state_list(Blocks(layout, some, used, whole.whole()).folds(layout, starts, stops))
            == expected
        )

    check()


def test_a_long_range_costs_no_more_combines_than_a_short_one() -> None:
    calls = 0

    class Counted(Affine):
        def combine_columns(self, older: Any, younger: Any) -> Any:
            nonlocal calls
            calls += max(len(older[0]), len(younger[0]))
            return super().combine_columns(older, younger)

    layout = layout_of(Counted())
    rows = 1 << 17
    states = layout.lift(layout.elements(np.arange(rows)))
    combines = []
    for length in (1 << 7, 1 << 12, 1 << 16):
        calls = 0
        starts = np.arange(rows - length)
        Blocks(layout, states).folds(layout, starts, starts + length)
        combines.append(calls / rows)
    assert max(combines) < 5
    assert all(later <= earlier * 1.1 for earlier, later in pairwise(combines))
