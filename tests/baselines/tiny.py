"""Tiny monoids: some that order matters to, one that counts its combines, one whose operator can fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from mta.baselines import (
    DABA,
    BaseIntervals,
    Baseline,
    FunctionalOkasaki,
    ImperativeOkasaki,
    ReactiveAggregator,
    Recalculate,
    SubtractOnEvict,
    TwoStacks,
)
from mta.monoids.base import Monoid
from mta.monoids.columns import number
from mta.policies import Policy

Make = Callable[[Monoid, Policy | None], Baseline]


def cached_daba(monoid: Monoid, policy: Policy | None = None) -> DABA:
    return DABA(monoid, policy, cached=True)


#: every algorithm that needs no inverse
ALGORITHMS: dict[str, Make] = {
    "Recalculate": Recalculate,
    "TwoStacks": TwoStacks,
    "FunctionalOkasaki": FunctionalOkasaki,
    "ImperativeOkasaki": ImperativeOkasaki,
    "DABA": DABA,
    "DABA(cached)": cached_daba,
    "ReactiveAggregator": ReactiveAggregator,
    "BaseIntervals": BaseIntervals,
}


class Max(Monoid):
    identity = -math.inf

    def lift(self, value: Any) -> Any:
        return number(value, self)

    def combine(self, older: Any, younger: Any) -> Any:
        return older if older >= younger else younger


class Concat(Monoid):
    """Strings: not commutative, not invertible, and a wrong answer shows what went wrong."""

    identity = ""

    def lift(self, value: Any) -> str:
        if not isinstance(value, int):
            raise TypeError(f"Concat takes an int, got {value!r}")
        return f"{value}."

    def combine(self, older: str, younger: str) -> str:
        return older + younger

    def lower(self, state: str) -> str:
        return f"<{state}>"


class ArgMax(Monoid):
    """The first of the greatest: elements tie, and the label tells which of them won."""

    fields = ("key", "label")
    identity = None

    def row(self, value: Any) -> Any:
        return value["key"], value["label"]

    def lift(self, value: Any) -> Any:
        return value

    def combine(self, older: Any, younger: Any) -> Any:
        return older if older[0] >= younger[0] else younger

    def lower(self, state: Any) -> Any:
        return None if state is None else state[1]


class Matrices(Monoid):
    """Products of invertible 2 x 2 matrices modulo 7, with their number: a group that does not commute."""

    identity = (1, 0, 0, 1, 0)

    def lift(self, value: int) -> Any:
        a, b, c = value % 7, value // 7 % 7, value // 49 % 7
        # a·d - b·c = 1 where a has an inverse, and else -b·c = 1
        return (
            (a, b, c, (1 + b * c) * pow(a, -1, 7) % 7, 1) if a else (0, b or 1, -pow(b or 1, -1, 7) % 7, c, 1)
        )

    def combine(self, older: Any, younger: Any) -> Any:
        a, b, c, d, n = older
        e, f, g, h, m = younger
        return (a * e + b * g) % 7, (a * f + b * h) % 7, (c * e + d * g) % 7, (c * f + d * h) % 7, n + m

    def inverse(self, state: Any) -> Any:
        a, b, c, d, n = state
        return d, -b % 7, -c % 7, a, -n


class Counting(Monoid):
    """Another monoid, and how often it combined."""

    def __init__(self, inner: Monoid) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.calls = 0

    def lift(self, value: Any) -> Any:
        return self.inner.lift(value)

    def combine(self, older: Any, younger: Any) -> Any:
        assert older is not None
        assert younger is not None
        self.calls += 1
        return self.inner.combine(older, younger)

    def lower(self, state: Any) -> Any:
        return self.inner.lower(state)

    def during(self, operation: Callable[..., Any], *args: Any) -> int:
        """The combines that one operation makes."""
        before = self.calls
        operation(*args)
        return self.calls - before


class Brittle(Concat):
    """Fails on the combine that `fuse` counts down to."""

    fuse = -1

    def combine(self, older: str, younger: str) -> str:
        self.fuse -= 1
        if self.fuse == 0:
            raise OverflowError("the operator failed")
        return older + younger


def fold(monoid: Monoid, states: list[Any]) -> Any:
    return reduce(monoid.combine, states) if states else monoid.identity


__all__ = ["ALGORITHMS", "ArgMax", "Baseline", "Brittle", "Concat", "Counting", "Make", "Matrices", "Max"]
__all__ += ["Recalculate", "SubtractOnEvict", "cached_daba", "fold"]
