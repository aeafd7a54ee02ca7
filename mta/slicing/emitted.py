"""The values that were given, where only changes are given out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from mta.slicing.windows import Time


class Value(NamedTuple):
    """The last value of a query or a window, and the state that it is of; until a horizon passes a time."""

    until: Time
    value: Any
    state: Any


class Given(Mapping[Any, Value]):
    """Values by what they are of. Is never changed: it gives its successor, which shares what stays.

    What came later lies in layers above, each less than half of the one below it.
    """

    __slots__ = ("_horizon", "_layers")

    def __init__(self, *layers: dict[Any, Value], horizon: Time = -math.inf) -> None:
        self._layers, self._horizon = layers, horizon

    def __getitem__(self, which: Any) -> Value:
        for layer in reversed(self._layers):
            value: Value | None = layer.get(which)
            if value is not None:
                if value.until < self._horizon:
                    break
                return value
        raise KeyError(which)

    def __iter__(self) -> Iterator[Any]:
        values: dict[Any, Value] = {}
        for layer in self._layers:
            values |= layer
        return (which for which, each in values.items() if each.until >= self._horizon)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def followed(self, values: dict[Any, Value], horizon: Time) -> Self:
        """With more values, and without those that end before a horizon, which none asks for any more."""
        layers = [*self._layers]
        while layers and len(layers[-1]) <= 2 * len(values):
            values = {**layers.pop(), **values}
            if not layers:
                values = {which: each for which, each in values.items() if each.until >= horizon}
        return type(self)(*layers, *([values] if values else []), horizon=horizon)
