"""Pushes under a predicate to windows that were restored: nothing is ready, and not every push evicts."""

from __future__ import annotations

import random
from functools import reduce
from typing import Any

import pytest
from chance import seeds

from mta import AmortizedMTA, LogMTA, monoids, policies
from mta.window import MonoidTreeAggregator
from stores import open_store


def after(older: tuple[int, int, int], younger: tuple[int, int, int]) -> tuple[int, int, int]:
    """Weights are added, and of functions ax + b the younger one takes what the older one gives."""
    weight, a, b = older
    more, c, d = younger
    return weight + more, a * c % 9973, (c * b + d) % 9973


def kept(held: list[Any], most: int) -> list[Any]:
    """What the policy leaves, told plainly."""
    while held and sum(weight for weight, _, _ in held[1:]) >= most:
        held = held[1:]
    return held


@pytest.mark.parametrize("kind", [AmortizedMTA, LogMTA])
@pytest.mark.parametrize("page_size", [2, 4, 16, None])
@pytest.mark.parametrize("seed", seeds(5))
def test_pushes_after_a_restore(kind: type[MonoidTreeAggregator], page_size: int | None, seed: int) -> None:
    rng = random.Random(seed)
    most = rng.choice([3, 20, 60])
    policy = policies.While(lambda total, old: total[0] - old[0] >= most)
    monoid = monoids.from_function(after, (0, 1, 0))
    held: list[Any] = []
    with open_store("memory:") as store:
        window = kind(monoid, policy, store=store, name="w", page_size=page_size)
        for _ in range(200):
            elements = [
                (rng.choice([0, 0, 1, 2, 5]), rng.randrange(9973), rng.randrange(9973))
                for _ in range(rng.randrange(1, 30))
            ]
            if rng.random() < 0.5:
                for element in elements:
                    held = kept([*held, element], most)
                    assert window.push(element) == reduce(after, held)
            else:
                held = kept([*held, *elements], most)
                window.extend(elements)
            if rng.random() < 0.2:
                gone = rng.randrange(len(held) + 1)
                window.evict(gone)
                held = held[gone:]
            assert len(window) == len(held)
            if rng.random() < 0.3:
                window.checkpoint()
                window.close()
                window = kind.restore(store, "w", monoid, policy)
        window.close()
