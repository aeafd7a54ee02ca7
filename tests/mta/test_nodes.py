"""Folds of states one by one, and by halves where states grow."""

from __future__ import annotations

import pytest

from mta import monoids
from mta.core.states import fold_states


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 100])
@pytest.mark.parametrize("grows", [False, True])
def test_states_are_folded_in_order_with_one_combine_less_than_there_are(grows: bool, count: int) -> None:
    copied: list[int] = []

    def combine(older: str, younger: str) -> str:
        copied.append(len(older + younger))
        return older + younger

    monoid = monoids.from_function(combine, "", name="joined")
    monoid.grows = grows
    states = [chr(ord("a") + n % 26) for n in range(count)]
    assert fold_states(monoid, states) == "".join(states)
    assert len(copied) == count - 1
    if grows:  # each state is copied once a level
        assert sum(copied) <= count * count.bit_length()
