"""The values that a slicer has emitted. It keeps them where only changes are emitted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

from mta.kinds import State, Time

#: The name of a query: its last result but early ones. A tuple with the name alone: its last result. A tuple
#: with the name, start and end: the last result of one window.
Subject: TypeAlias = Any


class EmittedValue(NamedTuple):
    """The last value of a query or of a window, with its state. It may be updated up to horizon `until`."""

    until: Time
    value: Any
    state: State


class EmittedValues(Mapping[Subject, EmittedValue]):
    """The last value of each subject. It never changes: `updated` returns another one, which shares layers.

    Younger values lie in layers above older ones. Each layer has less than half as many as the one below it,
    so an update costs amortized O(log n) steps for each new value.
    """

    __slots__ = ("_horizon", "_layers")

    def __init__(self, *layers: dict[Subject, EmittedValue], horizon: Time = -math.inf) -> None:
        self._layers, self._horizon = layers, horizon

    def __getitem__(self, subject: Subject) -> EmittedValue:
        for layer in reversed(self._layers):
            value: EmittedValue | None = layer.get(subject)
            if value is not None:
                if value.until < self._horizon:
                    break
                return value
        raise KeyError(subject)

    def __iter__(self) -> Iterator[Subject]:
        values: dict[Subject, EmittedValue] = {}
        for layer in self._layers:
            values |= layer
        return (subject for subject, each in values.items() if each.until >= self._horizon)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def updated(self, values: dict[Subject, EmittedValue], horizon: Time) -> Self:
        """With more values, and without values that no update can replace behind a horizon."""
        layers = [*self._layers]
        while layers and len(layers[-1]) <= 2 * len(values):
            values = {**layers.pop(), **values}
            if not layers:
                values = {subject: each for subject, each in values.items() if each.until >= horizon}
        return type(self)(*layers, *([values] if values else []), horizon=horizon)
