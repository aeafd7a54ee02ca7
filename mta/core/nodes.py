"""Folds of states one by one, for all rooms that hold states as Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mta.kinds import State
from mta.monoids.base import Monoid


def fold_states(monoid: Monoid, states: Sequence[State]) -> State:
    """The aggregate of at least one state, with one combine less than there are states.

    States that grow are folded by halves: one by one, each combine would copy the whole aggregate again.
    """
    if not monoid.grows:
        return reduce(monoid.combine, states)
    while len(states) > 1:
        halved = [monoid.combine(states[i], states[i + 1]) for i in range(0, len(states) - 1, 2)]
        states = [*halved, states[-1]] if len(states) % 2 else halved
    return states[0]
