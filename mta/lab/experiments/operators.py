"""The aggregations of the DABA and Reactive Aggregator papers, with elements for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mta import monoids
from mta.monoids.base import Monoid

#: Elements that are made; what needs more goes through them again.
MADE = 1 << 14


class Operator(NamedTuple):
    title: str
    monoid: Callable[[], Monoid]
    #: makes the elements of whole numbers
    elements: Callable[[Sequence[int]], Sequence[Any]] = list
    #: the result of all elements of a window, where there is a better way than its operator
    anew: Callable[[Any], Any] | None = None


def floats(numbers: Sequence[int]) -> list[float]:
    return [number / 7 for number in numbers]


def numbered(numbers: Sequence[float]) -> list[tuple[float, int]]:
    return [(number, place) for place, number in enumerate(numbers)]


OPERATORS = {
    "count": Operator("Count", monoids.Count, anew=len),
    "sum": Operator("Sum", monoids.Sum),
    "sum-double": Operator("Sum of doubles", monoids.Sum, floats),
    "max": Operator("Max", monoids.Max),
    "max-double": Operator("Max of doubles", monoids.Max, floats),
    "argmax": Operator("ArgMax", monoids.ArgMax, numbered),
    "argmax-double": Operator("ArgMax of doubles", monoids.ArgMax, lambda n: numbered(floats(n))),
    "mincount": Operator("MinCount", monoids.MinCount),
    "mean": Operator("ArithMean", monoids.Mean),
    "stddev": Operator("StdDev", monoids.SampleStdDev),
    "popstddev": Operator("Population StdDev", monoids.PopulationStdDev),
    "gmean": Operator("GeoMean", monoids.GeometricMean, floats),
    "bloom": Operator("Bloom", monoids.BloomFilter),
    "collect": Operator("Collect", monoids.Collect, anew=list),
}


def elements_of(name: str) -> Sequence[Any]:
    """Elements of an operator: of random whole numbers of up to 30 bits, always the same."""
    chance = random.Random(5)
    return OPERATORS[name].elements([chance.randrange(1, 1 << 30) for _ in range(MADE)])
