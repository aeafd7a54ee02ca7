"""Monoids over plain Python values as SQL has them: nulls are skipped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mta import monoids
from mta.monoids.base import Monoid
from spark_integration.aggregates.nan import UNCHECKED_ROWS


class NullableObjects(Monoid):
    """Any monoid over plain values that may be None; the state of nothing is None.

    `skips` is how many of the inputs, from the first on, make an element be skipped when they are null. With
    `checked` the inner monoid checks every element itself, and refuses NaN.
    """

    identity = None

    def __init__(self, inner: Monoid, fields: Sequence[str], *, skips: int, checked: bool = False) -> None:
        self.inner = inner
        self.fields = tuple(fields)
        self._skips = self.fields[:skips]
        self._typed = type(inner) in UNCHECKED_ROWS and not checked
        self._combine = inner.combine

    def fingerprint(self) -> str:
        return f"NullableObjects({self.inner.fingerprint()}, {', '.join(map(repr, self.fields))})"

    def lift(self, value: Mapping[str, Any]) -> Any:
        for field in self._skips:
            if value[field] is None:
                return None
        if self._typed:
            inputs = tuple(value[field] for field in self.fields)
            return self.inner.lift_row(inputs[0] if len(inputs) == 1 else inputs)
        mapping = {name: value[field] for name, field in zip(self.inner.fields, self.fields, strict=True)}
        return self.inner.lift(mapping)

    def combine(self, older: Any, younger: Any) -> Any:
        if older is None or younger is None:
            return younger if older is None else older
        return self._combine(older, younger)

    def lower(self, state: Any) -> Any:
        if state is None:
            return None
        if isinstance(self.inner, monoids.BloomFilter):
            return self.inner.pack(state)
        if isinstance(self.inner, (monoids.SampleStdDev, monoids.PopulationStdDev)):
            if state[0] <= self.inner.freedom:
                return None
            return math.nan if math.isnan(state[2]) else self.inner.lower(state)
        return self.inner.lower(state)

    def pack(self, state: Any) -> Any:
        return None if state is None else [self.inner.pack(state)]

    def unpack(self, packed: Any) -> Any:
        return None if packed is None else self.inner.unpack(packed[0])
