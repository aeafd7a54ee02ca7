"""The worked trace of Tangwongsan, Hirzel and Schneider (DEBS 2017, figures 4 and 11 and the talk's slides).

The window is the maximum of 2, 6, 3, 5, 3 in state a; then come evict, insert 1, evict, insert 4, evict,
insert 2, evict, insert 7, which give states b to i.
"""

from __future__ import annotations

import pytest
from baselines.tiny import Max

from mta.baselines import DABA, TwoStacks

STEPS = {"b": None, "c": 1, "d": None, "e": 4, "f": None, "g": 2, "h": None, "i": 7}
RESULTS = {"a": 6, "b": 6, "c": 6, "d": 5, "e": 5, "f": 5, "g": 5, "h": 4, "i": 7}

#: vals, aggs, and F, L, R, A, B, E as places in vals
DABA_STATES = {
    "a": ([2, 6, 3, 5, 3], [6, 6, 3, 5, 3], "F L R A . BE"),
    "b": ([6, 3, 5, 3], [6, 5, 5, 3], "F LRA . . BE"),
    "c": ([6, 3, 5, 3, 1], [6, 5, 5, 3, 1], "F . LRA . B E"),
    "d": ([3, 5, 3, 1], [5, 5, 3, 1], "F . LRA B E"),
    "e": ([3, 5, 3, 1, 4], [5, 5, 3, 1, 4], "F . . LRAB . E"),
    "f": ([5, 3, 1, 4], [5, 3, 1, 4], "F L R A BE"),
    "g": ([5, 3, 1, 4, 2], [5, 4, 4, 4, 2], "F . LRA . B E"),
    "h": ([3, 1, 4, 2], [4, 4, 4, 2], "F . LRA B E"),
    "i": ([3, 1, 4, 2, 7], [4, 4, 4, 2, 7], "F . . LRAB . E"),
}

#: both stacks, bottom first, as value and aggregate
TWO_STACKS_STATES = {
    "a": ([(6, 6), (2, 6)], [(3, 3), (5, 5), (3, 5)]),
    "b": ([(6, 6)], [(3, 3), (5, 5), (3, 5)]),
    "c": ([(6, 6)], [(3, 3), (5, 5), (3, 5), (1, 5)]),
    "d": ([], [(3, 3), (5, 5), (3, 5), (1, 5)]),
    "e": ([], [(3, 3), (5, 5), (3, 5), (1, 5), (4, 5)]),
    "f": ([(4, 4), (1, 4), (3, 4), (5, 5)], []),
    "g": ([(4, 4), (1, 4), (3, 4), (5, 5)], [(2, 2)]),
    "h": ([(4, 4), (1, 4), (3, 4)], [(2, 2)]),
    "i": ([(4, 4), (1, 4), (3, 4)], [(2, 2), (7, 7)]),
}


def pointers(picture: str) -> dict[str, int]:
    return {name: index for index, names in enumerate(picture.split()) for name in names if name != "."}


@pytest.mark.parametrize("cached", [False, True])
def test_daba(cached: bool) -> None:
    window = DABA(Max(), cached=cached)
    # State a is the second step after a flip with three elements in each list, so the first insertions
    # and evictions make front and back lists of three: 0, 2, 6 and 3, 5, 3.
    for value in (9, 0, 2, 6, 3):
        window.insert(value)
    window.evict()
    for value in (5, 3):
        window.insert(value)
    window.evict()
    for state, (vals, aggs, picture) in DABA_STATES.items():
        if state != "a":
            if STEPS[state] is None:
                window.evict()
            else:
                window.insert(STEPS[state])
        assert list(window.vals) == vals, state
        assert list(window.aggs) == aggs, state
        assert window.pointers == pointers(picture), state
        assert window.query() == RESULTS[state], state


def test_two_stacks() -> None:
    window = TwoStacks(Max())
    # State a has 2 and 6 on the front stack, so one element before them was evicted.
    for value in (0, 2, 6):
        window.insert(value)
    window.evict()
    for value in (3, 5, 3):
        window.insert(value)
    for state, (front, back) in TWO_STACKS_STATES.items():
        if state != "a":
            if STEPS[state] is None:
                window.evict()
            else:
                window.insert(STEPS[state])
        assert window.front == front, state
        assert window.back == back, state
        assert window.query() == RESULTS[state], state
