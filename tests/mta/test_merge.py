"""`boundaries` is searchsorted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta.times.cuts import FEW_CUTS, boundaries

KINDS = ["steady", "dense", "sparse", "floats", "equal", "bursts", "two"]


def series(kind: str, count: int, chance: Any) -> Any:
    return {
        "steady": lambda: np.arange(count) * int(chance.integers(1, 5)),
        "dense": lambda: np.cumsum(chance.integers(0, 3, count)),
        "sparse": lambda: np.cumsum(chance.integers(0, 10**6, count)),
        "floats": lambda: np.cumsum(chance.exponential(1.0, count)),
        "equal": lambda: np.full(count, 5),
        "bursts": lambda: np.repeat(np.arange(count // 50 + 1) * 30, 50)[:count],
        "two": lambda: np.sort(chance.choice([3, 4], count)),
    }[kind]()


@given(
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
    st.sampled_from([1, 2, FEW_CUTS - 1, FEW_CUTS, 1000, 3000]),
    st.sampled_from([1, FEW_CUTS - 1, FEW_CUTS, FEW_CUTS + 1, 999, 4000]),
    st.sampled_from(["left", "right"]),
    st.integers(-3000, 3000),
    st.sampled_from(
        [(np.int64, np.int64), (np.int64, np.float64), (np.float64, np.int64), (np.float64, np.float64)]
    ),
    st.integers(0, 10**6),
)
def test_like_searchsorted(
    one: str, other: str, count: int, cuts: int, side: Any, shift: int, dtypes: Any, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    times = series(one, count, chance).astype(dtypes[0])
    wanted = (series(other, cuts, chance) + shift).astype(dtypes[1])
    np.testing.assert_array_equal(boundaries(times, wanted, side), times.searchsorted(wanted, side))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("span", [1, 17, 999, 1000, 1001, 5000, 0.5, 3.5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_cuts_of_a_window(kind: str, span: float, side: Any, dtype: Any) -> None:
    """As a slide asks: for each time, where its window starts, among times before and its own."""
    times = series(kind, 6000, np.random.default_rng(3)).astype(dtype)
    for page in (times[:2000], times[2000:4000], times):
        cuts = times[1000:5000] - span
        np.testing.assert_array_equal(boundaries(page, cuts, side), page.searchsorted(cuts, side))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("base", [2**53, 2**62, -(2**63) + 1, 2**63 - 5000])
def test_at_the_ends_of_64_bits(base: int, side: Any) -> None:
    times = base + np.arange(2000)
    for cuts in (times, times[500:1500], times[:1000] + np.repeat([0, 1], 500)):
        np.testing.assert_array_equal(boundaries(times, cuts, side), times.searchsorted(cuts, side))
    ends = np.sort(np.concatenate([np.full(300, -(2**63)), times[:300], np.full(300, 2**63 - 1)]))
    np.testing.assert_array_equal(boundaries(times, ends, side), times.searchsorted(ends, side))


@pytest.mark.parametrize("side", ["left", "right"])
def test_infinite_cuts(side: Any) -> None:
    times = np.arange(1000.0)
    cuts = np.repeat([-np.inf, 5.0, np.inf], 200)
    np.testing.assert_array_equal(boundaries(times, cuts, side), times.searchsorted(cuts, side))
