"""Monoids over plain Python values as SQL has them: nulls are skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mta.monoids.base import Monoid
from mta.monoids.missing import NO_VALUE
from mta.monoids.skipping import SkippingObjects
from spark_integration.aggregates.traits import SqlTraits


class NullableObjects(SkippingObjects):
    """Any monoid over plain values that may be None."""

    def __init__(self, inner: Monoid, fields: Sequence[str], traits: SqlTraits) -> None:
        super().__init__(inner)
        self.fields = tuple(fields)
        self._traits, self._refuses, self._takes_nan = traits, traits.refuses, traits.takes_nan
        self._skips = self.fields[: traits.needs]

    @property
    def unseen(self) -> Any:
        return self.inner.identity if self._traits.unseen is None else self._traits.unseen

    def fingerprint(self) -> str:
        return f"NullableObjects({self.inner.fingerprint()}, {', '.join(map(repr, self.fields))})"

    def lift(self, value: Mapping[str, Any]) -> Any:
        for field in self._skips:
            if value[field] is None:
                return NO_VALUE
        inputs = tuple(value[field] for field in self.fields)
        if self._refuses is not None and self._refuses[1](inputs[0]):
            raise ValueError(f"{self.inner!r} takes no {self._refuses[0]}, got {inputs[0]!r}")
        if self._takes_nan:
            return self.inner.lift_row(inputs[0] if len(inputs) == 1 else inputs)
        return self.inner.lift(dict(zip(self.inner.fields, inputs, strict=True)))

    def lower(self, state: Any) -> Any:
        traits = self._traits
        if state is NO_VALUE or (traits.defined is not None and not traits.defined(self.inner, state)):
            return None
        return self.inner.lower(state) if traits.lower is None else traits.lower(self.inner, state)
